//! Code: which instruction does what for durability, and where the functions of a file are.

mod build_id;
mod functions;
mod image;
mod operation;

pub use build_id::{build_id, digits};
pub use functions::{Function, Functions, readable};
pub use image::{Body, Image, ImageError, Piece, Section, is_elf};
pub use operation::{Counts, Operation};
