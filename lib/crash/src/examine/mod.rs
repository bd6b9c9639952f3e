//! Runs recovery on the states that crashes can leave: on all states of a crash point if there are
//! few, else on a sample.

mod kills;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_crashcheck::{Leaves, Unit, WrittenBack};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::choices::{all_lost, one_lost, one_there, rest, states};
use crate::covered::{Covered, as_in, others};
use crate::image::Image;
use crate::known::{Known, Recovery};
use crate::oracle::{Fault, Outcome, Right, Verdict};
use crate::points::{Choice, Crash, Point, newest, points};
use crate::pool::{Command, Pool, State};
use crate::program::{Did, Program, Step};
use crate::question::Question;
use crate::remedy::{Failing, Remedy, candidates};
use crate::stretch::Stretches;
use crate::worker::{Given, ImageFile, Ran, ReadWords, Setup, Status};

/// All states of a point are examined if there are at most this many.
const MOST_OF_A_POINT: usize = 4096;
/// A recovery that takes so many times as long as the slowest without a crash has no end.
const TIMES_AS_LONG: u32 = 10;
const LEAST_TIME: Duration = Duration::from_secs(5);
/// Bytes that a recovery may write besides its images.
const DISK: u64 = 1 << 28;
/// What is examined of all points before the next is.
const PASSES: u32 = 5;
/// Points that recovery is run at after kills before crashes there are examined.
const POINTS_AT_ONCE: usize = 256;
/// Newer ways of a unit that are tried to make a failure smaller.
const MOST_NEWER: usize = 64;
/// Images that are run at once.
const BATCH: usize = 64;

/// A state in which recovery is wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// At which point, by its number; for a kill between two points, the one behind it.
    pub point: usize,
    /// So many of the program's steps were done.
    pub steps: usize,
    /// What is lost of it: all else is as new as it can be.
    pub choice: Choice,
    /// What is wrong.
    pub fault: Fault,
    /// What recovery did.
    pub outcome: Outcome,
}

/// What was examined, and what was not.
#[derive(Debug, Clone, Default)]
pub struct Examined {
    /// Points at which a crash was considered.
    pub points: u64,
    /// Runs of recovery on crash states.
    pub states: u64,
    /// States that were like one that was run on.
    pub merged: u64,
    /// Points of which every state was examined.
    pub complete: u64,
    /// Points of which no state was examined.
    pub unseen: u64,
    /// How many steps were done at the first point of which not every state was examined.
    pub first_left: Option<usize>,
    /// Points of which every state was examined, but for the bound of `--checksum`.
    pub bounded: u64,
    /// States whose output cannot be told right from wrong.
    pub undecided: u64,
    /// Acknowledgements behind which recovery prints something else than before.
    pub checkable: u64,
    /// Kills after which recovery lacks a line that it prints both before and after the operation
    /// that was under way.
    pub gaps: u64,
    /// One of them: how many steps were done, and the line.
    pub gap: Option<(usize, String)>,
    /// Stores behind which no kill was looked at.
    pub kills_left: u64,
    /// A line that recovery prints only after kills in the middle of an operation.
    pub passing: Option<String>,
    /// Whether the time ran out, or the states did.
    pub cut: Option<Cut>,
    /// What fails.
    pub failures: Vec<Failure>,
}

impl Examined {
    /// Adds the counts of another examination.
    pub fn add(&mut self, other: &Self) {
        self.points += other.points;
        self.states += other.states;
        self.merged += other.merged;
        self.complete += other.complete;
        self.unseen += other.unseen;
        self.bounded += other.bounded;
        self.undecided += other.undecided;
        self.gaps += other.gaps;
        self.cut = self.cut.or(other.cut);
    }
}

/// What ended the examination early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashCut"))]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The time.
    Time,
    /// The number of states.
    States,
    /// An interruption.
    Interrupted,
}

