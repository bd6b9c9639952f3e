//! How a verb ends, and with which exit code.

use std::error::Error as Cause;
use std::fmt;
use std::process::ExitCode;

use ringfence_dataset::DatasetError;
use ringfence_experiment::{Error, ErrorKind};
use ringfence_studies::prove::Verdict;

/// How the program ends; the number is the exit code. This is the only table of them: help and
/// errors follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// What was asked for was done; of a verdict: met.
    Done = 0,
    /// It failed, or was interrupted.
    Failed = 1,
    /// What was asked for cannot be done, or not here.
    Usage = 2,
    /// The budget is missed.
    BudgetMissed = 3,
    /// It is not known whether the budget is met.
    Undecided = 4,
    /// Nothing happened that a verdict could be based on.
    NothingHappened = 5,
    /// Everything holds, but only on a described machine.
    SimulatedOnly = 6,
}

impl Exit {
    const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::BudgetMissed,
        Exit::Undecided,
        Exit::NothingHappened,
        Exit::SimulatedOnly,
    ];

    /// What it means, in a line of help.
    const fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done; the budget is met",
            Exit::Failed => "failed or interrupted",
            Exit::Usage => "cannot be done as asked, or not on this machine",
            Exit::BudgetMissed => "the budget is missed",
            Exit::Undecided => "undecided: it is not known whether the budget is met",
            Exit::NothingHappened => "nothing happened that a verdict could be based on",
            Exit::SimulatedOnly => "met, but only on a simulated machine",
        }
    }

    /// The same in two or three words.
    const fn brief(self) -> &'static str {
        match self {
            Exit::Done => "done or met",
            Exit::Failed => "failed",
            Exit::Usage => "cannot be done",
            Exit::BudgetMissed => "budget missed",
            Exit::Undecided => "undecided",
            Exit::NothingHappened => "nothing happened",
            Exit::SimulatedOnly => "met on a simulated machine only",
        }
    }

    /// The exit code that goes with a verdict.
    pub fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::NothingNeeded | Verdict::Met => Exit::Done,
            Verdict::Missed => Exit::BudgetMissed,
            Verdict::Undecided => Exit::Undecided,
            Verdict::NothingHappened => Exit::NothingHappened,
            Verdict::SimulatedOnly => Exit::SimulatedOnly,
        }
    }

    /// The whole table, for the program's manual page.
    pub fn table() -> String {
        lines(&Self::ALL)
    }

    /// All of them in two lines, for the front page.
    pub fn in_brief() -> String {
        let one = |exit: &Exit| format!("{} {}", *exit as u8, exit.brief());
        let line = |exits: &[Exit]| exits.iter().map(one).collect::<Vec<_>>().join(", ");
        let (first, second) = Self::ALL.split_at(4);
        format!("Exit codes: {},\n{}", line(first), line(second))
    }

    /// The table of a verb that gives verdicts, followed by the rest of its help.
    pub fn table_and(rest: &str) -> String {
        format!("{}\n\n{rest}", lines(&Self::ALL))
    }
}

fn lines(exits: &[Exit]) -> String {
    let lines: Vec<String> =
        exits.iter().map(|exit| format!("  {}  {}", *exit as u8, exit.meaning())).collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// It was not done, or not to its end.
    Error(Error),
    /// A verdict other than met, which has been said.
    Verdict(Exit),
    /// A command that was run ended with this exit code, and has said why itself.
    Command(u8),
}

impl Failure {
    /// What was asked for cannot be done, or not here.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Error(Error::usage(text))
    }

    /// It failed, or was interrupted.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Error(Error::failed(text))
    }

    /// As [`Failure::usage`], by an error in its own words.
    pub fn usage_by(error: impl Cause + Send + Sync + 'static) -> Self {
        Self::Error(Error::usage_by(error))
    }

    /// As [`Failure::failed`], by an error in its own words.
    pub fn failed_by(error: impl Cause + Send + Sync + 'static) -> Self {
        Self::Error(Error::failed_by(error))
    }

    /// What is wrong with the request, if that is why; the rest is as it was.
    pub fn map_usage(self, other_words: impl FnOnce(&str) -> Option<String>) -> Self {
        match self {
            Self::Error(error) if error.is_usage() => {
                Self::Error(match other_words(error.text()) {
                    Some(text) => error.with_text(text),
                    None => error,
                })
            }
            other => other,
        }
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        let exit = match self {
            Failure::Command(code) => return ExitCode::from(*code),
            Failure::Verdict(exit) => *exit,
            Failure::Error(error) => match error.kind() {
                ErrorKind::Usage => Exit::Usage,
                ErrorKind::Limit => Exit::Undecided,
                ErrorKind::Failed | ErrorKind::Interrupted | ErrorKind::OutOfTime => Exit::Failed,
            },
        };
        ExitCode::from(exit as u8)
    }
}

impl From<Failure> for Error {
    /// Of what a study asks of this program. A verdict is none of that, and has been said.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Error(error) => error,
            failure => Error::failed(failure.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Verdict(exit) => f.write_str(exit.meaning()),
            Failure::Command(code) => write!(f, "the command ended with exit code {code}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        Self::Error(error.into())
    }
}

impl From<ringfence_resctrl::Error> for Failure {
    fn from(error: ringfence_resctrl::Error) -> Self {
        Self::Error(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_it_undecided() {
        let why = "baseline: a limit was reached: redis was paused too long";
        let failure = Failure::from(Error::early(why, why));
        assert_eq!(failure.to_string(), why);
        assert_eq!(format!("{:?}", failure.code()), format!("{:?}", ExitCode::from(4)));
        assert_eq!(Error::early("interrupted", "x").kind(), ErrorKind::Failed);
    }

    #[test]
    fn the_table_is_in_the_order_of_its_codes() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| *exit as u8).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);
        assert!(Exit::table().lines().last().unwrap().starts_with("  6  "));
        let of_a_verb = Exit::table_and("Examples:");
        assert!(of_a_verb.contains("\n  6  met, but only on a simulated machine"), "{of_a_verb}");
    }
}
