//! Datasets: what is written is read, whatever happens in between.

mod common;
mod crashes;
mod damage;
mod full_disk;
mod journals;
mod other_tools;
mod refusals;
mod resume;
mod round_trip;
mod versions;
