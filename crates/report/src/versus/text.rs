//! What was found, on a terminal, and as a summary in Markdown.

use std::time::Duration;

use crate::print::numbers::{
    Figure, NO_FIGURE, coarse, count, duration, ns, ns_figure, percent, slowdown, slowdown_figure,
};
use crate::print::sentence::sentence;
use crate::print::style::{Paint, Style};
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{faint, heading, painted, paragraph, plural};
use crate::print::unknown::WouldSettle;
use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::units::Share;
use ringfence_machine::text::printable;
use ringfence_machine::units::Bytes;

use ringfence_versus::Note;
use ringfence_versus::case::Case;
use ringfence_versus::export::{Markup, Sort, Unit, table};
use ringfence_versus::findings::{Compared, Findings, Measure, Verdict};
use ringfence_versus::power::{CHANCE, Power};
use ringfence_versus::run::Quantity;
use ringfence_versus::session::{Announced, Settings, Warmed};
use ringfence_versus::table::parameters;
use ringfence_versus::warm_up::LATEST;

// At most so many process names are printed.
const NAMED: usize = 5;

/// What is printed while commands run.
pub fn note(note: &Note) -> String {
    match note {
        Note::NoShell(role) => format!(
            "{role}: no shell reads this command, and what means something to a shell is passed on \
             as it is"
        ),
        Note::JournalFailed(file, error) => {
            format!(
                "writing {file}: {error}; runs are kept at the end only, so free some space before \
                 that"
            )
        }
        Note::WarmedUp(found) => warmed(found),
        Note::Announced(announced, settings) => announcement(announced, settings),
    }
}

/// What is said before most is measured: what can be told.
pub fn announcement(announced: &Announced, settings: &Settings) -> String {
    let power = announced.power;
    let rounds = match settings.runs {
        Some(runs) => format!("In {}", plural(runs as usize, "round")),
        None => {
            let time = duration(Duration::from_secs_f64(announced.time_s.max(0.0)));
            format!("In {time}, about {} rounds", count(power.rounds.into()))
        }
    };
    let told = format!("{rounds}, {} is detected", detectable(power.difference));
    match settings.budget {
        None if power.difference >= FACTOR_FROM => {
            let more = if settings.runs.is_some() { "--runs" } else { "--time" };
            format!("{told}: for smaller ones give more {more}, or use a quiet machine")
        }
        None => told,
        Some(budget) if budget >= power.difference => {
            format!("{told}: enough for a budget of {}", share(budget))
        }
        Some(budget) => {
            let takes = match announced.budget_takes_s {
                Some(takes) => {
                    format!("that would take about {}", duration(Duration::from_secs_f64(takes)))
                }
                None => "no reasonable time would be enough".into(),
            };
            format!(
                "{told}, but the budget is {}: {takes}; there is a verdict only if the interval \
                 allows one",
                share(budget)
            )
        }
    }
}

// From here on a difference is a factor: 300 % would be read as three times the time.
const FACTOR_FROM: f64 = 1.0;

// A difference that can be detected, such as `a difference of 1.2 %`.
fn detectable(difference: f64) -> String {
    match difference {
        d if d >= 9.0 => "only a difference of more than 10x".into(),
        d if d >= FACTOR_FROM => format!("only a difference of {:.1}x or more", 1.0 + d),
        d => format!("a difference of {}", coarse(d)),
    }
}

pub(super) fn share(share: f64) -> String {
    percent(share)
}

/// What became of warm-up.
pub fn warmed(warmed: &Warmed) -> String {
    let dropped = match warmed.dropped {
        0 => "no round is dropped as warm-up".into(),
        n => format!("{} dropped as warm-up", plural(n as usize, "round")),
    };
    if warmed.unknown {
        format!(
            "{dropped}: more than {LATEST} runs of each command are needed to see whether they \
             become faster"
        )
    } else if warmed.still_falling {
        format!("{dropped}, and some command still became faster from run to run after that")
    } else {
        dropped
    }
}

