//! Those that run already beside the workers: they run all the time but for windows of cases that are without them.

use std::time::{Duration, Instant};

use ringfence_attach::{
    Found, FreezeError, Freezer, Frozen, NotYet, Options, Refusal, Source, Target, Usage, usage,
};
use ringfence_experiment::Freezing;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;
use ringfence_machine::root::FsRoot;

use super::super::{EngineError, Measured};
use crate::used::Used;
use ringfence_isolation::attached;

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
}

/// Those of a plan, none of them paused.
///
/// # Errors
/// Where one is not there, or not to be attached to.
pub(super) fn of_plan(plan: &Plan) -> Result<Vec<Guest>, EngineError> {
    let freezing = plan.experiment.measure.freezing.unwrap_or_default();
    let is_run = |role: usize| {
        let cases: Vec<usize> = plan.run_cases().collect();
        cases.iter().any(|case| plan.cases[*case].active.iter().any(|active| active.role == role))
    };
    let mut guests = Vec::new();
    for (role, variants) in plan.variants.iter().enumerate().filter(|(role, _)| is_run(*role)) {
        // They differ in what arms give them, not in whom they name.
        let Some(Task::Attached(attached)) = variants.first().map(|variant| &variant.task) else { continue };
        let name = &plan.experiment.roles[role].name;
        guests.push(Guest::new(role, attached, &freezing).map_err(|why| match why {
            EngineError::Usage(why) => EngineError::Usage(format!("{name}: {why}")),
            other => other,
        })?);
    }
    check_services(plan, &guests)?;
    Ok(guests)
}

// Whoever answers is there, and is not paused with one of these.
fn check_services(plan: &Plan, guests: &[Guest]) -> Result<(), EngineError> {
    let tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    let services = tasks.filter_map(|task| match task {
        Task::Probe(probe) => probe.service(),
        _ => None,
    });
    for service in services {
        let target: Target = service.target().parse().map_err(|why| EngineError::Usage(format!("{why}")))?;
        let found = match ringfence_attach::find(&FsRoot::host(), &target) {
            Ok(found) => found,
            Err(why @ (Refusal::NotThere { .. } | Refusal::Ambiguous { .. })) => {
                return Err(EngineError::Usage(format!("who answers: {why}")));
            }
            // It may not be paused, which nobody does with it.
            Err(_) => continue,
        };
        for guest in guests {
            let inside =
                found.roots.iter().find(|one| guest.found.processes.iter().any(|it| it.id == one.id));
            if let Some(process) = inside {
                return Err(EngineError::Usage(format!(
                    "{target} answers, and process {} of it belongs to {}, so that it would be paused as well: name an \
                     aggressor without it",
                    process.pid(),
                    guest.found.target
                )));
            }
        }
    }
    Ok(())
}

impl Guest {
    fn new(
        role: usize,
        attached: &ringfence_experiment::task::Attached,
        freezing: &Freezing,
    ) -> Result<Self, EngineError> {
        let found = attached::found(attached).map_err(EngineError::Usage)?;
        let method = attached::method(&found, freezing.by).map_err(EngineError::Usage)?;
        let by = method.to_string();
        let options = Options { longest: freezing.longest.0, share: freezing.share.0, ..Options::default() };
        let freezer = Freezer::new(&FsRoot::host(), found.clone(), method, options)
            .map_err(|error| EngineError::Failed(error.to_string()))?;
        let (freezer, longest) = (Some(freezer), freezing.longest.0);
        Ok(Self { role, found, freezer, thawed: None, pauses: 0, by, longest })
    }

    /// Its role.
    pub(super) fn role(&self) -> usize {
        self.role
    }

    /// Its processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        let found = ringfence_attach::find(&FsRoot::host(), &self.found.target);
        found.map(|found| found.processes.iter().map(|one| one.pid()).collect()).unwrap_or_default()
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
            return Ok(self
                .thawed
                .map_or(Duration::ZERO, |thawed| Freezing::AFTER_THAW.saturating_sub(thawed.elapsed())));
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
pub(super) fn wait(guests: &[Guest], active: &[Active], window: Duration) -> Result<Duration, EngineError> {
    guests.iter().try_fold(Duration::ZERO, |longest, guest| {
        guest.not_before(active, pause(window)).map(|wait| longest.max(wait))
    })
}

/// Those that are paused for a window; they go on when this is dropped.
pub(super) struct Paused<'a>(Vec<(Frozen<'a>, &'a mut Option<Instant>)>);

impl Paused<'_> {
    /// Whether anybody is.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Lets them go on, those that do not already. Whether these stood until now.
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

/// Why nobody is paused.
pub(super) enum NotPaused {
    /// One did not stand in time. It may the next time: on a busy machine it is not on a CPU to be stopped.
    Moved(EngineError),
    /// What the kernel refuses.
    Failed(EngineError),
}

/// Pauses those that a window is without, and waits until whoever waited for them has noticed.
///
/// # Errors
/// Where one cannot be paused; the others go on then.
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

/// What those that run in a window have used until now.
pub(super) fn uses(guests: &mut [Guest], active: &[Active]) -> Vec<(usize, Usage)> {
    let root = FsRoot::host();
    let running = guests.iter_mut().filter(|guest| guest.runs(active));
    running.map(|guest| (guest.role, usage(&root, &mut guest.found))).collect()
}

/// What they did in a window, and what they used.
pub(super) fn measured(
    before: &[(usize, Usage)],
    after: &[(usize, Usage)],
    start_ns: u64,
    length: Duration,
) -> Vec<(Measured, Used)> {
    let length_ns = length.as_nanos() as u64;
    let one = |((role, before), (_, after)): (&(usize, Usage), &(usize, Usage))| {
        let cpu_ns = after.cpu.saturating_sub(before.cpu).as_nanos() as u64;
        let bytes =
            |usage: &Usage| usage.io.map_or((0, 0), |(read, written, _): (u64, u64, Source)| (read, written));
        let (read, written) =
            (bytes(after).0.saturating_sub(bytes(before).0), bytes(after).1.saturating_sub(bytes(before).1));
        let sample = Sample {
            start_ns,
            length_ns,
            busy_ns: length_ns,
            units: cpu_ns,
            simulated: Some(false),
            ..Sample::default()
        };
        let used = Used {
            windows_ns: length_ns,
            cpu_ns,
            io_bytes: read + written,
            disk_bytes: written,
            restarts: 0,
        };
        (Measured { role: *role, sample }, used)
    };
    before.iter().zip(after).map(one).collect()
}

/// Ends it: nobody is paused any more, whatever happens. Returned is what should be known.
///
/// # Errors
/// What could not be put back.
pub(super) fn end(guests: Vec<Guest>) -> Result<Vec<String>, EngineError> {
    let mut said = Vec::new();
    let mut failed = None;
    for guest in guests {
        let Some(freezer) = guest.freezer else { continue };
        let (time, share) = freezer.frozen();
        if guest.pauses > 0 {
            said.push(format!(
                "{} was paused {} times, {:.1} s in all and {:.0} % of the time, by {}, and goes on.",
                guest.found.target,
                guest.pauses,
                time.as_secs_f64(),
                share * 100.0,
                guest.by
            ));
        }
        match freezer.end() {
            Ok(restored) => said.extend(restored.said().cloned()),
            Err(error) => failed = Some(EngineError::Failed(format!("{}: {error}", guest.found.target))),
        }
    }
    failed.map_or(Ok(said), Err)
}
