//! Judges a recovery: it has to end as without a crash, and to print what it prints after a kill.

use std::collections::BTreeSet;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::worker::{Ran, Status};

/// What recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The lines that it printed, but for those that do not count.
    pub lines: Vec<String>,
    /// The last of what it printed to its standard error.
    pub errors: String,
}

impl Outcome {
    /// Of a run.
    pub fn of(ran: &Ran, ignore: &[Regex]) -> Self {
        let lines = String::from_utf8_lossy(&ran.output)
            .lines()
            .filter(|line| !ignore.iter().any(|regex| regex.is_match(line)))
            .map(str::to_owned)
            .collect();
        let errors = String::from_utf8_lossy(&ran.errors).trim_end().to_owned();
        Self { status: ran.status, lines, errors }
    }

    /// Whether both ended alike and printed the same.
    pub fn is_as(&self, other: &Self) -> bool {
        (self.status, &self.lines) == (other.status, &other.lines)
    }
}

/// What is wrong with a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashFault"))]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It ends in a way in which it never ends without a crash.
    Ends(Status),
    /// Its output was right only before the last acknowledgement.
    Lost,
    /// Its output matches that after no kill.
    Differs,
    /// The command that was given to check its output says so.
    Refused,
}

/// What is right at a moment.
#[derive(Debug, Default)]
pub struct Right<'o> {
    /// How recovery may end.
    pub statuses: BTreeSet<Status>,
    /// What it prints after kills since the last acknowledgement.
    pub since: Vec<&'o Outcome>,
    /// What it prints after kills before that.
    pub before: Vec<&'o Outcome>,
}

/// What is found of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Right,
    /// This is.
    Wrong(Fault),
    /// Undecided: several operations may have been in progress.
    Unknown,
}

// With more different outputs in one stretch, several operations may be under way at once.
const MOST_TOLD_APART: usize = 2;

impl Right<'_> {
    /// Judges a recovery.
    pub fn judge(&self, outcome: &Outcome) -> Verdict {
        if !self.statuses.contains(&outcome.status) {
            return Verdict::Wrong(Fault::Ends(outcome.status));
        }
        let prints = |other: &&&Outcome| other.lines == outcome.lines;
        if self.since.iter().any(|other| prints(&other)) {
            return Verdict::Right;
        }
        let different: BTreeSet<&[String]> = self.since.iter().map(|one| &one.lines[..]).collect();
        let was_before = || self.before.iter().any(|other| prints(&other));
        match different.len() {
            0..=MOST_TOLD_APART if was_before() => Verdict::Wrong(Fault::Lost),
            0..=MOST_TOLD_APART => Verdict::Wrong(Fault::Differs),
            _ => Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: i32, line: &str) -> Outcome {
        let lines = vec![line.to_owned()];
        Outcome { status: Status::Exited(code), lines, errors: String::new() }
    }

    #[test]
    fn recovery_is_right_if_it_prints_what_it_prints_after_a_kill() {
        let [one, two, three, four] = ["1", "2", "3", "4"].map(|line| outcome(0, line));
        let statuses = BTreeSet::from([Status::Exited(0)]);
        let right = Right { statuses, since: vec![&two, &three], before: vec![&one] };
        assert_eq!(right.judge(&two), Verdict::Right);
        assert_eq!(right.judge(&one), Verdict::Wrong(Fault::Lost));
        assert_eq!(right.judge(&four), Verdict::Wrong(Fault::Differs));
        let failed = Fault::Ends(Status::Exited(3));
        assert_eq!(right.judge(&outcome(3, "2")), Verdict::Wrong(failed));
        let more = outcome(0, "5");
        let right = Right { since: vec![&two, &three, &more], ..right };
        assert_eq!(right.judge(&four), Verdict::Unknown);
    }
}
