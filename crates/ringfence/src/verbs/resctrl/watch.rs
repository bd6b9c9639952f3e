//! `resctrl watch`: what groups use, live.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_experiment::units::Span;
use ringfence_limits::running::loan::{self, Loan};
use ringfence_limits::running::watch::{self, Readings};
use ringfence_limits::running::{Target, Targets};
use ringfence_machine::root::FsRoot;
use ringfence_report as report;
use ringfence_report::json;
use ringfence_resctrl::{Error, GroupId, Resctrl, State, Transaction};

use super::messages::say;
use crate::args::Watch;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(50);

pub fn run(asked: &Watch) -> Result<(), Failure> {
    let root = host::root(&asked.kernel.root)?;
    let refused = |why: String| Failure::usage(format!("--interval: {why}"));
    let interval: Span = asked.interval.parse().map_err(|error| refused(format!("{error}")))?;
    if !(SHORTEST..=LONGEST).contains(&interval.0) {
        return Err(refused(format!("{} is not between 10ms and 1h", asked.interval)));
    }
    let fs = Resctrl::find(&root).map_err(Error::from)?;
    let missing = watch::missing(fs.info()?.monitoring.as_ref())?;
    let named = asked.target.named()?;
    let stop = host::stop_on_signals()?;
    let own = if named.is_empty() { None } else { Some(Own::make(&root, &fs, &named, asked)?) };
    let only = own.as_ref().map(|own| own.groups.clone());
    let shown =
        show(asked, &fs, interval.0, &missing, only.as_ref(), &|| stop.load(Ordering::Relaxed));
    let back = own.map(|own| own.loan.give_back(&fs)).transpose();
    shown?;
    back?;
    Ok(())
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
    let (mut before, mut last) = (Readings::take(fs, only)?, begun);
    let mut shown = 0;
    while asked.count.is_none_or(|count| shown < count) {
        while last.elapsed() < interval {
            if stopped() {
                return Ok(());
            }
            std::thread::sleep(interval.saturating_sub(last.elapsed()).min(LOOK));
        }
        let (now, at) = (Readings::take(fs, only)?, Instant::now());
        let seconds = at.duration_since(last).as_secs_f64();
        let since = at.duration_since(begun).as_secs_f64();
        let used = now.used_since(&before, seconds);
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

// Monitor groups for what is watched, lent.
struct Own {
    loan: Loan,
    groups: BTreeSet<GroupId>,
}

impl Own {
    fn make(root: &FsRoot, fs: &Resctrl, named: &[Target], asked: &Watch) -> Result<Self, Failure> {
        let folder = asked.kernel.journal.folder.as_ref();
        let mut targets = Targets::to_watch(root, named)?;
        let name = loan::name(&State::read(fs)?);
        let loan = Loan::guard(&name, folder)?;
        let purpose = format!("resctrl watch of {}", targets.name());
        let mut change = Transaction::begin(fs, &purpose, &loan::options(folder, loan::WAIT))?;
        let groups = watch::groups(&mut change, root, &mut targets, &name)?;
        change.lend(&name)?;
        Ok(Self { loan, groups })
    }
}
