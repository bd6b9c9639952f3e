//! A lower I/O priority for the aggressor, where the disk's scheduler heeds one.

use ringfence_experiment::io_priority::IoPriority;
use ringfence_experiment::task::Task;
use ringfence_experiment::{Limit, Reason};

use super::heeded;
use crate::disk_io;
use crate::lever::{Candidate, Lever, LeverContext, started};

/// The lever `ionice`.
pub struct IoNice;

const PRIORITIES: [IoPriority; 2] = [IoPriority::BestEffort(7), IoPriority::Idle];

impl Lever for IoNice {
    fn name(&self) -> &'static str {
        "ionice"
    }

    fn about(&self) -> &'static str {
        "a lower priority of its disk requests"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        disk_io::of_others(context.aggressor).map_or(Ok(()), Err)?;
        let offered = |priority: IoPriority| {
            let disks = heeded(context.aggressor, priority)?;
            let aged = disks.iter().any(|disk| disk.scheduler.as_deref() == Some("mq-deadline"));
            Ok(candidate(priority, aged, context.aggressor))
        };
        let (some, mut none): (Vec<_>, Vec<_>) =
            PRIORITIES.map(offered).into_iter().partition(Result::is_ok);
        match (some.is_empty(), none.pop()) {
            (true, Some(Err(why))) => Err(why),
            _ => Ok(some.into_iter().flatten().collect()),
        }
    }
}

fn candidate(priority: IoPriority, aged: bool, aggressor: &Task) -> Candidate {
    let level;
    let words: &[&str] = match priority {
        IoPriority::Idle => &["ionice", "-c", "3"],
        IoPriority::BestEffort(own) => {
            level = own.to_string();
            &["ionice", "-c", "2", "-n", &level]
        }
    };
    let command = started(words, aggressor);
    let after = match aged {
        true => {
            "; mq-deadline serves any request that has waited for prio_aging_expire (10 s by \
             default)"
        }
        false => "",
    };
    let (words, limit) = (format!("ionice {priority}"), Limit::IoPriority(priority));
    Candidate::limit(&IoNice, &words, limit, "start the aggressor with that I/O priority".into())
        .by(vec![command])
        .caveat(format!(
            "it orders the requests queued in the disk's scheduler, and has no effect if the disk \
             takes requests as fast as they arrive; write-back by kernel threads, such as of plain \
             buffered writes, and the file system's journal keep the priority of those threads; \
             requests that are still queued when the aggressor stops are written afterwards{after}"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;

    fn task(table: &str) -> Task {
        Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap().remove(0).0
    }

    #[test]
    fn how_to_keep_it_is_a_command() {
        let program = task("workload = 'command'\nrun = \"dd of='a b'\"");
        let offered = PRIORITIES.map(|priority| candidate(priority, true, &program));
        let commands: Vec<&str> =
            offered.iter().flat_map(|one| &one.commands).map(String::as_str).collect();
        assert_eq!(commands, ["ionice -c 2 -n 7 dd 'of=a b'", "ionice -c 3 dd 'of=a b'"]);
        let names = offered.each_ref().map(|one| one.arm.name.as_str());
        assert_eq!(names, ["ionice best-effort 7", "ionice idle"]);
        assert_eq!(
            candidate(IoPriority::Idle, false, &task("workload = 'scan'")).commands,
            ["ionice -c 3 COMMAND"]
        );
    }

    #[test]
    fn it_says_whose_requests_it_does_not_order() {
        let caveat =
            |aged| candidate(IoPriority::Idle, aged, &task("workload = 'commit'")).caveat.unwrap();
        assert!(caveat(false).contains("keep the priority of those threads"), "{}", caveat(false));
        assert!(
            caveat(true).contains("prio_aging_expire")
                && !caveat(false).contains("prio_aging_expire")
        );
    }

    #[test]
    fn readers_and_programs_have_requests_of_their_own() {
        for (table, offered) in [
            ("workload = 'scan'", true),
            ("workload = 'command'\nrun = 'true'", true),
            ("workload = 'dirty'\nio = 'direct'", true),
            ("workload = 'dirty'", false),
            ("workload = 'churn'", false),
            ("workload = 'alu'", false),
        ] {
            assert_eq!(disk_io::of_others(&task(table)).is_none(), offered, "{table}");
        }
    }
}
