use super::*;
use ringfence_experiment::start::Start;
use ringfence_machine::fixtures::curves::{self, Curve};
use ringfence_machine::probe::capacities;

fn chosen(curve: &Curve) -> Victim {
    let found = capacities(&curve.points, &curve.levels);
    choose(&found.caches, found.memory.as_ref(), None)
}

fn ns_at(curve: &Curve, footprint: Bytes) -> f64 {
    curve.points.iter().find(|(size, _)| *size >= footprint).unwrap().1
}

#[test]
fn well_inside_what_the_last_level_holds() {
    for (curve, holds) in [
        (curves::xeon_guest_l3_260mib(), 9.2),
        (curves::xeon_guest_l3_105mib(), 5.3),
        (curves::zen5_holds_9_5_of_32mib(), 9.5),
        (curves::quiet_zen4(), 32.0),
        (curves::zen4_guest_loaded(), 4.0),
    ] {
        let victim = chosen(&curve);
        let level = victim.level.unwrap();
        let share = victim.footprint.0 as f64 / (holds * f64::from(1 << 20));
        assert!(level.name == "L3" && share < 0.7, "{}: {}", victim.footprint, victim.from);
        let ns = ns_at(&curve, victim.footprint);
        assert!((level.from_ns..=level.to_ns).contains(&ns), "{ns} ns at {}, {level:?}", victim.footprint);
        let edge = ns_at(&curve, Bytes((holds * 2.0 * f64::from(1 << 20)) as u64));
        assert!(edge > level.to_ns, "{edge} ns at twice {holds} MiB, {level:?}");
    }
    assert_eq!(chosen(&curves::xeon_guest_l3_260mib()).footprint, Bytes::mib(4));
}

#[test]
fn a_last_level_that_others_have_taken_gives_a_chase_of_memory() {
    let victim = chosen(&curves::l3_taken());
    assert_eq!(victim.level.map(|level| level.name).as_deref(), Some("memory"));
    assert!(victim.from.contains("no plateau of L3"), "{}", victim.from);
}

#[test]
fn without_a_curve_the_names_must_do_and_nothing_is_checked() {
    let levels = [(1, Bytes::kib(32)), (2, Bytes::mib(1)), (3, Bytes::mib(16))];
    let found = capacities(&[], &levels);
    let victim = choose(&found.caches, None, None);
    assert_eq!((victim.footprint, victim.level), (Bytes::mib(4), None));
    assert!(victim.from.contains("neither was measured"), "{}", victim.from);
}

#[test]
fn starts_outside_of_the_level_are_told() {
    use crate::survey::Probes;
    use crate::survey::conclude::outside;
    let victim = chosen(&curves::xeon_guest_l3_260mib());
    let probes =
        Probes { victim_footprint: victim.footprint, victim_level: victim.level, ..Probes::default() };
    let start = |trial: u32, ns: f64| Start { trial, instance: 0, variant: 0, ns };
    assert_eq!(outside(&probes, "neighbours-chase", &[start(0, 35.0), start(1, 34.0)]), None);
    let told = outside(&probes, "neighbours-chase", &[start(0, 35.0), start(1, 123.0)]).unwrap();
    assert_eq!((told.footprint, told.level.name.as_str()), (Bytes::mib(4), "L3"));
    assert_eq!((told.starts, told.outside), (2, vec![start(1, 123.0)]));
    assert_eq!(outside(&Probes::default(), "neighbours-chase", &[start(0, 1.0)]), None);
}
