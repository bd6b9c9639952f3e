//! The experiment files that are shipped: each reads, is named after its question, and plans on
//! machines of several kinds: on the notes' machine everything runs, and where the notes had it; on
//! a small one every case that does not run says why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfence_experiment::Experiment;
use ringfence_experiment::placement::Place;
use ringfence_experiment::plan::Plan;
use ringfence_machine::Machine;
use ringfence_machine::fixtures::{self, FixtureTree};

fn shipped() -> Vec<(PathBuf, String, Experiment)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let experiment = Experiment::parse(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, text, experiment)
        })
        .collect()
}

/// Planned as if the machine's processor had every instruction: this test's may not.
fn plan(experiment: &Experiment, tree: &FixtureTree, programs: bool) -> Plan {
    let machine = Machine::examine(&tree.root()).unwrap();
    let mut plan = ringfence_engine::available::plan_for(experiment, &machine, &|program| {
        programs || program == "sh"
    })
    .unwrap();
    plan.not_run.retain(|not_run| !not_run.reason.contains("this processor"));
    plan
}

#[test]
fn every_file_is_named_after_its_question_and_says_where_it_comes_from() {
    let all = shipped();
    assert!(all.len() >= 16, "{}", all.len());
    for (path, text, experiment) in all {
        assert_eq!(path.file_stem().unwrap().to_str(), Some(experiment.name.as_str()));
        let question = experiment.question.as_deref().expect("a question");
        assert!(question.ends_with('?'), "{question}");
        assert_eq!(text.lines().next().unwrap(), format!("# {question}"), "{}", path.display());
        let words = experiment.name.split('-').take(2).collect::<Vec<_>>().join(" ");
        let asked = question.to_lowercase().replace(',', "");
        assert!(asked.starts_with(&words), "{}: {question}", experiment.name);
    }
}

#[test]
fn every_file_plans_everywhere() {
    for (path, _, experiment) in shipped() {
        for tree in [
            fixtures::one_cpu(),
            fixtures::hybrid_laptop(),
            fixtures::zen_multi_llc(),
            fixtures::cxl_node(),
        ] {
            let plan = plan(&experiment, &tree, true);
            let refused = (0..plan.cases.len())
                .filter(|case| !is_mere_baseline(&plan, *case) && plan.refusal(*case).is_some());
            let all = (0..plan.cases.len()).filter(|case| !is_mere_baseline(&plan, *case)).count();
            assert_eq!(plan.measured().len() + refused.count(), all, "{}", path.display());
        }
    }
}

// The second socket's persistent memory is a device there, not a file system; no kernel of ours has
// a region locked; and what is mounted for an experiment is asked of the machine that the tests run
// on.
const NOT_ON_THE_NOTES_MACHINE: [&str; 4] = [
    "creating a file in /mnt/other: No such file or directory",
    "no file system is mounted with DAX at /mnt/pmem1",
    "the kernel does not lock regions",
    "there is no pseudo-locked region",
];

#[test]
fn on_the_notes_machine_everything_runs_where_the_notes_had_it() {
    for (path, _, experiment) in shipped() {
        let plan = plan(&experiment, &fixtures::xeon_2s64t(), true);
        for not_run in &plan.not_run {
            assert!(
                NOT_ON_THE_NOTES_MACHINE.iter().any(|reason| not_run.reason.starts_with(reason)),
                "{}: {}",
                path.display(),
                not_run.reason
            );
        }
        if plan.measured().is_empty() {
            assert_eq!(experiment.name, "how-many-misses-does-a-locked-region-have");
            continue;
        }
        let metric: Vec<u32> = plan.placed.cpus[plan.metric].clone();
        assert_eq!(metric, [2, 4, 6, 8, 10, 12, 14, 16][..metric.len()], "{}", path.display());
        for (role, place) in
            plan.placed.places.iter().enumerate().filter(|(role, _)| *role != plan.metric)
        {
            let cpus = &plan.placed.cpus[role];
            let first = metric.last().unwrap() + 2;
            match place {
                Place::Smt => assert_eq!(*cpus, [34], "{}", path.display()),
                Place::Llc => {
                    let next: Vec<u32> =
                        (0..cpus.len() as u32).map(|i| (first + 2 * i) % 32).collect();
                    assert_eq!(*cpus, next, "{}", path.display());
                }
                other => panic!("{}: {other:?}", path.display()),
            }
        }
        // The notes' placements need no word, but the one that took a sibling of core 0 unawares.
        let crowded = experiment.name == "do-more-victims-suffer-more";
        let notes =
            plan.placed.notes.iter().filter(|note| !note.starts_with("co-runners are")).count();
        assert_eq!(notes, usize::from(crowded), "{}: {:?}", path.display(), plan.placed.notes);
    }
}

#[test]
fn on_two_cpus_what_does_not_run_says_why() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut silent = Vec::new();
    for (_, _, experiment) in shipped() {
        let plan = plan(&experiment, &fixtures::vm_2cpu(), false);
        for not_run in &plan.not_run {
            *reasons.entry(not_run.reason.to_string()).or_default() += 1;
        }
        if plan.measured().is_empty() {
            silent.push(experiment.name);
        }
    }
    let has = |part: &str| reasons.keys().any(|reason| reason.contains(part));
    for part in [
        "no file system is mounted with DAX at /mnt/pmem0",
        "twin needs an SMT sibling of mcf's cores, and there is none",
        "writer needs 4 other cores under the last-level cache of mcf, with idle siblings, and \
         there is 1",
        "mcf needs 8 cores of its own, and there are 2",
        "this machine has no NUMA node 1",
        "the program 'fio' was not found",
        "the program 'stress-ng' was not found",
    ] {
        assert!(has(part), "{part}: {reasons:#?}");
    }
    // Only what is about siblings, about crowds, about locked regions, or of other people's
    // programs, runs nothing there.
    assert_eq!(
        silent,
        [
            "do-more-victims-suffer-more",
            "does-a-crowd-of-writers-relieve-the-sibling",
            "does-a-writer-gain-beside-mcf",
            "does-mcf-suffer-more-beside-a-writer-than-beside-mcf",
            "how-many-misses-does-a-locked-region-have",
            "how-much-do-cache-stressors-slow-a-pointer-chase",
            "how-much-does-fio-slow-a-pointer-chase",
        ]
    );
}

fn is_mere_baseline(plan: &Plan, case: usize) -> bool {
    plan.cases[case].baseline.is_none()
        && plan.cases.iter().any(|other| other.baseline == Some(case))
}
