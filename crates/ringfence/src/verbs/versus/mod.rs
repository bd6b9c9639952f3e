//! `versus`: commands, interleaved.

mod progress;
mod question;

use std::time::{Duration, Instant};

use ringfence_analysis::estimate::NotEstimable;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::units::{Share, Span};
use ringfence_report::json;
use ringfence_studies::Watch;
use ringfence_studies::measure;
use ringfence_studies::prove::time::Precision;
use ringfence_versus::export::{Sort, Unit};
use ringfence_versus::session::{SHARE_OF_DIFFERENCE, Settings};
use ringfence_versus::{self as versus, Findings, Note, Question, Verdict, conduct};

use crate::args::VersusFlags as Flags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::{announce, experiment, host, page, results};

pub fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(how) = &flags.progress {
        return by_progress(flags, how);
    }
    let question = question::question(flags).map_err(Failure::usage)?;
    if flags.json && question.is_loud() {
        return Err(Failure::usage(
            "--json: the output of commands would be mixed with it; leave out --show-output \
             (--output inherit)",
        ));
    }
    let dir = results::new_dir(flags.out.as_deref(), "versus")?;
    let stop = host::stop_on_signals()?;
    // A bar would stand in the midst of what commands print.
    let mut told =
        Told(if question.is_loud() { Show::in_lines(flags.quiet) } else { Show::new(flags.quiet) });
    told.0.begin("versus");
    told.0.announce(announced(&question, flags));
    let done = conduct(&question, &dir, &stop, &mut told);
    told.0.end();
    let done = done?;
    let silent = flags.style.as_deref() == Some("none");
    if flags.json {
        output::print_json(&json::versus(&done.findings, &dir))?;
    } else if !silent {
        let style = output::style();
        let mut text = ringfence_report::versus::versus(&done.findings, &style);
        // Otherwise the page, which lies in the same folder, is named.
        if style.details || done.trouble.is_some() {
            text += &format!("\nruns: {}\n", pasteable(&dir));
        }
        output::print(&text)?;
    }
    page::beside(&dir, flags.json || silent, done.trouble.is_some())?;
    match (done.trouble, done.findings.verdict) {
        (Some(trouble), _) => Err(trouble.into()),
        (None, Verdict::OverBudget) => Err(Failure::Verdict(Exit::BudgetMissed)),
        (None, Verdict::Undecided | Verdict::NotEstimable)
            if done.findings.settings.budget.is_some() =>
        {
            Err(Failure::Verdict(Exit::Undecided))
        }
        (None, _) => Ok(()),
    }
}

fn announced(question: &Question, flags: &Flags) -> Option<String> {
    let settings = &question.settings;
    let what: String = match question.cases.len() {
        1 => "1 command".into(),
        commands => format!("{commands} commands in turn"),
    };
    let length = match settings.runs {
        Some(1) => "1 run".into(),
        Some(runs) => format!("{runs} runs each"),
        None => format!(
            "until {}, at most {}",
            end(settings, question.cases.len()),
            announce::time(Duration::from_secs_f64(settings.time_of(question.cases.len())))
        ),
    };
    announce::sentence("versus", &what, &length, flags.json)
}

// What ends the measurement before its time.
fn end(settings: &Settings, commands: usize) -> String {
    match settings.budget {
        Some(budget) => format!("the budget of {} is met or missed", Share(budget)),
        None if commands == 1 => format!("its time is known to {}", Share(settings.margin)),
        None => format!(
            "the difference is known to {} or {} of itself",
            Share(settings.precision),
            Share(SHARE_OF_DIFFERENCE)
        ),
    }
}

// Commands that run on.
fn by_progress(flags: &Flags, how: &str) -> Result<(), Failure> {
    let (started, machine) = (Instant::now(), host::examine()?);
    let experiment = progress::experiment(flags, how).map_err(Failure::usage)?;
    let mut plan = ringfence_studies::plan(&experiment, &machine)?;
    ringfence_studies::refuse_parts(&plan, &machine)?;
    let time = experiment.measure.time.map_or(Duration::ZERO, |time| time.0);
    let least = plan.least_time();
    if flags.time.is_none() {
        plan.experiment.measure.time = Some(Span(time.max(least)).rounded_up());
    } else if time < least {
        return Err(Failure::usage(format!(
            "--time {} is too short: a figure needs at least 4 trials, which take {least}; give \
             --time {least}",
            Span(time),
            least = Span(least).rounded_up(),
        )));
    }
    plan.experiment.measure.looks = progress::looks(time.max(least), plan.least_trial());
    plan.experiment.check()?;
    let dir = results::new_dir(flags.out.as_deref(), "versus")?;
    let stop = host::stop_on_signals()?;
    let mut show = Show::new(flags.quiet);
    show.begin("versus");
    let measure = &plan.experiment.measure;
    let budget = measure.decide.as_ref().and_then(|decide| decide.budget(measure.quantity));
    let told = budget.unwrap_or(Budget::Slowdown(measure.margin));
    if let Some(precision) = Precision::of(told, measure, measure.time.map(|time| time.0)) {
        Watch::precision(&mut show, &precision);
    }
    let done = measure::measure(plan, &machine, &dir, &stop, &mut |progress| show.update(progress));
    show.end();
    let done = done?;
    let found = ringfence_studies::findings::Findings::from(&done);
    if flags.json {
        output::print_json(&json::experiment(&found, &dir))?;
    } else {
        output::print(&experiment::as_text(&found, done.steps_before, &dir, &machine, started))?;
    }
    page::beside_measured(&dir, flags.json, &done, &machine)?;
    experiment::finish(&done.ended, &dir, &machine)?;
    let verdict = experiment::verdict(&found);
    let timeline = &found.timeline;
    let still = timeline.stalled >= timeline.windows.max(1)
        || found.results.iter().filter_map(|result| result.effect.as_ref()).any(|effect| {
            matches!(effect.by_class.all.slowdown, Err(NotEstimable::Stalled { .. }))
        });
    let settled = budget.is_some() && !matches!(verdict, Err(Failure::Verdict(Exit::Undecided)));
    if still && !settled {
        return Err(Failure::failed(format!(
            "a command made no progress in windows of 100 ms of some trials: --progress {how} is \
             for commands that keep running and show progress all the time; commands that exit are \
             compared as whole runs, without --progress"
        )));
    }
    verdict
}

struct Told(Show);

impl versus::Watch for Told {
    fn note(&mut self, note: Note<'_>) {
        self.0.note(&ringfence_report::versus::note(&note));
    }

    fn summary(&self, findings: &Findings, unit: Option<Unit>, sort: Sort) -> String {
        ringfence_report::versus::summary(findings, unit, sort)
    }

    fn share(&mut self, began: Instant, share: f64) {
        self.0.share(began, share);
    }
}
