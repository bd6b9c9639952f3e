//! The static census: every flush, fence, non-temporal store and locked instruction in program
//! files, by function.
//!
//! Code is read from symbol to symbol, as `objdump -d` reads it, so that data between functions
//! does not hide what follows it. Data within a function may still be decoded as code, and the
//! counts are of instructions in a file, not of executed ones.

mod diff;
pub mod dynamic;
mod files;
mod sweep;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::code::choices::Choice;
use crate::code::{Counts, Operation};

pub use diff::{Change, diff};
pub use files::{CensusError, of, of_package};

/// The findings in several files.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Census {
    /// Every file with code for x86, in the order of their paths; of an archive, every member.
    pub files: Vec<File>,
    /// What could not be read, each with the reason.
    pub unread: Vec<Unread>,
}

impl Census {
    /// Adds other findings.
    pub fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.unread.extend(other.unread);
    }

    /// Records for all variants which features these processors lack, as
    /// [`of_machine`](crate::code::of_machine) names them.
    pub fn ask(&mut self, here: &BTreeSet<String>) {
        let choices = self.files.iter_mut().flat_map(|file| &mut file.chosen);
        for variant in choices.flat_map(|choice| &mut choice.variants) {
            let lacks = variant.needs.iter().filter(|feature| !here.contains(*feature));
            variant.lacks = Some(lacks.cloned().collect());
        }
    }

    // Several threads find files in any order. Members of an archive stay in that of the archive.
    fn sort(&mut self) {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.unread.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// How many there are of each in all files.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.files.iter().for_each(|file| total += file.counts);
        total
    }
}

/// A file that was found and could not be read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// Which.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Why, in words that follow its name and a colon.
    pub why: String,
}

/// The findings in a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct File {
    /// Which.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The member of an archive; `None` of other files.
    pub member: Option<String>,
    /// Bytes of code.
    pub code_bytes: u64,
    /// How many there are of each.
    pub counts: Counts,
    /// The functions that have any, in the order of the file.
    pub functions: Vec<Function>,
    /// Functions between which the program chooses when it runs, where they need different features
    /// of the processor.
    pub chosen: Vec<Choice>,
    /// The kind of file in which choices at run time are not detected; absent where they are, or
    /// where there is nothing to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["object files", "code for 32 bits"])))]
    pub choices_not_detected: Option<String>,
}

impl File {
    /// The path, and the member of an archive behind it in brackets.
    pub fn name(&self) -> String {
        match &self.member {
            Some(member) => format!("{}({member})", self.path.display()),
            None => self.path.display().to_string(),
        }
    }
}

/// The findings in a function.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Function {
    /// Its name, readable; of code without a symbol, the section and the address.
    pub name: String,
    /// How many there are of each.
    pub counts: Counts,
    /// Non-temporal stores with no fence on any path from them out of the function; absent where
    /// there are none. What it calls may have one.
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub unfenced: u64,
    /// Every one, in the order of addresses.
    pub sites: Vec<Site>,
}

/// An instruction that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Site {
    /// Its address, as addresses in the file go.
    pub address: u64,
    /// What it does.
    pub operation: Operation,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

// A name that is no text is given as nearly as text can.
fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
