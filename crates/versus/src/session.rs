//! Measuring, round by round: warm-up, the detectable difference, looks, and when to stop.
//!
//! It sees commands only through [`Bench`], so that everything is tested on made series.

use ringfence_analysis::estimate::{Decision, Estimate, FEWEST_TRIALS, Goal, Looks};
use ringfence_experiment::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::estimate::{ratio, whole};
use crate::order::{self, Slot};
use crate::power::{self, Power};
use crate::run::{Quantity, Run, Took};
use crate::warm_up::{self, WarmUp};

/// Rounds after which looks are planned, unless they take a quarter of the time.
pub const PILOT: u32 = 8;

/// The detectable difference is announced after this part of the time.
const LOOKED_ON: f64 = 20.0;

/// Without a budget, measuring ends when a difference is known to this share of itself (both on the
/// log scale), or to [`Settings::precision`] where that is wider.
pub const SHARE_OF_DIFFERENCE: f64 = 0.1;

// A round that has not ended at so many times the time that was given is ended.
const OVER_TIME: f64 = 1.25;

/// The least number of rounds that are measured if the user gave no time.
pub const LEAST: u32 = 10;

/// The default measuring time, s.
pub const TIME_S: f64 = 60.0;

/// The same of one command that is compared with none.
pub const TIME_ALONE_S: f64 = 10.0;

/// How to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusSettings"))]
pub struct Settings {
    /// What a command may be slower by: 0.02 is 2 %; none where nothing is judged.
    pub budget: Option<f64>,
    /// A change up to this does not matter, where there is no budget: 0.01 is 1 %.
    pub margin: f64,
    /// The precision to reach, where there is no budget; of a large difference,
    /// [`SHARE_OF_DIFFERENCE`].
    pub precision: f64,
    /// All intervals of all comparisons hold together as often as this.
    pub confidence: f64,
    /// Time for all rounds, s; none: [`TIME_S`], for one command alone [`TIME_ALONE_S`], or as long
    /// as [`LEAST`] rounds take.
    pub time_s: Option<f64>,
    /// The exact number of rounds.
    pub runs: Option<u32>,
    /// The least number of rounds.
    pub min_runs: Option<u32>,
    /// The most rounds.
    pub max_runs: Option<u32>,
    /// The number of warm-up rounds; none: it is measured.
    pub warm_up: Option<u32>,
    /// Seed for everything that is random.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: None,
            margin: 0.01,
            precision: 0.005,
            confidence: 0.95,
            time_s: None,
            runs: None,
            min_runs: None,
            max_runs: None,
            warm_up: None,
            seed: 1,
        }
    }
}

impl Settings {
    /// Time for all rounds of so many commands, in s; as long as [`LEAST`] rounds take, if that is
    /// longer and no time was given.
    pub fn time_of(&self, commands: usize) -> f64 {
        self.time_s.unwrap_or(if commands == 1 { TIME_ALONE_S } else { TIME_S })
    }
}

/// Runs commands, and knows the time.
pub trait Bench {
    /// Runs a case or the shell, with what belongs around it. The run is the `number`-th of that
    /// slot, from 0.
    ///
    /// # Errors
    /// Why there is no such run, and nothing further is to be measured.
    fn run(&mut self, slot: Slot, number: u32, offset: usize) -> Result<(u64, Took), Error>;
    /// A run that has not ended at this time since measuring began is ended; none: runs take as
    /// long as they take.
    fn give_up_at(&mut self, _at_s: Option<f64>) {}
    /// A run was made: it is to survive whatever ends this program.
    fn made(&mut self, _run: &Run) {}
    /// Time since measuring began, s.
    fn elapsed(&self) -> f64;
    /// Receives a message during the measurement.
    fn say(&mut self, said: Said);
}

/// A message during the measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Warm-up is over, and its rounds are dropped.
    WarmedUp(Warmed),
    /// The detectable difference.
    Announced(Announced),
    /// For each comparison, the level of its interval if measuring ended now; of one command alone,
    /// that of its time.
    Levels(Vec<f64>),
    /// How far it is: rounds, and the share of what may come.
    Round(u32, f64),
}

