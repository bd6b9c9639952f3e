//! The experiments of each stage.

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_experiment::task::{Instruction, Tasks, Writes};
use ringfence_experiment::units::Span;
use ringfence_experiment::{
    Arm, Experiment, Kind, Measure, OneOrMany, Placement, PlacementKind, Role,
};
use ringfence_machine::units::Bytes;

use super::choice::{Choice, instruction};
use super::{BATCHES, BLOCKS, Question};

const WRITER: &str = "writer";

/// The costs of all methods: block sizes, and batches at the smallest.
pub fn costs(question: &Question) -> Experiment {
    let all = || Instruction::flushing().collect::<Vec<_>>();
    let by_block = target(question).instruction(all()).block(BLOCKS);
    let by_batch =
        target(question).instruction(all()).block(BLOCKS[0]).batch(BATCHES[1..].to_vec());
    let mut experiment =
        experiment(question, "costs", "Which method to make a store durable is cheapest here?", 0);
    experiment.kind = Some(Kind::TuneCosts);
    experiment.roles = vec![Role::new(WRITER, [by_block.into(), by_batch.into()])];
    experiment.arms = vec![Arm::new("write", &[WRITER], None)];
    experiment
}

/// The choice against PMDK's rule, at the sizes where they differ; `None` where they do not.
pub fn confirmation(question: &Question, choice: &Choice, pmdk: &Choice) -> Option<Experiment> {
    let differing: Vec<Bytes> =
        BLOCKS.into_iter().filter(|block| choice.method(*block) != pmdk.method(*block)).collect();
    if differing.is_empty() {
        return None;
    }
    let asks = "What does the policy gain over PMDK's fixed rule, where they differ?";
    let mut experiment = experiment(question, "confirm", asks, 1);
    let mut tasks = Vec::new();
    for (index, block) in differing.into_iter().enumerate() {
        let task = target(question).block(block).instruction(instruction(pmdk.method(block)));
        tasks.push(Tasks::from(task));
        let only = OneOrMany::One(index as u32 + 1);
        let mut before = Arm::new(&format!("PMDK {block}"), &[WRITER], None);
        before.only.insert(WRITER.into(), only.clone());
        let mut after = Arm::new(&format!("policy {block}"), &[WRITER], Some(&before.name));
        after.only.insert(WRITER.into(), only);
        let chosen = Writes::default().instruction(instruction(choice.method(block)));
        after.set.insert(WRITER.into(), chosen.into());
        experiment.arms.extend([before, after]);
    }
    experiment.kind = Some(Kind::TuneConfirmation);
    experiment.roles = vec![Role::new(WRITER, tasks)];
    Some(experiment)
}

/// A writer by the choice, as an aggressor.
pub fn writer(question: &Question, choice: &Choice) -> Tasks {
    let method = instruction(choice.method(question.block));
    target(question).block(question.block).instruction(method).into()
}

fn target(question: &Question) -> Writes {
    Writes::default().target(question.target.clone()).size(question.size)
}

fn experiment(question: &Question, name: &str, asks: &str, stage: u64) -> Experiment {
    Experiment {
        seed: question.seed.wrapping_mul(16).wrapping_add(stage),
        measure: Measure {
            looks: vec![question.trials.max(FEWEST_TRIALS)],
            rounds: 1,
            window: Span::ms(10),
            settle: Span::ms(1),
            probe: Span::ms(0),
            ..Measure::default()
        },
        placement: Placement { kind: PlacementKind::Auto },
        roles: Vec::new(),
        arms: Vec::new(),
        ..Experiment::asking(name, asks, WRITER)
    }
}

#[cfg(test)]
mod tests {
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
        let plan =
            Plan::new(&confirmation(&question, &choice, &pmdk).unwrap(), &topology, None).unwrap();
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
}
