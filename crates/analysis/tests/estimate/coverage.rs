//! The claims: where there is nothing, at most 5 % of the experiments find something; where there
//! is an effect, the interval holds it in 95 %. Both with the looks that decide when to stop.

use ringfence_analysis::estimate::{
    AaSummary, Decision, Estimate, Finding, Goal, Looks, Proportion, Verdict, by_class, slowdown,
};
use ringfence_experiment::class::Class;

use crate::noise::{EXPERIMENTS, Machine, SEEDS, Setup};

/// 5 % of 2,000 are 100, with a standard deviation of 9.7: one seed in 1,000 would exceed this if
/// all of the 5 % were used up.
pub const MOST_FALSE_ALARMS: u32 = 130;

/// 93.5 % of 2,000.
const LEAST_COVERED: u32 = 1_870;

/// Stops at the first interval that leaves out 1, however wide: this favours finding an effect.
const EAGER: Goal = Goal { margin: 0.02, precision: 1.0 };

/// Wants effects to within half the margin.
const PATIENT: Goal = Goal { margin: 0.02, precision: 0.01 };

/// Runs an experiment to where its looks end it.
fn experiment(
    machine: &mut Machine,
    setup: &Setup,
    looks: &Looks,
    goal: &Goal,
) -> (usize, Estimate) {
    let mut pairs = Vec::new();
    let (mut look, mut until, mut trial) = (0, looks.trials()[0], 0);
    loop {
        while trial < until {
            pairs.extend(machine.live(trial, setup));
            trial += 1;
        }
        let estimate = slowdown(&pairs, looks.level_at(look));
        match looks.decide(look, &estimate, goal) {
            Decision::Stop(_) => return (look, estimate),
            Decision::Continue { until: next } => until = next,
        }
        look += 1;
    }
}

struct Tally {
    estimates: Vec<Estimate>,
    covered: u32,
    settled: u32,
    stopped_at: [u32; 3],
}

fn run(seed: u64, setup: &Setup, goal: &Goal) -> Tally {
    let mut machine = Machine::new(seed);
    let looks = Looks::default();
    let mut tally = Tally { estimates: Vec::new(), covered: 0, settled: 0, stopped_at: [0; 3] };
    for _ in 0..EXPERIMENTS {
        let (look, estimate) = experiment(&mut machine, setup, &looks, goal);
        tally.stopped_at[look] += 1;
        tally.covered +=
            u32::from(estimate.is_ok_and(|interval| interval.contains(setup.slowdown)));
        let verdict = Finding::new(&estimate, goal.margin).verdict;
        tally.settled += u32::from(!matches!(verdict, Verdict::Undecided { .. }));
        tally.estimates.push(estimate);
    }
    tally
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    for setup in [Setup::of(1.0), Setup::with_varied_effect(1.0)] {
        for seed in SEEDS {
            let tally = run(seed, &setup, &EAGER);
            let summary = AaSummary::new(&tally.estimates, 0.95);
            println!(
                "A/A seed {seed}, effect sd {}: {} false alarms, stops {:?}, detectable {:?}",
                setup.effect_sd,
                summary.false_alarms,
                tally.stopped_at,
                summary.smallest_detectable
            );
            assert_eq!(summary.not_estimable, 0);
            assert!(summary.false_alarms <= MOST_FALSE_ALARMS, "{}", summary.false_alarms);
        }
    }
}

#[test]
fn intervals_hold_the_true_slowdown() {
    let mut stopped_at = [0; 3];
    for effect in [0.005, 0.02, 0.1] {
        for setup in [Setup::of(1.0 + effect), Setup::with_varied_effect(1.0 + effect)] {
            for seed in SEEDS {
                for goal in [EAGER, PATIENT] {
                    let tally = run(seed, &setup, &goal);
                    println!(
                        "effect {effect}, sd {}, precision {}, seed {seed}: {} covered, {} \
                         settled, stops {:?}",
                        setup.effect_sd,
                        goal.precision,
                        tally.covered,
                        tally.settled,
                        tally.stopped_at
                    );
                    assert!(tally.covered >= LEAST_COVERED, "{effect} {seed}: {}", tally.covered);
                    for (all, these) in stopped_at.iter_mut().zip(tally.stopped_at) {
                        *all += these;
                    }
                }
            }
        }
    }
    // The claim is about stopping early, so this must have happened.
    assert!(stopped_at.iter().all(|stops| *stops >= EXPERIMENTS), "{stopped_at:?}");
}

/// What an A/A run calls the smallest detectable effect is found with the stated chance.
#[test]
fn the_smallest_detectable_effect_is_detected() {
    let mut machine = Machine::new(11);
    let mut estimates = |slowdown_is: f64| -> Vec<Estimate> {
        (0..EXPERIMENTS)
            .map(|_| slowdown(&machine.trials(&Setup::with_varied_effect(slowdown_is), 10), 0.95))
            .collect()
    };
    let smallest = AaSummary::new(&estimates(1.0), 0.95).smallest_detectable.unwrap();
    let found = estimates(1.0 + smallest).iter().flatten().filter(|found| found.low > 1.0).count();
    let share = found as f64 / f64::from(EXPERIMENTS);
    println!("{smallest} is found in {share} of the experiments");
    assert!((0.75..0.85).contains(&share), "{share}");
}

/// The CPUs move together and apart, and with it the effect is 12x or none: each class shows its
/// own.
#[test]
fn classes_show_their_own_effect() {
    let setup = Setup { toggle: 0.02, pairs: 20, ..Setup::of(12.0) };
    let mut machine = Machine::new(5);
    let (mut sharing, mut apart, mut experiments) = (0, 0, 0);
    for _ in 0..EXPERIMENTS {
        let found = by_class(&machine.trials(&setup, 10), 0.95);
        let class = |class| found.classes.get(&class).and_then(|class| class.slowdown.ok());
        let (Some(together), Some(alone)) = (class(Class::Sharing), class(Class::Apart)) else {
            continue;
        };
        experiments += 1;
        sharing += u32::from(together.contains(12.0));
        apart += u32::from(alone.contains(1.0));
        assert_eq!(found.classes.values().map(|class| class.pairs).sum::<u32>(), 200);
    }
    println!("classes: {sharing} and {apart} of {experiments} covered");
    assert!(experiments > 9 * EXPERIMENTS / 10);
    for covered in [sharing, apart] {
        let share = Proportion::new(covered, experiments, 0.95).unwrap();
        assert!(share.value >= 0.935, "{share:?}");
    }
}
