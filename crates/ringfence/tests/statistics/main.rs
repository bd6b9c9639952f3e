//! Statistics on the machine itself: minutes to half an hour long, so `scripts/nightly
//! --statistics` runs them, not `cargo test`.

mod disks;
mod proofs;
mod real_machine;
mod services;
#[path = "../support/mod.rs"]
mod support;
