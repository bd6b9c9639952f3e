//! What recovery does after kills, which lose no store.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::{Between, Cut, Examination, ExamineError, Failure};
use crate::image::Image;
use crate::oracle::{Fault, Outcome};
use crate::points::{Choice, Point};
use crate::pool::State;
use crate::program::Did;

/// Kills that are run at once: each may be without an end.
const KILLS_AT_ONCE: usize = 8;
/// Kills between two points that recovery runs after, if its output matches that of no point.
const MOST_KILLS: usize = 1024;

impl Examination<'_> {
    /// Runs recovery after kills at some more points, and goes on with `kill`: the steps that were
    /// done, and the files then. Whether there was time for all of them.
    pub(super) fn kills_at(
        &mut self,
        points: Range<usize>,
        (done, image): &mut (usize, Image),
    ) -> Result<bool, ExamineError> {
        let mut states = Vec::new();
        for number in points.clone() {
            let steps = self.points[number].steps;
            for step in &self.program.steps[*done..steps] {
                image.step(self.program, step.did);
            }
            *done = steps;
            if number < self.start {
                continue;
            }
            let open = self.points[number].open.clone();
            states.push(State { image: image.clone(), open });
            if states.len() == KILLS_AT_ONCE || number + 1 == points.end {
                let recoveries = self.outcomes(std::mem::take(&mut states))?;
                self.kills.extend(recoveries.into_iter().map(|one| one.outcome));
                if self.is_over() {
                    // Later points cannot be judged.
                    self.points.truncate(number + 1);
                    return Ok(false);
                }
            }
        }
        if self.before_it_was_made == usize::MAX {
            let ends_well = |kill: &Arc<Outcome>| kill.status == self.clean.status;
            if let Some(first) = self.kills.iter().position(ends_well) {
                self.before_it_was_made = self.points[self.start + first].acknowledged;
            }
        }
        Ok(true)
    }

    /// Judges the kills at all points, and counts what they tell apart.
    pub(super) fn judge_kills(&mut self) -> Result<(), ExamineError> {
        let mut before = &self.first;
        let counted = if self.from == 0 { &self.points[..] } else { &[] };
        for (number, point) in counted.iter().enumerate() {
            let is_first_behind =
                number == 0 || self.points[number - 1].acknowledged < point.acknowledged;
            if point.acknowledged > 0 && is_first_behind {
                self.found.checkable += u64::from(self.kills[number].lines != before.lines);
                before = &self.kills[number];
            }
        }
        if self.question.expect.is_some() && self.from == 0 {
            self.found.checkable = self.program.acknowledged.len() as u64;
        }
        for number in self.from..self.points.len() {
            let outcome = self.kills[number - self.start].clone();
            let Point { steps, acknowledged, .. } = self.points[number];
            self.judge_kill((number, steps, acknowledged), &outcome)?;
        }
        Ok(())
    }

    // Judges a kill, whose output is right unless the command of `--expect` refuses it.
    fn judge_kill(
        &mut self,
        (point, steps, acknowledged): (usize, usize, usize),
        outcome: &Outcome,
    ) -> Result<(), ExamineError> {
        let mut outcome = outcome.clone();
        let fault = if !self.statuses(acknowledged).contains(&outcome.status) {
            Fault::Ends(outcome.status)
        } else if let Some(said) = self.refuses(acknowledged, &outcome)? {
            outcome.errors = said.trim_start_matches(": ").to_owned();
            Fault::Refused
        } else {
            if self.from == 0 && self.question.expect.is_none() {
                self.compare(steps, acknowledged, &outcome);
            }
            return Ok(());
        };
        let choice = Choice(Vec::new());
        self.found.failures.push(Failure { point, steps, choice, fault, outcome });
        Ok(())
    }

    // Looks for a line that recovery lacks, or prints, only in the middle of an operation.
    fn compare(&mut self, steps: usize, acknowledged: usize, kill: &Outcome) {
        let behind = |acknowledged| match acknowledged {
            0 => Some(&self.first),
            _ => {
                let is_before = |point: &Point| point.acknowledged < acknowledged;
                self.kills.get(self.points.partition_point(is_before)).map(|kill| &**kill)
            }
        };
        let (Some(last), Some(next)) = (behind(acknowledged), behind(acknowledged + 1)) else {
            return;
        };
        let has = |kill: &Outcome, line: &String| kill.lines.contains(line);
        let lacks = |line: &&String| has(next, line) && !has(kill, line);
        let lacking = last.lines.iter().find(lacks).cloned();
        let passes = |line: &&String| !has(last, line) && !has(next, line);
        let passing = kill.lines.iter().find(passes).cloned();
        if let Some(line) = lacking {
            self.found.gaps += 1;
            self.found.gap.get_or_insert((steps, line));
        }
        self.found.passing = self.found.passing.take().or(passing);
    }

    /// Runs recovery after a kill behind each store, as far as time allows: an operation may be
    /// wrong for a moment that lies between two points.
    pub(super) fn after_every_store(&mut self) -> Result<(), ExamineError> {
        let mut image = Image::initial(self.program);
        let mut some: Vec<(usize, State)> = Vec::new();
        let first = self.from.checked_sub(1).map_or(0, |before| self.points[before].steps);
        let last = self.points.last().map_or(0, |point| point.steps);
        for (number, step) in self.program.steps[..last].iter().enumerate() {
            image.step(self.program, step.did);
            let stores = matches!(step.did, Did::Instruction(kind) if kind.write().is_some());
            if number >= first && stores {
                some.push((number + 1, State { image: image.clone(), open: Arc::default() }));
            }
            if some.len() == KILLS_AT_ONCE || number + 1 == last {
                let some = std::mem::take(&mut some);
                match self.limit() {
                    None => self.between_points(some)?,
                    limit => {
                        self.found.kills_left += some.len() as u64;
                        self.found.cut =
                            self.found.cut.or(limit.filter(|one| *one == Cut::Interrupted));
                    }
                }
            }
        }
        Ok(())
    }

    // Judges kills that recovery does something else after than after those at the points around.
    fn between_points(&mut self, kills: Vec<(usize, State)>) -> Result<(), ExamineError> {
        let (steps, states): (Vec<usize>, Vec<State>) = kills.into_iter().unzip();
        for (steps, recovery) in steps.into_iter().zip(self.outcomes(states)?) {
            let behind = self.points.partition_point(|point| point.steps < steps);
            let around = [behind.checked_sub(1), Some(behind)].into_iter().flatten();
            let is_known = |point: usize| {
                let kill = point.checked_sub(self.start).and_then(|at| self.kills.get(at));
                kill.is_some_and(|kill| kill.is_as(&recovery.outcome))
            };
            let acknowledged = behind.checked_sub(1).map_or(0, |at| self.points[at].acknowledged);
            if !around.into_iter().any(is_known) {
                self.judge_kill((behind, steps, acknowledged), &recovery.outcome)?;
            }
        }
        Ok(())
    }

    /// What recovery does after kills at any moment of a point's stretch; and whether these were
    /// all.
    pub(super) fn between(&mut self, number: usize) -> Result<Rc<Between>, ExamineError> {
        if let Some(known) = self.between.get(&number) {
            return Ok(known.clone());
        }
        let steps = self.points[number].steps;
        let begins = self.stretches.begins(steps);
        let mut image = Image::initial(self.program);
        let mut images = Vec::new();
        for (at, step) in self.program.steps[..steps].iter().enumerate() {
            if at == begins {
                images.push(image.clone());
            }
            image.step(self.program, step.did);
            let stores = matches!(step.did, Did::Instruction(kind) if kind.write().is_some());
            if at >= begins && stores {
                images.push(image.clone());
            }
        }
        let every = images.len().div_ceil(MOST_KILLS).max(1);
        let state = |image| State { image, open: Arc::default() };
        let kills = self.outcomes(images.into_iter().step_by(every).map(state).collect())?;
        let mut different: Vec<Arc<Outcome>> = Vec::new();
        for kill in kills {
            if !different.iter().any(|one| one.is_as(&kill.outcome)) {
                different.push(kill.outcome);
            }
        }
        let all = Rc::new((different, every == 1));
        self.between.insert(number, all.clone());
        Ok(all)
    }
}
