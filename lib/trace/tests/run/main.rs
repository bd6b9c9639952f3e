//! The dynamic census: traces made by hand with known counts, and random ones against a slow and
//! obvious reference.

mod builder;
mod by_hand;
mod diff;
mod findings;
mod random;
mod reference;
mod saving;
