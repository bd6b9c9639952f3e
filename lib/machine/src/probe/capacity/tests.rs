use super::*;
use crate::fixtures::curves;

const LEVELS: [(u8, Bytes); 3] = [(1, Bytes::kib(48)), (2, Bytes::mib(1)), (3, Bytes::mib(32))];

/// Six footprints per doubling from 8 KiB on.
fn sizes(largest: Bytes) -> Vec<Bytes> {
    (0..)
        .map(|step| Bytes((8192.0 * 2f64.powf(f64::from(step) / 6.0)) as u64))
        .take_while(|size| *size <= largest)
        .collect()
}

/// Each cache hits for its share of the footprint, as random replacement does.
fn fading(caches: &[(Bytes, f64)], memory_ns: f64, size: Bytes) -> f64 {
    let (mut ns, mut hit) = (0.0, 0.0);
    for &(capacity, latency) in caches {
        let reached = (capacity.0 as f64 / size.0 as f64).min(1.0);
        ns += latency * (reached - hit);
        hit = reached;
    }
    ns + memory_ns * (1.0 - hit)
}

/// A cache that is too small never hits, as with LRU and a cyclic order.
fn sharp(caches: &[(Bytes, f64)], memory_ns: f64, size: Bytes) -> f64 {
    caches.iter().find(|(capacity, _)| size <= *capacity).map_or(memory_ns, |(_, ns)| *ns)
}

type Shape = fn(&[(Bytes, f64)], f64, Bytes) -> f64;

fn curve(shape: Shape, l3: Bytes, largest: Bytes) -> Vec<(Bytes, f64)> {
    let caches = [(Bytes::kib(48), 1.6), (Bytes::mib(1), 4.5), (l3, 22.0)];
    sizes(largest).into_iter().map(|size| (size, shape(&caches, 110.0, size))).collect()
}

fn found(points: &[(Bytes, f64)]) -> Vec<Capacity> {
    capacities(points, &LEVELS).caches
}

fn of(curve: &curves::Curve) -> Capacities {
    capacities(&curve.points, &curve.levels)
}

#[track_caller]
fn near(cache: &Capacity, truth: Bytes) {
    let measured = cache.measured.unwrap_or_else(|| panic!("{cache:?}")).0 as f64;
    let ratio = measured / truth.0 as f64;
    assert!((0.78..=1.28).contains(&ratio), "{cache:?}, in truth {truth}");
    assert!(cache.at_least < cache.below && cache.at_least <= cache.measured, "{cache:?}");
}

#[test]
fn clean_curves_of_both_shapes() {
    for shape in [fading as Shape, sharp] {
        let caches = found(&curve(shape, Bytes::mib(32), Bytes::mib(128)));
        near(&caches[0], Bytes::kib(48));
        near(&caches[1], Bytes::mib(1));
        near(&caches[2], Bytes::mib(32));
    }
}

#[test]
fn a_last_level_that_holds_a_third_of_its_size() {
    for shape in [fading as Shape, sharp] {
        let points = curve(shape, Bytes(9_500 << 10), Bytes::mib(128));
        near(&found(&points)[2], Bytes(9_500 << 10));
    }
}

#[test]
fn a_guest_with_9_of_260_mib() {
    let found = of(&curves::xeon_guest_l3_260mib());
    let [_, l2, l3] = &found.caches[..] else { panic!("{found:?}") };
    near(l2, Bytes(1_740 << 10));
    near(l3, Bytes(9_200 << 10));
    assert!(l2.plateau_ns.is_some_and(|ns| (5.0..7.0).contains(&ns)), "{l2:?}");
    assert!(l3.plateau_ns.is_some_and(|ns| (34.0..36.0).contains(&ns)), "{l3:?}");
    assert!(l3.why.contains("ends between 8.3MiB and 10.3MiB"), "{}", l3.why);
    let memory = found.memory.unwrap();
    assert_eq!(memory.from, Bytes::mib(16));
    assert!((123.0..139.0).contains(&memory.ns), "{memory:?}");
}

#[test]
fn a_guest_with_5_of_105_mib() {
    let found = of(&curves::xeon_guest_l3_105mib());
    near(&found.caches[0], Bytes::kib(48));
    near(&found.caches[1], Bytes::mib(2));
    near(&found.caches[2], Bytes(5_300 << 10));
    assert!(found.memory.is_some_and(|memory| memory.from < Bytes::mib(7)), "{:?}", found.memory);
}

