//! The survey's experiments.

use ringfence_experiment::task::{
    Alus, Chases, FenceAt, Idles, Instruction, LineState, Mcfs, Tasks, Writes,
};
use ringfence_experiment::units::{Rate, Span};
use ringfence_experiment::{Arm, Experiment, Kind, Measure, Role};
use ringfence_machine::units::Bytes;

/// How long the survey takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About two minutes.
    Full,
    /// About half a minute.
    Quick,
}

/// What a durable write costs: instruction, fence placement and block; and, on cold lines of a 4
/// KiB block, the parts that the cost is made of.
pub fn cost(depth: Depth, size: Bytes, seed: u64) -> Experiment {
    const WRITER: &str = "writer";
    let (window, time) = match depth {
        Depth::Full => (Span::ms(20), Span::ms(30_000)),
        Depth::Quick => (Span::ms(5), Span::ms(10_000)),
    };
    let places = [FenceAt::None, FenceAt::Block, FenceAt::Line];
    let page = Bytes::kib(4);
    let all = Writes::default()
        .instruction(Instruction::in_memory().collect::<Vec<_>>())
        .fence_at(places)
        .block([Bytes(64), page, Bytes::mib(1)])
        .size(size);
    let stores = Writes::default()
        .instruction(Instruction::None)
        .line([LineState::Warm, LineState::Cold])
        .fence_at(FenceAt::None)
        .block(page)
        .size(size);
    let cold = Writes::default()
        .instruction(Instruction::flushing().collect::<Vec<_>>())
        .line(LineState::Cold)
        .fence_at(places)
        .block(page)
        .size(size);
    Experiment {
        seed,
        measure: Measure {
            looks: vec![10],
            rounds: 1,
            window,
            settle: Span::ms(1),
            probe: Span::ms(0),
            time: Some(time),
            ..Measure::default()
        },
        roles: vec![Role::new(WRITER, [all, stores, cold].map(Tasks::from))],
        arms: vec![Arm::new("write", &[WRITER], None)],
        kind: Some(Kind::SurveyCost),
        ..Experiment::asking("cost", "What does it cost to make a store durable here?", WRITER)
    }
}

/// A victim of the survey.
#[derive(Debug, Clone, PartialEq)]
pub struct Victim {
    /// Short, for headings and folders.
    pub name: String,
    /// Its task.
    pub task: Tasks,
}

/// The victims by name, in the order in which they are measured.
pub const VICTIMS: [&str; 3] = ["chase", "mcf", "alu"];

/// The victims: a chase and a network simplex larger than L2 and smaller than the last-level cache,
/// and arithmetic that needs no cache.
pub fn victims(footprint: Bytes) -> Vec<Victim> {
    let mcf = footprint.clamp(Bytes::mib(2), Bytes::mib(64));
    let tasks = [
        Chases::default().footprint(footprint).into(),
        Mcfs::default().footprint(mcf).into(),
        Alus::default().into(),
    ];
    let victims = VICTIMS.into_iter().zip(tasks);
    victims.map(|(name, task)| Victim { name: name.into(), task }).collect()
}

/// The block that writers by every instruction write beside victims.
pub const BESIDE: Bytes = Bytes::kib(4);

/// Writers next to a victim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writers {
    /// By each instruction in blocks of [`BESIDE`], and in other blocks by those named; with
    /// controls.
    AtFullRate(Vec<(Bytes, Vec<Instruction>)>),
    /// By each instruction in blocks of [`BESIDE`], all held to one rate.
    Paced(Rate),
}

/// A victim next to writers.
pub fn neighbours(
    depth: Depth,
    victim: &Victim,
    writers: &Writers,
    size: Bytes,
    seed: u64,
) -> Experiment {
    const VICTIM: &str = "victim";
    const AGGRESSOR: &str = "aggressor";
    let measure = match depth {
        Depth::Full => Measure {
            looks: vec![16],
            window: Span::ms(20),
            time: Some(Span::ms(24_000)),
            ..Measure::default()
        },
        Depth::Quick => Measure {
            looks: vec![10],
            rounds: 1,
            window: Span::ms(10),
            probe: Span::ms(1),
            time: Some(Span::ms(6_000)),
            ..Measure::default()
        },
    };
    let writer = |instructions: Vec<Instruction>, block: Bytes| {
        Writes::default().instruction(instructions).block(block).size(size)
    };
    let all = writer(Instruction::in_memory().collect(), BESIDE);
    let paced = matches!(writers, Writers::Paced(_));
    let tasks: Vec<Tasks> = match writers {
        Writers::Paced(pace) => vec![all.pace(Some(*pace)).into()],
        Writers::AtFullRate(others) => std::iter::once(all)
            .chain(others.iter().map(|(block, instructions)| writer(instructions.clone(), *block)))
            .map(Tasks::from)
            .chain([Alus::default().into(), Idles::default().into()])
            .collect(),
    };
    let name = &victim.name;
    let suffix = if paced { "-paced" } else { "" };
    let question = format!("How much does a writer slow {name} down on another core?");
    Experiment {
        seed,
        measure,
        roles: vec![Role::new(VICTIM, victim.task.clone()), Role::new(AGGRESSOR, tasks)],
        arms: vec![
            Arm::new("alone", &[VICTIM], None),
            Arm::new("beside", &[VICTIM, AGGRESSOR], Some("alone")),
        ],
        kind: Some(Kind::SurveyBeside { victim: name.clone(), paced }),
        ..Experiment::asking(&format!("neighbours-{name}{suffix}"), &question, VICTIM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::plan::Plan;
    use ringfence_experiment::task::Flush;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    #[test]
    fn they_plan_on_every_machine() {
        for tree in [
            fixtures::vm_2cpu(),
            fixtures::one_cpu(),
            fixtures::xeon_2s64t(),
            fixtures::zen_multi_llc(),
            fixtures::hybrid_laptop(),
            fixtures::cxl_node(),
        ] {
            let topology = Topology::read(&tree.root()).unwrap();
            for depth in [Depth::Full, Depth::Quick] {
                let costs = Plan::new(&cost(depth, Bytes::mib(256), 1), &topology, None).unwrap();
                assert_eq!(costs.cases.len(), 5 * 3 * 3 + 2 + 4 * 3);
                for victim in [Bytes::mib(4), Bytes(9 << 18)].into_iter().flat_map(victims) {
                    let others = vec![
                        (Bytes(64), vec![Instruction::Nt]),
                        (Bytes::mib(1), vec![Instruction::Flush(Flush::Clwb), Instruction::Nt]),
                    ];
                    let full = Writers::AtFullRate(others);
                    let full = neighbours(depth, &victim, &full, Bytes::mib(256), 1);
                    assert_eq!(Plan::new(&full, &topology, None).unwrap().cases.len(), 1 + 7 + 3);
                    let paced = Writers::Paced("180MiB/s".parse().unwrap());
                    let paced = neighbours(depth, &victim, &paced, Bytes::mib(256), 1);
                    assert_eq!(Plan::new(&paced, &topology, None).unwrap().cases.len(), 1 + 5);
                }
            }
        }
    }
}
