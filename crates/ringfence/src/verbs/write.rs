//! `write`: what durable writes cost, over any combination of ways to write.

use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, Target, WidthChoice, Writes};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Measure};

use crate::args::Write;
use crate::failure::Failure;
use crate::shared::flags::words;
use crate::shared::{experiment, flags};

pub fn run(args: &Write) -> Result<(), Failure> {
    let done = experiment::run(experiment(args)?, &args.on, &args.measuring);
    done.map_err(|failure| of_the_target(failure, args.target.as_deref().unwrap_or_default()))
}

// What is wrong with memory at a path begins with the target that was typed.
fn of_the_target(failure: Failure, target: &str) -> Failure {
    failure.map_usage(|why| {
        let (_, path) = target.split_once(':')?;
        let unnamed = why.contains(path) && !why.contains("--") && !why.starts_with(path);
        unnamed.then(|| format!("--target {target}: {why}"))
    })
}

// What the experiment would refuse too, but as a value of its file and not of a flag.
fn check(args: &Write) -> Result<(), Failure> {
    words("instruction", args.instruction.as_deref(), &Instruction::ALL.map(Instruction::name))?;
    words("fence-at", args.fence_at.as_deref(), &FenceAt::ALL.map(FenceAt::name))?;
    if args.fence.as_deref() == Some("none") {
        return Err(Failure::usage(
            "--fence: 'none' is not a kind of fence; for no fence: --fence-at none",
        ));
    }
    words("fence", args.fence.as_deref(), &FenceKind::ALL.map(FenceKind::name))?;
    words("width", args.width.as_deref(), &WidthChoice::ALL.map(WidthChoice::name))?;
    for target in args.target.iter().flat_map(|list| list.split(',')) {
        target.parse::<Target>().map_err(|error| Failure::usage(format!("--target: {error}")))?;
    }
    Ok(())
}

pub(super) fn experiment(args: &Write) -> Result<Experiment, Failure> {
    check(args)?;
    let instructions =
        Instruction::in_memory().map(Instruction::name).collect::<Vec<_>>().join(",");
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
    let task = flags::task(Writes::default(), &axes)?;
    Ok(Experiment {
        measure: Measure { looks: vec![10], rounds: 1, probe: Span::ms(0), ..Measure::default() },
        roles: vec![flags::role("writer", task, args.threads.as_deref(), args.cpus.as_deref())?],
        arms: vec![Arm::new("write", &["writer"], None)],
        ..Experiment::asking("write", "What does it cost to make a store durable here?", "writer")
    })
}