#[test]
fn a_busy_machine() {
    let found = of(&curves::zen4_guest_loaded());
    near(&found.caches[0], Bytes::kib(32));
    let (l2, l3) = (&found.caches[1], &found.caches[2]);
    assert!((512..=1024).contains(&(l2.measured.unwrap().0 >> 10)), "{l2:?}");
    assert!((2900..=4200).contains(&(l3.measured.unwrap().0 >> 10)), "{l3:?}");
    assert!(found.memory.is_some_and(|memory| memory.from < Bytes::mib(6)), "{:?}", found.memory);
}

#[test]
fn what_was_made_for_a_zen_5_and_a_quiet_machine() {
    let zen5 = of(&curves::zen5_holds_9_5_of_32mib());
    near(&zen5.caches[1], Bytes::mib(1));
    near(&zen5.caches[2], Bytes(9_500 << 10));
    let quiet = of(&curves::quiet_zen4());
    for (cache, truth) in quiet.caches.iter().zip([Bytes::kib(32), Bytes::mib(1), Bytes::mib(32)]) {
        near(cache, truth);
    }
    assert!(quiet.memory.is_some_and(|memory| memory.ns < SLOWEST_CACHE_NS), "{:?}", quiet.memory);
}

#[test]
fn spikes_drift_and_a_neighbour_who_comes_and_goes() {
    let found = of(&curves::adversarial());
    near(&found.caches[0], Bytes::kib(48));
    near(&found.caches[1], Bytes::mib(2));
    let l3 = &found.caches[2];
    let measured = l3.measured.unwrap_or_else(|| panic!("{l3:?}"));
    // 3 MiB while the neighbour is there, 12 while it is not.
    assert!((3..=14).contains(&(measured.0 >> 20)), "{l3:?}");
}

#[test]
fn a_last_level_that_others_have_taken_has_no_size() {
    let found = of(&curves::l3_taken());
    near(&found.caches[1], Bytes::mib(2));
    let l3 = &found.caches[2];
    assert!(
        l3.measured.is_none() && l3.at_least.is_none() && l3.why.contains("no plateau"),
        "{l3:?}"
    );
    assert!(found.memory.is_some());
}

#[test]
fn noise_and_outliers() {
    for seed in 1..40u64 {
        let mut state = seed;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut points = curve(fading, Bytes::mib(10), Bytes::mib(128));
        for (_, ns) in &mut points {
            *ns *= 0.96 + 0.08 * random();
            if random() < 0.04 {
                *ns *= 1.5;
            }
        }
        let caches = found(&points);
        let measured = caches[2].measured.unwrap_or_else(|| panic!("seed {seed}: {caches:?}"));
        assert!((7..=13).contains(&(measured.0 >> 20)), "seed {seed}: {caches:?}");
    }
}

#[test]
fn no_clear_end_is_none_with_a_reason() {
    let flat: Vec<_> = sizes(Bytes::mib(128)).into_iter().map(|size| (size, 5.0)).collect();
    for cache in found(&flat) {
        assert!(cache.measured.is_none() && cache.why.contains("no plateau"), "{cache:?}");
    }
    let ramp: Vec<_> =
        sizes(Bytes::mib(128)).into_iter().map(|size| (size, (size.0 as f64).powf(0.4))).collect();
    assert!(found(&ramp).iter().all(|cache| cache.measured.is_none()), "{:?}", found(&ramp));
    let short = curve(fading, Bytes::mib(32), Bytes::mib(16));
    let last = &found(&short)[2];
    assert!(last.measured.is_none() && last.why.contains("largest footprint"), "{last:?}");
    assert_eq!(found(&[])[0].why, "nothing was measured");
}

#[test]
fn older_files_say_what_was_measured_without_an_interval() {
    let json = r#"{"level": 2, "nominal": 1048576, "measured": 1000000, "plateau_ns": 4.5,
        "why": "an edge"}"#;
    let cache: Capacity = serde_json::from_str(json).unwrap();
    assert_eq!((cache.measured, cache.at_least), (Some(Bytes(1_000_000)), None));
}
