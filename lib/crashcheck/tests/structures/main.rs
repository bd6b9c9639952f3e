//! Three structures from the literature under check, whole, with the bugs that were found in them:
//! a hash table, a B+-tree, and a library of transactions. Each is written over the `Memory` trait
//! alone.

mod bank;
mod bank_checks;
mod fast_fair;
mod hash_checks;
mod history;
mod level_hash;
mod tree_checks;
mod undo_log;
