//! The experiment of each stage.

use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Arm, Decide, Experiment, Kind, Measure, OneOrMany, Placement, Role};

use super::time::{self, Given};
use super::{AGGRESSOR, ALONE, ATTEMPTS, BESIDE, Question, VICTIM};
use ringfence_limits::lever::Candidate;

/// Is anything needed? Stops once the slowdown is known to be on one side of the budget.
pub fn baseline(question: &Question, whole_runs: bool, given: Given) -> Experiment {
    let measure = Measure {
        decide: Some(Decide::of(BESIDE, question.budget)),
        ..looked_at(question, whole_runs, given)
    };
    let asks = "Does the aggressor slow the victim down by more than the budget?";
    Experiment {
        kind: Some(Kind::ProveBaseline),
        ..experiment(question, "baseline", asks, 0, measure, &[])
    }
}

/// All candidates in one experiment, with the aggressor without a lever for comparison; with at
/// least as many trials as a figure needs.
pub fn levers(
    question: &Question,
    whole_runs: bool,
    candidates: &[Candidate],
    least: u32,
    given: Given,
) -> Experiment {
    let trials = if whole_runs { 4 } else { 8 }.max(least);
    let most = question.most_trials(whole_runs).clamp(2, trials);
    // One round is enough to choose by: what is chosen is measured again.
    let rounds = if given.time.is_some() { 1 } else { question.measure.rounds };
    let time = given.time.map(Span);
    let measure = Measure { looks: vec![most], time, rounds, ..question.measure.clone() };
    let asks =
        "Which lever brings the victim back into the budget, and what does the aggressor pay?";
    Experiment {
        kind: Some(Kind::ProveLevers),
        ..experiment(question, "levers", asks, 1, measure, candidates)
    }
}

/// One candidate on fresh trials. Each of the attempts gets its part of the permitted error.
pub fn confirmation(
    question: &Question,
    whole_runs: bool,
    candidate: &Candidate,
    number: usize,
    given: Given,
) -> Experiment {
    let error = (1.0 - question.measure.confidence.0) / ATTEMPTS as f64;
    let measure = Measure {
        decide: Some(Decide::of(&candidate.arm.name, question.budget)),
        confidence: Share(1.0 - error),
        ..looked_at(question, whole_runs, given)
    };
    let asks = format!(
        "Does '{}' keep the victim within the budget, on fresh trials?",
        candidate.arm.name
    );
    let name = format!("confirm-{}", number + 1);
    let stage = 2 + number as u64;
    let experiment =
        experiment(question, &name, &asks, stage, measure, std::slice::from_ref(candidate));
    Experiment { kind: Some(Kind::ProveConfirmation { number }), ..experiment }
}

/// The victim alone.
pub fn control(question: &Question) -> Experiment {
    let measure = Measure { looks: vec![2], probe: Span::ms(0), ..question.measure.clone() };
    let asks = "Does the victim take longer when it is stopped half of the time?";
    let mut experiment = experiment(question, "control", asks, 15, measure, &[]);
    experiment.roles.truncate(1);
    experiment.arms.truncate(1);
    experiment
}

// Looks that were fixed in advance from what was planned, and the end of the time as the last of
// them.
fn looked_at(question: &Question, whole_runs: bool, given: Given) -> Measure {
    let first = if whole_runs { time::FIRST_LOOK_OF_RUNS } else { time::FIRST_LOOK };
    Measure {
        looks: time::looks(first, time::most_trials(question, whole_runs, given)),
        last_look: Some(time::LAST_LOOK),
        time: given.time.map(Span),
        ..question.measure.clone()
    }
}

fn experiment(
    question: &Question,
    name: &str,
    asks: &str,
    stage: u64,
    measure: Measure,
    candidates: &[Candidate],
) -> Experiment {
    let aggressor = Role {
        count: OneOrMany::One(question.aggressors),
        cpus: question.aggressor_cpus.clone(),
        ..Role::new(AGGRESSOR, question.aggressor.tasks().clone())
    };
    let victim = Role {
        cpus: question.victim_cpus.clone(),
        ..Role::new(VICTIM, question.victim.tasks().clone())
    };
    let mut roles = vec![victim, aggressor];
    let mut arms =
        vec![Arm::new(ALONE, &[VICTIM], None), Arm::new(BESIDE, &[VICTIM, AGGRESSOR], Some(ALONE))];
    roles.extend(candidates.iter().filter_map(|candidate| candidate.role.clone()));
    arms.extend(candidates.iter().map(|candidate| candidate.arm.clone()));
    Experiment {
        // Another seed is other trials: their order and their memory layouts.
        seed: question.seed.wrapping_mul(16).wrapping_add(stage),
        measure,
        placement: Placement { kind: question.placement },
        roles,
        arms,
        ..Experiment::asking(name, asks, VICTIM)
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use ringfence_experiment::PlacementKind;
    use ringfence_experiment::budget::Budget;
    use ringfence_experiment::task::{Tasks, text};

    /// A question about a victim beside `alu`.
    pub fn question(victim: impl Into<Tasks>) -> Question {
        Question {
            victim: victim.into().try_into().unwrap(),
            aggressor: "alu".parse().unwrap(),
            aggressors: 1,
            victim_cpus: None,
            aggressor_cpus: None,
            placement: PlacementKind::Auto,
            budget: Budget::Slowdown(Share(0.02)),
            measure: Measure { window: Span::ms(100), ..Measure::default() },
            trials: None,
            seed: 1,
            levers: Vec::new(),
            try_env: Vec::new(),
            other_dir: None,
            system: false,
            time: None,
        }
    }

    #[test]
    fn levers_get_the_trials_that_a_quantile_takes() {
        let question = question(text::parse("alu").unwrap());
        let most = |least| {
            *levers(&question, false, &[], least, Given::default()).measure.looks.last().unwrap()
        };
        assert_eq!([most(4), most(20), most(480)], [8, 20, 48]);
    }

    #[test]
    fn trials_are_those_asked_for_or_those_that_fit() {
        let mut question = question(text::parse("alu").unwrap());
        let most = |question: &Question, time: u64| {
            let given =
                Given { time: Some(Duration::from_secs(time)), trial: Duration::from_millis(250) };
            *baseline(question, false, given).measure.looks.last().unwrap()
        };
        assert_eq!((most(&question, 10), most(&question, 0)), (40, 2));
        assert_eq!(*baseline(&question, false, Given::default()).measure.looks.last().unwrap(), 48);
        question.trials = Some(12);
        assert_eq!(most(&question, 10), 12);
        assert!(baseline(&question, true, Given::default()).check().is_ok());
        assert!(control(&question).check().is_ok());
    }
}
