use super::*;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Target, Task};
use ringfence_experiment::units::Share;
use ringfence_machine::{fixtures, topology::Topology};
use ringfence_persist::Flush;

#[test]
fn the_confirmation_compares_like_with_like_where_the_rules_differ() {
    let question = Question {
        target: Target::Dram,
        size: Bytes::mib(16),
        victim: None,
        budget: Share(0.02),
        block: Bytes::kib(4),
        placement: PlacementKind::Auto,
        trials: 3,
        seed: 1,
    };
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let pmdk = Choice::pmdk(|_| true);
    let choice = Choice { instruction: Flush::Clwb, nt_threshold: Some(1024), batch: 1 };
    let plan = Plan::new(&confirmation(&question, &choice, &pmdk).unwrap(), &topology, None).unwrap();
    let compared: Vec<String> = plan
        .cases
        .iter()
        .filter_map(|case| {
            let write = |case: &ringfence_experiment::plan::Case| match &plan.variants[0]
                [case.active[0].variant]
                .task
            {
                Task::Write(write) => format!("{} {}", write.block, write.instruction),
                _ => unreachable!(),
            };
            Some(format!("{} for {}", write(case), write(&plan.cases[case.baseline?])))
        })
        .collect();
    assert_eq!(compared, ["256B clwb for 256B nt", "512B clwb for 512B nt"]);
    assert_eq!(confirmation(&question, &pmdk, &pmdk), None);
    let costs = Plan::new(&costs(&question), &topology, None).unwrap();
    assert_eq!(costs.cases.len(), 4 * BLOCKS.len() + 4 * (BATCHES.len() - 1));
}
