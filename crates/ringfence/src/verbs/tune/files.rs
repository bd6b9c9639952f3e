//! `tune file:DIR`: the policy for files in a folder.

use std::path::Path;
use std::time::Instant;

use ringfence_experiment::task::{Layout, Sync};
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_studies::Here;
use ringfence_studies::tune::files::choice::{LAYOUTS, SYNCS};
use ringfence_studies::tune::files::{self, Question, Tuned};

use super::policy_file::Written;
use crate::args::{Placement, Tune};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::flags::{check_trials, set, words};
use crate::shared::{announce, experiment, folder, host, results};

pub fn run(args: &Tune, dir: &Path) -> Result<(), Failure> {
    let question = question(args, dir)?;
    let machine = host::machine(&args.on)?;
    files::check(&question, &machine)?;
    let to = Written::new(args)?;
    let stop = host::stop_on_signals()?;
    let started = Instant::now();
    let mut show = Show::new(args.output.quiet);
    let what = format!("every durable method in {}", question.dir.display());
    let length = match question.trials {
        Some(trials) => format!("{trials} trials of each"),
        None => "about a minute".into(),
    };
    show.announce(announce::sentence("tune", &what, &length, args.output.json));
    let tuned = files::run(&question, &mut Here::new(&machine, &to.dir, &stop, &mut show));
    show.end();
    let tuned = tuned?;
    to.write(tuned.policy.as_deref())?;
    tell(args, &tuned, &to, &machine, started)?;
    match (&tuned.ended_early, &tuned.policy) {
        (Some(why), _) => Err(experiment::kept(why, &to.dir, &machine)),
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Failure::Verdict(Exit::Undecided)),
    }
}

fn tell(
    args: &Tune,
    tuned: &Tuned,
    to: &Written,
    machine: &Machine,
    started: Instant,
) -> Result<(), Failure> {
    let written = tuned.policy.as_ref().map(|_| to.policy.as_path());
    if args.output.json {
        return output::print_json(&json::tuned_files(tuned, &to.dir, written));
    }
    let style = output::style();
    let mut text = match style.details {
        true => ringfence_report::machine_line(machine, &style) + "\n",
        false => String::new(),
    };
    text += &ringfence_report::tune_files(tuned, &style);
    text += &to.last_line(written, "no policy was written", started);
    text += &results::rest(&to.dir, &style);
    output::print(&text)
}

// Those of a list, in the order in which they are known; all of them where there is none.
fn chosen<T: Copy>(
    flag: &str,
    list: Option<&str>,
    known: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, Failure> {
    words(flag, list, &known.iter().copied().map(name).collect::<Vec<_>>())?;
    let asked = |one: &T| list.is_none_or(|list| list.split(',').any(|word| word == name(*one)));
    Ok(known.iter().copied().filter(asked).collect())
}

fn question(args: &Tune, dir: &Path) -> Result<Question, Failure> {
    let refused = |flag: &str, why: String| Err(Failure::usage(format!("{flag}: {why}")));
    if args.victim.is_some() || args.budget.is_some() {
        let why = format!(
            "it applies to memory; to test commits next to a victim, use 'ringfence prove' with \
             --aggressor 'commit dir={}' and the settings of the policy",
            dir.display()
        );
        return refused(if args.victim.is_some() { "--victim" } else { "--budget" }, why);
    }
    if !matches!(args.placement, Placement::Auto) {
        return refused(
            "--placement",
            "it applies to a writer next to a victim, and commits have none here".into(),
        );
    }
    let dir = folder::named(dir)?.into();
    let mut record = Bytes::kib(4);
    set(&mut record, "block", args.block.as_deref())?;
    let mut size = None;
    if let Some(text) = args.size.as_deref() {
        let mut asked = files::LOG;
        set(&mut asked, "size", Some(text))?;
        size = Some(asked);
    }
    check_trials(args.trials)?;
    let syncs = chosen("sync", args.sync.as_deref(), &SYNCS, Sync::name)?;
    let layouts = chosen("layout", args.layout.as_deref(), &LAYOUTS, Layout::name)?;
    Ok(Question { dir, record, size, syncs, layouts, trials: args.trials, seed: args.seed })
}
