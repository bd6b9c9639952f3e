//! What was found, in sentences: for a heading, and beside figures.

use crate::print::numbers::{percent, slowdown_estimate, slowdown_figure};
use crate::print::text::{capital, listed, plural};
use ringfence_analysis::estimate::Interval;

use crate::versus::text::{
    alone, failures, left_behind, letter, longer, said, title, too_few, warmed,
};
use ringfence_versus::findings::{Compared, Findings, Measure, Verdict};
use ringfence_versus::table::parameters;

/// Letters of a command that a heading has room for.
pub const LONGEST_IN_HEADING: usize = 32;

/// What is said of a comparison, in words that follow a figure or a count.
pub fn verdict(findings: &Findings, verdict: Verdict) -> String {
    let budget = findings.settings.budget.map_or(String::new(), percent);
    match verdict {
        Verdict::WithinBudget => format!("within the budget of {budget}"),
        Verdict::OverBudget => format!("over the budget of {budget}"),
        Verdict::Undecided if !budget.is_empty() => format!("undecided for a budget of {budget}"),
        Verdict::Undecided => "undecided".into(),
        Verdict::Slower => "slower".into(),
        Verdict::Faster => "faster".into(),
        Verdict::NoChangeLargerThanMargin => {
            format!("no change larger than {}", percent(findings.settings.margin))
        }
        Verdict::NotEstimable => "no figure".into(),
        Verdict::Alone => "compared with nothing".into(),
    }
}

/// The same in a word or two, for a badge.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::WithinBudget => "WITHIN BUDGET",
        Verdict::OverBudget => "OVER BUDGET",
        Verdict::Slower => "SLOWER",
        Verdict::Faster => "FASTER",
        Verdict::NoChangeLargerThanMargin => "NO CHANGE",
        Verdict::Undecided => "UNDECIDED",
        Verdict::NotEstimable => "NO FIGURE",
        Verdict::Alone => "MEASURED ALONE",
    }
}

/// What was asked.
pub fn question(findings: &Findings) -> String {
    match (findings.settings.budget.map(percent), &findings.comparisons[..]) {
        (Some(budget), [one]) => {
            format!("Is {} slower than {} by more than {budget}?", one.of, one.than)
        }
        (Some(budget), _) => format!("Is one of these commands slower by more than {budget}?"),
        (None, []) => "How long does this command take?".into(),
        (None, _) => "Which of these commands is slower?".into(),
    }
}

/// The answer in a sentence: of one comparison the figure and what is said of it, of several how
/// many have each verdict, and the one whose ratio is largest.
pub fn headline(findings: &Findings) -> String {
    if let Some(takes) = alone(findings) {
        return format!("{takes}.");
    }
    let figure = |one: &Compared| Some(takes(findings, one, &one.ratio.estimate().ok()?));
    let said_of = |one: &Compared| match figure(one) {
        Some(takes) if matches!(one.verdict, Verdict::Slower | Verdict::Faster) => takes,
        Some(takes) => format!("{takes}: {}", verdict(findings, one.verdict)),
        None => format!("{} has no figure: {}", title(findings, one), said(findings, one)),
    };
    let all = &findings.comparisons;
    if let [one] = &all[..] {
        return format!("{}.", said_of(one));
    }
    let mut counts: Vec<(Verdict, usize)> = Vec::new();
    for one in all {
        match counts.iter_mut().find(|(verdict, _)| *verdict == one.verdict) {
            Some((_, count)) => *count += 1,
            None => counts.push((one.verdict, 1)),
        }
    }
    let counts = counts.iter().enumerate().map(|(place, (of, count))| {
        let verb = match (of, count) {
            (Verdict::NotEstimable, 1) => "has",
            (Verdict::NotEstimable, _) => "have",
            (Verdict::NoChangeLargerThanMargin, 1) => "shows",
            (Verdict::NoChangeLargerThanMargin, _) => "show",
            (_, 1) => "is",
            _ => "are",
        };
        // The budget is named once.
        let said = verdict(findings, *of);
        let short = said
            .split(" the budget of ")
            .next()
            .filter(|_| place > 0 && said.contains(" the budget of "));
        format!("{count} {verb} {}", short.map_or(said.clone(), |short| format!("{short} it")))
    });
    let counts: Vec<String> = counts.collect();
    let ratio = |one: &&Compared| one.ratio.estimate().map_or(0.0, |ratio| ratio.value);
    let most = all.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))).and_then(figure);
    let most = most.map_or(String::new(), |takes| format!("; the largest ratio: {takes}"));
    format!("Of {} {}{most}.", plural(all.len(), "comparison"), listed(&counts, "and"))
}

