//! The question.

use std::path::PathBuf;

use crate::case::Case;
use crate::export::{Markup, Sort, Unit};
use crate::launch::Output;
use crate::run::Took;
use crate::session::Settings;
use crate::shell::Shell;

/// The question.
#[derive(Debug)]
pub struct Question {
    /// The commands, with what is run around each.
    pub cases: Vec<Case>,
    /// Where each prints to.
    pub outputs: Vec<Output>,
    /// How it is measured.
    pub settings: Settings,
    /// The shell that reads the commands.
    pub shell: Shell,
    /// The file that commands read.
    pub input: Option<PathBuf>,
    /// Which failures are no failures.
    pub ignored: Ignored,
    /// Whether all are to print the same.
    pub same_output: bool,
    /// What the run is called.
    pub label: Option<String>,
    /// Additional files to write.
    pub exports: Vec<(PathBuf, Export)>,
    /// The unit of tables; absent: the one that fits.
    pub unit: Option<Unit>,
    /// The order of tables.
    pub sort: Sort,
}

/// What a file gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// Every run, as JSON.
    Json,
    /// A row for each command.
    Csv,
    /// A table.
    Table(Markup),
    /// The comparison, in Markdown.
    Summary,
}

/// Which failures of commands are no failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ignored {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Those with these exit codes.
    These(Vec<i32>),
}

impl Ignored {
    pub(crate) fn covers(&self, took: &Took) -> bool {
        took.succeeded()
            || match self {
                Self::None => false,
                Self::All => true,
                Self::These(codes) => took.shells_code().is_some_and(|code| codes.contains(&code)),
            }
    }
}

impl Question {
    /// Whether commands print to where this program does.
    pub fn is_loud(&self) -> bool {
        self.outputs.contains(&Output::Inherit)
    }
}
