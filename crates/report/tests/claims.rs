//! The shipped ledger, and verdicts of made evidence with known effects.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;
use ringfence_report::Style;
use ringfence_report::claims::{markdown, text};
use ringfence_studies::claims::{Basis, Evidence, Judged, Ledger, Machine, Verdict, judge};
use ringfence_studies::reproduce::{self as reproduce, find_case};

fn plan(experiment: &str) -> Plan {
    let all = reproduce::experiments();
    let experiment = all.iter().find(|known| known.name == experiment).unwrap();
    let tree = fixtures::xeon_2s64t();
    Plan::new(experiment, &Topology::read(&tree.root()).unwrap(), None).unwrap()
}

/// Samples in which a case takes as many ns a unit as `ns` says.
fn samples(plan: &Plan, simulated: bool, ns: impl Fn(usize) -> f64) -> Vec<Sample> {
    let role: Arc<str> = plan.experiment.metric.as_str().into();
    let window = |trial: u32, step: usize, position: u32, case: usize| {
        // A little from trial to trial, so that intervals have a width.
        let length = 1e7 * (1.0 + 0.001 * f64::from(trial));
        Sample {
            trial,
            step: step as u32,
            position,
            step_case: step as u32,
            case: case as u32,
            role: role.clone(),
            length_ns: 10_000_000,
            busy_ns: 10_000_000,
            units: (length / ns(case)) as u64,
            late_ns: Some(0),
            simulated: Some(simulated),
            ..Sample::default()
        }
    };
    let mut all = Vec::new();
    for trial in 0..8 {
        for step in plan.measured() {
            let sides = [plan.cases[step].baseline, Some(step)].into_iter().flatten();
            all.extend(
                sides
                    .enumerate()
                    .map(|(position, case)| window(trial, step, position as u32, case)),
            );
        }
    }
    all
}

fn evidence(
    experiment: &str,
    machine: &str,
    simulated: bool,
    ns: impl Fn(&Plan, usize) -> f64,
) -> Evidence {
    let plan = plan(experiment);
    Evidence {
        machine: Machine { name: machine.into(), title: machine.into(), simulated },
        created: "2026-05-09T07:29:33Z".into(),
        samples: samples(&plan, simulated, |case| ns(&plan, case)),
        plan,
    }
}

const ORDERING: &str = "what-does-ordering-cost-a-flush";

// As note 000 has it, or with fences that cost nothing.
fn ordered(fences_cost: bool) -> impl Fn(&Plan, usize) -> f64 {
    move |plan, case| {
        let has = |part: &str| plan.cases[case].params.iter().any(|(_, value)| value == part);
        match (has("clflush"), has("around") && fences_cost) {
            (true, _) => 40.0,
            (_, true) => 44.0,
            _ => 15.0,
        }
    }
}

fn verdict(evidence: Vec<Evidence>, id: &str) -> (Verdict, Basis) {
    let table = judge(&Ledger::shipped(), &reproduce::published(), evidence);
    let judged = table.claims.into_iter().find(|judged| judged.claim.id == id).unwrap();
    (judged.verdict, judged.basis)
}