/// Why nothing was examined.
#[derive(Debug, thiserror::Error)]
pub enum ExamineError {
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Recovery does not do the same twice on one image.
    #[error(
        "recovery prints something else each time on the same files: '{one}' and '{other}'; name \
         such lines with --ignore"
    )]
    Noise {
        /// A line of one run.
        one: String,
        /// What another has in its place.
        other: String,
    },
    /// What recovery prints without any crash is refused.
    #[error("--expect refuses what recovery prints {when}{said}")]
    Refused {
        /// On which files.
        when: &'static str,
        /// What the command that refuses it said.
        said: String,
    },
    /// A function of `--checksum` reads nothing of the files.
    #[error(
        "--checksum: recovery reads no bytes of the files in a function '{0}': it may be missing, \
         inlined or not called, or it reads a copy of the bytes"
    )]
    NoChecksum(String),
    /// Recovery fails without any crash.
    #[error("recovery fails without any crash: {status}{said}")]
    Broken {
        /// How it ended.
        status: Status,
        /// What it said.
        said: String,
    },
}

// What recovery does after kills in a stretch, and whether these were all.
type Between = (Vec<Arc<Outcome>>, bool);

/// An examination under way.
pub struct Examination<'a> {
    program: &'a Program,
    question: &'a Question,
    pool: Pool,
    written_back: WrittenBack,
    // The first failure is enough.
    ends_at_first: bool,
    /// All points.
    pub points: Vec<Point>,
    // What is certain at each point, kept for the one that is looked at.
    certain: (usize, Image),
    known: Known,
    // Runs of an examination that this one goes on with.
    runs_before: u64,
    // The first point that is examined, and the first whose kill is needed.
    from: usize,
    start: usize,
    // At each point from there on, what a kill leaves.
    kills: Vec<Arc<Outcome>>,
    clean: Outcome,
    first: Outcome,
    // Acknowledgements before the first kill after which recovery ends as after a clean stop: up to
    // then the exit code on the initial files is right, too. The largest number until it is known.
    before_it_was_made: usize,
    stretches: Stretches,
    // By point.
    between: FxHashMap<usize, Rc<Between>>,
    // What `--expect` says, after so many acknowledgements, of lines that recovery printed: why
    // they are wrong, if they are.
    expected: FxHashMap<(usize, Vec<String>), Option<String>>,
    slowest: Duration,
    began: Instant,
    found: Examined,
}

impl<'a> Examination<'a> {
    /// Starts the workers, and runs recovery where nothing was lost.
    ///
    /// # Errors
    /// Where the system refuses, or recovery cannot be judged.
    pub fn begin(
        program: &'a Program,
        question: &'a Question,
        files: Vec<ImageFile>,
    ) -> Result<Self, ExamineError> {
        let setup = Setup {
            folder: question.folder.clone(),
            files,
            words: program.words.iter().map(|word| Program::file_of(*word)).collect(),
            checksum: question.checksum.clone(),
            directory: question.directory.clone(),
            disk: DISK + program.files.iter().map(|file| file.size).sum::<u64>(),
            memory: question.memory,
            cpu: 0,
        };
        let initial = Image::initial(program);
        let pool = Pool::start(&question.program, &setup, question.workers, &initial.words)
            .map_err(system("workers cannot be started"))?;
        let mut known = Known::default();
        let runs_before = match &question.journal {
            Some(journal) => known.keep(journal).map_err(system("runs cannot be kept"))?,
            None => 0,
        };
        let nothing =
            Outcome { status: Status::Exited(0), lines: Vec::new(), errors: String::new() };
        let mut this = Self {
            program,
            question,
            pool,
            written_back: question.written_back,
            ends_at_first: false,
            points: points(program, question.written_back),
            certain: (0, initial.clone()),
            known,
            runs_before,
            from: 0,
            start: 0,
            kills: Vec::new(),
            clean: nothing.clone(),
            first: nothing,
            before_it_was_made: usize::MAX,
            stretches: Stretches::of(program),
            between: FxHashMap::default(),
            expected: FxHashMap::default(),
            slowest: Duration::ZERO,
            began: Instant::now(),
            found: Examined::default(),
        };
        if let Some(steps) = program.killed_at {
            this.from = this.points.partition_point(|point| point.steps <= steps);
            this.start = this.from.checked_sub(1).map_or(0, |last| this.begins(last));
        }
        this.without_a_crash(initial)?;
        Ok(this)
    }

