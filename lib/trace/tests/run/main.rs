//! The dynamic census: traces made by hand with known counts, and random ones against a slow and
//! obvious reference.

mod by_hand;
mod diff;
mod findings;
mod made;
mod random;
mod reference;
mod saving;
