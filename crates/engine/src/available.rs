//! Whether a plan can be run on a machine: what a task needs besides CPUs, namely memory targets
//! and programs.

use std::io;
use std::path::Path;

use ringfence_experiment::nearest;
use ringfence_experiment::plan::{NotRun, Plan};
use ringfence_experiment::task::{Memory, Target, Task, Tasks, Trace, WORKLOADS, text};
use ringfence_experiment::{Error, Experiment, Reason};
use ringfence_machine::Machine;
use ringfence_machine::root::FsRoot;
use ringfence_machine::targets::TargetKind;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::pseudo::{self, Support};
use rustix::fs::Access;

use crate::disks::Disks;

/// The plan of an experiment for a machine. Cases whose memory target or program it does not have
/// are not run; `has_program` says whether a program's name can be started.
///
/// # Errors
/// As [`Plan::new`].
pub fn plan_for(
    experiment: &Experiment,
    machine: &Machine,
    has_program: &dyn Fn(&str) -> bool,
) -> Result<Plan, Error> {
    let mut plan = Plan::new(experiment, &machine.topology, machine.features.as_ref())?;
    let mut disks = Disks::default();
    for (case, what) in plan.cases.iter().enumerate() {
        if plan.not_run.iter().any(|known| known.case == case) {
            continue;
        }
        let arm = plan.experiment.arms.iter().find(|arm| arm.name == what.arm);
        let reason = what
            .active
            .iter()
            .find_map(|active| {
                let task = &plan.variants[active.role][active.variant].task;
                unmet_requirement(task, machine, has_program).or_else(|| disks.unmet(task, &plan))
            })
            .or_else(|| arm.and_then(|arm| ringfence_limits::missing(&plan, arm, &what.active)));
        plan.not_run.extend(reason.map(|reason| NotRun { case, reason }));
    }
    Ok(plan)
}

/// What a machine lacks for a task, if anything. What can only be known by trying, such as room or
/// permissions, is not looked at; what uses a disk is tried out when it is planned.
pub fn unmet_requirement(
    task: &Task,
    machine: &Machine,
    has_program: &dyn Fn(&str) -> bool,
) -> Option<Reason> {
    match task {
        Task::Write(write) if write.nt_copy_from.is_some() || write.movsb_from.is_some() => {
            Some("copies that change their kind with the block's size are only simulated".into())
        }
        Task::Command(command) => {
            let server =
                command.server.as_ref().and_then(|server| server.argv()?.into_iter().next());
            // With a PATH of its own it is found on that alone.
            let own = usize::from(!command.env.contains_key("PATH"));
            let mut wanted =
                command.argv()?.into_iter().take(own).chain(command.needs.clone()).chain(server);
            let missing = wanted.find(|program| !has_program(program))?;
            Some(format!("the program '{missing}' was not found").into())
        }
        Task::Read(read) => match &read.memory {
            Memory::Locked(device) => unmet_by_region(device),
            Memory::Malloc => None,
        },
        Task::Trace(trace) => Some(only_simulated(trace)),
        Task::Attached(attached) => ringfence_limits::attachment::missing(attached),
        other => unmet_by_target(other.target(), machine),
    }
}

/// Why a recorded program is not played on a machine that is there.
pub fn only_simulated(trace: &Trace) -> Reason {
    format!(
        "the recording {} can only be replayed on a described machine: name one with --machine, or \
         run the program itself",
        trace.file.display()
    )
    .into()
}

// Where regions can be locked at all, this one is yet to be made.
fn unmet_by_region(device: &Path) -> Option<Reason> {
    if device.exists() {
        return None;
    }
    let why = match pseudo::support(&FsRoot::host()) {
        Support::Cannot(why) => why,
        Support::Can(_) => format!(
            "there is no pseudo-locked region {}: 'ringfence lock create' creates one",
            device.display()
        ),
    };
    Some(why.into())
}

fn unmet_by_target(target: &Target, machine: &Machine) -> Option<Reason> {
    let of_kind = |kind: TargetKind| {
        let known = machine.targets.iter().filter(move |known| known.kind == kind);
        known.filter_map(|known| known.name.split_once(':').map(|(_, path)| Path::new(path)))
    };
    match target {
        Target::Dax(path) => {
            let there = of_kind(TargetKind::Dax).any(|mount| path.starts_with(mount));
            let instead = match path.is_dir() {
                true => format!("; to write through the page cache, use file:{}", path.display()),
                false => String::new(),
            };
            let why = format!("no file system is mounted with DAX at {}{instead}", path.display());
            (!there).then(|| why.into())
        }
        Target::DevDax(path) => {
            let there = of_kind(TargetKind::Devdax).any(|device| device == path);
            (!there).then(|| format!("there is no device {}", path.display()).into())
        }
        Target::Node(node) => unmet_by_node(&machine.topology, *node),
        // Only trying shows what these lack.
        Target::Dram | Target::Tmpfs(_) | Target::File(_) => None,
    }
}

fn unmet_by_node(topology: &Topology, node: u32) -> Option<Reason> {
    // Where the kernel tells of no nodes, all memory is one.
    let there = topology.node(node).is_some() || (topology.nodes.is_empty() && node == 0);
    (!there).then(|| format!("this machine has no NUMA node {node}").into())
}

/// As [`text::parse`], with the programs of this machine.
///
/// # Errors
/// As [`text::parse`].
pub fn parse_task(text: &str) -> Result<Tasks, String> {
    text::parse_beside(text, &|program| !program.contains('/') && can_be_started(program))
}

