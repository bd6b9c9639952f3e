//! Attached processes, which were running before the workers. They keep running except in windows
//! of cases that do not include them.

use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::Freezing;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::warning::WARNING;
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::{
    Found, FreezeError, Freezer, Method, NotYet, OVERRUN, Options, Refusal, Target, Usage, usage,
};

use super::usage::{Readings, used_between};
use crate::Measured;
use crate::usage::Used;
use ringfence_limits::attachment;

// A freeze that takes longer to be in force has failed.
pub const FREEZE_LIMIT: Duration = Duration::from_millis(50);

/// One of them.
pub struct Guest {
    role: usize,
    /// What was attached to.
    pub found: Found,
    /// Not here while it is paused in slices, by a thread that has it.
    pub freezer: Option<Freezer>,
    /// When it was resumed last.
    pub thawed: Option<Instant>,
    /// How often it was paused.
    pub pauses: u64,
    by: String,
    /// How long a pause may be.
    pub longest: Duration,
    readings: Readings,
    // What it had used before the window, where that was read.
    before: Option<Usage>,
}

/// Running processes that take part in a plan: the role, the processes, and the pause method.
type Attachable = (usize, Found, Method);

/// Those of a plan, none of them paused.
///
/// # Errors
/// Where one is not there, or not to be attached to.
pub fn of_plan(plan: &Plan) -> Result<Vec<Guest>, Error> {
    let freezing = plan.experiment.measure.freezing.unwrap_or_default();
    let (longest, share) = (freezing.longest.0, freezing.share.0);
    let options = || Options { longest, share, ..Options::default() };
    let found = find_all(plan)?.into_iter();
    found.map(|one| in_role(plan, one.0, Guest::new(one, options()))).collect()
}

/// Finds the running processes that take part in a plan, including the services that answer probes.
/// Changes nothing.
///
/// # Errors
/// Where one is not there, or not to be attached to.
pub fn find_all(plan: &Plan) -> Result<Vec<Attachable>, Error> {
    let freezing = plan.experiment.measure.freezing.unwrap_or_default();
    let is_run = |role: usize| {
        let cases: Vec<usize> = plan.run_cases().collect();
        cases.iter().any(|case| plan.cases[*case].active.iter().any(|active| active.role == role))
    };
    let mut all = Vec::new();
    for (role, variants) in plan.variants.iter().enumerate().filter(|(role, _)| is_run(*role)) {
        // Variants differ in what arms give them, not in the target that they name.
        let Some(Task::Attached(attached)) = variants.first().map(|variant| &variant.task) else {
            continue;
        };
        let found = attachment::found(attached).and_then(|found| {
            attachment::method(&found, freezing.by).map(|method| (role, found, method))
        });
        all.push(in_role(plan, role, found.map_err(Error::usage))?);
    }
    check_services(plan, &all)?;
    Ok(all)
}

fn in_role<T>(plan: &Plan, role: usize, found: Result<T, Error>) -> Result<T, Error> {
    found.map_err(|error| match error.is_usage() {
        true => error.within(&plan.experiment.roles[role].name),
        false => error,
    })
}

// A service that answers a probe must exist, and must not be paused with an attached target.
fn check_services(plan: &Plan, all: &[Attachable]) -> Result<(), Error> {
    let tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    let services = tasks.filter_map(|task| match task {
        Task::Probe(probe) => probe.service(),
        _ => None,
    });
    for service in services {
        let target: Target =
            service.target().parse().map_err(|why| Error::usage(format!("{why}")))?;
        let found = match ringfence_system::attach::find(&FsRoot::host(), &target) {
            Ok(found) => found,
            Err(why @ (Refusal::NotThere { .. } | Refusal::Ambiguous { .. })) => {
                return Err(Error::usage(format!("the service that answers: {why}")));
            }
            // Pausing it is not allowed, but a service is never paused.
            Err(_) => continue,
        };
        for (_, guest, _) in all {
            let inside =
                found.roots.iter().find(|one| guest.processes.iter().any(|it| it.id == one.id));
            if let Some(process) = inside {
                return Err(Error::usage(format!(
                    "{target} answers the requests, and its process {} belongs to {}, so it would \
                     be paused too: name an aggressor that does not contain it",
                    process.pid(),
                    guest.target
                )));
            }
        }
    }
    Ok(())
}

impl Guest {
    fn new((role, found, method): Attachable, options: Options) -> Result<Self, Error> {
        let (by, longest) = (method.to_string(), options.longest);
        let freezer =
            Freezer::new(&FsRoot::host(), found.clone(), method, options).map_err(|error| {
                match error {
                    FreezeError::Refused(why) => Error::usage(why.to_string()),
                    other => Error::failed(other.to_string()),
                }
            })?;
        Ok(Self {
            role,
            found,
            freezer: Some(freezer),
            thawed: None,
            pauses: 0,
            by,
            longest,
            readings: Readings::default(),
            before: None,
        })
    }

    /// Its role.
    pub fn role(&self) -> usize {
        self.role
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<u32> {
        let found = ringfence_system::attach::find(&FsRoot::host(), &self.found.target);
        found.map(|found| found.processes.iter().map(|one| one.pid()).collect()).unwrap_or_default()
    }

    // What it does once it is paused no more.
    fn now(&mut self) -> &'static str {
        match self.found.look(&FsRoot::host()) {
            Ok(all) if all.is_empty() => "has ended",
            Ok(all) if all.iter().all(|process| process.state == 'T') => {
                "is stopped by another process"
            }
            _ => "is running again",
        }
    }

    fn usage(&mut self) -> Usage {
        self.readings.timed(|| usage(&FsRoot::host(), &mut self.found))
    }

