//! The answer of an examination, as it is stored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfence_crashcheck::{Profile, WrittenBack};
use ringfence_system::whole;
use serde::{Deserialize, Serialize};

use crate::examine::Cut;
use crate::findings::{Also, Finding, Lost};
use crate::oracle::Fault;
use crate::points::Crash;
use crate::program::Program;
use crate::remedy::Added;
use crate::worker::Status;

/// The file that makes a folder the result of an examination.
pub const ANSWER: &str = "crash.json";

/// The version of its format.
pub const SCHEMA: u32 = 1;

/// What was examined, and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Crash"))]
pub struct Answer {
    /// Version of the format.
    pub schema: u32,
    /// `crash`.
    pub kind: String,
    /// The program that was recorded, and its arguments.
    pub command: Vec<String>,
    /// The command that recovers.
    pub recover: String,
    /// The command that checked what recovery printed; absent if it was compared with what recovery
    /// prints after kills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// Functions of recovery whose reads were taken to be covered by an ideal checksum; absent if
    /// there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checksum: Vec<String>,
    /// Kills after which recovery was crashed, too; absent where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kills: Option<Kills>,
    /// The files that the program mapped.
    pub files: Vec<String>,
    /// How stores become durable.
    pub medium: Medium,
    /// Points at which a crash was considered.
    pub points: u64,
    /// Points of which every possible state was examined.
    pub complete: u64,
    /// Points of which no state was examined.
    #[serde(default)]
    pub unseen: u64,
    /// Where the program was at the first point of which not every state was examined; absent if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_left: Option<Killed>,
    /// Points of which every state was examined, except for some contents of bytes that a checksum
    /// covers.
    #[serde(default)]
    pub bounded: u64,
    /// States that recovery was run on.
    pub states: u64,
    /// States that are equal to one that recovery was run on.
    pub merged: u64,
    /// States whose output could not be judged, because several operations may have been under way.
    pub undecided: u64,
    /// Kills after which recovery lacks a line that it prints both before and after the operation
    /// that was under way: the comparison with kills cannot tell whether that is right.
    #[serde(default)]
    pub gaps: u64,
    /// One of them; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// Stores right after which no kill was looked at, because a limit was reached. Kills at all
    /// crash points were.
    #[serde(default)]
    pub kills_left: u64,
    /// A line that recovery prints only after kills in the middle of an operation; absent if there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passing: Option<String>,
    /// Acknowledgements that the program printed.
    pub acknowledged: u64,
    /// Acknowledgements after which recovery prints something else than before: only these can be
    /// checked by comparing its output.
    pub checkable: u64,
    /// Acknowledgements of several lines in one call, which count once.
    pub batches: u64,
    /// Threads of the program that did any of it.
    pub threads: u64,
    /// The limit that ended the examination early; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The causes of failures, the most frequent first.
    pub findings: Vec<Found>,
    /// Crashes that fail for further causes, which were too many to work out.
    pub other_crashes: u64,
    /// What was found by the rules of other processors. None for ordinary files, or where the
    /// examination was cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_other_rules: Vec<ByOtherRules>,
    /// What the rules of the crash checker say of the recording: suspicions that no crash state has
    /// confirmed, each a sentence. None for ordinary files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lints: Vec<String>,
    /// How long recording and examining took, s.
    pub seconds: f64,
}

/// What was found by the rules of another processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashByRules"))]
pub struct ByOtherRules {
    /// The rules.
    pub medium: Medium,
    /// Whether recovery fails on a state that they allow.
    pub fails: bool,
    /// Whether every state was examined, if it does not.
    pub is_complete: bool,
}

/// A line that recovery lacks after a kill in the middle of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashGap"))]
pub struct Gap {
    /// The line.
    pub line: String,
    /// Where the program was killed.
    pub killed: Killed,
}

/// Kills after which recovery was crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashKills"))]
pub struct Kills {
    /// Those that were examined.
    pub examined: u64,
    /// All.
    pub all: u64,
}