/// The answer with how it was measured, and what else differs.
pub(super) fn in_full(findings: &Findings, style: &Style) -> String {
    let mut out = String::new();
    let rounds =
        findings.rounds - findings.warm_up.map_or(0, |warmed| warmed.dropped.min(findings.rounds));
    let time = duration(Duration::from_secs_f64(findings.seconds));
    let rounds = match findings.commands.len() {
        1 => plural(rounds as usize, "run"),
        _ => plural(rounds as usize, "interleaved round"),
    };
    let head = format!("{}, {rounds} in {time}", plural(findings.commands.len(), "command"));
    heading(&mut out, &head, style);
    out.push_str(&times(findings, style));
    let warnings = failures(findings, letter)
        .into_iter()
        .chain(too_few(findings))
        .chain(left_behind(findings, letter));
    warnings.for_each(|text| paragraph(&mut out, 0, &text, style));
    notes(findings).iter().for_each(|text| faint(&mut out, text, style));
    for one in &findings.comparisons {
        out.push('\n');
        comparison(&mut out, findings, one, style);
    }
    out.push('\n');
    if let Some(takes) = alone(findings) {
        paragraph(&mut out, 0, &format!("{}.", capital(&takes)), style);
    }
    if let Some(reached) = &findings.reached {
        faint(&mut out, &told(reached), style);
    }
    if let Some(why) = &findings.ended_early {
        paragraph(
            &mut out,
            0,
            &format!("Ended early: {why}. This is what was measured until then."),
            style,
        );
    }
    if let Some(budget) = findings.settings.budget {
        let (text, paint) = verdict(findings, budget);
        painted(&mut out, &text, paint, style);
    }
    out
}

/// What difference the rounds that were measured can tell.
pub fn told(reached: &Power) -> String {
    format!(
        "With {} like these {} is detected {} times out of 10.",
        plural(reached.rounds as usize, "round"),
        detectable(reached.difference),
        (CHANCE * 10.0).round()
    )
}

pub(super) fn verdict(findings: &Findings, budget: f64) -> (String, Paint) {
    let share = share(budget);
    match findings.verdict {
        Verdict::WithinBudget => (format!("Verdict: within the budget of {share}"), Paint::Good),
        Verdict::OverBudget => (format!("Verdict: over the budget of {share}"), Paint::Bad),
        _ => (format!("Verdict: undecided for a budget of {share}"), Paint::Caution),
    }
}

fn times(findings: &Findings, style: &Style) -> String {
    let mut columns = vec![Column::left(""), Column::text("command", 12)];
    columns.extend(
        ["a run takes", "interval", "median", "min", "max", "user", "system", "peak memory"]
            .map(Column::right),
    );
    let mut wide = Table::new(columns);
    // Where that does not fit, in two.
    let mut narrow = Table::new(
        [Column::left(""), Column::text("command", 12)]
            .into_iter()
            .chain(["a run takes", "interval"].map(Column::right))
            .collect(),
    );
    let more = ["median", "min", "max", "user", "system", "peak memory"].map(Column::right);
    let mut second = Table::new([Column::left("")].into_iter().chain(more).collect());
    for measure in &findings.commands {
        let figure = match measure.time.estimate() {
            Ok(interval) => ns_figure(&interval),
            Err(_) => Figure { value: NO_FIGURE.into(), interval: String::new() },
        };
        let first = [
            Cell::painted(&measure.case.role, Paint::Strong),
            Cell::new(shortened(&told_apart(&measure.case))),
            Cell::new(figure.value),
            Cell::new(figure.interval),
        ];
        narrow.row(first.to_vec());
        let plain = |get: fn(&ringfence_versus::findings::Plain) -> f64| {
            Cell::new(measure.described.as_ref().map_or(NO_FIGURE.into(), |all| ns(get(all))))
        };
        let other =
            |quantity| Cell::new(mean(measure, quantity).unwrap_or_else(|| NO_FIGURE.into()));
        let mut rest = vec![plain(|all| all.median), plain(|all| all.min), plain(|all| all.max)];
        rest.extend([Quantity::User, Quantity::System, Quantity::PeakMemory].map(other));
        wide.row([&first[..], &rest].concat());
        second.row([&first[..1], &rest].concat());
    }
    match wide.fits(style) {
        true => wide.render(style),
        false => format!("{}\n{}", narrow.render(style), second.render(style)),
    }
}

