//! The verbs that look at what was measured.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// `show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// The folder of a dataset, of a survey or of another verb's results
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Print everything, such as histograms and what was not run
    #[arg(long, short)]
    pub verbose: bool,
}

/// `report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The folder of a dataset, of a survey or of another verb's results
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
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
  ringfence compare ringfence-survey-20260509-072933 survey-after-the-update")]
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

/// `claims`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence claims
  ringfence claims 004
  ringfence claims --markdown docs/claims.md")]
pub struct Claims {
    /// Print each claim of this one, such as 004
    #[arg(value_name = "DOCUMENT")]
    pub document: Option<String>,
    /// Published datasets [default: results, if there]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
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

/// `contribute`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence contribute ringfence-reproduce-20260509-072933")]
pub struct Contribute {
    /// The folder of a dataset, of a survey or of another verb's results
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// The folder of published datasets [default: results]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}
