//! The survey's experiments.

use ringfence_experiment::task::{FenceAt, Instruction, table, words};
use ringfence_experiment::units::{Rate, Span};
use ringfence_experiment::{Arm, Experiment, Kind, Measure, OneOrMany, Role};
use ringfence_machine::units::Bytes;
use toml::{Table, Value};

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
    let names = |instructions: &mut dyn Iterator<Item = Instruction>| {
        words(instructions.map(Instruction::name))
    };
    let places = || words([FenceAt::None, FenceAt::Block, FenceAt::Line].map(FenceAt::name));
    let size = || Value::from(size.to_string());
    let tasks = vec![
        table([
            ("workload", "write".into()),
            ("instruction", names(&mut Instruction::in_memory())),
            ("fence_at", places()),
            ("block", words(["64B", "4KiB", "1MiB"])),
            ("size", size()),
        ]),
        table([
            ("workload", "write".into()),
            ("instruction", Instruction::None.name().into()),
            ("line", words(["warm", "cold"])),
            ("fence_at", FenceAt::None.name().into()),
            ("block", "4KiB".into()),
            ("size", size()),
        ]),
        table([
            ("workload", "write".into()),
            ("instruction", names(&mut Instruction::flushing())),
            ("line", "cold".into()),
            ("fence_at", places()),
            ("block", "4KiB".into()),
            ("size", size()),
        ]),
    ];
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
        roles: vec![Role { task: OneOrMany::Many(tasks), ..Role::new(WRITER, Table::new()) }],
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
    pub task: Table,
}

/// The victims by name, in the order in which they are measured.
pub const VICTIMS: [&str; 3] = ["chase", "mcf", "alu"];

/// The victims: a chase and a network simplex larger than L2 and smaller than the last-level cache,
/// and arithmetic that needs no cache.
pub fn victims(footprint: Bytes) -> Vec<Victim> {
    let mcf = footprint.clamp(Bytes::mib(2), Bytes::mib(64));
    // What is printed for people is rounded, and not read back.
    let exact = |size: Bytes| match size.to_string() {
        text if text.parse() == Ok(size) => text,
        _ => format!("{}B", size.0),
    };
    let tasks = [
        table([("workload", "chase".into()), ("footprint", exact(footprint).into())]),
        table([("workload", "mcf".into()), ("footprint", exact(mcf).into())]),
        table([("workload", "alu".into())]),
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
    AtFullRate(Vec<(Bytes, Vec<&'static str>)>),
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
    let writer = |instructions: Value, block: Bytes| {
        table([
            ("workload", "write".into()),
            ("instruction", instructions),
            ("block", block.to_string().into()),
            ("size", size.to_string().into()),
        ])
    };
    let mut tasks = vec![writer(words(Instruction::in_memory().map(Instruction::name)), BESIDE)];
    let paced = matches!(writers, Writers::Paced(_));
    match writers {
        Writers::Paced(pace) => {
            tasks[0].insert("pace".into(), pace.to_string().into());
        }
        Writers::AtFullRate(others) => {
            let others = others.iter();
            tasks.extend(others.map(|(block, names)| writer(words(names.iter().copied()), *block)));
            tasks.extend(["alu", "idle"].map(|control| table([("workload", control.into())])));
        }
    }
    let name = &victim.name;
    let suffix = if paced { "-paced" } else { "" };
    let question = format!("How much does a writer slow {name} down on another core?");
    Experiment {
        seed,
        measure,
        roles: vec![
            Role::new(VICTIM, victim.task.clone()),
            Role { task: OneOrMany::Many(tasks), ..Role::new(AGGRESSOR, Table::new()) },
        ],
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
                    let others = vec![(Bytes(64), vec!["nt"]), (Bytes::mib(1), vec!["clwb", "nt"])];
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
