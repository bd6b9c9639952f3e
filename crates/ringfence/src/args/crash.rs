//! `crash`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// `crash`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The program and its recovery work on copies; the files themselves do not change.
  ringfence crash --file pool --recover './my list pool' -- ./my insert pool
  ringfence show")]
#[command(after_long_help = "\
Records what the program stores to its mapped files, flushes, syncs and prints, works out what a \
crash at any moment can leave in the files, and runs the recovery command on it.

A line that the program has printed is an acknowledgement: what it reports must survive. Recovery \
is a command that ends as it does after a clean stop, and prints what was kept. It is wrong if it \
ends in another way, or if it prints something that it prints after no kill of the program since \
the last acknowledgement (a kill loses no store). It must print the same each time on the same \
files; lines that differ are excluded with --ignore.

Exit codes:
  0  no failing state: every possible state was examined and its output compared
  1  the recorded program failed
  2  it cannot be done as asked, or not on this machine
  3  a failing state was found
  4  no failing state was found, but not all was examined, or only how recovery ends

Examples:
  ringfence crash --file pool --recover './my list pool' -- ./my insert pool
  ringfence crash --file db --medium pages --recover './db dump' -- ./db load
  ringfence crash --resume crash-20261129-101500 --time 10m")]
pub struct Crash {
    /// A mapped file, or a folder; may be repeated
    #[arg(long, value_name = "PATH", required_unless_present = "resume")]
    pub file: Vec<PathBuf>,
    /// The recovery command, for the shell
    #[arg(long, value_name = "CMD", required_unless_present = "resume")]
    pub recover: Option<String>,
    /// How files are stored
    ///
    /// Without it, the file system decides. pmem: lines of 64 bytes, by flushes and fences
    /// (persistent memory). pages: an ordinary file's pages, which the kernel writes back at any
    /// moment, torn at sectors of 512 bytes; msync and fsync make them durable.
    #[arg(long, value_name = "MEDIUM")]
    pub medium: Option<CrashMedium>,
    /// For pmem: intel, amd, old-amd or eadr rules
    ///
    /// This processor's, unless they are given.
    #[arg(long, value_name = "WHOSE")]
    pub rules: Option<String>,
    /// Only printed lines that match acknowledge
    #[arg(long, value_name = "REGEX")]
    pub acknowledge: Option<String>,
    /// Recovery's lines to ignore; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub ignore: Vec<String>,
    /// A command that checks what recovery printed
    ///
    /// It takes the place of the comparison. It gets the acknowledged lines as its standard input
    /// and what recovery printed in the file $RECOVERED, and ends with exit code 0 if that is
    /// right.
    #[arg(long, value_name = "CMD")]
    pub expect: Option<String>,
    /// Exit codes of recovery that are right too
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub ok_status: Vec<i32>,
    /// A checksum function of recovery; may be repeated
    ///
    /// A function of the recovery program or of a library, which is not inlined. Of the bytes of
    /// the files that only it reads, all-new, all-old and one torn content are examined. If that
    /// leaves any out, the exit code is 4 at best.
    #[arg(long, value_name = "FUNCTION")]
    pub checksum: Vec<String>,
    /// 2: recovery crashes too, after a kill
    ///
    /// The program is killed at each crash point, which loses no store, and the recovery that
    /// follows crashes. What it has printed is an acknowledgement, and has to survive.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub crashes: u8,
    /// Examine at most so many states
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub states: u64,
    /// Examine for at most this long [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Most memory of each process of recovery
    ///
    /// As RLIMIT_DATA has it. The default: half of this machine's memory, divided by its CPUs.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Continue an examination that was cut short
    #[arg(long, value_name = "FOLDER")]
    #[arg(conflicts_with_all = [
        "file", "recover", "medium", "rules", "acknowledge", "ignore", "expect", "ok_status",
        "checksum", "crashes", "memory", "out", "command",
    ])]
    pub resume: Option<PathBuf>,
    /// A new folder for the result [default: a new result]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// The program, behind '--'
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "resume")]
    pub command: Vec<OsString>,
}

/// `--medium`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrashMedium {
    /// Persistent memory.
    Pmem,
    /// The page cache.
    Pages,
}
