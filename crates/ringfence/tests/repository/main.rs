//! What holds of this repository: its crates, its files and its documentation.

mod house;
mod licences;
