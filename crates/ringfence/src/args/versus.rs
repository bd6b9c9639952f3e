//! The flags of `ringfence versus`.
//!
//! Flags of hyperfine have the same meaning as in hyperfine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ringfence_versus::export;

/// `versus`.
#[derive(Debug, Clone, Args)]
pub struct VersusFlags {
    /// Commands, instead of --a, --b and --c; one is measured alone
    #[arg(value_name = "COMMAND", conflicts_with_all = ["b", "c"])]
    pub commands: Vec<String>,
    /// The command to compare with
    #[arg(long, alias = "reference", value_name = "COMMAND")]
    pub a: Option<String>,
    /// The command that is judged
    #[arg(long, value_name = "COMMAND")]
    pub b: Option<String>,
    /// Another one; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub c: Vec<String>,
    /// How much slower b may be; decides the exit code
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub budget: Option<String>,
    /// Time for all runs [default: 60s, or 10 of each]
    ///
    /// For one command alone the default is 10 s. Measuring ends earlier when the question is
    /// settled. Setup and cleanup are not part of it.
    #[arg(long, alias = "duration", value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// If commands do not exit: lines, counter, ...
    ///
    /// How they show their progress: instructions, lines, latencies, counter or runs, as for a
    /// victim of 'prove'. Each command runs in windows while the others are paused.
    #[arg(long, value_name = "HOW", hide_possible_values = true,
        value_parser = ["instructions", "lines", "latencies", "counter", "runs"])]
    pub progress: Option<String>,
    /// Values for {NAME}, such as threads=1,2,4
    #[arg(long, value_name = "NAME=LIST")]
    pub parameter: Vec<String>,
    /// As in hyperfine: a name and its values
    #[arg(
        short = 'L',
        long,
        value_names = ["NAME", "LIST"],
        num_args = 2,
        allow_hyphen_values = true,
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub parameter_list: Vec<String>,
    /// As in hyperfine: a name, and the first and last of its values
    #[arg(
        short = 'P',
        long,
        value_names = ["NAME", "MIN", "MAX"],
        num_args = 3,
        allow_hyphen_values = true,
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub parameter_scan: Vec<String>,
    /// Step between the values of --parameter-scan [default: 1]
    #[arg(
        short = 'D',
        long,
        value_name = "STEP",
        requires = "parameter_scan",
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub parameter_step_size: Option<String>,
    /// Run before each run of a command
    ///
    /// Give it once for all commands, or once for each. The same holds for --conclude, --setup,
    /// --cleanup and --output.
    #[arg(short, long, value_name = "COMMAND", help_heading = "Around commands")]
    pub prepare: Vec<String>,
    /// Run after each run of a command
    #[arg(
        short = 'C',
        long,
        value_name = "COMMAND",
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub conclude: Vec<String>,
    /// Run once, before the first run of a command
    #[arg(short, long, value_name = "COMMAND", help_heading = "Around commands")]
    pub setup: Vec<String>,
    /// Run once, after the last run of a command
    #[arg(short, long, value_name = "COMMAND", help_heading = "Around commands")]
    pub cleanup: Vec<String>,
    /// A name in the table; once for each command
    #[arg(
        short = 'n',
        long,
        value_name = "NAME",
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub command_name: Vec<String>,
    /// A name for the command to compare with
    #[arg(
        long,
        value_name = "NAME",
        requires = "a",
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub reference_name: Option<String>,
    /// Count runs that fail
    ///
    /// All of them, or those with one of these exit codes: --ignore-failure=1,2.
    #[arg(
        short,
        long,
        value_name = "CODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all-non-zero",
        hide_short_help = true,
        help_heading = "Around commands"
    )]
    pub ignore_failure: Option<String>,
    /// Refuse commands that print different things
    #[arg(long, help_heading = "Around commands")]
    pub same_output: bool,
    /// none, sh, ... [default: none if none is needed]
    ///
    /// The shell that runs the commands. Its start is measured and subtracted.
    #[arg(
        short = 'S',
        long,
        value_name = "SHELL",
        default_value = "auto",
        hide_default_value = true,
        help_heading = "Around commands"
    )]
    pub shell: String,
    /// The same as --shell none
    #[arg(short = 'N', conflicts_with = "shell", help_heading = "Around commands")]
    pub no_shell: bool,
    /// The folder in which a command and its --prepare, --conclude, --setup and --cleanup run; once
    /// for all commands, or once for each
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = "Around commands")]
    pub dir: Vec<String>,
    /// A file for commands' standard input [default: null]
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Around commands")]
    pub input: Option<PathBuf>,
    /// Where standard output goes: null, pipe, inherit or a file [default: null]
    #[arg(
        long,
        value_name = "WHERE",
        hide_short_help = true,
        conflicts_with = "show_output",
        help_heading = "Around commands"
    )]
    pub output: Vec<String>,
    /// The same as --output inherit
    #[arg(long, hide_short_help = true, help_heading = "Around commands")]
    pub show_output: bool,
    /// Warm-up runs to drop [default: measured]
    #[arg(
        short,
        long,
        alias = "warm-up",
        value_name = "N",
        help_heading = "Measuring",
        allow_negative_numbers = true
    )]
    pub warmup: Option<u32>,
    /// Number of runs of each command
    #[arg(
        short,
        long,
        value_name = "N",
        help_heading = "Measuring",
        conflicts_with_all = ["min_runs", "max_runs"],
        allow_negative_numbers = true
    )]
    pub runs: Option<u32>,
    /// Minimum number of runs
    #[arg(
        short,
        long,
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub min_runs: Option<u32>,
    /// Maximum number of runs
    #[arg(
        short = 'M',
        long,
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub max_runs: Option<u32>,
    /// The largest change that does not matter, without --budget [default: 1%]
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub margin: Option<String>,
    /// Share of comparisons whose intervals all contain the true value [default: 95%]
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub confidence: Option<String>,
    /// Seed for everything that is random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub seed: u64,
    /// Folder [default: a new one, see 'show']
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// A name for the result, such as a commit
    #[arg(long, value_name = "TEXT", help_heading = "Output", hide_short_help = true)]
    pub label: Option<String>,
    /// Write JSON as hyperfine does
    #[arg(long, value_name = "FILE", help_heading = "Export")]
    pub export_json: Option<PathBuf>,
    /// The same as a table in Markdown
    #[arg(long, value_name = "FILE", help_heading = "Export", hide_short_help = true)]
    pub export_markdown: Option<PathBuf>,
    /// The same as CSV
    #[arg(long, value_name = "FILE", help_heading = "Export", hide_short_help = true)]
    pub export_csv: Option<PathBuf>,
    /// The same in AsciiDoc
    #[arg(long, value_name = "FILE", help_heading = "Export", hide_short_help = true)]
    pub export_asciidoc: Option<PathBuf>,
    /// The same for org-mode
    #[arg(long, value_name = "FILE", help_heading = "Export", hide_short_help = true)]
    pub export_orgmode: Option<PathBuf>,
    /// Write the verdict and the table in Markdown, for the page of a run in CI
    #[arg(long, value_name = "FILE", help_heading = "Export", hide_short_help = true)]
    pub export_summary: Option<PathBuf>,
    /// The unit of time of tables that are exported
    #[arg(
        short = 'u',
        long,
        value_name = "UNIT",
        value_enum,
        help_heading = "Export",
        hide_short_help = true
    )]
    pub time_unit: Option<Unit>,
    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Print everything, such as warm-up and other differences
    #[arg(long, short, help_heading = "Output", hide_short_help = true)]
    pub verbose: bool,
    /// The order of commands in tables that are exported
    #[arg(
        long,
        value_name = "ORDER",
        value_enum,
        default_value = "auto",
        hide_default_value = true,
        help_heading = "Export",
        hide_short_help = true
    )]
    pub sort: Sort,
    /// As in hyperfine: none prints nothing; the other styles change nothing
    #[arg(
        long,
        value_name = "STYLE",
        help_heading = "Output",
        hide_short_help = true,
        hide_possible_values = true,
        value_parser = ["auto", "basic", "full", "nocolor", "color", "none"]
    )]
    pub style: Option<String>,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// us.
    #[value(alias = "us")]
    Microsecond,
    /// ms.
    #[value(alias = "ms")]
    Millisecond,
    /// s.
    #[value(alias = "s")]
    Second,
}

impl From<Unit> for export::Unit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Microsecond => Self::Microsecond,
            Unit::Millisecond => Self::Millisecond,
            Unit::Second => Self::Second,
        }
    }
}

/// The order of commands in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The order of the command line.
    Auto,
    /// The same.
    Command,
    /// The fastest first.
    MeanTime,
}

impl From<Sort> for export::Sort {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Auto => Self::Auto,
            Sort::Command => Self::Command,
            Sort::MeanTime => Self::MeanTime,
        }
    }
}