// `b takes 1.8 % longer than a [+1.2, +2.4]`.
fn takes(findings: &Findings, one: &Compared, ratio: &Interval) -> String {
    let who = |role: &str| {
        let measure = findings.commands.iter().find(|measure| is_of(measure, role, one));
        // Settings that are compared with each other are what tells them apart.
        let set =
            measure.map(|measure| parameters(&measure.case)).filter(|_| one.parameters.is_empty());
        let set = set.filter(|set| (1..=LONGEST_IN_HEADING).contains(&set.chars().count()));
        let name = set.or_else(|| name(measure?, LONGEST_IN_HEADING));
        name.map_or(role.to_owned(), |name| format!("{role} ({name})"))
    };
    let (of, than, figure) = (who(&one.of), who(&one.than), slowdown_figure(ratio));
    match figure.value.strip_suffix(" %") {
        Some(share) => {
            let more = if share.starts_with('-') { "less time" } else { "longer" };
            format!(
                "{of} takes {} % {more} than {than} {}",
                share.trim_start_matches(['+', '-']),
                figure.interval
            )
        }
        None => format!("{of} takes {figure} as long as {than}"),
    }
}

/// Whether a command is the one that has this role in a comparison.
pub fn is_of(measure: &Measure, role: &str, one: &Compared) -> bool {
    let same = one.parameters.is_empty() || measure.case.parameters == one.parameters;
    measure.case.role == role && same
}

// What a command is called, or how it is set; none where that is too long.
fn name(measure: &Measure, longest: usize) -> Option<String> {
    let (case, set) = (&measure.case, parameters(&measure.case));
    let whole = match set.is_empty() || case.name == case.command {
        true => case.name.clone(),
        false => format!("{}, {set}", case.name),
    };
    let fits = |text: &String| !text.is_empty() && text.chars().count() <= longest;
    [whole, set].into_iter().find(fits)
}

/// A command by its role, and by its name or its parameters where these are no longer than that.
pub fn label(measure: &Measure, longest: usize) -> String {
    let role = &measure.case.role;
    name(measure, longest).map_or(role.clone(), |name| format!("{role}: {name}"))
}

/// What a reader must know before the figures are believed, a sentence each.
pub fn warnings(findings: &Findings) -> Vec<String> {
    let early = findings.ended_early.as_ref();
    let mut all: Vec<String> = early
        .map(|why| format!("Ended early: {why}. This is what was measured until then."))
        .into_iter()
        .chain(failures(findings, letter).into_iter().map(|text| text + "."))
        .chain(too_few(findings))
        .chain(left_behind(findings, letter))
        .collect();
    for one in &findings.comparisons {
        let figure = || slowdown_estimate(&one.ratio.estimate());
        all.extend(
            longer(findings, one)
                .map(|text| format!("{}: {}, {text}.", title(findings, one), figure())),
        );
    }
    let warm_up = findings.warm_up.filter(|warm_up| warm_up.still_falling || warm_up.unknown);
    all.extend(warm_up.map(|warm_up| capital(&warmed(&warm_up)) + "."));
    all
}

/// What is undecided, and what would settle it, a sentence each.
pub fn undecided(findings: &Findings) -> Vec<String> {
    let open = findings.comparisons.iter().filter(|one| one.verdict == Verdict::Undecided);
    open.map(|one| format!("{}: {}.", title(findings, one), said(findings, one))).collect()
}
