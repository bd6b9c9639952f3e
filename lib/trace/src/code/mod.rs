//! The code of ELF files for x86: what each instruction does for durability ([`Operation`]), the
//! location of functions ([`Image`], [`Functions`]), the processor features that they need
//! ([`needs`]), and the variants between which a program chooses at run time ([`choices`]). Nothing
//! is run.

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
