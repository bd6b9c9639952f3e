use ringfence_experiment::units::Span;

use super::*;

#[test]
fn looks_grow_by_half_up_to_the_most() {
    assert_eq!(looks(6, 48), [6, 9, 14, 20, 30, 46, 48]);
    assert_eq!(looks(6, 6), [6]);
    assert_eq!(looks(6, 3), [3]);
    assert_eq!(looks(4, 0), [2]);
    for most in 2..3000 {
        let looks = looks(6, most);
        assert!(looks.windows(2).all(|two| two[0] < two[1]) && looks.last() == Some(&most), "{looks:?}");
    }
}

#[test]
fn the_parts_of_the_time_never_exceed_it() {
    let time = Duration::from_secs(30);
    let trial = Duration::from_millis(300);
    let baseline = of_baseline(time, trial, true);
    assert_eq!(baseline, time.mul_f64(BASELINE));
    let levers = of_levers(time - baseline);
    let first = of_confirmation(time - baseline - levers, false);
    let second = of_confirmation(time - baseline - levers - first, true);
    let all = baseline + levers + first + second;
    assert!(all <= time + Duration::from_micros(1) && all + Duration::from_micros(1) >= time, "{all:?}");
    assert_eq!(of_baseline(time, trial, false), time);
    assert_eq!(of_baseline(time, trial * 2, true), time, "no lever could be confirmed in the rest");
}

#[test]
fn the_time_that_would_do_for_levers_does() {
    let (least, trial) = (Duration::from_secs(20), Duration::from_millis(300));
    for trial in [trial, trial * 20] {
        let time = with_levers(least, trial);
        let part = of_baseline(time, trial, true);
        assert!(part < time, "the rest is kept for levers: {time:?}");
        // The baseline ends with the trial that it has begun.
        assert!(of_levers(time - part - trial) >= least, "{time:?}");
    }
}

#[test]
fn the_time_that_would_do_for_a_confirmation_does() {
    let (least, trial) = (Duration::from_secs(20), Duration::from_millis(300));
    for trial in [trial, trial * 20] {
        let time = with_confirmation(least, trial);
        let left = time - of_baseline(time, trial, true) - trial;
        let left = left - of_levers(left) - trial;
        assert!(of_confirmation(left, false) + trial >= least, "{time:?}");
    }
}

#[test]
fn levers_get_what_is_left_beside_a_confirmation() {
    let s = Duration::from_secs;
    // All of them fit into their part.
    assert_eq!(for_levers(s(44), s(2), s(20), s(4)), s(22));
    // They take more than their part, which the confirmation leaves.
    assert_eq!(for_levers(s(44), s(2), s(30), s(4)), s(30));
    assert_eq!(for_levers(s(44), s(2), s(64), s(4)), s(38));
    // Tried and not measured again is more than not tried.
    assert_eq!(for_levers(s(10), s(8), s(64), s(6)), s(10));
    assert_eq!(for_levers(s(10), s(12), s(64), s(6)), s(10));
}

#[test]
fn the_precision_is_said_as_a_person_would() {
    let measure = Measure { looks: vec![6, 9, 20], last_look: Some(LAST_LOOK), ..Measure::default() };
    let precision =
        Precision::of(Budget::Slowdown(Share(0.02)), &measure, Some(Duration::from_secs(20))).unwrap();
    // 97.5 %, 19 degrees of freedom: t = 2.433, and 0.861 for a chance of 80 %:
    // ln 1.02 * sqrt 20 / (2.433 + 0.861) = 0.02689.
    assert!((precision.spread.unwrap() - 0.02689).abs() < 2e-5, "{precision:?}");
    assert_eq!(
        precision.to_string(),
        "in 20.0 s, about 20 trials, a slowdown of 2 % can be told from none if trials vary by less than 2.72 %"
    );
}

#[test]
fn of_a_time_it_is_said_what_the_quantile_takes() {
    let quantity = "p99".parse().unwrap();
    let measure = Measure { looks: vec![6, 9, 20], quantity, ..Measure::default() };
    let precision = Precision::of(Budget::AtMost(quantity, Span::ms(5)), &measure, None).unwrap();
    assert_eq!(precision.to_string(), "in 20 trials; p99 takes 1000 latencies on each side");
}
