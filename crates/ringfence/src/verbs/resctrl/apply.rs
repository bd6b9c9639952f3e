//! `resctrl apply`: limits for running processes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::units::Span;
use ringfence_limits::running::loan::{self, Loan};
use ringfence_limits::running::{Checked, Targets, check_for, make_group, move_into};
use ringfence_machine::root::FsRoot;
use ringfence_resctrl::{GroupId, Resctrl, State, Step, Transaction};

use super::messages::{say, steps};
use crate::args::Apply;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

const LOOK: Duration = Duration::from_millis(50);

pub fn run(asked: &Apply) -> Result<(), Failure> {
    let root = host::root(&asked.kernel.root)?;
    let time = asked.time.as_deref().map(time).transpose()?;
    let limits = asked.limits.given();
    if limits.is_none() && !asked.none {
        return Err(Failure::usage("nothing is limited: give --l3, --l2 or --mba, or --none"));
    }
    let named = asked.target.named()?;
    if named.is_empty() {
        return Err(Failure::usage(
            "no target is named: give --pid, --cgroup, --unit or --container",
        ));
    }
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let mut targets = Targets::to_limit(&root, &named)?;
    let living = living(&root, &mut targets)?;
    let folder = asked.kernel.journal.folder.as_ref();
    let state = State::read(&fs)?;
    let name = loan::name(&state);
    let group = if asked.none { GroupId::default() } else { GroupId::control(&name) };
    if asked.dry_run {
        let (_, checked) = check_for(&limits, &fs, &state, &living)?;
        let those = format!("{} of {}", processes(living.len()), targets.name());
        return output::print(&would_be_done(&group, checked, &those));
    }
    // From here on, Ctrl-C puts things back.
    let stop = host::stop_on_signals()?;
    let loan = if asked.keep { None } else { Some(Loan::guard(&name, folder)?) };
    let purpose = format!("resctrl apply to {}", targets.name());
    let mut change = Transaction::begin(&fs, &purpose, &loan::options(folder, loan::WAIT))?;
    let (base, checked) = check_for(&limits, &fs, change.before(), &living)?;
    if !asked.none {
        make_group(&mut change, &group, &base.overlaid(&checked.schemata))?;
    }
    let moved = move_into(&mut change, &root, &mut targets, &group)?;
    if moved.processes() == 0 {
        change.restore()?;
        return Err(Failure::failed(format!("{} has ended: nothing was changed", targets.name())));
    }
    let (those, threads) = (processes(moved.processes()), moved.threads());
    let mut text = format!("{those} with {threads} threads of {} in {group}", targets.name());
    if !asked.none {
        let schemata = fs.group(&group).schemata()?.to_string();
        let _ = write!(text, ": {}", schemata.trim_end().replace('\n', ", "));
    }
    let Some(loan) = loan else {
        change.keep_named(&name)?;
        notes(&checked);
        return output::print(&format!(
            "{text}.\nIt stays so. To undo it: ringfence resctrl undo {name}\n"
        ));
    };
    change.lend(&name)?;
    notes(&checked);
    let until = match time {
        Some(time) => format!("for {} s", time.as_secs_f64()),
        None => "until Ctrl-C".to_owned(),
    };
    let shown = output::print(&format!("{text}, {until}.\n"));
    let ended = wait_for_the_end(&stop, time, || moved.have_ended(&fs, &group));
    let restored = loan.give_back(&fs)?;
    shown?;
    let end = if ended { "All of it has ended. " } else { "" };
    output::print(&format!(
        "{end}{}",
        ringfence_report::restored(&restored, false, &output::style())
    ))
}

fn would_be_done(group: &GroupId, checked: Checked, those: &str) -> String {
    let mut planned = Vec::new();
    if !group.is_default() {
        planned.push(Step::Create { group: group.clone() });
        planned.push(Step::Schemata { group: group.clone(), schemata: checked.schemata });
    }
    steps(&planned, &[format!("move {those} to {group}")], &checked.notes)
}

// Until it is stopped, its time is over or all have ended; whether they have.
fn wait_for_the_end(
    stop: &AtomicBool,
    time: Option<Duration>,
    have_ended: impl Fn() -> bool,
) -> bool {
    let begun = Instant::now();
    let mut looked = begun;
    let mut ended = false;
    while !stop.load(Ordering::Relaxed) && time.is_none_or(|time| begun.elapsed() < time) && !ended
    {
        std::thread::sleep(
            time.map_or(LOOK, |time| time.saturating_sub(begun.elapsed()).min(LOOK)),
        );
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
            ended = have_ended();
        }
    }
    ended
}

fn notes(checked: &Checked) {
    checked.notes.iter().for_each(|note| say(note));
}

fn processes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "process" } else { "processes" })
}

fn time(text: &str) -> Result<Duration, Failure> {
    let span: Span = text.parse().map_err(|error| Failure::usage(format!("--for: {error}")))?;
    Ok(span.0)
}

fn living(root: &FsRoot, targets: &mut Targets) -> Result<BTreeSet<u32>, Failure> {
    let living = targets.processes(root)?;
    if living.is_empty() {
        return Err(Failure::usage(format!("{} has ended: nothing was changed", targets.name())));
    }
    Ok(living)
}
