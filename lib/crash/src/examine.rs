//! Runs recovery on the states that crashes can leave: on all states of a crash point if there are
//! few, else on a sample.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_crashcheck::{Leaves, Unit};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::oracle::{Fault, Outcome, Right, Verdict};
use crate::points::{Choice, Crash, Point, points};
use crate::pool::{Command, Pool};
use crate::program::{Did, Program};
use crate::question::Question;
use crate::worker::{ImageFile, Ran, Setup, Status};

/// All states of a point are examined if there are at most this many.
const MOST_OF_A_POINT: usize = 4096;
/// A recovery that takes so many times as long as the slowest without a crash has no end.
const TIMES_AS_LONG: u32 = 10;
const LEAST_TIME: Duration = Duration::from_secs(5);
/// Bytes that a recovery may write besides its images.
const DISK: u64 = 1 << 28;
/// Images that are run at once.
const BATCH: usize = 64;
/// Kills between two points that recovery runs after, if its output matches that of no point.
const MOST_KILLS: usize = 64;

/// A state in which recovery is wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// At which point, by its number.
    pub point: usize,
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
    /// States whose output cannot be told right from wrong.
    pub undecided: u64,
    /// Acknowledgements behind which recovery prints something else than before.
    pub checkable: u64,
    /// Whether the time ran out, or the states did.
    pub cut: Option<Cut>,
    /// What fails.
    pub failures: Vec<Failure>,
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
    /// Recovery fails without any crash.
    #[error("recovery fails without any crash: {status}{said}")]
    Broken {
        /// How it ended.
        status: Status,
        /// What it said.
        said: String,
    },
}

