//! Whether there is memory for what a plan runs, asked before anything starts.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Memory, PageSize, Target, Task};
use ringfence_persist::room_in_memory;

/// Bytes of ordinary memory that a task takes for its data, as far as its parameters say; none
/// where its data lies elsewhere: in files, devices, or huge pages that are reserved already.
pub fn needed(task: &Task) -> Option<u64> {
    let in_memory = |target: &Target| matches!(target, Target::Dram | Target::Node(_));
    let ordinary = |pages: PageSize| pages != PageSize::Huge2M;
    match task {
        Task::Write(write) => (in_memory(&write.target) && ordinary(write.pages) && write.prefault)
            .then_some(write.size.0),
        Task::Ring(ring) => in_memory(&ring.target).then_some(ring.size.0),
        Task::Record(record) => in_memory(&record.target).then_some(record.size.0),
        Task::Chase(chase) => ordinary(chase.pages).then_some(chase.footprint.0),
        Task::Read(read) => matches!(read.memory, Memory::Malloc).then_some(read.size.0),
        Task::Stream(stream) => Some(stream.size.0),
        Task::Mcf(mcf) => Some(mcf.footprint.0),
        Task::Commit(_) | Task::Dirty(_) | Task::Churn(_) | Task::Scan(_) => None,
        Task::Alu(_) | Task::Trace(_) | Task::Command(_) | Task::Idle(_) => None,
        Task::Probe(_) | Task::Attached(_) => None,
    }
}

/// Whether there is memory for each task of the cases that are measured, and for those of a case
/// together.
///
/// # Errors
/// One sentence about the first for which there is not.
pub fn for_tasks(plan: &Plan) -> Result<(), String> {
    for case in plan.run_cases() {
        let mut together = 0u64;
        for active in &plan.cases[case].active {
            let (role, task) = (
                &plan.experiment.roles[active.role].name,
                &plan.variants[active.role][active.variant].task,
            );
            let Some(bytes) = needed(task) else { continue };
            room_in_memory(bytes)
                .map_err(|error| format!("{role}: workload {}: {error}", task.name()))?;
            together = together.saturating_add(bytes.saturating_mul(active.count.into()));
        }
        room_in_memory(together)
            .map_err(|error| format!("'{}': its tasks together: {error}", plan.cases[case].arm))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::text;

    #[test]
    fn only_ordinary_memory_is_counted() {
        for (task, expected) in [
            ("chase footprint=1TiB", Some(1 << 40)),
            ("chase footprint=1GiB pages=2MiB", None),
            ("write size=1MiB", Some(1 << 20)),
            ("write size=1MiB target=file:/tmp/x", None),
            ("ring size=2MiB", Some(2 << 20)),
            ("record size=2MiB target=dax:/mnt", None),
            ("stream size=3MiB", Some(3 << 20)),
            ("mcf footprint=8MiB", Some(8 << 20)),
            ("read size=1MiB", Some(1 << 20)),
            ("alu", None),
            ("idle", None),
        ] {
            let table = text::parse(task).unwrap();
            let expanded = &ringfence_experiment::task::axes::expand(&table).unwrap()[0].task;
            assert_eq!(needed(expanded), expected, "{task}");
        }
    }
}