    // On the files as they were at first, and after a clean stop; each some times.
    fn without_a_crash(&mut self, initial: Image) -> Result<(), ExamineError> {
        let mut last = initial.clone();
        self.program.steps.iter().for_each(|step| last.step(self.program, step.did));
        let command = self.command(self.question.time);
        let open: Arc<[u32]> = match &self.question.checksum[..] {
            [] => Arc::default(),
            // What the functions read has to be known.
            _ => (0..self.program.words.len() as u32).collect(),
        };
        let mut called = BTreeSet::new();
        for (image, is_first) in [(initial, true), (last, false)] {
            let state = State { image, open: open.clone() };
            let predicted = self.known.find(&state.image, &[]);
            let mut ran = self.run_on(&command, std::slice::from_ref(&state))?;
            if !matches!(ran[0].status, Status::Exited(_) | Status::Signal(_)) {
                let said = match ran[0].status {
                    Status::TooLong => format!(" within {:?} (--time)", command.time),
                    _ => String::new(),
                };
                let status = ran[0].status;
                return Err(ExamineError::Broken { status, said });
            }
            ran.extend(self.run_on(&command, &vec![state.clone(); 2])?);
            self.slowest =
                ran.iter().map(|one| one.took).max().unwrap_or_default().max(self.slowest);
            let outcomes: Vec<Outcome> =
                ran.iter().map(|one| Outcome::of(one, &self.question.ignore)).collect();
            self.is_the_same(&outcomes)?;
            if predicted.is_some_and(|predicted| !predicted.outcome.is_as(&outcomes[0])) {
                self.known.distrust();
            }
            called.extend(ran[0].read.called.iter().copied());
            self.known.add(&state.image, outcomes[0].clone(), ran[0].read.clone());
            if is_first {
                self.first = outcomes[0].clone();
            } else {
                self.clean = outcomes[0].clone();
            }
        }
        match self.clean.status {
            // A shell's: the command is not there, or cannot be executed.
            Status::Exited(code) if !matches!(code, 126 | 127) => {
                self.calls_all(&called)?;
                self.expects_both()
            }
            status => {
                let said = match self.clean.errors.as_str() {
                    "" => String::new(),
                    errors => format!(": {errors}"),
                };
                Err(ExamineError::Broken { status, said })
            }
        }
    }

    // Recovery must read bytes of the files in each function of `--checksum`. After a kill of the
    // program, there may be nothing yet for it to read.
    fn calls_all(&self, called: &BTreeSet<usize>) -> Result<(), ExamineError> {
        let mut functions = self.question.checksum.iter().enumerate();
        match functions.find(|(number, _)| !called.contains(number)) {
            Some((_, name)) if self.program.killed_at.is_none() => {
                Err(ExamineError::NoChecksum(name.clone()))
            }
            _ => Ok(()),
        }
    }

    // `--expect` must accept what recovery prints without a crash.
    fn expects_both(&mut self) -> Result<(), ExamineError> {
        let all = self.program.acknowledged.len();
        let both = [
            (0, self.first.clone(), "on the files as they were at first"),
            (all, self.clean.clone(), "after a clean stop"),
        ];
        for (acknowledged, outcome, when) in both {
            if let Some(said) = self.refuses(acknowledged, &outcome)? {
                return Err(ExamineError::Refused { when, said });
            }
        }
        Ok(())
    }