/// That a task names a program which is not there, with the nearest name that is.
pub fn no_such_program(program: &str) -> String {
    let near = match program.contains('/') {
        true => None,
        false => nearest::nearest(program, WORKLOADS)
            .map(str::to_owned)
            .or_else(|| on_path_like(program)),
    };
    let near = near.map_or("; correct the name or the path".into(), |near| {
        format!("; did you mean '{near}'?")
    });
    format!("'{program}' cannot be started: no program and no workload has that name{near}")
}

// Programs are many, so only one that is very much alike is meant.
fn on_path_like(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let entries =
        std::env::split_paths(&path).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let alike = names.map(|name| (strsim::jaro_winkler(program, &name), name));
    let best = alike.filter(|(likeness, _)| *likeness > 0.9).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

/// Whether a program of that name, or at that path, is there and may be executed.
pub fn can_be_started(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| executable(&folder.join(program)))
}

/// Whether files can be made in a folder.
///
/// # Errors
/// Why not: `ENOTDIR` where it is none, or what access(2) reports.
pub fn folder_to_write(folder: &Path) -> io::Result<()> {
    if !folder.metadata()?.is_dir() {
        return Err(rustix::io::Errno::NOTDIR.into());
    }
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_machine::fixtures;

    #[test]
    fn targets_and_programs_are_looked_up_on_the_machine() {
        let machine = |tree: fixtures::FixtureTree| Machine::examine(&tree.root()).unwrap();
        let (xeon, vm, cxl) = (
            machine(fixtures::xeon_2s64t()),
            machine(fixtures::vm_2cpu()),
            machine(fixtures::cxl_node()),
        );
        let task = |workload: &str, target: &str| {
            let table = format!("workload = '{workload}'\ntarget = '{target}'");
            Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap()[0].0.clone()
        };
        let unmet = |target: &str, machine: &Machine| {
            let [lacking, ring, record] = ["write", "ring", "record"]
                .map(|name| unmet_requirement(&task(name, target), machine, &|_| true));
            assert_eq!([&lacking; 2], [&ring, &record]);
            lacking
        };
        for target in [
            "dram",
            "tmpfs:/dev/shm",
            "file:/nowhere",
            "dax:/mnt/pmem0/x",
            "devdax:/dev/dax1.0",
            "node:1",
        ] {
            assert_eq!(unmet(target, &xeon), None, "{target}");
        }
        assert_eq!(unmet("node:2", &cxl), None);
        for (target, why) in [
            ("dax:/mnt/pmem0", "no file system is mounted with DAX at /mnt/pmem0"),
            ("devdax:/dev/dax1.0", "there is no device /dev/dax1.0"),
            ("node:1", "this machine has no NUMA node 1"),
        ] {
            assert_eq!(unmet(target, &vm), Some(why.into()));
        }
        assert!(
            unmet("dax:/mnt/pmem", &xeon).is_some(),
            "a name that begins alike is another folder"
        );
    }

    #[test]
    fn a_region_that_is_not_there_is_said_to_be_missing() {
        let vm = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let task = |device: &str| {
            let table = format!("workload = 'read'\nmemory = 'locked:{device}'");
            Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap()[0].0.clone()
        };
        // What is there is tried; whether it is a region is known then.
        assert_eq!(unmet_requirement(&task("/dev/null"), &vm, &|_| true), None);
        let why =
            unmet_requirement(&task("/dev/pseudo_lock/no-such-region"), &vm, &|_| true).unwrap();
        assert!(why.contains("lock"), "{why}");
    }

    #[test]
    fn programs_that_are_not_there_are_named_with_what_is_like_them() {
        let said = no_such_program("nosuchprogram-xyz");
        assert!(
            said.starts_with(
                "'nosuchprogram-xyz' cannot be started: no program and no workload has that name"
            ),
            "{said}"
        );
        assert!(no_such_program("chasse").ends_with("did you mean 'chase'?"));
        assert!(!no_such_program("./chasse").contains("did you mean"));
    }

    #[test]
    fn what_looks_like_a_slip_may_be_a_program() {
        let slip = parse_task("alue a=b").unwrap_err();
        assert!(slip.contains("did you mean 'alu'"), "{slip}");
        // As near to a workload's name, but known as a program.
        let program = text::parse_beside("alue a=b", &|program| program == "alue").unwrap();
        assert_eq!(program.to_string(), "alue a=b");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(can_be_started("sh") && can_be_started("/bin/sh"));
        assert!(
            !can_be_started("no-such-program")
                && !can_be_started("/etc/passwd")
                && !can_be_started("/")
        );
    }

    #[test]
    fn a_program_with_a_path_of_its_own_is_not_looked_for_on_ours() {
        let vm = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let task = |env: &str| {
            let table = format!("workload = 'command'\nrun = 'tool'\nunit = 'lines'\n{env}");
            Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap()[0].0.clone()
        };
        assert!(unmet_requirement(&task(""), &vm, &|_| false).unwrap().contains("'tool'"));
        assert_eq!(unmet_requirement(&task("env = { PATH = '/opt/tool' }"), &vm, &|_| false), None);
    }

    #[test]
    fn what_is_lacking_is_not_run() {
        let text = "schema = 2\nname = 'x'\nmetric = 'w'\n[[role]]\nname = 'w'\ntask = \
                    { workload = 'write', target = ['dram', 'dax:/mnt/pmem0'] }\n[[arm]]\nname = \
                    'write'\nactive = ['w']\n";
        let vm = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let plan = plan_for(&Experiment::parse(text).unwrap(), &vm, &|_| true).unwrap();
        assert_eq!(plan.measured(), [0]);
        assert!(plan.refusal(1).unwrap().contains("mounted with DAX"));
    }
}