    /// Whether it runs in a window.
    pub fn runs(&self, active: &[Active]) -> bool {
        active.iter().any(|active| active.role == self.role)
    }

    /// How long it is until a window may open with it as it is wanted.
    ///
    /// # Errors
    /// Where no pause of that length is allowed.
    pub fn not_before(&self, active: &[Active], window: Duration) -> Result<Duration, Error> {
        if self.runs(active) {
            return Ok(self.thawed.map_or(Duration::ZERO, |thawed| {
                Freezing::AFTER_THAW.saturating_sub(thawed.elapsed())
            }));
        }
        let Some(freezer) = &self.freezer else { return Ok(Duration::ZERO) };
        match freezer.may_freeze(pause_for(window)) {
            Ok(()) => Ok(Duration::ZERO),
            Err(NotYet::Until(wait)) => Ok(wait),
            Err(error) => Err(Error::usage(format!("{}: {error}", self.found.target))),
        }
    }

    /// Reads what it has used until now if it runs in a window, unless that takes too long.
    pub fn begin_window(&mut self, active: &[Active]) {
        let is_read = self.runs(active) && self.readings.may_begin();
        self.before = is_read.then(|| self.usage());
    }

    /// Reads it again, where it was read before the window.
    pub fn end_window(&mut self) -> Option<Usage> {
        self.before.is_some().then(|| self.usage())
    }

    /// What it did in a window that was read at both ends, and what it used in it. Where windows
    /// before it were not read, that is what it used since the last one that was, while it ran.
    pub fn measured(
        &mut self,
        after: Usage,
        start_ns: u64,
        length: Duration,
    ) -> Option<(Measured, Used)> {
        let in_window = used_between(&self.before.take()?, &after, length);
        let measured = Measured {
            role: self.role,
            start_ns,
            length_ns: in_window.windows_ns,
            busy_ns: in_window.windows_ns,
            units: in_window.cpu_ns,
            ..Measured::default()
        };
        // While it is paused in slices it is not known for how long it was until now.
        let paused = self.freezer.as_ref().map(|freezer| freezer.frozen().0);
        let since = paused.and_then(|paused| self.readings.since_last(after, paused));
        Some((measured, since.unwrap_or(in_window)))
    }

    /// How often it was paused for much longer than allowed.
    pub fn overruns(&self) -> u32 {
        self.freezer.as_ref().map_or(0, Freezer::overruns)
    }

    /// The same as a text, if it was.
    pub fn overrun(&self) -> Option<String> {
        let freezer = self.freezer.as_ref().filter(|freezer| freezer.overruns() > 0)?;
        let (overruns, longest) = (freezer.overruns(), freezer.longest_frozen());
        Some(overrun(&self.found.target, overruns, longest, self.longest))
    }

    /// Detaches from it: it does not stay paused. Adds what the user should know.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn end(mut self, notes: &mut Vec<String>) -> Result<(), Error> {
        let overrun = self.overrun();
        let Some(freezer) = self.freezer.take() else { return Ok(()) };
        let ((time, share), longest) = (freezer.frozen(), freezer.longest_frozen());
        let ended = freezer.end();
        notes.extend(overrun.map(|what| {
            format!("{WARNING}{what}: this machine is too busy to resume it in time.")
        }));
        if self.pauses > 0 {
            let now = self.now();
            notes.push(format!(
                "{} was paused {} times (max {} ms; {:.1} s in total, {:.0} % of the time) by {}, \
                 and {}.",
                self.found.target,
                self.pauses,
                longest.as_millis(),
                time.as_secs_f64(),
                share * 100.0,
                self.by,
                now
            ));
        }
        let failed = |error| Error::failed(format!("{}: {error}", self.found.target));
        notes.extend(ended.map_err(failed)?.said().cloned());
        Ok(())
    }
}

/// How long a pause for a window lasts.
pub fn pause_for(window: Duration) -> Duration {
    Freezing::AFTER_FREEZE + window
}

fn overrun(target: &Target, overruns: u32, longest: Duration, allowed: Duration) -> String {
    let times = if overruns == 1 { "once".into() } else { format!("{overruns} times") };
    format!(
        "{target} was paused too long {times}: at least {} ms more than the allowed {} ms (max {} \
         ms)",
        OVERRUN.as_millis(),
        allowed.as_millis(),
        longest.as_millis()
    )
}

#[cfg(test)]
pub mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process that runs all the time; dropping this ends it.
    pub struct Busy {
        child: Child,
        /// The changes made to it are noted here.
        pub folder: tempfile::TempDir,
    }

    impl Busy {
        pub fn start() -> Self {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
            Self { child, folder: tempfile::tempdir().unwrap() }
        }

        pub fn pid(&self) -> u32 {
            self.child.id()
        }

        /// Attaches to it as a plan's second role.
        pub fn attach(&self, longest: Duration, share: f64) -> Guest {
            let root = FsRoot::host();
            let target = format!("pid:{}", self.pid()).parse().unwrap();
            let found = ringfence_system::attach::find(&root, &target).unwrap();
            let method = found.methods.last().unwrap().clone();
            let mut options = Options { longest, share, ..Options::default() };
            options.changes.folder = Some(self.folder.path().into());
            Guest::new((1, found, method), options).unwrap()
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn an_overrun_names_the_target_and_both_lengths() {
        let told = overrun(
            &"pid:7".parse().unwrap(),
            2,
            Duration::from_millis(463),
            Duration::from_millis(100),
        );
        assert_eq!(
            told,
            "pid:7 was paused too long 2 times: at least 50 ms more than the allowed 100 ms (max \
             463 ms)"
        );
    }
}
