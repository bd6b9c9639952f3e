//! The experiment of each stage.

use std::time::Duration;

use super::lever::Offer;
use super::{AGGRESSOR, ALONE, ATTEMPTS, BESIDE, Question, VICTIM};
use crate::experiment::{Arm, Decide, Experiment, Measure, OneOrMany, Placement, Role, SCHEMA};
use crate::units::{Share, Span};

/// Is anything needed? Stops once the slowdown is known to be on one side of the budget.
pub fn look(question: &Question, whole_runs: bool) -> Experiment {
    let most = question.most_lives(whole_runs);
    let measure = Measure {
        looks: looks(most),
        decide: Some(Decide { arm: BESIDE.into(), slowdown: question.budget }),
        budget: part(question, 0.3),
        ..question.measure.clone()
    };
    let asks = "Does the aggressor slow the victim down by more than the budget?";
    experiment(question, "look", asks, 0, measure, &[])
}

/// All offers in one experiment, beside the aggressor as it is.
pub fn levers(question: &Question, whole_runs: bool, offers: &[Offer]) -> Experiment {
    let lives = if whole_runs { 4 } else { 8 };
    let most = question.most_lives(whole_runs).clamp(2, lives);
    let measure = Measure { looks: vec![most], budget: part(question, 0.4), ..question.measure.clone() };
    let asks = "Which lever brings the victim back into the budget, and what does the aggressor pay?";
    experiment(question, "levers", asks, 1, measure, offers)
}

/// One offer on fresh lives. Each of the attempts gets its part of the permitted error.
pub fn confirmation(question: &Question, whole_runs: bool, offer: &Offer, number: usize) -> Experiment {
    let error = (1.0 - question.measure.confidence.0) / ATTEMPTS as f64;
    let measure = Measure {
        looks: looks(question.most_lives(whole_runs)),
        decide: Some(Decide { arm: offer.arm.name.clone(), slowdown: question.budget }),
        confidence: Share(1.0 - error),
        budget: part(question, 0.3 / ATTEMPTS as f64),
        ..question.measure.clone()
    };
    let asks = format!("Does '{}' keep the victim within the budget, on fresh lives?", offer.arm.name);
    let name = format!("confirm-{}", number + 1);
    experiment(question, &name, &asks, 2 + number as u64, measure, std::slice::from_ref(offer))
}

// Three looks that double, the last at `most`.
fn looks(most: u32) -> Vec<u32> {
    let mut looks: Vec<u32> = [most / 4, most / 2, most].into_iter().filter(|lives| *lives >= 2).collect();
    looks.dedup();
    if looks.is_empty() { vec![2] } else { looks }
}

fn part(question: &Question, share: f64) -> Option<Span> {
    question.time.map(|time| Span(Duration::from_secs_f64(time.0.as_secs_f64() * share)))
}

fn experiment(
    question: &Question,
    name: &str,
    asks: &str,
    stage: u64,
    measure: Measure,
    offers: &[Offer],
) -> Experiment {
    let aggressor = Role {
        count: OneOrMany::One(question.aggressors),
        cpus: question.aggressor_cpus.clone(),
        ..Role::new(AGGRESSOR, question.aggressor.clone())
    };
    let victim = Role { cpus: question.victim_cpus.clone(), ..Role::new(VICTIM, question.victim.clone()) };
    let mut roles = vec![victim, aggressor];
    let mut arms =
        vec![Arm::new(ALONE, &[VICTIM], None), Arm::new(BESIDE, &[VICTIM, AGGRESSOR], Some(ALONE))];
    roles.extend(offers.iter().filter_map(|offer| offer.role.clone()));
    arms.extend(offers.iter().map(|offer| offer.arm.clone()));
    Experiment {
        schema: SCHEMA,
        name: name.into(),
        question: Some(asks.into()),
        // Another seed is other lives: their order and their memory layouts.
        seed: question.seed.wrapping_mul(16).wrapping_add(stage),
        metric: VICTIM.into(),
        aa: None,
        measure,
        placement: Placement { kind: question.placement },
        roles,
        arms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_double_up_to_the_most() {
        assert_eq!(looks(48), [12, 24, 48]);
        assert_eq!(looks(6), [3, 6]);
        assert_eq!(looks(2), [2]);
        assert_eq!(looks(0), [2]);
    }
}
