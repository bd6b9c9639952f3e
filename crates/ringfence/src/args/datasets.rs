//! The verbs that read results.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::measuring::Reproduce;

/// `show`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Results are in $XDG_STATE_HOME/ringfence (~/.local/state/ringfence), unless a verb was given \
--out. A result there can be named by its folder's name alone. Nothing is deleted automatically.

Examples:
  ringfence show
  ringfence show --list
  ringfence show commit-20260509-072933 --html")]
pub struct Show {
    /// The folder of a result [default: the last one]
    ///
    /// It contains a dataset, a survey or another verb's results.
    #[arg(value_name = "DATASET")]
    pub dataset: Option<PathBuf>,
    /// List the results: verb, date and size
    #[arg(long, conflicts_with_all = ["dataset", "json", "html", "verbose"])]
    pub list: bool,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page instead, report.html in that folder
    ///
    /// One file that opens offline. --html=FILE names another file.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["json", "verbose"]
    )]
    pub html: Option<Option<PathBuf>>,
    /// Print everything, such as histograms and what was not run
    #[arg(long, short)]
    pub verbose: bool,
}

/// `report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The folder of a result [default: the last one]
    #[arg(value_name = "DATASET")]
    pub dataset: Option<PathBuf>,
    /// The page's file [default: report.html in that folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `compare`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Takes two datasets of the same experiment, or two surveys, which are compared dataset by dataset.
To measure again what a dataset contains: ringfence run DATASET/experiment.toml

Examples:
  ringfence compare survey-20260509-072933 survey-after-the-update")]
pub struct Compare {
    /// The dataset or survey that was measured first
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The dataset or survey to compare with it
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Print both sides of each case, and how to read them
    #[arg(long, short)]
    pub verbose: bool,
    /// Write the comparison as an HTML page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `notes`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence notes run --list
  ringfence notes run --quick
  ringfence notes show 002")]
pub struct Notes {
    /// What to do
    #[command(subcommand)]
    pub action: NotesAction,
}

/// What can be done with published experiments.
#[derive(Debug, Subcommand)]
pub enum NotesAction {
    /// Repeat published experiments, and compare the figures
    Run(Reproduce),
    /// Show a note's tables: published, simulated and measured
    ///
    /// Puts every published figure next to what was simulated and measured of it, from the datasets
    /// in results/, and says of each table whether it holds. Nothing is run.
    Show(ShowNotes),
    /// Check which published claims hold, by the stored results
    ///
    /// Compares every claim of the documents that Ringfence began with to the datasets in results/.
    Claims(Claims),
    /// Pack a dataset without names and paths, to be published
    ///
    /// Copies the parts of a dataset that figures need, or of each dataset in a folder, to results/
    /// for a pull request: the samples, the experiment, and the machine's processor, kernel version
    /// and topology. Names of hosts, people and folders are left out. If that is not possible, it
    /// prints why and writes nothing.
    Contribute(Contribute),
}

/// `notes show`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence notes show
  ringfence notes show 002
  ringfence notes show 002 --results results --results mine")]
pub struct ShowNotes {
    /// The tables of this document, such as 002 [default: a summary]
    #[arg(value_name = "DOCUMENT")]
    pub document: Option<String>,
    /// Published datasets [default: results, if there]
    ///
    /// Folders that 'ringfence notes contribute' or 'notes run' wrote.
    #[arg(long, value_name = "DIR")]
    pub results: Vec<PathBuf>,
    /// Write all tables as Markdown to this file as well
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// `notes claims`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence notes claims
  ringfence notes claims 004
  ringfence notes claims --markdown docs/evidence/claims.md")]
pub struct Claims {
    /// Print each claim of this document, such as 004
    #[arg(value_name = "DOCUMENT")]
    pub document: Option<String>,
    /// Published datasets [default: results, if there]
    ///
    /// Folders that 'ringfence notes contribute' or 'notes run' wrote.
    #[arg(long, value_name = "DIR")]
    pub results: Vec<PathBuf>,
    /// Print every claim with its figures
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the claims as JSON
    #[arg(long)]
    pub json: bool,
    /// Write them as an HTML page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write them as a Markdown page to this file as well
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// `notes contribute`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence notes contribute reproduce-20260509-072933")]
pub struct Contribute {
    /// The folder of a dataset, of a survey or of another verb's results
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// The folder of published datasets [default: results]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}
