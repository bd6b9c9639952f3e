//! What sets the arms of a plan apart, applied before their windows.

use ringfence_experiment::Error;
use ringfence_experiment::plan::Plan;
use ringfence_limits::{Isolation, Tasks};

/// The isolation of a plan's arms.
pub struct Arms {
    isolations: Vec<Box<dyn Isolation>>,
    of_case: Vec<usize>,
    /// The arm that was arranged last.
    pub arm: usize,
    /// Whether rates may still change by what was arranged. The tasks of the next window then run
    /// until their rates are stable.
    pub drifting: bool,
}

impl Arms {
    /// Prepares the isolation of a plan's arms.
    ///
    /// # Errors
    /// Where something that it needs is missing, is being changed by another process, or refuses.
    pub fn of_plan(plan: &Plan) -> Result<Self, Error> {
        let arms = &plan.experiment.arms;
        let arm = |name: &str| arms.iter().position(|arm| arm.name == name).unwrap_or_default();
        let of_case = plan.cases.iter().map(|case| arm(&case.arm)).collect();
        Ok(Self { isolations: ringfence_limits::begin(plan)?, of_case, arm: 0, drifting: false })
    }

    /// Begins a trial, whose tasks run.
    pub fn begin_trial(&mut self, tasks: &dyn Tasks) -> Result<(), Error> {
        self.isolations.iter_mut().try_for_each(|isolation| isolation.begin_trial(tasks))?;
        Ok(())
    }

    /// Ends a trial, whose tasks still run.
    pub fn end_trial(&mut self, tasks: &dyn Tasks) {
        self.isolations.iter_mut().for_each(|isolation| isolation.end_trial(tasks));
    }

    /// Applies the settings of a case's arm.
    pub fn arrange(&mut self, case: usize, tasks: &dyn Tasks) -> Result<(), Error> {
        self.arm = self.of_case[case];
        for isolation in &mut self.isolations {
            self.drifting |= isolation.set(self.arm, tasks)?;
        }
        Ok(())
    }

    /// Restores what was changed, one after the other, each even if another fails. Returns what the
    /// user should know.
    pub fn end(&mut self) -> impl Iterator<Item = Result<Vec<String>, Error>> {
        self.isolations.drain(..).map(|isolation| isolation.end())
    }
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::Error;

    use super::*;

    /// No tasks.
    struct Nothing;

    impl Tasks for Nothing {
        fn processes(&self, _: usize) -> Vec<u32> {
            Vec::new()
        }

        fn orphans(&self) -> Vec<u32> {
            Vec::new()
        }
    }

    /// Takes effect slowly in one arm, and may fail to restore.
    struct Slow {
        arm: usize,
        fails: bool,
    }

    impl Isolation for Slow {
        fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
            Ok(())
        }

        fn set(&mut self, arm: usize, _: &dyn Tasks) -> Result<bool, Error> {
            Ok(arm == self.arm)
        }

        fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
            if self.fails { Err(Error::failed("refused")) } else { Ok(vec!["done".into()]) }
        }
    }

    #[test]
    fn what_one_isolation_changes_slowly_is_known_and_all_are_restored() {
        let isolations: [Box<dyn Isolation>; 2] =
            [Box::new(Slow { arm: 1, fails: true }), Box::new(Slow { arm: 7, fails: false })];
        let (isolations, of_case) = (isolations.into(), vec![0, 1, 0]);
        let mut arms = Arms { isolations, of_case, arm: 0, drifting: false };
        arms.arrange(0, &Nothing).unwrap();
        assert_eq!((arms.arm, arms.drifting), (0, false));
        arms.arrange(1, &Nothing).unwrap();
        arms.arrange(2, &Nothing).unwrap();
        assert_eq!((arms.arm, arms.drifting), (0, true), "no window was since");
        let ends: Vec<_> = arms.end().collect();
        let refused = Error::failed("refused");
        assert_eq!(ends, [Err(refused), Ok(vec!["done".to_owned()])]);
    }
}