    // Why `--expect` says that an output is wrong, if it does.
    fn refuses(
        &mut self,
        acknowledged: usize,
        outcome: &Outcome,
    ) -> Result<Option<String>, ExamineError> {
        let Some(expect) = &self.question.expect else { return Ok(None) };
        let key = (acknowledged, outcome.lines.clone());
        if let Some(known) = self.expected.get(&key) {
            return Ok(known.clone());
        }
        let lines = |lines: &mut dyn Iterator<Item = &String>| {
            lines.fold(String::new(), |all, line| all + line + "\n")
        };
        let printed = &self.program.acknowledged[..acknowledged];
        let given = Given {
            input: lines(&mut printed.iter().flat_map(|one| &one.lines)),
            recovered: lines(&mut outcome.lines.iter()),
        };
        let (text, time) = (expect.clone(), self.time());
        let command = Command { text, time, given: Some(given), keep: None };
        let state = State { image: Image::initial(self.program), open: Arc::default() };
        let ran = self.run_on(&command, &[state])?.remove(0);
        let said = String::from_utf8_lossy(&ran.output);
        let errors = String::from_utf8_lossy(&ran.errors);
        let line = said.lines().chain(errors.lines()).next();
        let why = match (ran.status, line) {
            (Status::Exited(0), _) => None,
            (_, Some(line)) => Some(format!(": {line}")),
            (status, None) => Some(format!(": {status}")),
        };
        self.expected.insert(key, why.clone());
        Ok(why)
    }

    fn run_on(&self, command: &Command, states: &[State]) -> Result<Vec<Ran>, ExamineError> {
        self.pool.run(command, states).map_err(system("recovery cannot be run"))
    }

    fn is_the_same(&self, outcomes: &[Outcome]) -> Result<(), ExamineError> {
        let one = &outcomes[0];
        let Some(other) = outcomes.iter().find(|other| !other.is_as(one)) else { return Ok(()) };
        let line = |of: &Outcome, number: usize| of.lines.get(number).cloned().unwrap_or_default();
        let most = one.lines.len().max(other.lines.len());
        let at = (0..most).find(|number| line(one, *number) != line(other, *number));
        let (one, other) = match at {
            Some(at) => (line(one, at), line(other, at)),
            None => (one.status.to_string(), other.status.to_string()),
        };
        Err(ExamineError::Noise { one, other })
    }

    fn command(&self, time: Duration) -> Command {
        let text = self.question.recover.clone();
        Command { text, time, given: None, keep: None }
    }

    /// Examines all states, or as many as the limits allow. Calls `tell` with the share done.
    ///
    /// # Errors
    /// Where recovery cannot be run any more.
    pub fn run(&mut self, mut tell: impl FnMut(f64)) -> Result<Examined, ExamineError> {
        let all = self.points.len();
        self.found.points = (all - self.from) as u64;
        self.found.unseen = self.found.points;
        let mut complete: BTreeSet<usize> = BTreeSet::new();
        let mut share = |pass: u32, number: usize| {
            tell((f64::from(pass) + number as f64 / all as f64) / f64::from(PASSES));
        };
        // What comes later is not needed to judge a point: where time is short, the first points
        // are examined well.
        let mut kill = (0, Image::initial(self.program));
        for first in (0..all).step_by(POINTS_AT_ONCE) {
            let some = first..(first + POINTS_AT_ONCE).min(all);
            let is_last = !self.kills_at(some.clone(), &mut kill)?;
            for number in some.start.max(self.from)..some.end.min(self.points.len()) {
                if self.is_over() {
                    break;
                }
                if self.pass(0, number)? {
                    complete.insert(number);
                }
                self.found.unseen -= 1;
                share(0, number);
            }
            if is_last || self.is_over() {
                self.points.truncate(some.end);
                break;
            }
        }
        self.judge_kills()?;
        for pass in 1..PASSES {
            for number in self.from..self.points.len() {
                if self.is_over() {
                    break;
                }
                if !complete.contains(&number) && self.pass(pass, number)? {
                    complete.insert(number);
                }
                share(pass, number);
            }
        }
        if self.from == 0 && !self.ends_at_first {
            self.after_every_store()?;
        }
        let first_left = (self.from..self.points.len()).find(|number| !complete.contains(number));
        self.found.first_left = first_left.map(|first| self.points[first].steps);
        self.found.complete = complete.len() as u64 - self.found.bounded;
        self.found.states += std::mem::take(&mut self.runs_before);
        Ok(std::mem::take(&mut self.found))
    }

    /// Examines the states that other rules allow, up to the first failure. What recovery does on
    /// images is known from before; all else is forgotten.
    ///
    /// # Errors
    /// Where recovery cannot be run any more.
    pub fn run_by(&mut self, written_back: WrittenBack) -> Result<Examined, ExamineError> {
        self.points = points(self.program, written_back);
        self.certain = (0, Image::initial(self.program));
        (self.kills, self.between) = Default::default();
        self.before_it_was_made = usize::MAX;
        (self.written_back, self.ends_at_first) = (written_back, true);
        self.run(|_| {})
    }

