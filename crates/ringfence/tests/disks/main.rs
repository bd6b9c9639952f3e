//! Commits and writers on disks, and disks that fill up or fail.

mod commit;
mod episodes;
mod failing_disks;
mod full_disk;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
