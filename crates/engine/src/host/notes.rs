//! What should be known of figures, whatever they are.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_machine::units::Bytes;

use crate::Used;

// Programs write some lines to logs.
const LEAST_TOLD: u64 = 16 << 20;

/// What programs wrote, which is not limited: each role whose tasks are none of ours.
pub(super) fn of_programs(plan: &Plan, used: impl Fn(usize) -> Used) -> Vec<String> {
    let roles = plan.experiment.roles.iter().zip(&plan.variants).enumerate();
    let programs = roles.filter_map(|(index, (role, variants))| {
        let ours = variants
            .iter()
            .any(|variant| !matches!(variant.task, Task::Command(_) | Task::Attached(_)));
        let wrote = used(index).disk_bytes;
        (!ours && wrote >= LEAST_TOLD).then(|| {
            format!(
                "In '{}', {} wrote {} to disks during its windows (the kernel's count for its \
                 processes); no limit applies to that.",
                plan.experiment.name,
                role.name,
                Bytes(wrote)
            )
        })
    });
    programs.collect()
}

/// What should be known of figures of tasks that use a disk. `wrote` is what the disks count.
pub(super) fn of_disks<'a>(
    plan: &Plan,
    tasks: impl Iterator<Item = &'a Task>,
    wrote: Option<String>,
) -> Vec<String> {
    // They say that windows miss delayed effects, which episodes measure.
    let windows = plan.experiment.measure.episode.is_none();
    let mut notes: Vec<String> =
        tasks.filter(|_| windows).filter_map(|task| task.caution()).collect();
    notes.sort();
    notes.dedup();
    notes.extend(wrote.map(|wrote| {
        let name = &plan.experiment.name;
        format!("In '{name}', {wrote}, by the disk's own count (all programs together).")
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::crew::tests::plan;

    fn used(disk_bytes: u64) -> Used {
        Used { disk_bytes, ..Used::default() }
    }

    #[test]
    fn what_programs_wrote_is_said_and_what_built_in_tasks_wrote_is_not() {
        let mut plan = plan("");
        assert!(of_programs(&plan, |_| used(1 << 30)).is_empty());
        plan.variants[1][0].task = Task::Command(toml::from_str("run = 'true'").unwrap());
        let notes = of_programs(&plan, |role| used(if role == 1 { 1 << 30 } else { 0 }));
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert!(note.starts_with("In 'x', aggressor wrote 1GiB to disks"), "{note}");
        assert!(of_programs(&plan, |_| used(LEAST_TOLD - 1)).is_empty());
    }

    #[test]
    fn cautions_are_said_once_and_not_of_episodes() {
        let dirty = Task::Dirty(ringfence_experiment::task::Dirty::default());
        let tasks = [dirty.clone(), dirty];
        let wrote = Some("vda wrote 1GiB".to_owned());
        let notes = of_disks(&plan(""), tasks.iter(), wrote.clone());
        let last = "In 'x', vda wrote 1GiB, by the disk's own count (all programs together).";
        assert_eq!(notes, [tasks[0].caution().unwrap().as_str(), last]);
        let mut plan = plan("");
        plan.experiment.measure.episode = Some(ringfence_experiment::Episode::default());
        assert_eq!(of_disks(&plan, tasks.iter(), wrote), [last]);
    }
}