// By its name; settings of one command that has a name of its own have the same.
pub(super) fn told_apart(case: &Case) -> String {
    match case.name == case.command || case.parameters.is_empty() {
        true => case.name.clone(),
        false => format!("{}, {}", case.name, parameters(case)),
    }
}

// A line of a terminal or two, and nothing that a terminal would obey.
pub(super) fn shortened(name: &str) -> String {
    const LONGEST: usize = 200;
    let name = printable(name);
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.into_owned(),
    }
}

/// The mean of what else was counted, with its unit; none where it was not.
pub fn mean(measure: &Measure, quantity: Quantity) -> Option<String> {
    let (_, mean) = measure.others.iter().find(|(one, _)| *one == quantity)?;
    Some(match quantity {
        // By some pages it differs from run to run.
        Quantity::PeakMemory if *mean <= measure.memory_floor as f64 * 1.02 => {
            format!("<= {}", mebibytes(measure.memory_floor as f64))
        }
        Quantity::PeakMemory => mebibytes(*mean),
        quantity if quantity.is_time() => ns(*mean),
        _ => count(mean.round() as u64),
    })
}

fn mebibytes(bytes: f64) -> String {
    if bytes < (1 << 20) as f64 {
        Bytes(bytes as u64 & !1023).to_string()
    } else {
        format!("{:.1}MiB", bytes / (1 << 20) as f64)
    }
}

/// Commands with runs that failed, a line each.
pub fn failures(findings: &Findings, name: impl Fn(&Case) -> String) -> Vec<String> {
    let failed = findings.commands.iter().filter(|measure| measure.failures > 0).map(|measure| {
        format!(
            "{}: {} of {} failed: exit code other than 0, or a signal",
            name(&measure.case),
            measure.failures,
            plural(measure.runs as usize, "run")
        )
    });
    failed.collect()
}

/// What a command is called where each has a letter.
pub fn letter(case: &Case) -> String {
    case.role.clone()
}

/// What a command takes that is compared with none; none if there are several.
pub fn alone(findings: &Findings) -> Option<String> {
    let ([only], []) = (&findings.commands[..], &findings.comparisons[..]) else { return None };
    let name = shortened(&told_apart(&only.case));
    Some(match only.time.estimate() {
        Ok(time) => format!(
            "a run of '{name}' takes {}, {} interval over {}",
            ns_figure(&time),
            percent(time.level),
            plural(time.trials as usize, "run")
        ),
        Err(NotEstimable::NoWork { trials, of }) => format!(
            "a run of '{name}' has no figure: {trials} of {of} took no longer than the shell takes \
             to start; give --shell none, or let it do more"
        ),
        Err(why) => {
            format!("a run of '{name}' has no figure: {}", why.told().replace(" trials", " runs"))
        }
    })
}

/// That fewer runs than `--runs` or `--min-runs` fit into `--time`.
pub fn too_few(findings: &Findings) -> Option<String> {
    let settings = &findings.settings;
    let asked = settings.runs.or(settings.min_runs)?;
    let (time, runs) = (settings.time_s?, findings.commands.first()?.runs);
    let time = duration(Duration::from_secs_f64(time));
    (runs < asked && findings.ended_early.is_none())
        .then(|| format!("{runs} of {asked} runs fit into a time of {time}."))
}