/// How stores become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashMedium"))]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Persistent memory, by the rules of Intel's processors.
    PmemIntel,
    /// Persistent memory, by the rules of AMD's processors.
    PmemAmd,
    /// Persistent memory, by the rules of AMD's processors before clflushopt.
    PmemOldAmd,
    /// Persistent memory behind processors whose caches are durable (eADR).
    PmemEadr,
    /// The page cache, above a device with sectors of 512 bytes.
    Pages,
}

/// One cause of failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashCause"))]
pub struct Found {
    /// What is wrong.
    pub fault: Fault,
    /// The stores that were lost in the smallest counterexample; none if a kill without a crash is
    /// enough.
    pub lost: Vec<LostStore>,
    /// Where the program was killed, if it was recovery that crashed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<Killed>,
    /// Acknowledgements that were printed before the crash.
    pub acknowledged: u64,
    /// The last acknowledged line; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The instruction before which the program crashed; absent if it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Whether the crash came right after the last acknowledgement.
    pub right_after: bool,
    /// Crashes with this cause: each is a state at a crash point, and several points may have the
    /// same state.
    pub crashes: u64,
    /// How recovery ended.
    pub status: Status,
    /// How it ends if nothing is lost.
    pub right_status: Status,
    /// The first line of its output that differs from what it prints if nothing is lost; absent if
    /// it printed no such line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// What it prints there if nothing is lost; absent if it prints no such line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_line: Option<String>,
    /// The last line of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was added to the recorded program to see whether it makes these crashes impossible:
    /// what makes all of them so, or the most; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<TriedRemedy>,
    /// Other failures that the same remedy makes impossible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<FoundAlso>,
    /// A folder with the files in this state.
    pub images: PathBuf,
    /// A script that runs recovery on them without Ringfence.
    pub rerun: PathBuf,
}

/// What was added to a recorded program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashRemedy"))]
pub struct TriedRemedy {
    /// What.
    pub added: Added,
    /// The place after which it was, each time that the program came there.
    pub after: String,
    /// The places whose stores it flushes or syncs.
    pub stores: Vec<String>,
    /// Crashes that are still possible with it.
    pub left: u64,
}

/// Another failure with the same remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashAlso"))]
pub struct FoundAlso {
    /// What is wrong.
    pub fault: Fault,
    /// The places of the stores that were lost.
    pub lost: Vec<String>,
    /// Crashes with this failure.
    pub crashes: u64,
}

/// Where a program was killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashKilled"))]
pub struct Killed {
    /// The instruction before which it was; absent if it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The last acknowledged line; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
}

/// A store that a crash lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashLost"))]
pub struct LostStore {
    /// The place in the program.
    pub at: String,
    /// The file.
    pub file: String,
    /// The offset in the file, bytes.
    pub offset: u64,
    /// What was stored there, in hexadecimal digits.
    pub bytes: String,
    /// The place of the flush that had begun and that no fence had followed; absent if there was
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed: Option<String>,
}

impl Medium {
    /// By the rules of a processor.
    pub fn of_rules(rules: Profile) -> Self {
        match rules {
            Profile::IntelAdr => Self::PmemIntel,
            Profile::Amd => Self::PmemAmd,
            Profile::OldAmd => Self::PmemOldAmd,
            Profile::Eadr => Self::PmemEadr,
        }
    }

    /// The rules of the processor; none for ordinary files.
    pub fn rules(self) -> Option<Profile> {
        match self {
            Self::Pages => None,
            _ => Profile::ALL.into_iter().find(|rules| Self::of_rules(*rules) == self),
        }
    }

    /// The same for the model; sectors have so many bytes.
    pub fn written_back(self, sector: usize) -> WrittenBack {
        self.rules().map_or(WrittenBack::BySectors(sector), WrittenBack::ByLines)
    }
}

