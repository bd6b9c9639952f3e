//! What stands in the code of ELF files for x86: which instruction does what for durability
//! ([`Operation`]), where functions are ([`Image`], [`Functions`]), what their instructions need of
//! a processor ([`needs`]), and which of them a program chooses from when it runs ([`choices`]).
//! Nothing is run.

#![deny(unsafe_code)]

mod build_id;
pub mod choices;
mod feature;
mod functions;
mod image;
mod operation;
mod pointers;
pub mod unfenced;

pub use build_id::{build_id, digits};
pub use feature::{needs, of_machine};
pub use functions::{Function, Functions, readable};
pub use image::{Body, Image, ImageError, Piece, Section, is_elf};
pub use operation::{Counts, Operation};
