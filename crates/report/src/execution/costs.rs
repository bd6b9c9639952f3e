//! What flushes and fences cost, and what others in their places would change.

use ringfence_trace::census::dynamic::checked::{Changed, Checked, Figure};
use ringfence_trace::census::dynamic::saving::{Cost, Predicted, Saving};

use crate::numbers;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph, section};

pub(crate) fn saving(out: &mut String, saving: &Saving, style: &Style) {
    section(out);
    heading(out, &title(saving), style);
    let mut table =
        Table::new(vec![Column::left("method"), Column::right("time"), Column::right("bounds")]);
    for Predicted { method, cost } in &saving.predicted {
        let name = method.as_deref().unwrap_or("as recorded");
        let bounds = format!("[{}, {}]", signed(cost.low), signed(cost.high));
        table.row(vec![Cell::new(name), Cell::new(signed(cost.ns)), Cell::new(bounds)]);
    }
    if !saving.predicted.is_empty() {
        out.push_str(&table.render(style));
    }
    let needless = format!(
        "{} and {}",
        many(saving.needless_flushes, "needless flush", "needless flushes"),
        many(saving.needless_fences, "needless fence", "needless fences")
    );
    let text = match saving.needless_ns {
        _ if saving.needless_flushes + saving.needless_fences == 0 => {
            "No flush and no fence was needless.".into()
        }
        Some(ns) => {
            format!(
                "{needless} cost about {} more, by the prices of RINGFENCE_POLICY.",
                numbers::ns(ns)
            )
        }
        None => format!(
            "What {needless} cost besides is not measured: set RINGFENCE_POLICY to a policy file \
             of 'ringfence tune'."
        ),
    };
    paragraph(out, 0, &text, style);
    if !saving.predicted.is_empty() {
        let how = "Lines are priced one by one and fences by the lines that they wait for, each as \
                   in a row of \
                   thousands: the program may hide a part of it behind other work.";
        faint(out, how, style);
    }
}

/// What other instructions would change: predicted beside measured.
pub(crate) fn checked(out: &mut String, checked: &Checked, style: &Style) {
    section(out);
    heading(out, "What other instructions would change, a run", style);
    paragraph(out, 0, &in_words(checked), style);
    let has = Has::of(checked);
    let mut columns = vec![Column::left("change")];
    columns.extend(has.predicted.then(|| Column::right("predicted")));
    columns.extend(has.measured.then(|| Column::right("measured")));
    columns.extend(has.agreement.then(|| Column::left("")));
    let mut table = Table::new(columns);
    for one in &checked.changes {
        let cell =
            |figure: &Figure| Cell::new(figure.known().map_or_else(|| "not run".into(), change));
        let mut row = vec![Cell::new(one.change.words())];
        row.extend(has.predicted.then(|| cell(&one.predicted)));
        row.extend(has.measured.then(|| cell(&one.measured)));
        row.extend(has.agreement.then(|| Cell::new(agreement(one))));
        table.row(row);
    }
    // Without a figure, the reasons below are all that there is.
    if has.predicted || has.measured {
        out.push_str(&table.render(style));
    }
    for one in &checked.changes {
        for reason in reasons(one) {
            hanging(out, &format!("{}: ", one.change.words()), None, &reason, style);
        }
    }
    let how = how(checked);
    if !how.is_empty() {
        faint(out, &how, style);
    }
}

// Which columns of the table have a figure.
struct Has {
    predicted: bool,
    measured: bool,
    agreement: bool,
}

impl Has {
    fn of(checked: &Checked) -> Self {
        let any = |is: &dyn Fn(&Changed) -> bool| checked.changes.iter().any(is);
        Self {
            predicted: any(&|one| one.predicted.known().is_some()),
            measured: any(&|one| one.measured.known().is_some()),
            agreement: any(&|one| one.agree().is_some()),
        }
    }
}

