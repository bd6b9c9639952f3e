//! After which crash does a recorded program's own recovery lose or corrupt data?

mod again;
mod answer;
mod choices;
mod covered;
mod examine;
mod findings;
mod image;
mod journal;
mod known;
mod oracle;
mod points;
mod pool;
mod program;
mod question;
mod remedy;
mod stretch;
pub mod worker;

pub use again::{Again, AgainError, FindingAgain, again};
pub use answer::{
    ANSWER, Answer, ByOtherRules, Found, FoundAlso, Gap, Killed, Kills, LostStore, Medium, SCHEMA,
    TriedRemedy, found,
};
pub use examine::{Cut, Examination, ExamineError, Examined, Failure};
pub use findings::{Also, Finding, Lost, findings};
pub use image::Image;
pub use oracle::{Fault, Outcome};
pub use points::{Choice, Crash, Point};
pub use program::{
    ALL_THREADS, Acknowledged, Did, OF_RECOVERY, Program, ProgramError, ProgramFile, Step,
};
pub use question::Question;
pub use remedy::{Added, Remedy};
