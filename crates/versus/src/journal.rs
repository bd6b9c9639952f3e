//! Runs as they are made, in `runs.journal`: what a killed measurement leaves behind.
//!
//! A line for each run and for what was decided meanwhile, as JSON, handed to the kernel before the
//! next run begins. It goes when the answer is kept whole. A line that was cut in two ends the
//! journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::findings::{About, Findings, findings, groups};
use crate::run::Run;
use crate::session::{Announced, Measured, Settings, Warmed, comparisons};
use ringfence_experiment::Error;

/// The file's name.
pub const JOURNAL: &str = "runs.journal";

const VERSION: u32 = 1;

/// Longer ones are not read: a run takes some 400 bytes.
const LONGEST: u64 = 1 << 30;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The first one: what is measured.
    Begun { version: u32, about: About, cases: Vec<Case>, settings: Settings },
    /// A run.
    Run(Run),
    /// What is dropped as warm-up.
    WarmedUp(Warmed),
    /// The difference that was announced as detectable.
    Announced(Announced),
    /// For each comparison, the level of its interval from here on; of one command alone, that of
    /// its time.
    Levels(Vec<f64>),
    /// Why instructions are not counted.
    NotCounted(String),
}

/// The journal of a running measurement.
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn begin(
        dir: &Path,
        about: &About,
        cases: &[Case],
        settings: &Settings,
    ) -> io::Result<Journal> {
        let mut journal =
            Self(OpenOptions::new().write(true).create_new(true).open(dir.join(JOURNAL))?);
        let (about, cases, settings) = (about.clone(), cases.to_vec(), settings.clone());
        journal.write(&Entry::Begun { version: VERSION, about, cases, settings })?;
        Ok(journal)
    }

    pub(crate) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// What a journal says; it still runs, or was killed.
