//! Datasets: what is written is read, whatever happens in between.

mod common;
mod damaged;
mod full_disk;
mod journals;
mod killed;
mod other_tools;
mod refused;
mod resumed;
mod round_trip;
mod versions;
