//! Attached processes, which were running before the workers. They keep running except in windows
//! of cases that do not include them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::Freezing;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::warning::WARNING;
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::{
    Found, FreezeError, Freezer, Frozen, Method, NotYet, OVERRUN, Options, Refusal, Target, Usage,
    usage,
};

use super::super::{EngineError, Measured};
use super::readings::{Readings, used_between};
use crate::usage::Used;
use ringfence_limits::attachment;

// A freeze that takes longer to be in force has failed.
pub(super) const FREEZE_LIMIT: Duration = Duration::from_millis(50);

/// One of them.
pub(super) struct Guest {
    role: usize,
    found: Found,
    /// Not here while it is paused in slices, by a thread that has it.
    pub(super) freezer: Option<Freezer>,
    pub(super) thawed: Option<Instant>,
    pub(super) pauses: u64,
    by: String,
    pub(super) longest: Duration,
    readings: Readings,
}

/// Running processes that take part in a plan: the role, the processes, and the pause method.
type Attachable = (usize, Found, Method);

/// Those of a plan, none of them paused.
///
/// # Errors
/// Where one is not there, or not to be attached to.
pub(super) fn of_plan(plan: &Plan) -> Result<Vec<Guest>, EngineError> {
    let freezing = plan.experiment.measure.freezing.unwrap_or_default();
    let found = find_all(plan)?.into_iter();
    found.map(|one| in_role(plan, one.0, Guest::new(one, &freezing))).collect()
}

/// Finds the running processes that take part in a plan, including the services that answer probes.
/// Changes nothing.
///
/// # Errors
/// Where one is not there, or not to be attached to.
pub fn find_all(plan: &Plan) -> Result<Vec<Attachable>, EngineError> {
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
        all.push(in_role(plan, role, found.map_err(EngineError::Usage))?);
    }
    check_services(plan, &all)?;
    Ok(all)
}

fn in_role<T>(plan: &Plan, role: usize, found: Result<T, EngineError>) -> Result<T, EngineError> {
    found.map_err(|why| match why {
        EngineError::Usage(why) => {
            EngineError::Usage(format!("{}: {why}", plan.experiment.roles[role].name))
        }
        other => other,
    })
}

