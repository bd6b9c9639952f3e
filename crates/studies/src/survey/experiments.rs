//! The survey's experiments, as the files they could be.

use ringfence_experiment::Experiment;
use ringfence_experiment::units::Rate;
use ringfence_machine::units::Bytes;

/// The flush instructions and their two controls.
pub const INSTRUCTIONS: [&str; 5] = ["clflush", "clflushopt", "clwb", "nt", "none"];

/// How long the survey takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About two minutes.
    Full,
    /// About half a minute.
    Quick,
}

impl Depth {
    fn measure(self, full: &str, quick: &str) -> String {
        match self {
            Depth::Full => full.into(),
            Depth::Quick => quick.into(),
        }
    }
}

/// What a durable write costs: instruction, fence placement and block; and, on cold lines of a 4 KiB
/// block, the parts that the cost is made of.
pub fn cost(depth: Depth, size: Bytes, seed: u64) -> Experiment {
    let measure = depth.measure(
        "looks = [10]\nblocks = 1\nwindow = '20ms'\nsettle = '1ms'\ntime = '30s'",
        "looks = [10]\nblocks = 1\nwindow = '5ms'\nsettle = '1ms'\ntime = '10s'",
    );
    parse(&format!(
        "
schema = 1
name = 'cost'
question = 'What does it cost to make a store durable here?'
seed = {seed}
metric = 'writer'
[measure]
{measure}
probe = '0ms'
[[role]]
name = 'writer'
[[role.task]]
workload = 'write'
instruction = {INSTRUCTIONS:?}
fence_at = ['none', 'block', 'line']
block = ['64B', '4KiB', '1MiB']
size = '{size}'
[[role.task]]
workload = 'write'
instruction = 'none'
line = ['warm', 'cold']
fence_at = 'none'
block = '4KiB'
size = '{size}'
[[role.task]]
workload = 'write'
instruction = ['clflush', 'clflushopt', 'clwb', 'nt']
line = 'cold'
fence_at = ['none', 'block', 'line']
block = '4KiB'
size = '{size}'
[[arm]]
name = 'write'
active = ['writer']
"
    ))
}

/// A victim of the survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Short, for headings and folders.
    pub name: String,
    /// Its task, as the inside of an inline table.
    pub task: String,
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
        format!("workload = 'chase', footprint = '{}'", exact(footprint)),
        format!("workload = 'mcf', footprint = '{}'", exact(mcf)),
        "workload = 'alu'".into(),
    ];
    let victims = VICTIMS.into_iter().zip(tasks);
    victims.map(|(name, task)| Victim { name: name.into(), task }).collect()
}

/// The block that writers by every instruction write beside victims.
pub const BESIDE: Bytes = Bytes::kib(4);

/// Writers beside a victim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writers {
    /// By each instruction in blocks of [`BESIDE`], and in other blocks by those named; with controls.
    AtFullRate(Vec<(Bytes, Vec<&'static str>)>),
    /// By each instruction in blocks of [`BESIDE`], all held to one rate.
    Paced(Rate),
}

/// A victim beside writers.
pub fn neighbours(depth: Depth, victim: &Victim, writers: &Writers, size: Bytes, seed: u64) -> Experiment {
    let measure = depth.measure(
        "looks = [16]\nblocks = 2\nwindow = '20ms'\ntime = '24s'",
        "looks = [10]\nblocks = 1\nwindow = '10ms'\nprobe = '1ms'\ntime = '6s'",
    );
    let name = &victim.name;
    let (suffix, more) = match writers {
        Writers::Paced(pace) => ("-paced", format!("pace = '{pace}'\n")),
        Writers::AtFullRate(others) => {
            let others = others.iter().map(|(block, instructions)| {
                format!(
                    "[[role.task]]\nworkload = 'write'\ninstruction = {instructions:?}\nblock = '{block}'\nsize = '{size}'\n"
                )
            });
            let controls = "[[role.task]]\nworkload = 'alu'\n[[role.task]]\nworkload = 'idle'\n".into();
            ("", others.chain([controls]).collect())
        }
    };
    parse(&format!(
        "
schema = 1
name = 'neighbours-{name}{suffix}'
question = 'How much does a writer slow {name} down on another core?'
seed = {seed}
metric = 'victim'
[measure]
{measure}
[[role]]
name = 'victim'
task = {{ {task} }}
[[role]]
name = 'aggressor'
[[role.task]]
workload = 'write'
instruction = {INSTRUCTIONS:?}
block = '{BESIDE}'
size = '{size}'
{more}
[[arm]]
name = 'alone'
active = ['victim']
[[arm]]
name = 'beside'
active = ['victim', 'aggressor']
baseline = 'alone'
",
        task = victim.task,
    ))
}

fn parse(text: &str) -> Experiment {
    Experiment::parse(text).expect("the survey's own experiments are well-formed")
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