#[test]
fn every_test_of_the_ledger_names_one_case_each() {
    let ledger = Ledger::shipped();
    assert!(ledger.claims.len() > 70, "{}", ledger.claims.len());
    for document in &ledger.documents {
        assert!(
            ledger.claims.iter().any(|claim| claim.is_of(document)),
            "{} claims nothing",
            document.id
        );
    }
    let mut plans = BTreeMap::new();
    let mut compared = 0;
    for claim in &ledger.claims {
        for test in &claim.tests {
            let plan =
                plans.entry(test.experiment.clone()).or_insert_with(|| plan(&test.experiment));
            for test in [Some(test.clone()), test.on_dram()].into_iter().flatten() {
                let than = test.than.iter().flatten();
                for case in [&test.case, &test.against].into_iter().chain(than) {
                    if let Err(error) = find_case(plan, case) {
                        panic!("{}: {error}", claim.id);
                    }
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn verdicts_follow_from_figures() {
    let id = "000-fenced-equals-clflush";
    let of = |fences: bool, simulated: bool, name: &str| {
        evidence(ORDERING, name, simulated, ordered(fences))
    };
    assert_eq!(verdict(vec![of(true, false, "a")], id), (Verdict::Holds, Basis::Measured));
    assert_eq!(verdict(vec![of(false, false, "a")], id), (Verdict::DoesNot, Basis::Measured));
    assert_eq!(verdict(vec![of(true, true, "a")], id), (Verdict::Holds, Basis::Simulated));
    // What was measured outweighs what was simulated, and machines that contradict each other
    // decide nothing.
    let both = vec![of(true, true, "a"), of(false, false, "a")];
    assert_eq!(verdict(both, id), (Verdict::DoesNot, Basis::Measured));
    let contradiction = vec![of(true, false, "a"), of(false, false, "b")];
    assert_eq!(verdict(contradiction, id), (Verdict::Undecided, Basis::Measured));
}

#[test]
fn of_one_machine_the_newest_dataset_counts() {
    let old = evidence(ORDERING, "a", false, ordered(true));
    let new = Evidence {
        created: "2026-06-01T00:00:00Z".into(),
        ..evidence(ORDERING, "a", false, ordered(false))
    };
    for all in [vec![old.clone(), new.clone()], vec![new, old]] {
        assert_eq!(verdict(all.clone(), "000-fenced-equals-clflush").0, Verdict::DoesNot);
        let table = judge(&Ledger::shipped(), &[], all);
        assert_eq!((table.datasets, table.older, table.machines.len()), (1, 1, 1));
    }
}

#[test]
fn without_figures_there_is_a_reason() {
    let (verdict_of, basis) = verdict(Vec::new(), "000-fenced-equals-clflush");
    assert!(
        matches!(&verdict_of, Verdict::NotRun(why) if why.contains("results/ has no")),
        "{verdict_of:?}"
    );
    assert_eq!(basis, Basis::Nothing);
    // Where a machine has figures of another test of it, it is told what is missing there.
    let in_part = vec![evidence(ORDERING, "cascade-lake-optane", true, ordered(true))];
    let why = "one of its tests has no figures: results/ has no dataset of \
               what-does-a-flush-inside-a-cached-region-do";
    assert_eq!(
        verdict(in_part, "000-not-invalidation"),
        (Verdict::NotRun(why.into()), Basis::Nothing)
    );
    let table = judge(&Ledger::shipped(), &reproduce::published(), Vec::new());
    let has_reason = |judged: &Judged| {
        let is_explored = judged.basis == Basis::Explored;
        is_explored || matches!(&judged.verdict, Verdict::NotRun(why) if !why.is_empty())
    };
    assert!(table.claims.iter().all(has_reason));
    // What was published says of itself what it claims.
    let of = |id: &str| table.claims.iter().find(|judged| judged.claim.id == id).unwrap();
    assert_eq!(of("002-clflush-three-and-a-half-times").published, Some(Verdict::Holds));
    assert_eq!(of("002-dram-is-worse").published, None);
    assert_eq!(of("002-more-victims-suffer-more").tests[0].published.len(), 3);
}

// A machine without persistent memory says nothing of it; what it says of DRAM stands beside.
#[test]
fn what_was_measured_on_dram_decides_nothing() {
    let mut only_dram = evidence(ORDERING, "a", false, ordered(true));
    let on_pm = |plan: &Plan, case: usize| {
        plan.cases[case].params.iter().any(|(_, value)| value.starts_with("dax:"))
    };
    let plan = &only_dram.plan;
    let gone: Vec<usize> = (0..plan.cases.len()).filter(|case| on_pm(plan, *case)).collect();
    let not_run = gone.iter().map(|case| ringfence_experiment::plan::NotRun {
        case: *case,
        reason: "there is no /mnt/pmem0".into(),
    });
    let not_run = not_run.collect();
    let Plan { experiment, cases, placed, .. } = plan.clone();
    only_dram.plan = Plan::stored(experiment, cases, not_run, placed).unwrap();
    only_dram.samples.retain(|sample| !gone.contains(&(sample.step_case as usize)));
    let table = judge(&Ledger::shipped(), &[], vec![only_dram]);
    let judged =
        table.claims.iter().find(|judged| judged.claim.id == "000-fenced-equals-clflush").unwrap();
    assert_eq!(judged.verdict, Verdict::NotRun("there is no /mnt/pmem0".into()));
    let (figure, verdict) = judged.tests[0].by_machine[0].instead.clone().unwrap();
    assert!(
        (figure.value - 1.1).abs() < 0.02 && verdict == Verdict::Holds,
        "{figure:?} {verdict:?}"
    );
}

#[test]
fn claims_about_some_machines_are_not_held_against_others() {
    let id = "004-clwb-equals-clflushopt-on-cascade-lake";
    let flush = |_: &Plan, _: usize| 10.0;
    let experiments =
        ["what-does-a-flush-cost-by-block-size", "what-does-a-flush-inside-a-cached-region-do"];
    let on =
        |name: &str| experiments.map(|experiment| evidence(experiment, name, true, flush)).to_vec();
    assert_eq!(verdict(on("cascade-lake-optane"), id).0, Verdict::Holds);
    assert_eq!(
        verdict(on("zen3-epyc"), id).0,
        Verdict::NotRun("it is about other machines".into())
    );
}

#[test]
fn the_page_tells_simulated_from_measured() {
    let all = vec![
        evidence(ORDERING, "described", true, ordered(true)),
        evidence(ORDERING, "real", false, ordered(true)),
    ];
    let page = markdown(&judge(&Ledger::shipped(), &reproduce::published(), all));
    assert!(page.contains("| `described` | described | simulated |"), "{page}");
    assert!(page.contains("- **Holds**, measured; by the published figures it holds: "), "{page}");
}

// Programs that rely on it lose data, so it comes first.
#[test]
fn what_the_crash_checker_refutes_is_a_headline() {
    let table = judge(&Ledger::shipped(), &reproduce::published(), Vec::new());
    let refuted = "The crash checker refutes: The flag in the same line may be stored by a \
                   non-temporal store.";
    let text = text(&table, None, &Style::plain(10_000));
    assert!(text.lines().next().unwrap().contains(refuted), "{text}");
    assert!(markdown(&table).contains(&format!("**{refuted}**")));
    let judged = |id: &str| table.claims.iter().find(|judged| judged.claim.id == id).unwrap();
    let refuted = judged("004-same-line-flag-by-nt");
    assert_eq!((&refuted.verdict, refuted.basis), (&Verdict::DoesNot, Basis::Explored));
    assert_eq!(judged("004-checksum-survives").verdict, Verdict::Holds);
}

#[test]
fn tests_of_the_crash_checker_that_the_ledger_names_are_there() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ledger = Ledger::shipped();
    let explored: Vec<_> = ledger.claims.iter().filter_map(|one| one.explored.as_ref()).collect();
    assert!(!explored.is_empty());
    for one in explored {
        let (file, name) = one.test.split_once("::").unwrap();
        let text = fs::read_to_string(workspace.join(file)).unwrap();
        assert!(text.contains(&format!("#[test]\nfn {name}() {{")), "{}", one.test);
    }
}

#[test]
fn a_ledger_that_is_not_whole_is_refused() {
    let head = "[[document]]\nid = '9'\ntitle = 't'\n";
    let claim = "[[claim]]\nid = '9-a'\nplace = 'p'\nkind = 'claim'\nsays = 's'\n";
    let test = |experiment: &str| {
        format!(
            "test = [{{ experiment = '{experiment}', case = 'a', against = 'b', expect = 'longer' \
             }}]\n"
        )
    };
    let untested = "untested = 'because'\n";
    for (text, part) in [
        (format!("{head}{claim}"), "give it tests, or 'explored'"),
        (format!("{head}{claim}{}{untested}", test(ORDERING)), "give it tests, or 'explored'"),
        (format!("{head}{claim}{}", test("none-such")), "there is no experiment 'none-such'"),
        (format!("{head}{claim}{untested}{claim}{untested}"), "two claims have this id"),
        (
            format!("{head}{}{untested}", claim.replace("9-a", "8-a")),
            "its id does not start with the id of a document",
        ),
        (format!("{head}{claim}{untested}verdict = 'holds'\n"), "unknown field `verdict`"),
        (
            format!("{head}{claim}{}", test(ORDERING).replace("longer", "good")),
            "use longer, shorter",
        ),
    ] {
        let error = Ledger::parse(&text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(Ledger::parse(&format!("{head}{claim}{untested}")).is_ok());
}
