//! `write`: what durable writes cost, over any combination of ways to write.

use ringfence_experiment::nearest::nearest;
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, Target, WidthChoice, text};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Measure, OneOrMany, Role};
use toml::{Table, Value};

use crate::args::Write;
use crate::failure::Failure;
use crate::shared::flags::one_or_many;
use crate::shared::{experiment, flags};

pub fn run(args: &Write) -> Result<(), Failure> {
    experiment::run(experiment(args)?, &args.on, &args.measuring)
}

// What the experiment would refuse too, but as a value of its file and not of a flag.
fn check(args: &Write) -> Result<(), Failure> {
    words("instruction", args.instruction.as_deref(), &Instruction::ALL.map(Instruction::name))?;
    words("fence-at", args.fence_at.as_deref(), &FenceAt::ALL.map(FenceAt::name))?;
    words("fence", args.fence.as_deref(), &FenceKind::ALL.map(FenceKind::name))?;
    words("width", args.width.as_deref(), &WidthChoice::ALL.map(WidthChoice::name))?;
    for target in args.target.iter().flat_map(|list| list.split(',')) {
        target.parse::<Target>().map_err(|error| Failure::Usage(format!("--target: {error}")))?;
    }
    Ok(())
}

pub(super) fn words(flag: &str, list: Option<&str>, known: &[&str]) -> Result<(), Failure> {
    let mut given = list.iter().flat_map(|list| list.split(','));
    match given.find(|word| !known.contains(word)) {
        None => Ok(()),
        Some(word) => {
            let near = nearest(word, known).map(|near| format!("; did you mean '{near}'?"));
            let (known, near) = (known.join(", "), near.unwrap_or_default());
            Err(Failure::Usage(format!("--{flag}: '{word}' is not one of {known}{near}")))
        }
    }
}

pub(super) fn experiment(args: &Write) -> Result<Experiment, Failure> {
    check(args)?;
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
    flags::check_counts("threads", "writer", args.threads.as_deref().unwrap_or_default())?;
    let count = args.threads.as_deref().map_or_else(OneOrMany::default, one_or_many);
    Ok(Experiment {
        measure: Measure { looks: vec![10], rounds: 1, probe: Span::ms(0), ..Measure::default() },
        roles: vec![Role { name: "writer".into(), count, placement: None, cpus, task: OneOrMany::One(task) }],
        arms: vec![Arm::new("write", &["writer"], None)],
        ..Experiment::asking("write", "What does it cost to make a store durable here?", "writer")
    })
}
