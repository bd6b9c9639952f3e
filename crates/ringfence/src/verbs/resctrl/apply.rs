//! `resctrl apply`: limits for what runs already.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_experiment::units::Span;
use ringfence_machine::root::FsRoot;
use ringfence_resctrl::{GroupId, Resctrl, State, Step, Transaction};

use super::limits::{self, Checked};
use super::loan::{self, Loan};
use super::targets::{self, Targets};
use super::told::{make, say, steps};
use crate::args::Apply;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

const LOOK: Duration = Duration::from_millis(50);

pub fn run(asked: &Apply) -> Result<(), Failure> {
    let root = host::root(&asked.kernel.root)?;
    let time = asked.time.as_deref().map(time).transpose()?;
    let limited = asked.limits.l3.is_some() || asked.limits.l2.is_some() || asked.limits.mba.is_some();
    if !limited && !asked.none {
        return Err(Failure::Usage("nothing is limited: give --l3, --l2 or --mba, or --none".into()));
    }
    let named = &asked.target;
    let none = || Failure::Usage("nothing is named: give --pid, --cgroup or --unit".into());
    if named.pid.is_empty() && named.cgroup.is_none() && named.unit.is_none() {
        return Err(none());
    }
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let targets = targets::find(&root, named)?.ok_or_else(none)?;
    let own = root.is_host().then(std::process::id);
    let living = living(&root, &targets, own)?;
    let folder = asked.kernel.journal.folder.as_ref();
    let state = State::read(&fs)?;
    let name = loan::name(&state);
    let group = if asked.none { GroupId::default() } else { GroupId::control(&name) };
    if asked.dry_run {
        let (_, checked) = checked(asked, &fs, &state, &living)?;
        let mut planned = Vec::new();
        if !asked.none {
            planned.push(Step::Create { group: group.clone() });
            planned.push(Step::Schemata { group: group.clone(), schemata: checked.schemata });
        }
        let last = format!("move {} of {} to {group}", processes(living.len()), targets.name());
        return output::print(&steps(&planned, &[last], &checked.notes));
    }
    // From here on, Ctrl-C puts things back.
    let stop = host::stop_on_signals()?;
    let loan = if asked.keep { None } else { Some(Loan::guard(&name, folder)?) };
    let purpose = format!("resctrl apply to {}", targets.name());
    let mut change = Transaction::begin(&fs, &purpose, &loan::options(folder, loan::WAIT))?;
    let (base, checked) = checked(asked, &fs, change.before(), &living)?;
    if !asked.none {
        make(&mut change, &group, &base.overlaid(&checked.schemata))?;
    }
    let moved = move_all(&mut change, &root, &targets, &group, own)?;
    if moved.is_empty() {
        change.restore()?;
        return Err(Failure::Failed(format!("{} has ended: nothing was changed", targets.name())));
    }
    let threads: usize = moved.values().sum();
    let mut text =
        format!("{} with {threads} threads of {} in {group}", processes(moved.len()), targets.name());
    if !asked.none {
        let schemata = fs.group(&group).schemata()?.to_string();
        let _ = write!(text, ": {}", schemata.trim_end().replace('\n', ", "));
    }
    let Some(loan) = loan else {
        change.keep_named(&name)?;
        notes(&checked);
        return output::print(&format!("{text}.\nIt stays so. To undo it: ringfence resctrl undo {name}\n"));
    };
    change.lend(&name)?;
    notes(&checked);
    let until = match time {
        Some(time) => format!("for {} s", time.as_secs_f64()),
        None => "until Ctrl-C".to_owned(),
    };
    let shown = output::print(&format!("{text}, {until}.\n"));
    let begun = Instant::now();
    let mut looked = begun;
    let mut ended = false;
    while !stop.load(Ordering::Relaxed) && time.is_none_or(|time| begun.elapsed() < time) && !ended {
        std::thread::sleep(time.map_or(LOOK, |time| time.saturating_sub(begun.elapsed()).min(LOOK)));
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
            ended = all_gone(&fs, &group, &moved);
        }
    }
    let restored = loan.give_back(&fs)?;
    shown?;
    let end = if ended { "All of it has ended. " } else { "" };
    output::print(&format!("{end}{}", ringfence_report::restored(&restored, false, &output::style())))
}

fn notes(checked: &Checked) {
    checked.notes.iter().for_each(|note| say(note));
}

fn processes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "process" } else { "processes" })
}

fn time(text: &str) -> Result<Duration, Failure> {
    let span: Span = text.parse().map_err(|error| Failure::Usage(format!("--for: {error}")))?;
    Ok(span.0)
}

fn living(root: &FsRoot, targets: &Targets, own: Option<u32>) -> Result<BTreeSet<u32>, Failure> {
    let living = targets.processes(root)?;
    if living.is_empty() {
        return Err(Failure::Usage(format!("{} has no processes: nothing was changed", targets.name())));
    }
    match targets::refused(root, &living, own) {
        Some(why) => Err(Failure::Usage(why)),
        None => Ok(living),
    }
}

// What they are to have, and what they would have otherwise: that which the first of them has.
fn checked(
    asked: &Apply,
    fs: &Resctrl,
    state: &State,
    living: &BTreeSet<u32>,
) -> Result<(ringfence_resctrl::Schemata, Checked), Failure> {
    let homes: Vec<_> = living.iter().map(|pid| loan::home(fs, state, *pid)).collect();
    let base = homes.first().map(|(_, schemata)| schemata.clone()).unwrap_or_default();
    let mut checked = limits::check(&asked.limits, &fs.info()?, state, &base)?;
    if !asked.none && homes.iter().any(|(_, schemata)| *schemata != base) {
        let first = &homes[0].0;
        checked
            .notes
            .push(format!("they are in groups with different limits: what is not named is as in {first}"));
    }
    Ok((base, checked))
}

// Whoever is moved may start others meanwhile, which are born where it was: until a look finds no more of them.
fn move_all(
    change: &mut Transaction,
    root: &FsRoot,
    targets: &Targets,
    group: &GroupId,
    own: Option<u32>,
) -> Result<BTreeMap<u32, usize>, Failure> {
    let mut moved = BTreeMap::new();
    for _ in 0..20 {
        let living = match targets.processes(root) {
            Ok(living) => living,
            // The last of them has ended.
            Err(_) if !moved.is_empty() => break,
            Err(failure) => return Err(failure),
        };
        let new: BTreeSet<u32> = living.into_iter().filter(|pid| !moved.contains_key(pid)).collect();
        if new.is_empty() {
            break;
        }
        if let Some(why) = targets::refused(root, &new, own) {
            change.restore()?;
            return Err(Failure::Usage(why));
        }
        for pid in new {
            let threads = change.move_process(group, pid)?;
            if threads > 0 {
                moved.insert(pid, threads);
            }
        }
    }
    Ok(moved)
}

fn all_gone(fs: &Resctrl, group: &GroupId, moved: &BTreeMap<u32, usize>) -> bool {
    if group.is_default() {
        return moved.keys().all(|pid| fs.kernel().threads(*pid).is_empty());
    }
    fs.group(group).tasks().is_ok_and(|tasks| tasks.is_empty())
}
