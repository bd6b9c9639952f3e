//! Crashes of recovery itself, after a kill of the program.

use std::time::Instant;

use ringfence_trace::recording::Reader;

use crate::examine::{Examination, ExamineError, Examined};
use crate::findings::{Finding, findings};
use crate::points::Crash;
use crate::program::{Program, ProgramError};
use crate::question::Question;
use crate::remedy::Added;
use crate::worker::ImageFile;

/// A cause of failures after a crash of recovery.
#[derive(Debug)]
pub struct FindingAgain {
    /// The cause.
    pub finding: Finding,
    // The places of the stores that were lost.
    cause: Vec<String>,
    // What makes all of it impossible, and where.
    remedy: Option<(Added, String)>,
    /// Where the program was killed before recovery ran.
    pub killed: Crash,
    /// The program up to there, and recovery.
    pub program: Program,
}

/// What crashes of recovery came to.
#[derive(Debug, Default)]
pub struct Again {
    /// Kills after which recovery was crashed, and those that there are.
    pub kills: (u64, u64),
    /// What was examined.
    pub examined: Examined,
    /// What fails.
    pub findings: Vec<FindingAgain>,
    /// Crashes that fail for causes that were too many to work out.
    pub other_crashes: u64,
}

/// Why recovery could not be crashed.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// The examination failed.
    #[error(transparent)]
    Examine(#[from] ExamineError),
    /// The recording of recovery cannot be read.
    #[error("what was recorded of recovery: {0}")]
    Program(#[from] ProgramError),
}

/// Kills the program at each point, and crashes the recovery that follows. What recovery prints is
/// an acknowledgement: it has to survive. Calls `tell` with the share done.
///
/// # Errors
/// Where recovery cannot be recorded or run.
pub fn again(
    examination: &mut Examination<'_>,
    question: &Question,
    files: &[ImageFile],
    mut tell: impl FnMut(f64),
) -> Result<Again, AgainError> {
    let began = Instant::now();
    let mut all = Again::default();
    let count = examination.points.len();
    all.kills.1 = count as u64;
    for point in 0..count {
        let Some(time) = question.time.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
        else {
            break;
        };
        let folder = question.folder.join("again");
        let question = Question {
            time,
            folder: folder.join("workers"),
            // Its words have other numbers.
            journal: None,
            ..question.clone()
        };
        let recording = folder.join(point.to_string());
        let outcome = examination.record(point, &recording)?;
        let steps = examination.points[point].steps;
        let killed = examination.crash(steps);
        let reader = Reader::open(&recording).ok();
        let program = examination.program().killed(steps, reader.as_ref(), outcome.lines)?;
        let mut second = Examination::begin(&program, &question, files.to_vec())?;
        let examined = second.run(|_| {})?;
        let (found, others) = findings(&mut second, &examined.failures)?;
        drop(second);
        all.examined.add(&examined);
        all.other_crashes += others;
        for finding in found {
            all.add(finding, &killed, &program);
        }
        all.kills.0 += 1;
        tell((point + 1) as f64 / count as f64);
        if examined.cut.is_some() {
            break;
        }
    }
    Ok(all)
}

impl Again {
    fn add(&mut self, finding: Finding, killed: &Crash, program: &Program) {
        // Each recording has numbers of its own.
        let place = |site: u32| program.at(site).to_owned();
        let cause: Vec<String> = finding.lost.iter().map(|lost| place(lost.site)).collect();
        let remedy = finding.remedy.as_ref().filter(|_| finding.left == 0);
        let remedy = remedy.map(|remedy| (remedy.added, place(remedy.after)));
        let like = self.findings.iter_mut().find(|known| {
            let is_same = known.finding.fault == finding.fault && known.cause == cause;
            is_same || remedy.is_some() && known.remedy == remedy
        });
        if let Some(known) = like {
            known.finding.crashes += finding.crashes;
            known.finding.left += finding.left;
            return;
        }
        self.findings.push(FindingAgain {
            finding,
            cause,
            remedy,
            killed: killed.clone(),
            program: program.clone(),
        });
    }
}