    // What is examined of a point in a pass over all of them: whether that was everything.
    fn pass(&mut self, pass: u32, number: usize) -> Result<bool, ExamineError> {
        let point = &self.points[number];
        let choices = match pass {
            0 if states(&point.leaves) <= BATCH => return self.explore(number),
            0 => all_lost(point),
            1 => one_lost(point),
            2 => one_there(point),
            3 => return self.explore(number),
            _ => rest(point),
        };
        self.states(number, &choices).map(|()| false)
    }

    // Examines all states of a point that recovery can tell apart: whether these were all. A run
    // with everything as new as it can be shows which words recovery reads, one after the other;
    // each of them, if it comes out otherwise, is another state, of which the same is asked. The
    // bound of `--checksum` counts as all.
    fn explore(&mut self, number: usize) -> Result<bool, ExamineError> {
        let mut open = vec![self.points[number].leaves.clone()];
        let (mut seen, mut is_bounded) = (0, false);
        while !open.is_empty() {
            if self.is_over() || seen >= MOST_OF_A_POINT {
                return Ok(false);
            }
            let some = open.split_off(open.len().saturating_sub(BATCH));
            seen += some.len();
            let decided: Vec<Leaves> = some.iter().cloned().map(newest).collect();
            let all = self.recoveries(number, &decided)?;
            for ((leaves, decided), recovery) in some.into_iter().zip(decided).zip(all) {
                let choice = self.points[number].choice(&decided);
                self.judged(number, choice, &recovery.outcome)?;
                is_bounded |= self.otherwise(leaves, &decided, &recovery.read, &mut open);
            }
        }
        self.found.bounded += u64::from(is_bounded);
        Ok(true)
    }

    // Adds a state for each other way in which a word that was read can have come out. Whether some
    // were left out, because a checksum covers the word.
    fn otherwise(
        &self,
        mut leaves: Leaves,
        decided: &Leaves,
        read: &ReadWords,
        open: &mut Vec<Leaves>,
    ) -> bool {
        let covered = Covered::of(self.program, read);
        let mut is_bounded = false;
        for place in &read.words {
            let word = self.program.words[*place as usize];
            if leaves.word(word).is_some() {
                continue;
            }
            if let Some(words) = covered.bounded(&leaves, word) {
                open.extend(others(&leaves, &words));
                as_in(&mut leaves, decided, &words);
                is_bounded = true;
                continue;
            }
            let contents = leaves.contents(word);
            let mut own = None;
            for content in &contents {
                if decided.has(content) {
                    own = Some(content);
                } else {
                    let mut other = leaves.clone();
                    other.decide_word(content);
                    open.push(other);
                }
            }
            if let Some(own) = own {
                leaves.decide_word(own);
            }
        }
        is_bounded
    }

    // What recovery does in states of a point, of which everything is decided.
    fn recoveries(
        &mut self,
        number: usize,
        decided: &[Leaves],
    ) -> Result<Vec<Recovery>, ExamineError> {
        let certain = self.certain(number);
        let point = &self.points[number];
        let Program { initial, words, .. } = self.program;
        let state = |leaves: &Leaves| State {
            image: point.image(&certain, initial, words, leaves),
            open: point.open.clone(),
        };
        let states = decided.iter().map(state).collect();
        self.outcomes(states)
    }

    fn is_over(&mut self) -> bool {
        let cut = self.limit();
        self.found.cut = self.found.cut.or(cut);
        cut.is_some() || self.ends_at_first && !self.found.failures.is_empty()
    }

    // The limit that is reached, if one is.
    fn limit(&self) -> Option<Cut> {
        if self.question.stop.load(Ordering::Relaxed) {
            Some(Cut::Interrupted)
        } else if self.found.states >= self.question.states {
            Some(Cut::States)
        } else if self.began.elapsed() >= self.question.time {
            Some(Cut::Time)
        } else {
            None
        }
    }