// A service that answers a probe must exist, and must not be paused with an attached target.
fn check_services(plan: &Plan, all: &[Attachable]) -> Result<(), EngineError> {
    let tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    let services = tasks.filter_map(|task| match task {
        Task::Probe(probe) => probe.service(),
        _ => None,
    });
    for service in services {
        let target: Target =
            service.target().parse().map_err(|why| EngineError::Usage(format!("{why}")))?;
        let found = match ringfence_system::attach::find(&FsRoot::host(), &target) {
            Ok(found) => found,
            Err(why @ (Refusal::NotThere { .. } | Refusal::Ambiguous { .. })) => {
                return Err(EngineError::Usage(format!("the service that answers: {why}")));
            }
            // Pausing it is not allowed, but a service is never paused.
            Err(_) => continue,
        };
        for (_, guest, _) in all {
            let inside =
                found.roots.iter().find(|one| guest.processes.iter().any(|it| it.id == one.id));
            if let Some(process) = inside {
                return Err(EngineError::Usage(format!(
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
    fn new((role, found, method): Attachable, freezing: &Freezing) -> Result<Self, EngineError> {
        let by = method.to_string();
        let options =
            Options { longest: freezing.longest.0, share: freezing.share.0, ..Options::default() };
        let freezer =
            Freezer::new(&FsRoot::host(), found.clone(), method, options).map_err(|error| {
                match error {
                    FreezeError::Refused(why) => EngineError::Usage(why.to_string()),
                    other => EngineError::Failed(other.to_string()),
                }
            })?;
        let (freezer, longest) = (Some(freezer), freezing.longest.0);
        let readings = Readings::default();
        Ok(Self { role, found, freezer, thawed: None, pauses: 0, by, longest, readings })
    }

    /// Its role.
    pub(super) fn role(&self) -> usize {
        self.role
    }

    /// Its processes.
    pub(super) fn processes(&self) -> Vec<u32> {
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

    /// What was attached to.
    pub(super) fn target(&self) -> &Target {
        &self.found.target
    }

    pub(super) fn runs(&self, active: &[Active]) -> bool {
        active.iter().any(|active| active.role == self.role)
    }

    // How long it is until a window may open with it as it is wanted.
    fn not_before(&self, active: &[Active], pause: Duration) -> Result<Duration, EngineError> {
        if self.runs(active) {
            return Ok(self.thawed.map_or(Duration::ZERO, |thawed| {
                Freezing::AFTER_THAW.saturating_sub(thawed.elapsed())
            }));
        }
        let Some(freezer) = &self.freezer else { return Ok(Duration::ZERO) };
        match freezer.may_freeze(pause) {
            Ok(()) => Ok(Duration::ZERO),
            Err(NotYet::Until(wait)) => Ok(wait),
            Err(error) => Err(EngineError::Usage(format!("{}: {error}", self.found.target))),
        }
    }
}

/// How long a pause for a window lasts.
fn pause(window: Duration) -> Duration {
    Freezing::AFTER_FREEZE + window
}

/// How long it is until a window of this length may open.
pub(super) fn wait(
    guests: &[Guest],
    active: &[Active],
    window: Duration,
) -> Result<Duration, EngineError> {
    guests.iter().try_fold(Duration::ZERO, |longest, guest| {
        guest.not_before(active, pause(window)).map(|wait| longest.max(wait))
    })
}

/// The attached processes that are paused for a window; dropping this resumes them.
pub(super) struct Paused<'a>(Vec<(Frozen<'a>, &'a mut Option<Instant>)>);

impl Paused<'_> {
    /// Whether any process is paused.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Resumes all that are still paused. Returns whether they stayed paused until now.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn end(&mut self) -> Result<bool, EngineError> {
        let mut all = true;
        for (frozen, thawed) in self.0.drain(..) {
            let ended = frozen.thaw().map_err(|error| EngineError::Failed(error.to_string()))?;
            *thawed = Some(Instant::now());
            all &= !ended.by_force;
        }
        Ok(all)
    }
}

/// Why no process is paused.
pub(super) enum NotPaused {
    /// One did not stop in time. The next try may succeed: on a busy machine a process may not get
    /// onto a CPU to be stopped.
    Moved(EngineError),
    /// What the kernel refuses.
    Failed(EngineError),
}

/// Pauses the attached processes that do not run in a window, and waits until the processes that
/// depend on them have noticed.
///
/// # Errors
/// Where one cannot be paused; the others are resumed then.
pub(super) fn pause_others<'a>(
    guests: &'a mut [Guest],
    active: &[Active],
    window: Duration,
) -> Result<Paused<'a>, NotPaused> {
    let mut paused = Paused(Vec::new());
    for guest in guests.iter_mut().filter(|guest| !guest.runs(active)) {
        let Some(freezer) = &mut guest.freezer else { continue };
        guest.pauses += 1;
        let target = &guest.found.target;
        match freezer.freeze(pause(window), FREEZE_LIMIT) {
            Ok(frozen) => paused.0.push((frozen, &mut guest.thawed)),
            Err(error) => {
                let why = EngineError::Failed(format!("{target}: {error}"));
                guest.thawed = Some(Instant::now());
                paused.end().map_err(NotPaused::Failed)?;
                return Err(match error {
                    FreezeError::Moving { .. } | FreezeError::NotYet(_) => NotPaused::Moved(why),
                    _ => NotPaused::Failed(why),
                });
            }
        }
    }
    if paused.any() {
        std::thread::sleep(Freezing::AFTER_FREEZE);
    }
    Ok(paused)
}

/// What those that run in a window have used until now, by their index; not of those for which that
/// takes too long.
pub(super) fn uses(guests: &mut [Guest], active: &[Active]) -> Vec<(usize, Usage)> {
    let running = guests.iter_mut().enumerate().filter(|(_, guest)| guest.runs(active));
    let read =
        running.filter_map(|(at, guest)| guest.readings.may_begin().then(|| (at, guest.usage())));
    read.collect()
}

/// What the same have used by now.
pub(super) fn uses_of(guests: &mut [Guest], before: &[(usize, Usage)]) -> Vec<(usize, Usage)> {
    before.iter().map(|(at, _)| (*at, guests[*at].usage())).collect()
}

/// What they did in a window that was read at both ends, and what they used in it; or, where
/// windows before it were not read, since the last one that was, while they ran.
pub(super) fn measured(
    guests: &mut [Guest],
    before: &[(usize, Usage)],
    after: &[(usize, Usage)],
    start_ns: u64,
    length: Duration,
) -> Vec<(Measured, Used)> {
    let one = |((at, before), (_, after)): (&(usize, Usage), &(usize, Usage))| {
        let guest = &mut guests[*at];
        let in_window = used_between(before, after, length);
        let measured = Measured {
            role: guest.role,
            start_ns,
            length_ns: in_window.windows_ns,
            busy_ns: in_window.windows_ns,
            units: in_window.cpu_ns,
            ..Measured::default()
        };
        // While it is paused in slices it is not known for how long it was until now.
        let paused = guest.freezer.as_ref().map(|freezer| freezer.frozen().0);
        let since = paused.and_then(|paused| guest.readings.since_last(*after, paused));
        let used = since.unwrap_or(in_window);
        (measured, used)
    };
    before.iter().zip(after).map(one).collect()
}

// After so many the measurement ends: this machine does not keep the promise.
const MOST_OVERRUNS: u32 = 3;
// Of stages of this run that have ended.
static OVERRUNS: AtomicU32 = AtomicU32::new(0);

/// Refuses further pauses once too many pauses were much longer than allowed.
///
/// # Errors
/// [`EngineError::Limit`] then.
pub(super) fn keep_the_limit(guests: &[Guest]) -> Result<(), EngineError> {
    let overruns = |guest: &Guest| guest.freezer.as_ref().map_or(0, Freezer::overruns);
    let earlier = OVERRUNS.load(Ordering::Relaxed);
    if earlier + guests.iter().map(overruns).sum::<u32>() < MOST_OVERRUNS {
        return Ok(());
    }
    let before =
        (earlier > 0).then(|| format!("in earlier stages, {earlier} pauses were too long"));
    let now = guests.iter().filter_map(|guest| {
        let freezer = guest.freezer.as_ref().filter(|freezer| freezer.overruns() > 0)?;
        Some(overrun(
            &guest.found.target,
            freezer.overruns(),
            freezer.longest_frozen(),
            guest.longest,
        ))
    });
    Err(EngineError::Limit(now.chain(before).collect::<Vec<_>>().join("; ")))
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

/// Detaches: no process stays paused, whatever happens. Returns what the user should know.
///
/// # Errors
/// What could not be restored.
pub(super) fn end(guests: Vec<Guest>) -> Result<Vec<String>, EngineError> {
    let mut said = Vec::new();
    let mut failed = None;
    for mut guest in guests {
        let Some(freezer) = guest.freezer.take() else { continue };
        let ((time, share), longest) = (freezer.frozen(), freezer.longest_frozen());
        let overruns = freezer.overruns();
        OVERRUNS.fetch_add(overruns, Ordering::Relaxed);
        let ended = freezer.end();
        if overruns > 0 {
            let what = overrun(&guest.found.target, overruns, longest, guest.longest);
            said.push(format!("{WARNING}{what}: this machine is too busy to resume it in time."));
        }
        if guest.pauses > 0 {
            let now = guest.now();
            said.push(format!(
                "{} was paused {} times (max {} ms; {:.1} s in total, {:.0} % of the time) by {}, \
                 and {}.",
                guest.found.target,
                guest.pauses,
                longest.as_millis(),
                time.as_secs_f64(),
                share * 100.0,
                guest.by,
                now
            ));
        }
        match ended {
            Ok(restored) => said.extend(restored.said().cloned()),
            Err(error) => {
                failed = Some(EngineError::Failed(format!("{}: {error}", guest.found.target)))
            }
        }
    }
    failed.map_or(Ok(said), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

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