impl Answer {
    /// Reads that of a folder.
    ///
    /// # Errors
    /// One sentence, if there is none or it is damaged.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let path = dir.join(ANSWER);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{}: {error}; restore the original", path.display()))
    }

    /// Whether a folder has one.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(ANSWER).is_file()
    }

    /// Writes it.
    ///
    /// # Errors
    /// What the system reports.
    pub fn write(&self, dir: &Path) -> Result<(), whole::WholeError> {
        let text = serde_json::to_string_pretty(self).expect("it has nothing that JSON lacks");
        whole::write(&dir.join(ANSWER), (text + "\n").as_bytes())
    }

    /// Whether all was examined, and its output compared.
    pub fn is_complete(&self) -> bool {
        let kills = self.kills.is_none_or(|kills| kills.examined == kills.all);
        self.cut.is_none()
            && self.complete == self.points
            && self.undecided == 0
            && self.gaps == 0
            && kills
    }
}

// The first line that differs, and what is right there. A line that is only missing, or one too
// many, is alone.
fn first_difference(own: &[String], right: &[String]) -> (Option<String>, Option<String>) {
    let most = own.len().max(right.len());
    let Some(at) = (0..most).find(|at| own.get(*at) != right.get(*at)) else {
        return (None, None);
    };
    match (own.get(at), right.get(at)) {
        (Some(line), Some(other)) if right[at..].contains(line) && !own[at..].contains(other) => {
            (None, Some(other.clone()))
        }
        (Some(line), Some(other)) if own[at..].contains(other) && !right[at..].contains(line) => {
            (Some(line.clone()), None)
        }
        (line, other) => (line.cloned(), other.cloned()),
    }
}

impl Found {
    /// The places of all stores whose loss this is about.
    pub fn lost_places(&self) -> impl Iterator<Item = &String> {
        let also = self.also.iter().flat_map(|also| &also.lost);
        self.lost.iter().map(|lost| &lost.at).chain(also)
    }
}

fn last_line(crash: &Crash, program: &Program) -> Option<String> {
    let last = crash.acknowledged.checked_sub(1)?;
    program.acknowledged.get(last)?.lines.last().cloned()
}

impl Killed {
    /// Where a program was.
    pub fn of(crash: &Crash, program: &Program) -> Self {
        let before = crash.before.map(|site| program.at(site).to_owned());
        Self { before, last_line: last_line(crash, program) }
    }
}

/// A finding, as it is stored; its images lie in a folder. `killed` is where the program was killed
/// before the recovery that crashed.
pub fn found(
    finding: &Finding,
    program: &Program,
    killed: Option<&Crash>,
    (images, rerun): (PathBuf, PathBuf),
) -> Found {
    let named = |site: u32| program.at(site).to_owned();
    let lost = |lost: &Lost| LostStore {
        at: named(lost.site),
        file: program.files[lost.file].path.clone(),
        offset: lost.offset,
        bytes: lost.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        flushed: lost.flushed.map(named),
    };
    let also = |also: &Also| {
        let sites: BTreeSet<u32> = also.lost.iter().map(|lost| lost.site).collect();
        let lost = sites.into_iter().map(named).collect();
        FoundAlso { fault: also.fault, lost, crashes: also.crashes }
    };
    let (own, right) = (&finding.outcome.lines, &finding.expected.lines);
    let (printed, right_line) = first_difference(own, right);
    let crash = &finding.crash;
    Found {
        fault: finding.fault,
        killed: killed.map(|killed| Killed::of(killed, program)),
        lost: finding.lost.iter().map(lost).collect(),
        acknowledged: crash.acknowledged as u64,
        last_line: last_line(crash, program),
        before: crash.before.map(named),
        right_after: crash.is_behind_acknowledgement,
        crashes: finding.crashes,
        status: finding.outcome.status,
        right_status: finding.expected.status,
        printed,
        right_line,
        message: finding.outcome.errors.lines().last().map(str::to_owned),
        remedy: finding.remedy.as_ref().map(|remedy| TriedRemedy {
            added: remedy.added,
            after: named(remedy.after),
            stores: remedy.stores.iter().copied().map(named).collect(),
            left: finding.left,
        }),
        also: finding.also.iter().map(also).collect(),
        images,
        rerun,
    }
}