/// Measuring ended by a signal.
pub fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted")
}

/// A run had not ended at [`Bench::give_up_at`].
pub fn out_of_time() -> Error {
    Error::new(ErrorKind::OutOfTime, "the time ran out before a run ended")
}

/// How warm-up went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusWarmUp"))]
pub struct Warmed {
    /// Rounds that were dropped.
    pub dropped: u32,
    /// Whether their number was measured, and not given.
    pub measured: bool,
    /// Runs were still becoming faster after the most rounds that are dropped.
    pub still_falling: bool,
    /// There were too few runs to tell.
    pub unknown: bool,
}

/// The detectable difference that was announced at the start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusAnnounced"))]
pub struct Announced {
    /// Of the comparison that varies most.
    pub power: Power,
    /// In this time, s.
    pub time_s: f64,
    /// How long it would take to detect a difference as large as the budget, s, where that is
    /// smaller than what can be detected; none where no reasonable time would be enough.
    pub budget_takes_s: Option<f64>,
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// All runs, in order.
    pub runs: Vec<Run>,
    /// Warm-up.
    pub warmed: Option<Warmed>,
    /// The difference that was announced as detectable.
    pub announced: Option<Announced>,
    /// For each comparison, the level of its interval; of one command alone, that of its time.
    pub levels: Vec<f64>,
    /// Why it ended early.
    pub trouble: Option<Error>,
    /// How long it took, s.
    pub seconds: f64,
}

/// Two cases of a group: the first, and another one.
pub type Comparison = (usize, usize);

/// What is compared: in each group, the first case with each of the others.
pub fn comparisons(groups: &[Vec<usize>]) -> Vec<Comparison> {
    groups.iter().flat_map(|group| group[1..].iter().map(|other| (group[0], *other))).collect()
}

/// Measures; returns what was measured, whatever ended it.
pub fn measure(
    groups: &[Vec<usize>],
    shell: bool,
    settings: &Settings,
    bench: &mut dyn Bench,
) -> Measured {
    let mut session = Session::new(groups, shell, settings);
    let trouble = session.go(bench).err();
    session.measured(trouble, bench.elapsed())
}

struct Session<'a> {
    groups: &'a [Vec<usize>],
    comparisons: Vec<Comparison>,
    shell: bool,
    settings: &'a Settings,
    runs: Vec<Run>,
    durations: Vec<f64>,
    round: u32,
    warmed: Option<Warmed>,
    looks: Option<Looks>,
    announced: Option<Announced>,
    /// For each group, the level at which it was settled.
    settled: Vec<Option<f64>>,
}

impl<'a> Session<'a> {
    fn new(groups: &'a [Vec<usize>], shell: bool, settings: &'a Settings) -> Self {
        Self {
            groups,
            comparisons: comparisons(groups),
            shell,
            settings,
            runs: Vec::new(),
            durations: Vec::new(),
            round: 0,
            warmed: None,
            looks: None,
            announced: None,
            settled: vec![None; groups.len()],
        }
    }

    fn go(&mut self, bench: &mut dyn Bench) -> Result<(), Error> {
        loop {
            // A later round may take longer than the others, and is still measured, but not without
            // limit.
            let room = if self.round == 0 { 1.0 } else { OVER_TIME };
            bench.give_up_at(self.settings.time_s.map(|time| room * time));
            self.one_round(bench)?;
            if self.round == 1 {
                self.refuse_too_little_time()?;
            }
            if self.warmed.is_none() {
                self.judge_warm_up(bench);
            }
            let over = self.over(bench.elapsed());
            let kept = self.kept();
            if self.warmed.is_some() && self.looks.is_none() {
                let quarter = bench.elapsed() > self.time() / 4.0 && kept >= FEWEST_TRIALS;
                if kept >= PILOT || quarter || over {
                    self.plan(bench);
                    bench.say(Said::Levels(self.levels()));
                }
            }
            bench.say(Said::Round(self.round, self.share(bench.elapsed())));
            if self.look(kept) {
                bench.say(Said::Levels(self.levels()));
            }
            let ends = over || self.settled.iter().all(Option::is_some);
            // A few rounds do not see what comes and goes on a busy machine.
            let seen = bench.elapsed() > self.time() / LOOKED_ON;
            if self.looks.is_some() && self.announced.is_none() && (seen || ends) {
                self.announce(bench);
            }
            if ends {
                return Ok(());
            }
        }
    }