    // How recovery may end after so many acknowledgements.
    fn statuses(&self, acknowledged: usize) -> BTreeSet<Status> {
        let mut statuses = BTreeSet::from([self.clean.status]);
        statuses.extend(self.question.ok_status.iter().map(|code| Status::Exited(*code)));
        if acknowledged <= self.before_it_was_made {
            statuses.insert(self.first.status);
        }
        statuses
    }

    // What recovery does on images; it is run where that is not known.
    fn outcomes(&mut self, states: Vec<State>) -> Result<Vec<Recovery>, ExamineError> {
        let mut all: Vec<Option<Recovery>> = Vec::new();
        let (mut new, mut keys): (Vec<State>, FxHashSet<u64>) = Default::default();
        for state in &states {
            let known = self.known.find(&state.image, &state.open);
            if known.is_none() && keys.insert(state.image.key()) {
                new.push(state.clone());
            } else {
                self.found.merged += 1;
            }
            all.push(known);
        }
        let command = self.command(self.time());
        let ran = self.run_on(&command, &new)?;
        self.found.states += ran.len() as u64;
        for (state, mut ran) in new.iter().zip(ran) {
            if ran.status == Status::TooLong {
                // Once more alone: other runs may have delayed it.
                ran = self.run_on(&command, std::slice::from_ref(state))?.remove(0);
            }
            let outcome = Outcome::of(&ran, &self.question.ignore);
            let run = self.known.add(&state.image, outcome, ran.read);
            self.known.write(&state.image, &run);
        }
        let with = all.into_iter().zip(states);
        let found = with.map(|(known, state)| {
            known.unwrap_or_else(|| self.known.of(&state.image).expect("it was run"))
        });
        Ok(found.collect())
    }

    fn time(&self) -> Duration {
        (self.slowest * TIMES_AS_LONG).max(LEAST_TIME)
    }

    // What is certain at a point.
    fn certain(&mut self, number: usize) -> Image {
        if number < self.certain.0 {
            self.certain = (0, Image::initial(self.program));
        }
        while self.certain.0 <= number {
            for (place, content) in &self.points[self.certain.0].certain {
                self.certain.1.words[*place] = *content;
            }
            self.certain.0 += 1;
        }
        self.certain.1.clone()
    }

    // Examines some states of a point.
    fn states(&mut self, number: usize, choices: &[Choice]) -> Result<(), ExamineError> {
        for some in choices.chunks(BATCH) {
            if self.is_over() {
                break;
            }
            let point = &self.points[number];
            let decided: Vec<Leaves> = some.iter().map(|choice| point.decided(choice)).collect();
            for (choice, recovery) in some.iter().zip(self.recoveries(number, &decided)?) {
                self.judged(number, choice.clone(), &recovery.outcome)?;
            }
        }
        Ok(())
    }

    // Judges a state, and keeps what is wrong with it.
    fn judged(
        &mut self,
        number: usize,
        choice: Choice,
        outcome: &Outcome,
    ) -> Result<(), ExamineError> {
        match self.judge(number, outcome)? {
            Verdict::Right => {}
            Verdict::Unknown => self.found.undecided += 1,
            Verdict::Wrong(fault) => {
                let mut outcome = outcome.clone();
                if fault == Fault::Refused {
                    let said = self.refuses(self.points[number].acknowledged, &outcome)?;
                    outcome.errors = said.unwrap_or_default().trim_start_matches(": ").to_owned();
                }
                let steps = self.points[number].steps;
                self.found.failures.push(Failure { point: number, steps, choice, fault, outcome });
            }
        }
        Ok(())
    }

