//! How large the survey's chase is, and whether it waits at each start for what it is meant to.
//!
//! The rule: the middle, on a log scale, of the footprints that were measured on the plateau of the
//! cache above L2, and at most half of what that cache was measured to hold. Where no such plateau
//! was seen the chase is one of memory, twice as large as the first footprint on memory's plateau,
//! and said to be.

use ringfence_experiment::start::Start;
use ringfence_machine::probe::{Capacity, Footprints, Plateau};
use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

/// What the survey's chase waits for, and how long a load takes then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// `L3`, `L2` or `memory`.
    pub name: String,
    /// ns per load at the footprint, from the curve in the pages that the chase uses.
    pub ns: f64,
    /// A chase that is faster answers from a smaller cache: a third of the way to it, on a log
    /// scale.
    pub from_ns: f64,
    /// A chase that is slower goes on to what lies behind: a third of the way to it, on a log
    /// scale.
    pub to_ns: f64,
}

/// Starts of the chase at which it did not wait for what it is meant to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outside {
    /// The experiment.
    pub experiment: String,
    /// The chase's footprint.
    pub footprint: Bytes,
    /// What it is meant to wait for.
    pub level: Level,
    /// How often it was started.
    pub starts: usize,
    /// The starts at which it was faster or slower than that.
    pub outside: Vec<Start>,
}

/// The chase: its footprint, how that came about, and what it waits for where that was measured.
pub(super) struct Victim {
    pub footprint: Bytes,
    pub from: String,
    pub level: Option<Level>,
}

/// Where nothing lies behind or below a level that was measured, how far its latency may be off.
const MARGIN: f64 = 1.5;

/// Chooses the chase for what was measured. `small` is the curve in 4 KiB pages, in which the chase
/// runs.
pub(super) fn choose(
    caches: &[Capacity],
    memory: Option<&Plateau>,
    small: Option<&Footprints>,
) -> Victim {
    let last = caches.iter().rev().find(|cache| cache.level > 2);
    let l2 = caches.iter().find(|cache| cache.level == 2);
    let at = |footprint: Bytes, otherwise: f64| {
        small.and_then(|curve| curve.at(footprint)).unwrap_or(otherwise)
    };
    let below = |of: &str| {
        caches
            .iter()
            .rev()
            .filter(|cache| format!("L{}", cache.level) != of)
            .find_map(|c| c.plateau_ns)
    };
    if let Some(cache) = last
        && let (Some(from), Some(holds), Some(ns)) = (cache.from, cache.at_least, cache.plateau_ns)
    {
        let middle = (from.0 as f64 * holds.0 as f64).sqrt();
        let footprint = round(middle.min((holds.0 as f64 / 2.0).max(from.0 as f64)), from);
        let name = format!("L{}", cache.level);
        let level = Level::around(
            at(footprint, ns),
            below(&name),
            memory.map(|memory| memory.ns),
            name.clone(),
        );
        let narrow = if holds.0 < 4 * from.0 { "; that plateau is narrow" } else { "" };
        let from = format!(
            "well inside {name}, which answers in {ns:.1} ns from {from} on and holds \
             {holds}{narrow}"
        );
        return Victim { footprint, from, level: Some(level) };
    }
    if let Some(memory) = memory {
        let footprint = round((2 * memory.from.0).max(4 << 20) as f64, memory.from);
        let level = Level::around(at(footprint, memory.ns), below("memory"), None, "memory".into());
        let why = match (last, l2) {
            (Some(cache), _) => {
                format!(
                    "no plateau of L{} was found: other programs use the cache, or it does not \
                     exist",
                    cache.level
                )
            }
            (None, _) => "no cache above L2 is known".into(),
        };
        return Victim {
            footprint,
            from: format!("a chase in memory, because {why}"),
            level: Some(level),
        };
    }
    let nominal = |cache: Option<&Capacity>| cache.map(|cache| cache.nominal.0 as f64);
    match (nominal(l2), nominal(last)) {
        (Some(l2), Some(last)) => Victim {
            footprint: round((l2 * last).sqrt().min(last / 2.0), Bytes(0)),
            from: "midway, on a log scale, between the nominal sizes of L2 and the last-level \
                   cache; neither was measured"
                .into(),
            level: None,
        },
        _ => Victim {
            footprint: Bytes::mib(4),
            from: "4MiB, because no last-level cache above L2 is known".into(),
            level: None,
        },
    }
}

// A round figure near it that is not below `least`.
fn round(bytes: f64, least: Bytes) -> Bytes {
    let step = if bytes < (4 << 20) as f64 { 256 << 10 } else { 1 << 20 };
    let down = (bytes / step as f64).floor().max(1.0) as u64 * step;
    Bytes(if down < least.0 { down + step } else { down })
}

impl Level {
    fn around(ns: f64, below: Option<f64>, above: Option<f64>, name: String) -> Self {
        let third = |to: f64| ns * (to / ns).powf(1.0 / 3.0);
        let from_ns = below.filter(|below| *below < ns).map_or(ns / MARGIN, third);
        let to_ns = above.filter(|above| *above > ns).map_or(ns * MARGIN, third);
        Self { name, ns, from_ns, to_ns }
    }
}

#[cfg(test)]
mod tests {
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
            assert!(
                (level.from_ns..=level.to_ns).contains(&ns),
                "{ns} ns at {}, {level:?}",
                victim.footprint
            );
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
        let probes = Probes {
            victim_footprint: victim.footprint,
            victim_level: victim.level,
            ..Probes::default()
        };
        let start = |trial: u32, ns: f64| Start { trial, instance: 0, variant: 0, ns };
        assert_eq!(outside(&probes, "neighbours-chase", &[start(0, 35.0), start(1, 34.0)]), None);
        let told =
            outside(&probes, "neighbours-chase", &[start(0, 35.0), start(1, 123.0)]).unwrap();
        assert_eq!((told.footprint, told.level.name.as_str()), (Bytes::mib(4), "L3"));
        assert_eq!((told.starts, told.outside), (2, vec![start(1, 123.0)]));
        assert_eq!(outside(&Probes::default(), "neighbours-chase", &[start(0, 1.0)]), None);
    }
}