    fn one_round(&mut self, bench: &mut dyn Bench) -> Result<(), Error> {
        let began = bench.elapsed();
        self.round += 1;
        let open = self.groups.iter().zip(&self.settled).filter(|(_, settled)| settled.is_none());
        let open: Vec<Vec<usize>> = open.map(|(group, _)| group.clone()).collect();
        let order = order::round(&open, self.shell, self.settings.seed, self.round);
        for (place, slot) in order.into_iter().enumerate() {
            let offset = order::environment_offset(self.settings.seed, self.round, place);
            let ran = bench.run(slot, self.round - 1, offset);
            let (began_unix_ns, took) = ran.map_err(|trouble| self.too_short_for_a_run(trouble))?;
            let warm_up = self.settings.warm_up.is_some_and(|given| self.round <= given);
            let (round, place) = (self.round, place as u32);
            let run = Run { slot, round, place, warm_up, began_unix_ns, took };
            bench.made(&run);
            self.runs.push(run);
        }
        self.durations.push(bench.elapsed() - began);
        Ok(())
    }

    // Rounds that are not warm-up.
    fn kept(&self) -> u32 {
        self.round - self.warmed.map_or(0, |warmed| warmed.dropped.min(self.round))
    }

    fn time(&self) -> f64 {
        self.settings.time_of(self.comparisons.len() + 1)
    }

    fn round_takes(&self) -> f64 {
        let recent = &self.durations[self.durations.len().saturating_sub(15)..];
        crate::estimate::described(recent).map_or(0.0, |recent| recent.median)
    }

    fn least(&self) -> u32 {
        let unless_given = if self.settings.time_s.is_some() { 0 } else { LEAST };
        let least = self.settings.runs.or(self.settings.min_runs).unwrap_or(unless_given);
        least.min(self.most())
    }

    fn most(&self) -> u32 {
        self.settings.runs.or(self.settings.max_runs).unwrap_or(u32::MAX)
    }

    // Whether no further round is to begin.
    fn over(&self, elapsed: f64) -> bool {
        let kept = if self.warmed.is_some() { self.kept() } else { 0 };
        if kept >= self.most() {
            return true;
        }
        let in_time = elapsed + self.round_takes() <= self.time();
        // A time that was given is a budget, whatever the number of runs.
        if self.settings.time_s.is_some() {
            return !in_time;
        }
        let kept = if self.warmed.is_some() {
            kept
        } else {
            self.round.saturating_sub(self.given_warm_up())
        };
        let in_time = in_time || self.settings.runs.is_some();
        !in_time && kept >= self.least()
    }

    fn given_warm_up(&self) -> u32 {
        self.settings.warm_up.unwrap_or(0)
    }

    // Rounds that a figure takes, or fewer if only so many are asked for.
    fn fewest(&self) -> u32 {
        FEWEST_TRIALS.min(self.most()).saturating_add(self.given_warm_up())
    }

    fn too_short_for_a_run(&self, trouble: Error) -> Error {
        let time = self.time();
        match trouble.kind() {
            // Before there is a figure.
            ErrorKind::OutOfTime if self.round <= self.fewest() => Error::usage(format!(
                "{} run{} of each command did not finish within {time} s, and a figure needs at \
                 least {} of each: give more than --time {}s",
                self.round,
                if self.round == 1 { "" } else { "s" },
                self.fewest(),
                (f64::from(self.fewest()) / f64::from(self.round) * time).ceil()
            )),
            _ => trouble,
        }
    }