///
/// # Errors
/// One sentence where it is no journal of this version.
pub(crate) fn read(dir: &Path) -> Result<(Findings, Vec<Run>), Error> {
    let path = dir.join(JOURNAL);
    let failed = |why: String| Error::usage(why).within(&path.display().to_string());
    // Opening a pipe that no process writes to would block forever.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
    let file = file.map_err(|error| failed(error.to_string()).because(error))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(failed("this is not an ordinary file".into()));
    }
    let mut lines = BufReader::new(file.take(LONGEST)).split(b'\n').map_while(Result::ok);
    let mut entries = lines.by_ref().map_while(|line| serde_json::from_slice::<Entry>(&line).ok());
    let Some(Entry::Begun { version: VERSION, mut about, cases, settings }) = entries.next() else {
        return Err(failed(format!(
            "its first line is not that of a journal of version {VERSION}: the file is damaged, or \
             another version of this program wrote it"
        )));
    };
    let levels = vec![settings.confidence; comparisons(&groups(&cases)).len().max(1)];
    let mut measured = Measured {
        runs: Vec::new(),
        warmed: None,
        announced: None,
        levels,
        trouble: None,
        seconds: 0.0,
    };
    let (mut read, mut makes_sense) = (1, true);
    for entry in entries {
        match entry {
            Entry::Run(run) if run.slot.case().is_none_or(|case| case < cases.len()) => {
                measured.runs.push(run);
            }
            Entry::WarmedUp(warmed) => measured.warmed = Some(warmed),
            Entry::Announced(announced) => measured.announced = Some(announced),
            Entry::Levels(levels) if levels.len() == measured.levels.len() => {
                measured.levels = levels
            }
            Entry::NotCounted(why) => about.not_counted = Some(why),
            Entry::Begun { .. } | Entry::Run(_) | Entry::Levels(_) => {
                makes_sense = false;
                break;
            }
        }
        read += 1;
    }
    // Behind a line that was cut in two there is none, and after a crash zeros.
    let more = !makes_sense || lines.any(|line| line.iter().any(|byte| *byte != 0));
    measured.trouble = Some(Error::failed(match more {
        false => "it was killed, could not be saved, or still runs".into(),
        true => format!(
            "line {} of {JOURNAL} is damaged; it and the lines after it are ignored",
            read + 1
        ),
    }));
    if let Some(warmed) = measured.warmed {
        measured.runs.iter_mut().for_each(|run| run.warm_up = run.round <= warmed.dropped);
    }
    if let (Some(first), Some(last)) = (measured.runs.first(), measured.runs.last()) {
        let ns = last.began_unix_ns.saturating_sub(first.began_unix_ns) + last.took.wall_ns;
        measured.seconds = ns as f64 / 1e9;
    }
    Ok((findings(&cases, &settings, about, &measured), measured.runs))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::case::{Asked, cases};
    use crate::order::Slot;
    use crate::run::Took;

    fn run(slot: Slot, round: u32, wall_ns: u64) -> Run {
        let took = Took { wall_ns, code: Some(0), ..Took::default() };
        Run { slot, round, place: 0, warm_up: false, began_unix_ns: u64::from(round) * 1000, took }
    }

    #[test]
    fn what_was_written_before_the_end_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let cases =
            cases(&Asked { commands: vec!["a".into(), "b".into()], ..Asked::default() }).unwrap();
        let about = About { host: "h".into(), label: Some("l".into()), ..About::default() };
        let mut journal = Journal::begin(dir.path(), &about, &cases, &Settings::default()).unwrap();
        for round in 1..=9 {
            journal.write(&Entry::Run(run(Slot::Case(0), round, 100))).unwrap();
            journal.write(&Entry::Run(run(Slot::Case(1), round, 200))).unwrap();
        }
        let warmed = Warmed { dropped: 2, measured: true, still_falling: false, unknown: false };
        journal.write(&Entry::WarmedUp(warmed)).unwrap();
        journal.write(&Entry::Levels(vec![0.975])).unwrap();
        journal.write(&Entry::NotCounted("no counters".into())).unwrap();
        journal.write(&Entry::Run(run(Slot::Case(0), 10, 100))).unwrap();
        // A kill in the middle of a line loses that line.
        let path = dir.path().join(JOURNAL);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 7]).unwrap();
        let (found, runs) = read(dir.path()).unwrap();
        assert_eq!(runs.iter().filter(|run| !run.warm_up).count(), 14);
        assert_eq!(
            (found.rounds, found.commands[0].runs, found.label.as_deref()),
            (9, 7, Some("l"))
        );
        let ratio = found.comparisons[0].ratio.estimate().unwrap();
        assert!(
            (ratio.value - 2.0).abs() < 1e-9 && (ratio.level - 0.975).abs() < 1e-9,
            "{ratio:?}"
        );
        assert_eq!(found.not_counted.as_deref(), Some("no counters"));
        assert!(found.ended_early.unwrap().contains("killed"));
        // What follows a damaged line is left out, and that is said.
        let text = String::from_utf8(whole.clone()).unwrap().replacen("\"round\":3", "\"rou", 1);
        fs::write(&path, text).unwrap();
        let (found, _) = read(dir.path()).unwrap();
        let why = found.ended_early.unwrap();
        assert!(found.rounds == 2 && why.contains("line 6 of runs.journal is damaged"), "{why}");
        // So it is with one of no command that there is.
        let mut journal = Journal(OpenOptions::new().append(true).open(&path).unwrap());
        fs::write(&path, &whole).unwrap();
        journal.write(&Entry::Run(run(Slot::Case(2), 10, 100))).unwrap();
        let why = read(dir.path()).unwrap().0.ended_early.unwrap();
        assert!(why.contains("line 24 of runs.journal is damaged"), "{why}");
        // Cut anywhere, it is read as far as it goes, or refused in a sentence.
        for length in (0..whole.len()).step_by(37) {
            fs::write(&path, &whole[..length]).unwrap();
            if let Err(error) = read(dir.path()) {
                assert!(error.text().contains(JOURNAL) && !error.text().contains('\n'), "{error}");
            }
        }
    }
}