/// Commands with runs that left processes behind, a sentence each.
pub fn left_behind(findings: &Findings, name: impl Fn(&Case) -> String) -> Vec<String> {
    let sentence = |measure: &Measure| {
        let left = measure.left_behind.as_ref()?;
        let names = left.names.iter().take(NAMED).map(|name| printable(name).into_owned());
        Some(format!(
            "{}: {} left processes running ({}), which can slow later runs: wait for them in the \
             command, or stop them with --conclude.",
            name(&measure.case),
            plural(left.runs as usize, "run"),
            names.collect::<Vec<_>>().join(", "),
        ))
    };
    findings.commands.iter().filter_map(sentence).collect()
}

/// How it was measured: kinds of means, warm-up, the shell, what was not counted; a sentence each.
pub fn notes(findings: &Findings) -> Vec<String> {
    let warm_up =
        findings.warm_up.as_ref().map(|warm_up| format!("{}.", capital(&warmed(warm_up))));
    let shell = findings.shell_start.as_ref().map(|start| {
        let known = match start.estimate() {
            Ok(start) => format!("takes {} to start, which is subtracted", ns_figure(&start)),
            Err(reason) => {
                let why = reason.told().replace(" trials", " rounds");
                format!(
                    "takes a time to start that has no interval ({why}); its mean is \
                         subtracted from means, medians, minima and maxima"
                )
            }
        };
        let shell = &findings.shell;
        format!("The shell, {shell}, {known}; --shell none does without where a command allows it.")
    });
    let why = findings.not_counted.as_ref();
    let counted = why.map(|why| format!("Instructions and cycles: not counted, because {why}."));
    [Some(MEANS.into()), warm_up, shell, counted].into_iter().flatten().collect()
}

const MEANS: &str = "'a run takes' is a geometric mean without the shortest and longest fifth of \
                     the runs; other means, also those in exported files, are arithmetic and over \
                     all runs.";

fn capital(text: &str) -> String {
    crate::print::text::capital(text)
}

fn comparison(out: &mut String, findings: &Findings, one: &Compared, style: &Style) {
    let said = said(findings, one);
    let paint = match one.verdict {
        Verdict::OverBudget | Verdict::Slower => Some(Paint::Bad),
        Verdict::WithinBudget | Verdict::Faster => Some(Paint::Good),
        Verdict::Undecided | Verdict::NotEstimable => Some(Paint::Caution),
        Verdict::NoChangeLargerThanMargin | Verdict::Alone => None,
    };
    let head = format!("{}  ", title(findings, one));
    crate::print::text::hanging(out, &head, paint, &said, style);
    if let Some(text) = longer(findings, one) {
        paragraph(out, crate::print::text::width(&head), &text, style);
    }
    if let Some(text) = apart(findings, one) {
        paragraph(out, crate::print::text::width(&head), &text, style);
    }
    let others =
        differing(one).map(|(quantity, ratio)| format!("{} {}", quantity.name(), slowdown(&ratio)));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        let indent = crate::print::text::width(&head);
        let text = format!("also: {}", others.join("; "));
        paragraph(out, indent, &text, style);
    }
}

/// What the mean over all rounds says against the figure, if it does.
pub fn longer(findings: &Findings, one: &Compared) -> Option<String> {
    let whole = one.whole.estimate().ok()?;
    let over = findings.settings.budget.is_some_and(|budget| whole.value > 1.0 + budget);
    let shown = slowdown(&whole);
    if one.rare_long_runs {
        Some(format!(
            "but some of its runs are much longer: over all rounds, none left out, {shown}"
        ))
    } else if over && one.verdict == Verdict::WithinBudget {
        Some(format!(
            "but over all rounds, none left out, {shown}: too few to tell whether long runs are \
             the command's own"
        ))
    } else {
        None
    }
}

