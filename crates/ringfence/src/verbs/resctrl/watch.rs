//! `resctrl watch`: what groups use, live.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_experiment::units::Span;
use ringfence_json as json;
use ringfence_machine::root::FsRoot;
use ringfence_report as report;
use ringfence_resctrl::info::MonitoringInfo;
use ringfence_resctrl::monitor::{self, Reading, Used};
use ringfence_resctrl::{Error, GroupId, Resctrl, State, Step, Thread, Transaction};

use super::loan::{self, Loan};
use super::targets::{self, Targets};
use super::told::say;
use crate::args::Watch;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(50);

pub fn run(asked: &Watch) -> Result<(), Failure> {
    let root = host::root(&asked.kernel.root)?;
    let refused = |why: String| Failure::Usage(format!("--interval: {why}"));
    let interval: Span = asked.interval.parse().map_err(|error| refused(format!("{error}")))?;
    if !(SHORTEST..=LONGEST).contains(&interval.0) {
        return Err(refused(format!("{} is not between 10ms and 1h", asked.interval)));
    }
    let fs = Resctrl::find(&root).map_err(Error::from)?;
    let missing = missing(fs.info()?.monitoring.as_ref())?;
    let targets = targets::find(&root, &asked.target)?;
    let stop = host::stop_on_signals()?;
    let own = targets.map(|targets| Own::make(&root, &fs, &targets, asked)).transpose()?;
    let only = own.as_ref().map(|own| own.groups.clone());
    let shown = show(asked, &fs, interval.0, &missing, only.as_ref(), &|| stop.load(Ordering::Relaxed));
    let back = own.map(|own| own.loan.give_back(&fs)).transpose();
    shown.and(back.map(|_| ()))
}

// What is not counted here, a sentence each.
fn missing(info: Option<&MonitoringInfo>) -> Result<Vec<String>, Failure> {
    let none = "not run, because resctrl monitors nothing here: there is no info/L3_MON, so the processor or the \
                hypervisor above it shows no cache monitoring, or the kernel was started with rdt=!cmt,!mbmtotal,!mbmlocal";
    let Some(info) = info else { return Err(Failure::Usage(none.into())) };
    let features = [
        ("occupancy of the cache", "llc_occupancy"),
        ("traffic to all memory", "mbm_total_bytes"),
        ("traffic to local memory", "mbm_local_bytes"),
    ];
    let lacks = features.iter().filter(|(_, event)| !info.mon_features.iter().any(|known| known == event));
    let said = |(what, event): &(&str, &str)| {
        format!("{what}: not run, because info/L3_MON/mon_features names no {event}")
    };
    let sentences: Vec<String> = lacks.map(said).collect();
    match sentences.len() == features.len() {
        true => Err(Failure::Usage(sentences.join("; "))),
        false => Ok(sentences),
    }
}

fn show(
    asked: &Watch,
    fs: &Resctrl,
    interval: Duration,
    missing: &[String],
    only: Option<&BTreeSet<GroupId>>,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let terminal = std::io::stdout().is_terminal() && !asked.json;
    if !terminal && !asked.json {
        missing.iter().for_each(|sentence| say(sentence));
        output::print(report::WATCHED_HEADS)?;
    }
    let begun = Instant::now();
    let (mut before, mut last) = (readings(fs, only)?, begun);
    let mut shown = 0;
    while asked.count.is_none_or(|count| shown < count) {
        while last.elapsed() < interval {
            if stopped() {
                return Ok(());
            }
            std::thread::sleep(interval.saturating_sub(last.elapsed()).min(LOOK));
        }
        let (now, at) = (readings(fs, only)?, Instant::now());
        let seconds = at.duration_since(last).as_secs_f64();
        let since = at.duration_since(begun).as_secs_f64();
        let none = Vec::new();
        let used: Vec<Used> = now
            .iter()
            .flat_map(|(group, now)| monitor::used(group, before.get(group).unwrap_or(&none), now, seconds))
            .collect();
        let text = if asked.json {
            output::json_line(&json::resctrl_watch(since, seconds, &used, missing))?
        } else if terminal {
            // Home, and clear what is below.
            format!("\x1b[H\x1b[J{}", report::watched(since, &used, missing, &output::style()))
        } else {
            report::watched_lines(since, &used)
        };
        if !output::print_if_read(&text)? {
            return Ok(());
        }
        (before, last) = (now, at);
        shown += 1;
    }
    Ok(())
}

// Of groups that are still there.
fn readings(
    fs: &Resctrl,
    only: Option<&BTreeSet<GroupId>>,
) -> Result<BTreeMap<GroupId, Vec<Reading>>, Failure> {
    let mut all = BTreeMap::new();
    for group in fs.groups()? {
        if only.is_some_and(|only| !only.contains(group.id())) {
            continue;
        }
        match group.monitored() {
            Ok(readings) => _ = all.insert(group.id().clone(), readings),
            Err(_) if !group.exists() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

// Monitor groups for what is watched: one below each group of control in which any of it is.
struct Own {
    loan: Loan,
    groups: BTreeSet<GroupId>,
}

impl Own {
    fn make(root: &FsRoot, fs: &Resctrl, targets: &Targets, asked: &Watch) -> Result<Self, Failure> {
        let folder = asked.kernel.journal.folder.as_ref();
        if targets.processes(root)?.is_empty() {
            return Err(Failure::Usage(format!(
                "{} has no processes: there is nothing to watch",
                targets.name()
            )));
        }
        let name = loan::name(&State::read(fs)?);
        let loan = Loan::guard(&name, folder)?;
        let purpose = format!("resctrl watch of {}", targets.name());
        let mut change = Transaction::begin(fs, &purpose, &loan::options(folder, loan::WAIT))?;
        let mut groups = BTreeSet::new();
        let mut moved = BTreeSet::new();
        loop {
            let state = State::read(fs)?;
            let mut new: BTreeMap<GroupId, Vec<Thread>> = BTreeMap::new();
            // What they start meanwhile is born where they are.
            let pids = match targets.processes(root) {
                Err(gone) if moved.is_empty() => return Err(gone),
                pids => pids.unwrap_or_default(),
            };
            for tid in pids.into_iter().flat_map(|pid| fs.kernel().threads(pid)) {
                let Some(start) = fs.kernel().started(tid) else { continue };
                let thread = Thread { tid, start };
                let is_in = state.monitor_of(thread).is_some_and(|group| groups.contains(&group));
                if moved.insert(thread) && !is_in {
                    new.entry(state.control_of(thread)).or_default().push(thread);
                }
            }
            if new.is_empty() {
                break;
            }
            for (control, threads) in new {
                let group = control.with_monitor(&name);
                if groups.insert(group.clone()) {
                    change.apply(Step::Create { group: group.clone() })?;
                }
                change.apply(Step::Threads { group, threads })?;
            }
        }
        change.lend(&name)?;
        Ok(Self { loan, groups })
    }
}