/// What is priced, and where.
pub fn title(saving: &Saving) -> String {
    let (lines, fences) =
        (many(saving.lines, "line", "lines"), many(saving.fences, "fence", "fences"));
    format!("What {lines} and {fences} cost on {}", saving.measured_on)
}

/// Whether prediction and measurement agree, in a word.
pub fn agreement(changed: &Changed) -> &'static str {
    changed.agree().map_or("", |agree| if agree { "agree" } else { "differ" })
}

/// What a run takes, and what of it for durability.
pub fn in_words(checked: &Checked) -> String {
    let by = checked.instruction.map_or("no flush".into(), |name| format!("{name} most"));
    let run = match &checked.run {
        Figure::Known(cost) => format!("A run takes {} of processor time", time(cost)),
        Figure::NotRun { not_run } => format!("What a run takes is not known, for {not_run}"),
    };
    let durability = match &checked.durability {
        Figure::Known(cost) => {
            format!(
                "its flushes and fences, {by}, take {} when they are played back alone",
                time(cost)
            )
        }
        Figure::NotRun { not_run } => {
            format!("its flushes and fences, {by}, were not played back: {not_run}")
        }
    };
    format!("{run}; {durability}.")
}

/// Why figures are missing.
fn reasons(changed: &Changed) -> Vec<String> {
    let reason = |(name, figure): (&str, &Figure)| match figure {
        Figure::Known(_) => None,
        Figure::NotRun { not_run } => Some(format!("not {name}, because {not_run}")),
    };
    [("predicted", &changed.predicted), ("measured", &changed.measured)]
        .into_iter()
        .filter_map(reason)
        .collect()
}

/// Where the figures come from: of those that there are.
pub fn how(checked: &Checked) -> String {
    let has = Has::of(checked);
    let is_measured = |one: &&Changed| one.measured.known().is_some();
    let variables: Vec<&str> = checked
        .changes
        .iter()
        .filter(is_measured)
        .map(|one| one.environment.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    let variables = match variables.is_empty() {
        true => String::new(),
        false => format!(", set to it by {}", variables.join("; ")),
    };
    let mut sentences = Vec::new();
    if has.predicted || checked.durability.known().is_some() {
        let name = if has.predicted { "Predicted" } else { "Played back" };
        sentences.push(format!(
            "{name}: the trace's stores, flushes and fences, executed again in memory by one \
             thread with nothing in between, in {} mappings.",
            checked.mappings
        ));
    }
    if has.measured {
        sentences.push(format!(
            "Measured: {} runs of the program in each way{variables}, in turn, on copies of its \
             files.",
            checked.runs
        ));
    } else if checked.run.known().is_some() {
        sentences.push(format!(
            "The time of a run: {} runs of the program, on copies of its files.",
            checked.runs
        ));
    }
    let differences = match (has.predicted, has.measured) {
        (true, true) => Some("Both are differences"),
        (true, false) | (false, true) => Some("Changes are differences"),
        (false, false) => None,
    };
    sentences.extend(differences.map(|what| {
        let overlap = match has.agreement {
            true => "; 'agree' says that these overlap",
            false => "",
        };
        format!("{what} of processor time from as recorded, with 95 % intervals{overlap}.")
    }));
    sentences.join(" ")
}

/// `+1.2 ms [+1.1 ms, +1.3 ms]`.
pub fn change(cost: &Cost) -> String {
    let with_sign = |ns: f64| if ns < 0.0 { signed(ns) } else { format!("+{}", numbers::ns(ns)) };
    format!("{} [{}, {}]", with_sign(cost.ns), with_sign(cost.low), with_sign(cost.high))
}

fn time(cost: &Cost) -> String {
    format!("{} [{}, {}]", signed(cost.ns), signed(cost.low), signed(cost.high))
}

/// A time in ns with its sign, where it is below 0: bounds of differences can be.
pub fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", numbers::ns(-ns)) } else { numbers::ns(ns) }
}

pub(crate) fn many(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", numbers::count(number)) }
}
