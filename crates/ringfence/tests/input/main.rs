//! What can be typed, what is refused in a sentence, and what the program does to its surroundings.

mod bad_files;
mod bad_input;
mod front_door;
mod manners;
mod stored_results;
#[path = "../support/mod.rs"]
mod support;