    fn judge(&mut self, number: usize, outcome: &Outcome) -> Result<Verdict, ExamineError> {
        let verdict = self.right(number, &[]).judge(outcome);
        if self.question.expect.is_some() && !matches!(verdict, Verdict::Wrong(Fault::Ends(_))) {
            let refused = self.refuses(self.points[number].acknowledged, outcome)?;
            return Ok(refused.map_or(Verdict::Right, |_| Verdict::Wrong(Fault::Refused)));
        }
        if matches!(verdict, Verdict::Right | Verdict::Wrong(Fault::Ends(_))) {
            return Ok(verdict);
        }
        // It may be as after a kill between two points.
        let between = self.between(number)?;
        let (between, are_all) = &*between;
        let between: Vec<&Outcome> = between.iter().map(|one| &**one).collect();
        Ok(match self.right(number, &between).judge(outcome) {
            // A kill that was left out may show it.
            Verdict::Wrong(Fault::Differs) if !are_all => Verdict::Unknown,
            verdict => verdict,
        })
    }

    // The first point of the stretch that a point is in.
    fn begins(&self, number: usize) -> usize {
        let begins = self.stretches.begins(self.points[number].steps);
        self.points.partition_point(|point| point.steps < begins)
    }

    fn right<'o>(&'o self, number: usize, between: &[&'o Outcome]) -> Right<'o> {
        let begins = self.begins(number).min(number);
        let mut since: Vec<&Outcome> = self.since(begins..number + 1).collect();
        since.extend(between);
        let mut before: Vec<&Outcome> = Vec::new();
        if self.stretches.begins(self.points[number].steps) == 0 {
            since.push(&self.first);
        } else {
            before.extend(self.since(self.start..begins));
            before.push(&self.first);
        }
        Right { statuses: self.statuses(self.points[number].acknowledged), since, before }
    }

    // What recovery does after kills at these points.
    fn since(&self, points: Range<usize>) -> impl Iterator<Item = &Outcome> {
        let kills = &self.kills[points.start - self.start..points.end - self.start];
        kills.iter().map(|kill| &**kill)
    }

    /// The smallest part of what is lost that still fails in the same way.
    ///
    /// # Errors
    /// Where recovery cannot be run any more.
    pub fn shrink(&mut self, failure: &Failure) -> Result<Failure, ExamineError> {
        let mut smallest = failure.clone();
        let mut at = 0;
        while at < smallest.choice.0.len() {
            let mut fewer = smallest.choice.clone();
            fewer.0.remove(at);
            if !self.fails_too(&mut smallest, fewer)? {
                at += 1;
            }
        }
        for at in 0..smallest.choice.0.len() {
            let (unit, way) = smallest.choice.0[at];
            let ways = self.points[failure.point].leaves.ways(unit);
            for newer in (way + 1..ways.saturating_sub(1)).rev().take(MOST_NEWER) {
                let mut less = smallest.choice.clone();
                less.0[at].1 = newer;
                if self.fails_too(&mut smallest, less)? {
                    break;
                }
            }
        }
        Ok(smallest)
    }

    /// Runs recovery on the files of a failure again, some times.
    ///
    /// # Errors
    /// Where it does something else then, or cannot be run any more.
    pub fn confirm(&mut self, failure: &Failure) -> Result<(), ExamineError> {
        const TIMES: usize = 3;
        if !matches!(failure.outcome.status, Status::Exited(_) | Status::Signal(_)) {
            // What had to be ended may be ended for another reason.
            return Ok(());
        }
        let state = State { image: self.image_of(failure), open: Arc::default() };
        let ran = self.run_on(&self.command(self.time()), &vec![state; TIMES])?;
        let again = ran.iter().map(|one| Outcome::of(one, &self.question.ignore));
        let mut all: Vec<Outcome> = vec![failure.outcome.clone()];
        all.extend(again);
        self.is_the_same(&all)
    }

    // Whether another choice fails in the same way, which is smaller then.
    fn fails_too(&mut self, smallest: &mut Failure, choice: Choice) -> Result<bool, ExamineError> {
        let outcome = self.outcome_of(smallest.point, &choice)?;
        let fails = match self.judge(smallest.point, &outcome)? {
            Verdict::Wrong(fault) => fault == smallest.fault,
            Verdict::Right | Verdict::Unknown => false,
        };
        if fails {
            (smallest.choice, smallest.outcome) = (choice, outcome);
        }
        Ok(fails)
    }

    fn outcome_of(&mut self, point: usize, choice: &Choice) -> Result<Outcome, ExamineError> {
        let decided = self.points[point].decided(choice);
        let recovery = self.recoveries(point, &[decided])?.remove(0);
        Ok((*recovery.outcome).clone())
    }

    /// What is lost in a failure: each unit that is not as new as it can be.
    pub(crate) fn lost(&self, failure: &Failure) -> Vec<(Unit, u32)> {
        let leaves = &self.points[failure.point].leaves;
        let is_lost = |(unit, way): &&(Unit, u32)| *way + 1 < leaves.ways(*unit);
        failure.choice.0.iter().filter(is_lost).copied().collect()
    }

    /// What may help against the loss of these stores.
    pub(crate) fn remedies(&self, stores: &BTreeSet<u32>, flushes: &BTreeSet<u32>) -> Vec<Remedy> {
        candidates(self.written_back, stores, flushes)
    }

    /// Which of these crashes a remedy makes impossible.
    pub(crate) fn prevented<'c>(
        &self,
        remedy: &Remedy,
        crashes: impl Iterator<Item = &'c Failing>,
    ) -> Vec<bool> {
        remedy.prevents(self.program, self.written_back, &self.points, crashes)
    }

