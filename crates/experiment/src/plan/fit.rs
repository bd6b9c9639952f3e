//! How much of a plan fits into its time.

use std::time::Duration;

use super::{NotRun, Plan};
use crate::task::{Io, Layout, Sync, Task};
use crate::units::Span;
use crate::{Kind, Reason};

/// An interval takes at least this many trials.
pub const FEWEST_TRIALS: u32 = 4;

/// The first figure may exceed the time by this part of it, where trials take longer than was
/// planned.
pub const EXCESS_FOR_A_FIGURE: f64 = 0.25;

// Starting tasks, and windows that end late.
const ALLOWANCE: f64 = 0.1;

const NO_TIME: &str = "there is no time for";

/// Whether this is the reason of a case that [`Plan::fit_to_time`] has left out.
pub fn is_left_out(reason: &Reason) -> bool {
    reason.starts_with(NO_TIME)
}

impl Plan {
    /// The least time in which all cases have a figure, as far as the plan knows it.
    pub fn least_time(&self) -> Duration {
        self.least_time_of(&self.measured())
    }

    /// The least time in which one case has a figure.
    pub fn least_time_for_one(&self) -> Duration {
        self.measured().iter().map(|case| self.least_time_of(&[*case])).min().unwrap_or_default()
    }

    /// Leaves out cases that the time does not hold, so that the others have a figure: the most
    /// useful first. Where it holds no case at all, or there is none, nothing is changed.
    pub fn fit_to_time(&mut self) {
        // A stage of a study needs all of its cases.
        if !matches!(self.experiment.kind, None | Some(Kind::Sensitivity | Kind::Lock)) {
            return;
        }
        let Some(time) = self.experiment.measure.time else { return };
        let all = self.measured();
        let all_take = self.least_time_of(&all);
        if all_take <= time.0 {
            return;
        }
        let mut by_use = all.clone();
        by_use.sort_by_key(|case| (!self.is_decided(*case), self.rank(*case)));
        let mut kept: Vec<usize> = Vec::new();
        for case in by_use {
            kept.push(case);
            if self.least_time_of(&kept) > time.0 {
                kept.pop();
            }
        }
        if kept.is_empty() {
            return;
        }
        let is_needed = |case: usize| {
            kept.iter().any(|kept| self.cases[*kept].others().any(|other| other == case))
        };
        let reason = Reason::from(format!(
            "{NO_TIME} it: {time} hold {} of {}, and all of them take {}",
            kept.len(),
            all.len(),
            Span(all_take).rounded_up()
        ));
        let left_out: Vec<NotRun> = all
            .iter()
            .filter(|case| !kept.contains(case) && !is_needed(**case))
            .map(|case| NotRun { case: *case, reason: reason.clone() })
            .collect();
        self.not_run.extend(left_out);
        self.not_run.sort_by_key(|not_run| not_run.case);
    }

    fn least_time_of(&self, cases: &[usize]) -> Duration {
        let least = self.least_trial_of(cases) * FEWEST_TRIALS;
        // Episodes are as long as they are planned to be, and what comes on top is nothing beside
        // them.
        if self.experiment.measure.episode.is_some() {
            least
        } else {
            least.mul_f64(1.0 + ALLOWANCE)
        }
    }

    // Whether a budget is about it.
    fn is_decided(&self, case: usize) -> bool {
        let decide = self.experiment.measure.decide.as_ref();
        decide.is_some_and(|decide| decide.arm.as_slice().contains(&self.cases[case].arm))
    }

    // Of commits, what most programs do. Others are as useful as they stand first.
    fn rank(&self, case: usize) -> u32 {
        let Task::Commit(commit) = self.metric_task(case) else { return 0 };
        let rare = [
            !matches!(commit.sync, Sync::Fdatasync | Sync::Fsync),
            commit.io != Io::Buffered,
            commit.layout != Layout::Append,
        ];
        rare.iter().fold(0, |rank, rare| rank * 2 + u32::from(*rare))
    }
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;
    use crate::Experiment;

