//! Whether there is memory for what a plan runs, asked before anything starts.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_persist::room_in_memory;

/// Bytes of ordinary memory that a task takes for its data, as far as its parameters say; none
/// where its data lies elsewhere: in files, devices, or huge pages that are reserved already.
pub fn needed(task: &Task) -> Option<u64> {
    let size = task.size().filter(|_| task.takes_ordinary_memory())?;
    Some(size.0)
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
            let (parsed, _) = &text::parse(task).unwrap().each().unwrap()[0];
            assert_eq!(needed(parsed), expected, "{task}");
        }
    }
}
