//! `versus`: commands, interleaved.

use std::time::{Duration, Instant};

use ringfence_analysis::estimate::NotEstimable;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::units::Share;
use ringfence_json as json;
use ringfence_prove::time::Precision;
use ringfence_study::Watch;
use ringfence_study::measure::measure;
use ringfence_versus::{self as versus, Flags, Question, Trouble, Verdict, conduct, progress};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::{experiment, host, page};

pub fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(how) = &flags.progress {
        return by_progress(flags, how);
    }
    let question = Question::new(flags).map_err(Failure::Usage)?;
    let dir = flags.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir("versus"));
    let stop = host::stop_on_signals()?;
    let mut told = Told(Show::new(flags.quiet));
    told.0.begin("versus");
    let done = conduct(&question, &dir, &stop, &mut told);
    told.0.end();
    let done = done.map_err(failure)?;
    let silent = flags.style.as_deref() == Some("none");
    if flags.json {
        output::print_json(&json::versus(&done.findings, &dir))?;
    } else if !silent {
        let text = versus::versus(&done.findings, &output::style());
        output::print(&format!("{text}\nruns: {}\n", dir.display()))?;
    }
    page::beside(&dir, flags.json || silent, done.trouble.is_some())?;
    match (done.trouble, done.findings.verdict) {
        (Some(trouble), _) => Err(failure(trouble)),
        (None, Verdict::OverBudget) => Err(Failure::Verdict(Exit::BudgetMissed)),
        (None, Verdict::Undecided | Verdict::NotEstimable) if done.findings.settings.budget.is_some() => {
            Err(Failure::Verdict(Exit::Undecided))
        }
        (None, _) => Ok(()),
    }
}

// Commands that run on.
fn by_progress(flags: &Flags, how: &str) -> Result<(), Failure> {
    let (started, machine) = (Instant::now(), host::examine()?);
    let mut experiment = progress::experiment(flags, how).map_err(Failure::Usage)?;
    let plan = Plan::new(&experiment, &machine.topology, machine.features.as_ref())?;
    let time = experiment.measure.time.map_or(Duration::ZERO, |time| time.0);
    experiment.measure.looks = progress::looks(time, plan.least_trial());
    experiment.check()?;
    let dir = flags.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir("versus"));
    let stop = host::stop_on_signals()?;
    let mut show = Show::new(flags.quiet);
    show.begin("versus");
    let limit = progress::budget(flags).map_err(Failure::Usage)?;
    let told = Budget::Slowdown(limit.map_or(experiment.measure.margin, Share));
    if let Some(precision) =
        Precision::of(told, &experiment.measure, experiment.measure.time.map(|time| time.0))
    {
        Watch::note(&mut show, &precision.to_string());
    }
    let done = measure(&experiment, &machine, &dir, &stop, &mut |progress| show.update(progress));
    show.end();
    let done = done?;
    let found = ringfence_studies::findings::Findings::from(&done);
    let limit = 1.0 + limit.unwrap_or(f64::INFINITY);
    let ratios = found.results.iter().filter_map(|case| Some(&case.effect.as_ref()?.by_class.all.slowdown));
    let ratios: Vec<_> = ratios.collect();
    let over = ratios.iter().any(|ratio| ratio.as_ref().is_ok_and(|ratio| ratio.low > limit));
    let within = ratios.iter().all(|ratio| ratio.as_ref().is_ok_and(|ratio| ratio.high <= limit));
    // Also where there were too few trials to say so of a ratio.
    let timeline = &found.timeline;
    let still = timeline.stalled >= timeline.windows.max(1)
        || ratios.iter().any(|ratio| matches!(ratio, Err(NotEstimable::Stalled { .. })));
    let judged = limit.is_finite();
    if flags.json {
        output::print_json(&json::experiment(&found, &dir))?;
    } else {
        let text = experiment::as_text(&found, done.steps_before, &dir, &machine, started);
        let verdict = match (over, within) {
            (true, _) => "over the budget",
            (_, true) => "within the budget",
            _ => "undecided",
        };
        let margin = experiment.measure.margin;
        let verdict =
            format!("\nVerdict: {verdict}; verdicts in the table are about changes larger than {margin}\n");
        output::print(&if judged { text + &verdict } else { text })?;
    }
    page::beside(&dir, flags.json, !done.ended.is_planned())?;
    experiment::finish(&done.ended, &dir, &machine)?;
    match (judged, over, within) {
        _ if still && !over && !within => Err(Failure::Failed(format!(
            "a command made no progress in windows of 100 ms of some trials: --progress {how} is for commands that run on and show it all the time; \
             commands that end are compared as whole runs, without --progress"
        ))),
        (true, true, _) => Err(Failure::Verdict(Exit::BudgetMissed)),
        (true, false, false) => Err(Failure::Verdict(Exit::Undecided)),
        _ => Ok(()),
    }
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Interrupted => Failure::Failed("interrupted".into()),
        Trouble::Usage(why) => Failure::Usage(why),
        Trouble::Failed(why) => Failure::Failed(why),
    }
}

struct Told(Show);

impl versus::Watch for Told {
    fn note(&mut self, text: &str) {
        self.0.note(text);
    }

    fn share(&mut self, began: Instant, share: f64) {
        self.0.share(began, share);
    }
}