    fn refuse_too_little_time(&self) -> Result<(), Error> {
        let round = self.durations[0];
        let least = f64::from(self.fewest());
        let Some(time) = self.settings.time_s else { return Ok(()) };
        // The first round is often the longest, so that one is given for nothing.
        if (least - 1.0) * round <= time {
            return Ok(());
        }
        // A tenth for what varies.
        let enough = least * round * 1.1;
        Err(Error::usage(format!(
            "one run of each command took {round:.1} s with its preparations, and a figure needs \
             at least {least} of each: give --time {}s",
            enough.ceil()
        )))
    }

    fn judge_warm_up(&mut self, bench: &mut dyn Bench) {
        let warmed = match self.settings.warm_up {
            Some(given) if self.round < given => return,
            Some(given) => {
                Warmed { dropped: given, measured: false, still_falling: false, unknown: false }
            }
            None => {
                let last = self.over(bench.elapsed()) || self.round >= self.most();
                let (dropped, still_falling, unknown) = match warm_up::judge(&self.series(), last) {
                    WarmUp::Over(dropped) => (dropped, false, false),
                    // Half of what there is, where that is less.
                    WarmUp::StillFalling => {
                        (warm_up::MOST.min(self.round as usize / 2), true, false)
                    }
                    WarmUp::NotYet if last => (0, false, true),
                    WarmUp::NotYet => return,
                };
                let dropped = dropped as u32;
                Warmed { dropped, measured: true, still_falling, unknown }
            }
        };
        self.warmed = Some(warmed);
        for run in &mut self.runs {
            run.warm_up = run.round <= warmed.dropped;
        }
        bench.say(Said::WarmedUp(warmed));
    }

    fn series(&self) -> Vec<Vec<f64>> {
        let cases = self.groups.iter().flatten();
        let of = |case: &usize| {
            let mine = self.runs.iter().filter(|run| run.slot == Slot::Case(*case));
            mine.map(|run| run.took.wall_ns as f64).collect()
        };
        cases.map(of).collect()
    }

    // Looks are fixed here, by how many rounds fit and not by what they said. Half of the error is
    // for the last look.
    fn plan(&mut self, bench: &mut dyn Bench) {
        let (kept, fit) = (self.kept(), self.fit(bench));
        let mut at: Vec<u32> = Vec::new();
        if self.settings.runs.is_none() {
            let mut next = kept.max(self.settings.min_runs.unwrap_or(0)).max(FEWEST_TRIALS);
            while next < fit {
                at.push(next);
                next = next + next / 2;
            }
        }
        at.push(u32::MAX);
        // Split evenly over what is compared, so that all of it holds together.
        let level = 1.0 - (1.0 - self.settings.confidence) / self.comparisons.len().max(1) as f64;
        let looks = Looks::new(at, level).and_then(|looks| looks.keeping_for_the_last(0.5));
        self.looks = Some(looks.expect("the looks rise, and the level was checked"));
    }

    // Rounds, in all, that there will be.
    fn fit(&self, bench: &dyn Bench) -> u32 {
        let kept = self.kept();
        let left = (self.time() - bench.elapsed()).max(0.0) / self.round_takes().max(1e-9);
        kept.saturating_add(left.min(1e7) as u32)
            .clamp(self.least().max(kept), self.most().max(kept))
    }

    fn announce(&mut self, bench: &mut dyn Bench) {
        let fit = self.fit(bench);
        let level = self.last_level();
        let estimates = self.comparisons.iter().map(|pair| self.estimate(*pair, level));
        let known: Vec<_> = estimates.filter_map(Result::ok).collect();
        let Some(worst) = known.into_iter().max_by(|a, b| a.spread.total_cmp(&b.spread)) else {
            return;
        };
        let spread = power::cautious(worst.spread, worst.trials);
        let power = power::of(spread, fit, level, worst.slack);
        let takes = |budget: f64| {
            let rounds = power::rounds_for(budget, spread, level, worst.slack)?;
            Some(
                bench.elapsed()
                    + f64::from(rounds.saturating_sub(self.kept())) * self.round_takes(),
            )
        };
        let budget_takes_s =
            self.settings.budget.filter(|budget| *budget < power.difference).and_then(takes);
        let time_s = bench.elapsed() + f64::from(fit - self.kept().min(fit)) * self.round_takes();
        let announced = Announced { power, time_s, budget_takes_s };
        self.announced = Some(announced);
        bench.say(Said::Announced(announced));
    }

