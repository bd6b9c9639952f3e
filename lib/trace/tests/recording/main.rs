//! Recordings on disk: what is written is read, damage is said in a sentence, and a replay ends
//! where the program did.

mod arbitrary;
mod damaged;
mod imported;
mod other_tools;
mod replayed;
mod written;
