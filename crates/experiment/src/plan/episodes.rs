//! The tasks that an episode can be measured with.

use crate::task::{ProgramUnit, Task};
use crate::{Experiment, Reason};

/// Whether a task is a program whose runs are timed whole.
pub fn is_whole_run(task: &Task) -> bool {
    matches!(task, Task::Command(command) if command.unit == ProgramUnit::WholeRun)
}

/// Why a task cannot be part of an experiment's episodes, if it has any.
pub fn refusal(experiment: &Experiment, task: &Task, metric: bool) -> Option<Reason> {
    let Task::Command(command) = task else { return None };
    experiment.measure.episode?;
    if !metric {
        let unknown = format!(
            "the files that '{}' writes are unknown; an episode leaves them unsynced, and they \
             could not be synced before the next one: use a built-in aggressor, or windows",
            command.run
        );
        return Some(unknown.into());
    }
    let run = &command.run;
    let timed = match command.unit {
        ProgramUnit::WholeRun => format!(
            "'{run}' is timed by whole runs, and an episode has a fixed length: use windows"
        ),
        ProgramUnit::Latencies => format!(
            "'{run}' is timed by the latencies that it prints, and an episode compares its work by \
             the clock: use windows"
        ),
        _ => return None,
    };
    Some(timed.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_machine::Machine;
    use ringfence_machine::fixtures;

    use crate::Experiment;
    use crate::plan::Plan;

    fn plan(measure: &str, victim: &str, aggressor: &str) -> Result<Plan, String> {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nrounds = 1\nprobe = \
             '0ms'\n{measure}\n\
            [[role]]\nname = 'victim'\ntask = {{ workload = {victim} }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = {aggressor} }}\n[[arm]]\nname = \
            'alone'\nactive = ['victim']\n\
            [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
        );
        let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let experiment = Experiment::parse(&text).map_err(|error| error.to_string())?;
        Plan::new(&experiment, &machine.topology, None).map_err(|error| error.to_string())
    }

    const COMMIT: &str = "'commit'";
    const DIRTY: &str = "'dirty'";

    #[test]
    fn an_episode_is_as_long_as_both_its_parts() {
        // With what passes before each of two.
        let of = |measure: &str| plan(measure, COMMIT, DIRTY).unwrap().least_trial();
        assert_eq!(of("episode = {}"), 2 * Duration::from_millis(77_400));
        assert_eq!(
            of("episode = { beside = '1s', tail = '2s' }"),
            2 * Duration::from_millis(3_400)
        );
        let kept = plan("episode = { tail = '2s' }", COMMIT, DIRTY).unwrap().experiment;
        assert_eq!(Experiment::parse(&kept.to_toml()).unwrap(), kept);
    }

    #[test]
    fn each_part_holds_work_of_everybody() {
        let error = plan("episode = { beside = '1s', tail = '100ms' }", COMMIT, DIRTY).unwrap_err();
        assert!(error.contains("--episode 400ms+400ms"), "{error}");
        let error = plan("episode = { after = '1s' }", COMMIT, DIRTY).unwrap_err();
        assert!(error.contains("after"), "{error}");
    }

    #[test]
    fn programs_that_cannot_be_synced_are_not_run() {
        let program = "'command', run = 'sleep 9', unit = 'cpu-time'";
        let refusals = |plan: &Plan| plan.refusal(1).cloned();
        let beside = refusals(&plan("episode = {}", COMMIT, program).unwrap()).unwrap();
        assert!(beside.contains("the files that 'sleep 9' writes are unknown"), "{beside}");
        assert_eq!(refusals(&plan("window = '400ms'", COMMIT, program).unwrap()), None);
        let whole = "'command', run = 'sleep 9', unit = 'whole-run'";
        let timed = refusals(&plan("episode = {}", whole, DIRTY).unwrap()).unwrap();
        assert!(timed.contains("timed by whole runs"), "{timed}");
        let counted = "'command', run = 'sleep 9', unit = 'lines'";
        assert_eq!(refusals(&plan("episode = {}", counted, DIRTY).unwrap()), None);
    }
}
