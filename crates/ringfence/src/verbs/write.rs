//! `write`: what durable writes cost, over any combination of ways to write.

use ringfence_experiment::task::{Instruction, text};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Measure, OneOrMany, Role};
use toml::{Table, Value};

use crate::args::Write;
use crate::failure::Failure;
use crate::shared::flags::one_or_many;
use crate::shared::{experiment, flags};

pub fn run(args: &Write) -> Result<(), Failure> {
    experiment::run(experiment(args)?, &args.measuring)
}

fn experiment(args: &Write) -> Result<Experiment, Failure> {
    let mut task = Table::new();
    task.insert("workload".into(), Value::String("write".into()));
    let instructions = Instruction::in_memory().map(Instruction::name).collect::<Vec<_>>().join(",");
    let axes = [
        ("instruction", &args.instruction, Some(instructions.as_str())),
        ("fence_at", &args.fence_at, None),
        ("fence", &args.fence, None),
        ("batch", &args.batch, None),
        ("block", &args.block, Some("64B,4KiB,1MiB")),
        ("pattern", &args.pattern, None),
        ("line", &args.line, None),
        ("width", &args.width, None),
        ("size", &args.size, None),
        ("target", &args.target, None),
        ("pages", &args.pages, None),
        ("pace", &args.pace, None),
    ];
    for (key, given, otherwise) in axes {
        if let Some(value) = given.as_deref().or(otherwise) {
            task.insert(key.into(), text::list(value));
        }
    }
    let mut cpus = None;
    flags::set_some(&mut cpus, "cpus", args.cpus.as_deref())?;
    let count = args.threads.as_deref().map_or_else(OneOrMany::default, one_or_many);
    Ok(Experiment {
        measure: Measure { looks: vec![10], blocks: 1, probe: Span::ms(0), ..Measure::default() },
        roles: vec![Role { name: "writer".into(), count, placement: None, cpus, task: OneOrMany::One(task) }],
        arms: vec![Arm::new("write", &["writer"], None)],
        ..Experiment::asking("write", "What does it cost to make a store durable here?", "writer")
    })
}