/// Why the times in the table are another ratio than the figure, where they are.
pub fn apart(findings: &Findings, one: &Compared) -> Option<String> {
    let time = |role: &String| {
        let is_it = |measure: &&Measure| {
            measure.case.role == *role
                && (one.parameters.is_empty() || measure.case.parameters == one.parameters)
        };
        Some(findings.commands.iter().find(is_it)?.time.estimate().ok()?.value)
    };
    let (table, paired) = (time(&one.of)? / time(&one.than)?, one.ratio.estimate().ok()?.value);
    differ(table, paired, findings.settings.margin).then(|| {
        format!(
            "the times in the table are {:+.1} % apart: each is of all runs of one command, and \
             the figure is of runs next to each other, where what slows the machine slows both",
            (table - 1.0) * 100.0
        )
    })
}

// By more than a change that matters, and by more than a tenth of the effect.
fn differ(table: f64, paired: f64, margin: f64) -> bool {
    (table / paired).ln().abs() > margin.ln_1p().max(paired.ln().abs() / 10.0)
}

/// What else differs, as far as the intervals bear it.
pub fn differing(one: &Compared) -> impl Iterator<Item = (Quantity, Interval)> {
    let known = one
        .others
        .iter()
        .filter_map(|(quantity, figure)| Some((*quantity, figure.estimate().ok()?)));
    known.filter(|(_, ratio)| !ratio.contains(1.0))
}

/// What is compared with what: `b against a, size=4`.
pub fn title(findings: &Findings, one: &Compared) -> String {
    let with = match one.parameters.is_empty() {
        true => named(findings, one),
        false => {
            let each = one.parameters.iter().map(|(name, value)| format!("{name}={value}"));
            format!(", {}", each.collect::<Vec<_>>().join(" "))
        }
    };
    format!("{} against {}{with}", one.of, one.than)
}

// By the names that they were given; settings of one command are told apart by them.
fn named(findings: &Findings, one: &Compared) -> String {
    let of = |role: &String| {
        let mine = findings.commands.iter().find(|measure| measure.case.role == *role);
        mine.map_or(String::new(), |Measure { case, .. }| match case.name == case.command {
            true => parameters(case),
            false => shortened(&case.name),
        })
    };
    match (of(&one.of), of(&one.than)) {
        (of, than) if of.is_empty() || of == than => String::new(),
        (of, than) => format!(" ({of} against {than})"),
    }
}

/// What the interval says, compared with the budget where there is one.
pub fn said(findings: &Findings, one: &Compared) -> String {
    let estimate: Estimate = one.ratio.estimate();
    if let Err(NotEstimable::Stalled { baseline, arm, of }) = estimate {
        return format!(
            "not known: in {} of {of} rounds a command took no longer than the shell takes to \
             start; give --shell none, or let it do more",
            baseline.max(arm)
        );
    }
    let finding = Finding::new(&estimate, findings.settings.margin);
    let Ok(interval) = &estimate else { return sentence(&finding).replace(" trials", " rounds") };
    let needed = WouldSettle(one.rounds_needed).to_string().replace(" trials", " rounds");
    let over = format!(
        "{} interval over {}",
        percent(interval.level),
        plural(interval.trials as usize, "round")
    );
    let figure = slowdown_figure(interval);
    match (findings.settings.budget, one.verdict) {
        (None, Verdict::Undecided) => {
            format!("undecided: {} {}; {needed}, {over}", figure.value, figure.interval)
        }
        (None, verdict) => format!("{}, {over}", verdict_with_figure(findings, verdict, &figure)),
        (Some(budget), verdict) => {
            let verdict = match verdict {
                Verdict::WithinBudget => "within the budget".to_string(),
                Verdict::OverBudget => "over the budget".into(),
                _ => format!("undecided for {}; {needed}", Share(budget)),
            };
            format!("{} {}: {verdict}, {over}", figure.value, figure.interval)
        }
    }
}

