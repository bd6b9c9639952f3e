//! Recordings on disk: what is written is read, damage is said in a sentence, and a replay ends
//! where the program did.

mod arbitrary;
mod damage;
mod other_tools;
mod pmemcheck;
mod replay;
mod round_trip;
