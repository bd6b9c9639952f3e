//! The version of the format that is written.

use super::columns;

/// The version since which the files are laid out, and their columns called, as they are written
/// today.
pub const LAYOUT: u32 = 3;

/// The version since which there is `disk.parquet`, and a journal's rows end in what it holds.
pub const DISK: u32 = 7;

/// The version since which latencies are counted in
/// [`Grid::FINE`](ringfence_experiment::histogram::Grid::FINE), and `latencies.parquet` says of
/// each row how many buckets there are in a power of two. Before, there were eight.
pub const FINE: u32 = 8;

/// The version of the folder's format that this program writes, and the newest that it reads; it
/// reads all from 1 on. It rises with every column that is added, and where a file is laid out in
/// another way.
pub const SCHEMA: u32 = columns::newest(if FINE > LAYOUT { FINE } else { LAYOUT });