    // Windows of 400 ms: each case takes 1.6 s and a tenth for a figure.
    fn fitted(role: &str, arms: &str, time: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'fit'\nmetric = 'victim'\n[measure]\nrounds = 1\nwindow = \
             '400ms'\nsettle = '0ms'\nprobe = '0ms'\n\
             time = '{time}'\n[[role]]\nname = 'victim'\ntask = {role}\n{arms}"
        );
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        let mut plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
        plan.fit_to_time();
        plan
    }

    const ALONE: &str = "[[arm]]\nname = 'alone'\nactive = ['victim']";

    fn labels(plan: &Plan) -> Vec<&str> {
        plan.measured().iter().map(|case| plan.cases[*case].label.as_str()).collect()
    }

    #[test]
    fn the_time_holds_the_most_useful_cases() {
        let ways = "{ workload = 'commit', sync = ['fsync', 'fdatasync', 'o-dsync', 'uring'], \
                    io = ['buffered', 'direct'], layout = ['append', 'written'] }";
        let plan = fitted(ways, ALONE, "5s");
        assert_eq!(
            labels(&plan),
            ["sync=fsync io=buffered layout=append", "sync=fdatasync io=buffered layout=append"]
        );
        assert_eq!(plan.not_run.len(), 14);
        let reason = "there is no time for it: 5s hold 2 of 16, and all of them take 29s";
        assert!(plan.not_run.iter().all(|not_run| not_run.reason == reason), "{:?}", plan.not_run);
        assert!(is_left_out(&reason.into()) && plan.least_time() <= Duration::from_secs(5));
        let plan = fitted(ways, ALONE, "8s");
        assert_eq!(
            labels(&plan),
            [
                "sync=fsync io=buffered layout=append",
                "sync=fsync io=buffered layout=written",
                "sync=fdatasync io=buffered layout=append",
                "sync=fdatasync io=buffered layout=written"
            ]
        );
        let plan = fitted(ways, ALONE, "20s");
        assert_eq!(labels(&plan).len(), 11);
        let plan = fitted(ways, ALONE, "29s");
        assert!(plan.not_run.is_empty(), "{:?}", plan.not_run);
    }

    #[test]
    fn what_holds_no_figure_is_left_as_it_is() {
        let plan = fitted("{ workload = 'commit', sync = ['fsync', 'fdatasync'] }", ALONE, "1s");
        assert!(plan.not_run.is_empty());
        assert_eq!(Span(plan.least_time_for_one()).rounded_up(), Span::ms(1800));
    }

    #[test]
    fn an_arm_that_is_judged_comes_first_and_a_stage_keeps_all() {
        let arms = "[[role]]\nname = 'other'\ntask = { workload = 'alu' }\n\
                    [[arm]]\nname = 'alone'\nactive = ['victim']\n\
                    [[arm]]\nname = 'first'\nactive = ['victim', 'other']\nbaseline = 'alone'\n\
                    [[arm]]\nname = 'second'\nactive = ['victim', 'other']\nbaseline = 'alone'";
        let judged = "{ workload = 'chase' }";
        let plan = fitted(judged, arms, "4s");
        assert_eq!(
            plan.measured().iter().map(|case| plan.cases[*case].arm.as_str()).collect::<Vec<_>>(),
            ["first"]
        );
        let decide = format!("{arms}\n[measure.decide]\narm = 'second'\nslowdown = '5%'");
        let plan = fitted(judged, &decide, "4s");
        assert_eq!(
            plan.measured().iter().map(|case| plan.cases[*case].arm.as_str()).collect::<Vec<_>>(),
            ["second"]
        );
        let mut stage = fitted(judged, arms, "8s");
        stage.experiment.kind = Some(Kind::PairScreen);
        stage.experiment.measure.time = Some(Span::ms(4000));
        stage.fit_to_time();
        assert_eq!(stage.measured().len(), 2);
        // The cases of 'lock measure' have figures of their own.
        stage.experiment.kind = Some(Kind::Lock);
        stage.fit_to_time();
        assert_eq!(stage.measured().len(), 1);
    }
}