    /// What recovery does after a clean stop.
    pub(crate) fn clean(&self) -> &Outcome {
        &self.clean
    }

    pub(crate) fn program(&self) -> &'a Program {
        self.program
    }

    /// What recovery does after a kill at a point.
    pub(crate) fn kill(&self, point: usize) -> &Outcome {
        &self.kills[point - self.start]
    }

    /// Where the program is after so many steps.
    pub fn crash(&self, steps: usize) -> Crash {
        let acknowledged = |step: &Step| match step.did {
            Did::Acknowledged(number) => Some(number + 1),
            _ => None,
        };
        let last = steps.checked_sub(1).map(|last| self.program.steps[last].did);
        Crash {
            acknowledged: self.program.steps[..steps]
                .iter()
                .rev()
                .find_map(acknowledged)
                .unwrap_or(0),
            before: self.program.steps.get(steps).map(|step| step.site),
            is_behind_acknowledgement: matches!(last, Some(Did::Acknowledged(_))),
        }
    }

    /// The files in a state.
    pub fn image_of(&mut self, failure: &Failure) -> Image {
        if failure.choice.0.is_empty() {
            return self.after_a_kill(failure.steps);
        }
        let certain = self.certain(failure.point);
        let point = &self.points[failure.point];
        let leaves = point.decided(&failure.choice);
        point.image(&certain, &self.program.initial, &self.program.words, &leaves)
    }

    // The files after a kill behind so many steps: no store is lost.
    fn after_a_kill(&self, steps: usize) -> Image {
        let mut image = Image::initial(self.program);
        self.program.steps[..steps].iter().for_each(|step| image.step(self.program, step.did));
        image
    }

    /// Records a recovery after a kill at a point into a folder: what it did, which is nothing
    /// where there is no recording.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub(crate) fn record(&mut self, point: usize, to: &Path) -> Result<Outcome, ExamineError> {
        // In memory of the worker's view.
        const RECORDING: &str = "/dev/shm/recording";
        let files: String = self
            .program
            .files
            .iter()
            .map(|file| format!(" --file {}", quoted(&file.path)))
            .collect();
        let text = format!(
            "exec {} trace --in-place{files} --out {RECORDING} -- /bin/sh -c {}",
            quoted(&self.question.program.to_string_lossy()),
            quoted(&self.question.recover)
        );
        let time = self.time() + LEAST_TIME;
        let keep = Some((RECORDING.into(), to.to_owned()));
        let command = Command { text, time, given: None, keep };
        let image = self.after_a_kill(self.points[point].steps);
        let ran = self.run_on(&command, &[State { image, open: Arc::default() }])?.remove(0);
        let outcome = Outcome::of(&ran, &self.question.ignore);
        if !outcome.is_as(self.kill(point)) {
            let Outcome { status, errors, .. } = outcome;
            let said = format!("it ends with {status} then: {errors}");
            return Err(system("recovery cannot be recorded")(io::Error::other(said)));
        }
        Ok(outcome)
    }
}

// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ExamineError {
    move |source| ExamineError::System { what, source }
}
