//! Runs cases on this machine, with what belongs around them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfence_experiment::Error;
use ringfence_machine::text::{printable, printable_lines};

use crate::case::Case;
use crate::export::{Sort, Unit};
use crate::findings::{Findings, groups};
use crate::journal::{Entry, JOURNAL, Journal};
use crate::launch::{self, Output, Ran, What};
use crate::order::Slot;
use crate::question::Question;
use crate::run::{Run, Took};
use crate::same_output;
use crate::session::{Announced, Bench, Said, Settings, Warmed};
use crate::shell::{self, Shell};

/// What is worth a line while commands run.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// This role's command has characters that mean something to a shell, and no shell reads it.
    NoShell(&'a str),
    /// The journal of runs cannot be written: its name, and why.
    JournalFailed(&'a str, &'a std::io::Error),
    /// Warming up has ended.
    WarmedUp(&'a Warmed),
    /// What the rest of the time can show.
    Announced(&'a Announced, &'a Settings),
}

/// The caller, which shows progress and provides texts.
pub trait Watch {
    /// Something is worth a line.
    fn note(&mut self, note: Note<'_>);
    /// The Markdown of [`Export::Summary`](crate::question::Export::Summary).
    fn summary(&self, findings: &Findings, unit: Option<Unit>, sort: Sort) -> String;
    /// How far it is, from 0 to 1.
    fn share(&mut self, began: Instant, share: f64);
}

pub(crate) struct Host<'a> {
    question: &'a Question,
    stop: &'a Arc<AtomicBool>,
    watch: &'a mut dyn Watch,
    /// When measuring began.
    pub began: Instant,
    /// Why instructions are not counted.
    pub not_counted: Option<String>,
    /// Where runs are written as they are made.
    pub journal: Option<Journal>,
    // When a run is ended that has not ended by itself.
    give_up_at: Option<Instant>,
}

impl<'a> Host<'a> {
    pub fn new(
        question: &'a Question,
        stop: &'a Arc<AtomicBool>,
        watch: &'a mut dyn Watch,
    ) -> Self {
        let began = Instant::now();
        Self { question, stop, watch, began, not_counted: None, journal: None, give_up_at: None }
    }
}

impl Host<'_> {
    pub fn set_up(&self) -> Result<(), Error> {
        self.once("setup", |case| case.around.setup.as_ref())
    }

    // Also after an interruption, which is over then: what was set up is to be taken away.
    pub fn clean_up(&self) -> Result<(), Error> {
        let calm = Arc::new(AtomicBool::new(false));
        let mut done: Vec<(&String, &Option<String>)> = Vec::new();
        let mut result = Ok(());
        for case in &self.question.cases {
            let Some(command) = case
                .around
                .cleanup
                .as_ref()
                .filter(|command| !done.contains(&(command, &case.around.dir)))
            else {
                continue;
            };
            done.push((command, &case.around.dir));
            result = result.and(self.around("cleanup", command, case, None, &calm));
        }
        result
    }

    fn iteration(&self, number: Option<u32>) -> Vec<(String, String)> {
        iteration(number, self.question.settings.warm_up.unwrap_or(0))
    }

    // The same command line in the same folder is not run twice.
    fn once(&self, what: &str, get: impl Fn(&Case) -> Option<&String>) -> Result<(), Error> {
        let mut done: Vec<(&String, &Option<String>)> = Vec::new();
        for case in &self.question.cases {
            let Some(command) =
                get(case).filter(|command| !done.contains(&(command, &case.around.dir)))
            else {
                continue;
            };
            done.push((command, &case.around.dir));
            self.around(what, command, case, None, self.stop)?;
        }
        Ok(())
    }

    fn around(
        &self,
        what: &str,
        command: &str,
        case: &Case,
        number: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Error> {
        let shell = match &self.question.shell {
            Shell::None => shell::default(),
            shell => shell.clone(),
        };
        let place = self.question.cases.iter().position(|one| one == case).unwrap_or(0);
        let output = match &self.question.outputs[place] {
            Output::Inherit => Output::Inherit,
            _ => Output::Null,
        };
        let run = What {
            words: shell.words(command).map_err(Error::usage)?,
            input: None,
            dir: case.around.dir.as_deref(),
            output: &output,
            environment: self.iteration(number),
        };
        let ran = launch::around(&run, stop)?;
        match ran.took.succeeded() {
            true => Ok(()),
            false => Err(failed(
                &format!("--{what} '{command}'"),
                &ran,
                &format!("; if that does not matter: '({command}) || true'"),
            )),
        }
    }

    // Each command once more, before anything is timed. Two runs of the first tell whether it
    // always prints the same.
    pub fn same_output(&self) -> Result<(), Error> {
        if !self.question.same_output {
            return Ok(());
        }
        let io = |error: std::io::Error| Error::failed(format!("comparing outputs: {error}"));
        let folder = Scratch::new().map_err(io)?;
        for group in groups(&self.question.cases) {
            let first = folder.0.join("first");
            self.printed(group[0], &first)?;
            for other in &group[1..] {
                let second = folder.0.join("second");
                self.printed(*other, &second)?;
                let Some(found) = same_output::difference(&first, &second).map_err(io)? else {
                    continue;
                };
                let [a, b] = [group[0], *other].map(|case| &self.question.cases[case].role);
                self.printed(group[0], &second)?;
                let itself = same_output::difference(&first, &second).map_err(io)?;
                let text = match itself {
                    Some(found) => format!(
                        "the output of {a} changes from run to run, so outputs cannot be compared: \
                         {}; leave out --same-output",
                        found.told("the first run", "the second run")
                    ),
                    None => format!("{a} and {b} print different output: {}", found.told(a, b)),
                };
                return Err(Error::failed(text));
            }
        }
        Ok(())
    }

    fn printed(&self, case: usize, file: &Path) -> Result<(), Error> {
        self.case(case, None, 0, &Output::File(file.into())).map(drop)
    }

    fn case(
        &self,
        number: usize,
        iteration_of: Option<u32>,
        offset: usize,
        output: &Output,
    ) -> Result<(u64, Ran), Error> {
        let case = &self.question.cases[number];
        if let Some(prepare) = &case.around.prepare {
            self.around("prepare", prepare, case, iteration_of, self.stop)?;
        }
        let began = unix_ns();
        let ran =
            self.timed(&case.command, case.around.dir.as_deref(), iteration_of, offset, output)?;
        if !self.question.ignored.covers(&ran.took) {
            return Err(self.refused(case, &ran));
        }
        if let Some(conclude) = &case.around.conclude {
            self.around("conclude", conclude, case, iteration_of, self.stop)?;
        }
        Ok((began, ran))
    }

    // Runs continue without it: they are written at the end.
    fn write(&mut self, entry: &Entry) {
        let Some(journal) = &mut self.journal else { return };
        if let Err(error) = journal.write(entry) {
            self.journal = None;
            self.watch.note(Note::JournalFailed(JOURNAL, &error));
        }
    }

    fn refused(&self, case: &Case, ran: &Ran) -> Error {
        let shown = format!("{}, '{}'", case.role, printable(&case.command));
        let by_shell = self.question.shell != Shell::None;
        // Braces may be the command's own, such as awk's, so they are only named if it fails.
        let unfilled = case.placeholder().map_or(String::new(), |name| {
            format!(
                "; if {{{name}}} is a parameter, give its values: --parameter {name}=VALUE,VALUE"
            )
        });
        match ran.took.code {
            // sh(1): not found, and found but not executable.
            Some(127) if by_shell && ran.said.contains("not found") => {
                let said = tail(&ran.said);
                Error::usage(format!("{shown}: {said}; correct the name or the path{unfilled}"))
            }
            _ => failed(&shown, ran, &format!("; to allow that: --ignore-failure{unfilled}")),
        }
    }

    fn timed(
        &self,
        command: &str,
        dir: Option<&str>,
        number: Option<u32>,
        offset: usize,
        output: &Output,
    ) -> Result<Ran, Error> {
        let mut environment = self.iteration(number);
        environment.push(("RINGFENCE_ENVIRONMENT_OFFSET".into(), "x".repeat(offset)));
        let run = What {
            words: self.question.shell.words(command).map_err(Error::usage)?,
            input: self.question.input.as_deref(),
            dir,
            output,
            environment,
        };
        launch::timed(&run, self.stop, self.give_up_at)
    }
}

impl Bench for Host<'_> {
    fn run(&mut self, slot: Slot, number: u32, offset: usize) -> Result<(u64, Took), Error> {
        let (began, ran) = match slot {
            Slot::Case(case) => {
                self.case(case, Some(number), offset, &self.question.outputs[case])?
            }
            Slot::Shell => {
                let began = unix_ns();
                let ran = self.timed("", None, None, offset, &Output::Null)?;
                if !ran.took.succeeded() {
                    return Err(failed(
                        &format!("the shell '{}' with nothing to do", self.question.shell.name()),
                        &ran,
                        "",
                    ));
                }
                (began, ran)
            }
        };
        if let Some(why) = ran.not_counted.as_ref().filter(|_| self.not_counted.is_none()) {
            self.write(&Entry::NotCounted(why.clone()));
        }
        self.not_counted = ran.not_counted;
        Ok((began, ran.took))
    }

    fn give_up_at(&mut self, at_s: Option<f64>) {
        self.give_up_at = at_s.map(|at| self.began + Duration::from_secs_f64(at));
    }

    fn made(&mut self, run: &Run) {
        self.write(&Entry::Run(run.clone()));
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn say(&mut self, said: Said) {
        match said {
            Said::WarmedUp(warmed) => {
                self.write(&Entry::WarmedUp(warmed));
                self.watch.note(Note::WarmedUp(&warmed));
            }
            Said::Announced(announced) => {
                self.write(&Entry::Announced(announced));
                self.watch.note(Note::Announced(&announced, &self.question.settings));
            }
            Said::Levels(levels) => self.write(&Entry::Levels(levels)),
            Said::Round(_, share) => self.watch.share(self.began, share),
        }
    }
}

// As hyperfine calls it, which scripts rely on: runs that are not timed have none.
fn iteration(number: Option<u32>, warm_up: u32) -> Vec<(String, String)> {
    let value = |number: u32| match number.checked_sub(warm_up) {
        Some(timed) => timed.to_string(),
        None => format!("warmup-{number}"),
    };
    number.map(|number| ("HYPERFINE_ITERATION".into(), value(number))).into_iter().collect()
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn failed(what: &str, ran: &Ran, remedy: &str) -> Error {
    let how = match (ran.took.code, ran.took.signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended for an unknown reason".into(),
    };
    let said = tail(&ran.said);
    let said = if said.is_empty() { String::new() } else { format!("; its last output:\n{said}") };
    Error::failed(format!("{what} {how}{remedy}{said}"))
}

// The last lines.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let short = |line: &&str| {
        let printed = printable_lines(line);
        match printed.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => format!("{}...", &printed[..end]),
            None => printed.into_owned(),
        }
    };
    let last: Vec<String> = lines[lines.len().saturating_sub(5)..].iter().map(short).collect();
    last.join("\n")
}

/// Letters of a line of standard error that are reported.
const LONGEST_LINE: usize = 400;

// A folder that goes again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("ringfence-versus-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
