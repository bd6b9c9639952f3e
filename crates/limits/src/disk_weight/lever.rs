//! A weight for disks, where something shares them out by weight.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_experiment::task::Task;
use ringfence_experiment::{Limit, Reason};
use ringfence_machine::root::FsRoot;

use super::{BFQ_WEIGHT, KIND, Weigher, weigher};
use crate::lever::{Candidate, Lever, LeverContext, started, started_in_group};
use crate::setting::Version;
use crate::{disk, disk_io};

pub struct IoWeight;

const WEIGHTS: [u32; 2] = [10, 1];

impl Lever for IoWeight {
    fn name(&self) -> &'static str {
        "io-weight"
    }

    fn about(&self) -> &'static str {
        "a smaller share of a disk's time"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        disk_io::of_others(context.aggressor).map_or(Ok(()), Err)?;
        let group = KIND.try_make(context.aggressor, None)?;
        let by = weigher(&FsRoot::host(), &disk::of(context.aggressor)?)?;
        let here = Here { by, version: group.version(), parent: group.parent() };
        if here.version == Version::Two {
            disk_io::charged_elsewhere(context.aggressor).map_or(Ok(()), Err)?;
        }
        Ok(WEIGHTS.into_iter().map(|weight| candidate(weight, &here, context.aggressor)).collect())
    }
}

// What applies the weight, in which version of control groups, and the group below which one can be
// made.
struct Here<'a> {
    by: Weigher,
    version: Version,
    parent: &'a Path,
}

fn candidate(weight: u32, here: &Here, aggressor: &Task) -> Candidate {
    let (keep, commands) = match here.version {
        Version::Two => {
            let file = here.by.file();
            let property = format!("IOWeight={weight}");
            let keep = format!(
                "start the aggressor with that weight; without systemd, 'default {weight}' in \
                 {file} of its cgroup is the same"
            );
            (keep, vec![started(&["systemd-run", "--scope", "-p", &property], aggressor)])
        }
        Version::One => {
            let group = here.parent.join("light-writer");
            let quoted = |path: &Path| shell::quote(&path.display().to_string());
            let procs = group.join("cgroup.procs");
            let commands = vec![
                format!("mkdir -p {}", quoted(&group)),
                shell::write(&weight.to_string(), &group.join(BFQ_WEIGHT)),
                started_in_group(&procs.display().to_string(), aggressor),
            ];
            ("start the aggressor in a group of blkio with that weight".into(), commands)
        }
    };
    let whose = match here.version {
        Version::One => {
            "write-back by kernel threads, such as of plain buffered writes, has the weight of \
             those threads"
        }
        Version::Two => {
            "write-back from the page cache has the weight of the group that first cached the \
             pages, if that group has both controllers io and memory"
        }
    };
    let (words, limit) = (format!("disk weight {weight}"), Limit::DiskWeight(weight));
    Candidate::limit(&IoWeight, &words, limit, keep).by(commands).caveat(format!(
        "it divides the disk's time while both have requests queued: alone, the aggressor is as \
         fast as before, and the device finishes requests that it has started; {whose}; no group's \
         weight applies to the file system's journal"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;

    #[test]
    fn how_to_keep_it_is_a_command() {
        let table = "workload = 'command'\nrun = \"dd of='a b'\"".parse().unwrap();
        let program = Tasks::parse(&table).unwrap().each().unwrap().remove(0).0;
        let here = |by, version| Here { by, version, parent: Path::new("/cg/blkio") };
        let two = candidate(10, &here(Weigher::Cost, Version::Two), &program);
        assert_eq!(two.commands, ["systemd-run --scope -p IOWeight=10 dd 'of=a b'"]);
        assert!(two.keep.contains("'default 10' in io.weight of"), "{}", two.keep);
        assert!(
            candidate(1, &here(Weigher::Bfq, Version::Two), &program)
                .keep
                .contains("in io.bfq.weight of")
        );
        let one = candidate(1, &here(Weigher::Bfq, Version::One), &program);
        assert_eq!(
            one.commands[..2],
            ["mkdir -p /cg/blkio/light-writer", "echo 1 > /cg/blkio/light-writer/blkio.bfq.weight"]
        );
        assert!(
            one.commands[2].contains("light-writer/cgroup.procs")
                && one.commands[2].ends_with("sh dd 'of=a b'")
        );
        assert_eq!(
            (one.arm.name.as_str(), one.arm.limits_of("aggressor")),
            ("disk weight 1", &[Limit::DiskWeight(1)][..])
        );
        let caveat = one.caveat.unwrap();
        assert!(
            caveat.contains("plain buffered writes, has the weight of those threads"),
            "{caveat}"
        );
    }
}
