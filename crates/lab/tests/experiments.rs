//! The experiment files that are shipped: each reads, plans on machines of several kinds, and is
//! named after its question.

use ringfence_lab::experiment::Experiment;
use ringfence_lab::plan::Plan;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

#[test]
fn every_shipped_experiment_plans_everywhere() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let experiment =
            Experiment::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(path.file_stem().unwrap().to_str(), Some(experiment.name.as_str()));
        assert!(experiment.question.is_some() && text.starts_with('#'), "{}", path.display());
        for tree in
            [fixtures::vm_2cpu(), fixtures::one_cpu(), fixtures::xeon_2s64t(), fixtures::hybrid_laptop()]
        {
            let topology = Topology::read(&tree.root()).unwrap();
            let plan = Plan::new(&experiment, &topology).unwrap();
            assert_eq!(plan.measured().len() + refused(&plan), measurable(&plan), "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}

fn measurable(plan: &Plan) -> usize {
    (0..plan.cases.len()).filter(|case| !is_mere_baseline(plan, *case)).count()
}

fn refused(plan: &Plan) -> usize {
    (0..plan.cases.len())
        .filter(|case| !is_mere_baseline(plan, *case) && plan.refusal(*case).is_some())
        .count()
}

fn is_mere_baseline(plan: &Plan, case: usize) -> bool {
    plan.cases[case].baseline.is_none() && plan.cases.iter().any(|other| other.baseline == Some(case))
}
