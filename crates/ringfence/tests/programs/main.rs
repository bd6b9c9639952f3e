//! Other people's programs: what they contain, what they do when they are recorded, and programs as
//! tasks.

mod census;
mod census_check;
mod clients;
mod crash;
mod crash_checksum;
mod crash_more;
mod crash_names;
mod crash_reads;
mod hdr_logs;
mod playback;
mod progress;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod trace;
