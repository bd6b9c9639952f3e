//! What a run would cost by other instructions.

use ringfence_persist::policy::Prices;
use ringfence_trace::census::dynamic::saving::{Cost, MethodCosts, Saving, predict};
use ringfence_trace::events::Action;

use crate::builder::*;

fn cost(ns: f64) -> Cost {
    Cost { ns, low: ns - 1.0, high: ns + 2.0 }
}

fn methods() -> Vec<MethodCosts> {
    let method = |name: &str, line, fence, many| MethodCosts {
        name: name.into(),
        line: cost(line),
        fence: cost(fence),
        fence_of_many: cost(many),
    };
    vec![method("clwb", 100.0, 63.0, 126.0), method("nt", 50.0, 1000.0, 1000.0)]
}

fn predicted(actions: Vec<Action>, prices: &Prices) -> Result<Saving, String> {
    let run = census(&events(actions.into_iter().map(|action| (1, action))));
    predict(&run, "dram".into(), &methods(), prices)
}

fn times(saving: &Saving) -> Vec<(Option<&str>, f64, f64, f64)> {
    let time = |one: &ringfence_trace::census::dynamic::saving::Predicted| {
        (one.cost.ns, one.cost.low, one.cost.high)
    };
    let all = saving.predicted.iter().map(|one| (one.method.as_deref(), time(one)));
    all.map(|(method, (ns, low, high))| (method, ns.round(), low.round(), high.round())).collect()
}

fn lines(count: u64) -> impl Iterator<Item = Action> {
    (0..count).flat_map(|line| [store(line * 64, 8), clwb(line * 64)])
}

#[test]
fn lines_and_fences_add_up_with_their_bounds() {
    let saving = predicted(lines(2).chain([SFENCE]).collect(), &Prices::default()).unwrap();
    assert_eq!((saving.lines, saving.fences), (2, 1));
    // Two lines, and a fence of 2: 63 and a 63rd of the way to 126.
    assert_eq!(
        times(&saving),
        [
            (None, 264.0, 261.0, 270.0),
            (Some("clwb"), 264.0, 261.0, 270.0),
            (Some("nt"), 1100.0, 1097.0, 1106.0)
        ]
    );
    let fence = |count| {
        let saving = predicted(lines(count).chain([SFENCE]).collect(), &Prices::default()).unwrap();
        saving.predicted[0].cost.ns - 100.0 * count as f64
    };
    assert_eq!([fence(1), fence(64), fence(200)].map(f64::round), [63.0, 126.0, 126.0]);
    // Each fence by what it waited for; nothing for those that waited for nothing.
    let apart = lines(2).flat_map(|action| match action {
        Action::Flush { .. } => vec![action, SFENCE, SFENCE],
        other => vec![other],
    });
    let saving = predicted(apart.collect(), &Prices::default()).unwrap();
    assert_eq!((saving.fences, saving.needless_fences), (2, 2));
    assert_eq!(saving.predicted[0].cost.ns.round(), 326.0);
}

#[test]
fn what_was_needless_is_priced_apart() {
    let actions =
        || -> Vec<Action> { lines(1).chain([clwb(0), clwb(640), SFENCE, SFENCE]).collect() };
    let saving = predicted(actions(), &Prices::default()).unwrap();
    assert_eq!((saving.lines, saving.needless_flushes, saving.needless_fences), (1, 2, 1));
    assert_eq!(saving.needless_ns, None);
    let prices = Prices { flush_ns: None, clean_flush_ns: Some(10.0), fence_ns: Some(3.0) };
    assert_eq!(predicted(actions(), &prices).unwrap().needless_ns, Some(23.0));
    // Only what there is must be known.
    let prices = Prices { clean_flush_ns: None, ..prices };
    assert_eq!(predicted(actions(), &prices).unwrap().needless_ns, None);
    assert_eq!(predicted(vec![SFENCE], &prices).unwrap().needless_ns, Some(3.0));
    assert_eq!(predicted(lines(1).collect(), &Prices::default()).unwrap().needless_ns, Some(0.0));
}

#[test]
fn non_temporal_stores_are_counted_by_lines() {
    let actions = vec![nt(0, 8), nt(8, 8), nt(60, 8), SFENCE, nt(0, 64), SFENCE];
    let saving = predicted(actions, &Prices::default()).unwrap();
    assert_eq!((saving.lines, saving.fences), (3, 2));
    assert_eq!(times(&saving)[0], (None, 2150.0, 2145.0, 2160.0));
    let mixed = lines(2).chain([nt(1 << 12, 64), SFENCE]);
    let saving = predicted(mixed.collect(), &Prices::default()).unwrap();
    // Two by clwb and one past the caches; a fence of 3 as by clwb, of which there are more.
    assert_eq!(times(&saving)[0].1, 315.0);
}

#[test]
fn what_was_not_measured_is_refused() {
    let flush = Action::Flush { flush: ringfence_persist::Flush::Clflush, at: at(0) };
    let why = predicted(vec![store(0, 8), flush, SFENCE], &Prices::default()).unwrap_err();
    assert_eq!(why, "what clflush costs was not measured");
    assert_eq!(predicted(vec![store(0, 8)], &Prices::default()).unwrap().predicted, []);
}
