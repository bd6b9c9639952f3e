//! How windows are kept apart where the effects of one last into the next.

use std::time::Duration;

use super::Plan;

/// What passes between two windows of tasks of which one may leave a device something to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calm {
    /// No task runs for this long, once all have paused and built-in tasks have synced their files.
    /// The same holds after a window in which no task wrote, so that windows before and after a
    /// writer differ in nothing.
    pub idle: Duration,
    /// All run for so long before the window opens.
    pub lead_in: Duration,
}

// A device works off what it has taken; and the first commits after a pause are slower than the
// others.
const DISKS: Calm = Calm { idle: Duration::from_millis(200), lead_in: Duration::from_millis(200) };

impl Plan {
    /// What passes between windows where tasks run with each other and one of them uses a disk;
    /// `None` elsewhere.
    pub fn calm(&self) -> Option<Calm> {
        let on_a_disk = self.cases.iter().filter(|case| case.active.len() > 1).any(|case| {
            case.active
                .iter()
                .any(|active| self.variants[active.role][active.variant].task.uses_a_disk())
        });
        on_a_disk.then_some(DISKS)
    }
}

#[cfg(test)]
mod tests {
    use ringfence_machine::Machine;
    use ringfence_machine::fixtures;

    use super::*;
    use crate::Experiment;

    fn plan(victim: &str, aggressor: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nwindow = '400ms'\nsettle = \
             '1ms'\nprobe = '0ms'\nrounds = 1\n\
            [[role]]\nname = 'victim'\ntask = {{ workload = '{victim}' }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = '{aggressor}' }}\n[[arm]]\nname = \
            'alone'\nactive = ['victim']\n\
            [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
        );
        let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        Plan::new(&Experiment::parse(&text).unwrap(), &machine.topology, None).unwrap()
    }

    #[test]
    fn windows_are_kept_apart_where_a_neighbour_uses_a_disk() {
        for name in ["commit", "dirty", "churn", "scan"] {
            assert_eq!(plan("commit", name).calm(), Some(DISKS), "{name}");
            assert_eq!(plan("chase", name).calm(), Some(DISKS), "{name}");
        }
        assert_eq!(plan("commit", "alu").calm(), Some(DISKS));
        assert_eq!(plan("chase", "alu").calm(), None);
        // Two windows with what passes before each.
        assert_eq!(plan("chase", "dirty").least_trial(), Duration::from_millis(2 * 800));
        assert_eq!(plan("chase", "alu").least_trial(), Duration::from_millis(2 * 401));
    }

    #[test]
    fn nobody_waits_for_tasks_that_are_alone() {
        let text = "schema = 2\nname = 'x'\nmetric = 'c'\n[measure]\nwindow = \
                    '400ms'\n[[role]]\nname = 'c'\ntask = { workload = 'commit' }\n[[arm]]\nname = \
                    'commit'\nactive = ['c']\n";
        let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let plan = Plan::new(&Experiment::parse(text).unwrap(), &machine.topology, None).unwrap();
        assert_eq!(plan.calm(), None);
    }
}