    fn last_level(&self) -> f64 {
        self.looks.as_ref().map_or(self.settings.confidence, |looks| looks.level_after(u32::MAX))
    }

    fn estimate(&self, (a, b): Comparison, level: f64) -> Estimate {
        ratio(&self.runs, Quantity::Wall, a, b, level)
    }

    // Whether it settled anything.
    fn look(&mut self, kept: u32) -> bool {
        let Some(looks) = &self.looks else { return false };
        let Some(look) = looks.trials().iter().position(|due| *due == kept) else { return false };
        let level = looks.level_at(look);
        let (mut from, mut now) = (0, Vec::new());
        for (number, group) in self.groups.iter().enumerate() {
            let mine = &self.comparisons[from..from + group.len() - 1];
            from += group.len() - 1;
            let all = match group[..] {
                [case] => self.is_known(case, level),
                _ => mine.iter().all(|pair| self.is_settled(looks, look, *pair)),
            };
            if all && self.settled[number].is_none() {
                now.push(number);
            }
        }
        now.iter().for_each(|number| self.settled[*number] = Some(level));
        !now.is_empty()
    }

    fn is_settled(&self, looks: &Looks, look: usize, pair: Comparison) -> bool {
        let estimate = &self.estimate(pair, looks.level_at(look));
        match (self.settings.budget, estimate) {
            // As long as the mean over all rounds is over the budget, there may be more of what
            // makes it so.
            (Some(budget), Ok(interval)) => {
                let limit = 1.0 + budget;
                let mean = || whole(&self.runs, pair.0, pair.1, interval.level);
                let is_over = || mean().is_ok_and(|mean| mean.value > limit);
                interval.low > limit || interval.high <= limit && !is_over()
            }
            // A shell's start that is better known may bring a figure.
            (_, Err(_)) => false,
            // The rounds of the looks do not depend on the ratios, and the intervals of all looks
            // hold together. So any rule may end the measurement at a look.
            (None, Ok(interval)) => {
                let share = (SHARE_OF_DIFFERENCE * interval.value.ln().abs()).exp_m1();
                let goal = Goal {
                    margin: self.settings.margin,
                    precision: self.settings.precision.max(share),
                };
                matches!(looks.decide(look, estimate, &goal), Decision::Stop(_))
            }
        }
    }

    // Whether the time of a command is known to the margin.
    fn is_known(&self, case: usize, level: f64) -> bool {
        let time = crate::estimate::time(&self.runs, case, level);
        time.is_ok_and(|time| (time.high / time.low).ln() / 2.0 <= self.settings.margin.ln_1p())
    }

    fn share(&self, elapsed: f64) -> f64 {
        let rounds = self.settings.runs.or(self.settings.max_runs);
        let of_rounds =
            rounds.map_or(0.0, |rounds| f64::from(self.kept()) / f64::from(rounds.max(1)));
        (elapsed / self.time()).max(of_rounds).min(1.0)
    }

    fn levels(&self) -> Vec<f64> {
        let last = self.last_level();
        let per_group = self.groups.iter().zip(&self.settled);
        let of = |(group, settled): (&Vec<usize>, &Option<f64>)| {
            vec![settled.unwrap_or(last); (group.len() - 1).max(1)]
        };
        per_group.flat_map(of).collect()
    }

    fn measured(self, trouble: Option<Error>, seconds: f64) -> Measured {
        Measured {
            levels: self.levels(),
            warmed: self.warmed,
            announced: self.announced,
            trouble,
            seconds,
            runs: self.runs,
        }
    }
}