/// A verdict without a budget, with the figure as in the table: `slower, +3.2 % [+2.9, +3.5]`.
pub(super) fn verdict_with_figure(
    findings: &Findings,
    verdict: Verdict,
    figure: &Figure,
) -> String {
    match verdict {
        Verdict::Slower => format!("slower, {figure}"),
        Verdict::Faster => format!("faster, {figure}"),
        _ => format!("no change larger than {}, {figure}", share(findings.settings.margin)),
    }
}

/// A summary for the page of a run in CI.
pub fn summary(findings: &Findings, unit: Option<Unit>, sort: Sort) -> String {
    let mut text = String::from("### ringfence versus\n\n");
    if let Some(budget) = findings.settings.budget {
        let mark = match findings.verdict {
            Verdict::WithinBudget => "✅",
            Verdict::OverBudget => "❌",
            _ => "❔",
        };
        text += &format!("{mark} **{}**\n\n", verdict(findings, budget).0);
    }
    for one in &findings.comparisons {
        let long = longer(findings, one).map(|text| format!(", {text}")).unwrap_or_default();
        // The user chooses names, and Markdown has HTML in it.
        let title = title(findings, one).replace('&', "&amp;").replace('<', "&lt;");
        text += &format!("- **{title}**: {}{long}\n", said(findings, one));
    }
    if let Some(takes) = alone(findings) {
        text += &format!("- {}\n", takes.replace('&', "&amp;").replace('<', "&lt;"));
    }
    text += &format!("\n{}\n", table(findings, unit, sort, Markup::Markdown));
    let warm_up =
        findings.warm_up.map_or(String::new(), |warm_up| format!(", {}", warmed(&warm_up)));
    let time = duration(Duration::from_secs_f64(findings.seconds));
    text += &format!("{} in {time}{warm_up}", plural(findings.rounds as usize, "round"));
    if let Some(reached) = &findings.reached {
        text += &format!("; {} could be detected", detectable(reached.difference));
    }
    if let Some(why) = &findings.ended_early {
        text += &format!("; ended early: {why}");
    }
    text + ".\n"
}

#[cfg(test)]
mod tests {
    use super::{Announced, Power, Settings, announcement, differ, told};

    fn power(difference: f64) -> Power {
        Power { difference, rounds: 10, spread: 0.3, level: 0.95 }
    }

    #[test]
    fn a_large_detectable_difference_is_a_factor_with_a_remedy() {
        let said = |difference: f64, settings: &Settings| {
            let announced =
                Announced { power: power(difference), time_s: 60.0, budget_takes_s: None };
            announcement(&announced, settings)
        };
        let runs = Settings { runs: Some(10), ..Settings::default() };
        assert_eq!(said(0.12, &runs), "In 10 rounds, a difference of 12 % is detected");
        assert_eq!(
            said(3.34, &runs),
            "In 10 rounds, only a difference of 4.3x or more is detected: for smaller ones give \
             more --runs, or use a quiet machine"
        );
        assert_eq!(
            said(99.0, &Settings::default()),
            "In 1 min, about 10 rounds, only a difference of more than 10x is detected: for \
             smaller ones give more --time, or use a quiet machine"
        );
        let budget = Settings { budget: Some(0.02), ..runs };
        let text = said(3.34, &budget);
        assert!(text.contains("4.3x or more is detected, but the budget is 2 %: "), "{text}");
        assert_eq!(
            told(&power(1.5)),
            "With 10 rounds like these only a difference of 2.5x or more is detected 9 times out \
             of 10."
        );
    }

    #[test]
    fn a_table_that_says_something_else_than_the_figure_is_explained() {
        // 266 ms against 250 ms in the table, and 10 % by pairs.
        assert!(differ(266.0 / 250.0, 1.10, 0.01) && differ(250.0 / 266.0, 1.0 / 1.10, 0.01));
        assert!(!differ(1.10, 1.105, 0.01) && !differ(2.0, 2.05, 0.01));
    }
}