/// An examination under way.
pub struct Examination<'a> {
    program: &'a Program,
    question: &'a Question,
    pool: Pool,
    /// All points.
    pub points: Vec<Point>,
    // What is certain at each point, kept for the one that is looked at.
    certain: (usize, Image),
    known: FxHashMap<u64, Outcome>,
    // At each point, what a kill leaves.
    kills: Vec<Outcome>,
    clean: Outcome,
    first: Outcome,
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
            directory: question.directory.clone(),
            disk: DISK + program.files.iter().map(|file| file.size).sum::<u64>(),
        };
        let initial = Image::initial(program);
        let pool = Pool::start(&question.program, &setup, question.workers, &initial.words)
            .map_err(system("workers cannot be started"))?;
        let nothing =
            Outcome { status: Status::Exited(0), lines: Vec::new(), errors: String::new() };
        let mut this = Self {
            program,
            question,
            pool,
            points: points(program, question.written_back),
            certain: (0, initial.clone()),
            known: FxHashMap::default(),
            kills: Vec::new(),
            clean: nothing.clone(),
            first: nothing,
            slowest: Duration::ZERO,
            began: Instant::now(),
            found: Examined::default(),
        };
        this.without_a_crash(initial)?;
        Ok(this)
    }

    // On the files as they were at first, and after a clean stop; each some times.
    fn without_a_crash(&mut self, initial: Image) -> Result<(), ExamineError> {
        let mut last = initial.clone();
        self.program.steps.iter().for_each(|step| last.step(self.program, step.did));
        let command = self.command(self.question.time);
        for (image, is_first) in [(initial, true), (last, false)] {
            let mut ran = self.run_on(&command, std::slice::from_ref(&image))?;
            if !matches!(ran[0].status, Status::Exited(_) | Status::Signal(_)) {
                let (status, said) = (ran[0].status, String::new());
                return Err(ExamineError::Broken { status, said });
            }
            ran.extend(self.run_on(&command, &vec![image.clone(); 2])?);
            self.slowest =
                ran.iter().map(|one| one.took).max().unwrap_or_default().max(self.slowest);
            let outcomes: Vec<Outcome> =
                ran.iter().map(|one| Outcome::of(one, &self.question.ignore)).collect();
            self.is_the_same(&outcomes)?;
            self.known.insert(image.key(), outcomes[0].clone());
            if is_first {
                self.first = outcomes[0].clone();
            } else {
                self.clean = outcomes[0].clone();
            }
        }
        match self.clean.status {
            Status::Exited(_) => Ok(()),
            status => {
                let said = format!(": {}", self.clean.errors);
                Err(ExamineError::Broken { status, said })
            }
        }
    }

    fn run_on(&self, command: &Command, images: &[Image]) -> Result<Vec<Ran>, ExamineError> {
        self.pool.run(command, images).map_err(system("recovery cannot be run"))
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
        Command { text, time }
    }

    /// Examines all states, or as many as the limits allow. Calls `tell` with the share done.
    ///
    /// # Errors
    /// Where recovery cannot be run any more.
    pub fn run(&mut self, mut tell: impl FnMut(f64)) -> Result<Examined, ExamineError> {
        self.found.points = self.points.len() as u64;
        self.after_kills()?;
        const PASSES: [fn(&Point) -> Vec<Choice>; 4] = [all_lost, one_lost, one_there, rest];
        let mut is_complete = vec![false; self.points.len()];
        for (pass, choices) in PASSES.into_iter().enumerate() {
            for (number, is_complete) in is_complete.iter_mut().enumerate() {
                if self.is_over() {
                    break;
                }
                if *is_complete {
                    continue;
                }
                let all = every(&self.points[number].leaves, MOST_OF_A_POINT);
                let few = all.as_ref().is_some_and(|all| all.len() <= BATCH);
                let choices = match all {
                    Some(all) if few || pass == 3 => {
                        *is_complete = true;
                        all
                    }
                    _ => choices(&self.points[number]),
                };
                let done = self.states(number, &choices)?;
                *is_complete &= done;
                tell((pass as f64 + number as f64 / self.points.len() as f64) / 4.0);
            }
        }
        self.found.complete = is_complete.iter().filter(|complete| **complete).count() as u64;
        Ok(std::mem::take(&mut self.found))
    }

    fn is_over(&mut self) -> bool {
        let cut = if self.question.stop.load(Ordering::Relaxed) {
            Some(Cut::Interrupted)
        } else if self.found.states >= self.question.states {
            Some(Cut::States)
        } else if self.began.elapsed() >= self.question.time {
            Some(Cut::Time)
        } else {
            None
        };
        self.found.cut = self.found.cut.or(cut);
        cut.is_some()
    }

    // Runs recovery after a kill at each point, when no store is lost.
    fn after_kills(&mut self) -> Result<(), ExamineError> {
        let mut image = Image::initial(self.program);
        let mut done = 0;
        let mut images = Vec::new();
        for number in 0..self.points.len() {
            if images.is_empty() && self.is_over() {
                // Later points cannot be judged without this.
                self.points.truncate(number);
                break;
            }
            let steps = self.points[number].steps;
            for step in &self.program.steps[done..steps] {
                image.step(self.program, step.did);
            }
            done = steps;
            images.push(image.clone());
            if images.len() == BATCH {
                let outcomes = self.outcomes(std::mem::take(&mut images))?;
                self.kills.extend(outcomes);
            }
        }
        let outcomes = self.outcomes(images)?;
        self.kills.extend(outcomes);
        let mut before = &self.first;
        for (number, point) in self.points.iter().enumerate() {
            let is_first_behind =
                number == 0 || self.points[number - 1].acknowledged < point.acknowledged;
            if point.acknowledged > 0 && is_first_behind {
                self.found.checkable += u64::from(self.kills[number].lines != before.lines);
                before = &self.kills[number];
            }
        }
        for number in 0..self.points.len() {
            let statuses = self.statuses(number);
            let outcome = &self.kills[number];
            if !statuses.contains(&outcome.status) {
                let (fault, outcome) = (Fault::Ends(outcome.status), outcome.clone());
                let choice = Choice(Vec::new());
                self.found.failures.push(Failure { point: number, choice, fault, outcome });
            }
        }
        Ok(())
    }

    // How recovery may end at a point.
    fn statuses(&self, point: usize) -> BTreeSet<Status> {
        let mut statuses = BTreeSet::from([self.clean.status]);
        statuses.extend(self.question.ok_status.iter().map(|code| Status::Exited(*code)));
        if self.points[point].acknowledged == 0 {
            statuses.insert(self.first.status);
        }
        statuses
    }

    // Runs recovery on images, each content once.
    fn outcomes(&mut self, images: Vec<Image>) -> Result<Vec<Outcome>, ExamineError> {
        let keys: Vec<u64> = images.iter().map(Image::key).collect();
        let mut new: Vec<(u64, Image)> = Vec::new();
        for (key, image) in keys.iter().zip(images) {
            if self.known.contains_key(key) || new.iter().any(|(other, _)| other == key) {
                self.found.merged += 1;
            } else {
                new.push((*key, image));
            }
        }
        let (new_keys, images): (Vec<u64>, Vec<Image>) = new.into_iter().unzip();
        let command = self.command(self.time());
        let ran = self.run_on(&command, &images)?;
        self.found.states += ran.len() as u64;
        for ((key, image), ran) in new_keys.into_iter().zip(images).zip(ran) {
            let mut outcome = Outcome::of(&ran, &self.question.ignore);
            if outcome.status == Status::TooLong {
                // Once more alone: other runs may have delayed it.
                let alone = self.run_on(&command, std::slice::from_ref(&image))?;
                outcome = Outcome::of(&alone[0], &self.question.ignore);
            }
            self.known.insert(key, outcome);
        }
        Ok(keys.iter().map(|key| self.known[key].clone()).collect())
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

    // Examines some states of a point: whether all of them were.
    fn states(&mut self, number: usize, choices: &[Choice]) -> Result<bool, ExamineError> {
        let certain = self.certain(number);
        for some in choices.chunks(BATCH) {
            if self.is_over() {
                return Ok(false);
            }
            let point = &self.points[number];
            let image = |choice: &Choice| {
                let leaves = point.decided(choice);
                point.image(&certain, &self.program.initial, &self.program.words, &leaves)
            };
            let images: Vec<Image> = some.iter().map(image).collect();
            let outcomes = self.outcomes(images)?;
            for (choice, outcome) in some.iter().zip(outcomes) {
                match self.judge(number, &outcome)? {
                    Verdict::Right => {}
                    Verdict::Unknown => self.found.undecided += 1,
                    Verdict::Wrong(fault) => {
                        let choice = choice.clone();
                        self.found.failures.push(Failure { point: number, choice, fault, outcome });
                    }
                }
            }
        }
        Ok(true)
    }

    fn judge(&mut self, number: usize, outcome: &Outcome) -> Result<Verdict, ExamineError> {
        let verdict = self.right(number, &[]).judge(outcome);
        if matches!(verdict, Verdict::Right | Verdict::Wrong(Fault::Ends(_))) {
            return Ok(verdict);
        }
        // It may be as after a kill between two points.
        let between = self.between(number)?;
        let between: Vec<&Outcome> = between.iter().collect();
        Ok(self.right(number, &between).judge(outcome))
    }

    // The first point after the last acknowledgement. If several threads print, it is the oldest of
    // their last ones: a line of one thread says nothing about what another has in progress.
    fn begins(&self, number: usize) -> usize {
        let acknowledged = self.acknowledged_by_all(self.points[number].acknowledged);
        self.points.partition_point(|point| point.acknowledged < acknowledged)
    }

    fn acknowledged_by_all(&self, so_far: usize) -> usize {
        let printed = &self.program.acknowledged[..so_far];
        let mut last: FxHashMap<u32, usize> = FxHashMap::default();
        for (number, one) in printed.iter().enumerate() {
            last.insert(one.thread, number + 1);
        }
        last.into_values().min().unwrap_or(0)
    }

    fn right<'o>(&'o self, number: usize, between: &[&'o Outcome]) -> Right<'o> {
        let begins = self.begins(number);
        let mut since: Vec<&Outcome> = self.kills[begins..=number].iter().collect();
        since.extend(between);
        let mut before: Vec<&Outcome> = Vec::new();
        if self.acknowledged_by_all(self.points[number].acknowledged) == 0 {
            since.push(&self.first);
        } else {
            before.extend(&self.kills[..begins]);
            before.push(&self.first);
        }
        Right { statuses: self.statuses(number), since, before }
    }

    // After kills at any moment since the last acknowledgement.
    fn between(&mut self, number: usize) -> Result<Vec<Outcome>, ExamineError> {
        let acknowledged = self.acknowledged_by_all(self.points[number].acknowledged);
        let mut image = Image::initial(self.program);
        let (mut images, mut seen) = (Vec::new(), 0);
        for step in &self.program.steps[..self.points[number].steps] {
            image.step(self.program, step.did);
            if let Did::Acknowledged(one) = step.did {
                seen = one + 1;
            }
            let stores = matches!(step.did, Did::Instruction(kind) if kind.write().is_some());
            if seen >= acknowledged && stores {
                images.push(image.clone());
            }
        }
        let every = images.len().div_ceil(MOST_KILLS).max(1);
        let images = images.into_iter().step_by(every).collect();
        self.outcomes(images)
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
            let outcome = self.outcome_of(failure.point, &fewer)?;
            match self.judge(failure.point, &outcome)? {
                Verdict::Wrong(fault) if fault == failure.fault => {
                    (smallest.choice, smallest.outcome) = (fewer, outcome);
                }
                _ => at += 1,
            }
        }
        Ok(smallest)
    }

    fn outcome_of(&mut self, point: usize, choice: &Choice) -> Result<Outcome, ExamineError> {
        let image = self.image_of(point, choice);
        Ok(self.outcomes(vec![image])?.remove(0))
    }

    /// What is lost in a failure: each unit that is not as new as it can be.
    pub(crate) fn lost(&self, failure: &Failure) -> Vec<(Unit, u32)> {
        let leaves = &self.points[failure.point].leaves;
        let is_lost = |(unit, way): &&(Unit, u32)| *way + 1 < leaves.ways(*unit);
        failure.choice.0.iter().filter(is_lost).copied().collect()
    }

    pub(crate) fn program(&self) -> &'a Program {
        self.program
    }

    /// What recovery does after a kill at a point.
    pub(crate) fn kill(&self, point: usize) -> &Outcome {
        &self.kills[point]
    }

    /// Where a point is.
    pub(crate) fn crash(&self, number: usize) -> Crash {
        let point = &self.points[number];
        let last = point.steps.checked_sub(1).map(|last| self.program.steps[last].did);
        Crash {
            acknowledged: point.acknowledged,
            before: self.program.steps.get(point.steps).map(|step| step.site),
            is_behind_acknowledgement: matches!(last, Some(Did::Acknowledged(_))),
        }
    }

    /// The image of a state.
    pub fn image_of(&mut self, point: usize, choice: &Choice) -> Image {
        let certain = self.certain(point);
        let point = &self.points[point];
        let leaves = point.decided(choice);
        point.image(&certain, &self.program.initial, &self.program.words, &leaves)
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ExamineError {
    move |source| ExamineError::System { what, source }
}

// Everything that can be lost.
fn all_lost(point: &Point) -> Vec<Choice> {
    vec![Choice(point.leaves.units().into_iter().map(|unit| (unit, 0)).collect())]
}

// One thing that is lost.
fn one_lost(point: &Point) -> Vec<Choice> {
    point.leaves.units().into_iter().map(|unit| Choice(vec![(unit, 0)])).collect()
}

// One thing that is not lost.
fn one_there(point: &Point) -> Vec<Choice> {
    let units = point.leaves.units();
    let others = |there: &Unit| {
        let lost = units.iter().filter(|unit| *unit != there).map(|unit| (*unit, 0));
        let newest = point.leaves.ways(*there) - 1;
        Choice(std::iter::once((*there, newest)).chain(lost).collect())
    };
    units.iter().map(others).collect()
}

// Two things that are lost, and each thing as old as it can be but one store newer; then at random.
fn rest(point: &Point) -> Vec<Choice> {
    const RANDOM: usize = 256;
    let units = point.leaves.units();
    let mut all = Vec::new();
    for unit in &units {
        for way in 1..point.leaves.ways(*unit).saturating_sub(1).min(64) {
            all.push(Choice(vec![(*unit, way)]));
        }
    }
    for (number, one) in units.iter().enumerate().take(32) {
        for other in units.iter().skip(number + 1).take(32) {
            all.push(Choice(vec![(*one, 0), (*other, 0)]));
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ point.steps as u64;
    let mut draw = |below: u32| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % u64::from(below)) as u32
    };
    for _ in 0..RANDOM {
        all.push(Choice(
            units.iter().map(|unit| (*unit, draw(point.leaves.ways(*unit)))).collect(),
        ));
    }
    all
}

// Every state, if there are no more than so many.
fn every(leaves: &Leaves, most: usize) -> Option<Vec<Choice>> {
    let product = leaves.units().iter().try_fold(1usize, |product, unit| {
        product.checked_mul(leaves.ways(*unit) as usize).filter(|product| *product <= most)
    });
    product?;
    let mut all = Vec::new();
    each(leaves.clone(), &mut Vec::new(), &mut all);
    Some(all)
}

fn each(leaves: Leaves, so_far: &mut Vec<(Unit, u32)>, all: &mut Vec<Choice>) {
    let Some(unit) = leaves.units().into_iter().next() else {
        return all.push(Choice(so_far.clone()));
    };
    for way in 0..leaves.ways(unit) {
        let mut decided = leaves.clone();
        decided.decide(unit, way);
        so_far.push((unit, way));
        each(decided, so_far, all);
        so_far.pop();
    }
}
