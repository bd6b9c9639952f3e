//! What `tune` found, in short: the choice, and what it saves on fresh trials.

use ringfence_analysis::estimate::{Finding, Verdict};
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::task::Commit;
use ringfence_studies::tune::files::choice::{Choice, PLAIN, Way};
use ringfence_studies::tune::files::{Compared, Compares};
use ringfence_studies::tune::{Tuned, files};

use crate::commits::method;
use crate::experiment::short::grid::{self, Entry};
use crate::experiment::short::names::Name;
use crate::experiment::short::{caveats, slowdowns};
use crate::experiment::text::SIMULATED;
use crate::numbers::{percent, slowdown_figure, time_figure};
use crate::style::Style;
use crate::text::{capital, heading, paragraph, plural};
use crate::tune::words::{confirmed, words};

/// Of a target in memory.
pub(super) fn of_memory(tuned: &Tuned, style: &Style) -> String {
    let mut out = String::new();
    if tuned.simulated {
        heading(&mut out, SIMULATED, style);
    }
    let (chosen, pmdk) = (words(&tuned.choice), words(&tuned.pmdk));
    let first = match (tuned.fell_back, tuned.confirmed.is_empty(), &tuned.ended_early) {
        (_, _, Some(_)) => format!("{chosen} costs least so far: not confirmed."),
        (true, ..) => format!("Use {pmdk}: PMDK's rule."),
        (false, true, None) => format!("Use {chosen}. PMDK's rule agrees at every size."),
        (false, false, None) => format!("Use {chosen}. PMDK's rule: {pmdk}."),
    };
    heading(&mut out, &capital(&first), style);
    if !tuned.confirmed.is_empty() {
        paragraph(&mut out, 0, confirmed(tuned), style);
    }
    out.push('\n');
    out += &cheapest(&tuned.costs, style);
    out += &fresh(tuned, style);
    if let Some(why) = &tuned.unpriced {
        let text = format!("The policy does not say what single instructions cost: {why}.");
        paragraph(&mut out, 0, &text, style);
    }
    if let Some(proof) = &tuned.proof {
        out.push('\n');
        out.push_str(&crate::prove(proof, style));
    }
    out
}

// A comparison for each size where the two rules differ.
fn fresh(tuned: &Tuned, style: &Style) -> String {
    let compared = tuned.confirmed.iter().filter_map(|result| {
        let block = result.arm.strip_prefix("policy ").unwrap_or(&result.arm);
        Some((block.to_owned(), result.effect.as_ref()?.finding))
    });
    table(compared.collect(), "against PMDK's rule, fresh trials", style)
}

fn table(compared: Vec<(String, Finding)>, head: &str, style: &Style) -> String {
    if compared.is_empty() {
        return String::new();
    }
    let entry = |(row, finding): &(String, Finding)| {
        let (words, paint) = slowdowns::verdict(finding);
        let text = match &finding.slowdown {
            Some(slowdown) => format!("{} {words}", slowdown_figure(slowdown)),
            None => words,
        };
        let name = Name { row: row.clone(), column: String::new() };
        Entry { name, text, paint: Some(paint) }
    };
    let entries: Vec<Entry> = compared.iter().map(entry).collect();
    let (mut out, more) = grid::table(&entries, ("", head), style);
    if more > 0 {
        paragraph(&mut out, 0, &format!("{more} more: -v prints them."), style);
    }
    "\n".to_owned() + &out
}

// The method with the smallest figure at each size.
fn cheapest(results: &[CaseResult], style: &Style) -> String {
    let value = |result: &CaseResult, key: &str| {
        let found = result.params.iter().find(|(name, _)| name.ends_with(key));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    // What a batch saves is in the long form.
    let single = |result: &&CaseResult| matches!(value(result, ".batch").as_str(), "" | "1");
    let single: Vec<&CaseResult> = results.iter().filter(single).collect();
    let mut blocks: Vec<String> = Vec::new();
    for result in &single {
        let block = value(result, ".block");
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    let entry = |block: &String| {
        let own = || {
            let own = single.iter().filter(move |result| value(result, ".block") == *block);
            own.filter_map(|result| Some((value(result, ".instruction"), result.ns_per_unit.ok()?)))
        };
        let (method, cost) = own().min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
        let others = own().filter(|(other, of)| *other != method && of.low <= cost.high).count();
        let others = match others {
            0 => String::new(),
            others => format!(" ({} may be as cheap)", plural(others, "other")),
        };
        let name = Name { row: format!("{block} blocks"), column: String::new() };
        let text = format!("{method} {}{others}", time_figure(&cost));
        Some(Entry { name, text, paint: None })
    };
    let entries: Vec<Entry> = blocks.iter().filter_map(entry).collect();
    let mut out = grid::table(&entries, ("", "cheapest, per line"), style).0;
    let figures: Vec<_> = single.iter().map(|result| result.ns_per_unit).collect();
    let level = figures.iter().flatten().next().map(|interval| {
        format!(
            "{} intervals over {}.",
            percent(interval.level),
            plural(interval.trials as usize, "trial")
        )
    });
    let text: Vec<String> = level.into_iter().chain(caveats::missing(&figures)).collect();
    paragraph(&mut out, 0, &text.join(" "), style);
    out
}

/// Of a folder.
pub(super) fn of_files(tuned: &files::Tuned, style: &Style) -> String {
    let mut out = String::new();
    match &tuned.settled {
        Some(settled) => {
            heading(&mut out, &format!("Use {}.", named(&settled.way, settled.batch)), style);
            paragraph(&mut out, 2, &method::calls(&commit(&settled.way)), style);
            paragraph(&mut out, 0, &why(tuned, settled), style);
        }
        None => {
            let way = named(&tuned.choice.way, tuned.choice.batch);
            heading(&mut out, &format!("{way} costs least so far: not confirmed."), style);
        }
    }
    let compared = tuned.confirmed.iter().map(|one| (compared(one, &tuned.choice), one.finding));
    out += &table(compared.collect(), "time per record, fresh trials", style);
    if let Some(level) = tuned.confirmed.iter().find_map(|one| one.ratio.ok()) {
        let trials = plural(level.trials as usize, "trial");
        let text = format!("[lo, hi]: {} intervals over {trials}.", percent(level.level));
        paragraph(&mut out, 0, &text, style);
    }
    if !tuned.not_run.is_empty() {
        let text = format!("Not run: {}; -v says why.", plural(tuned.not_run.len(), "method"));
        paragraph(&mut out, 0, &text, style);
    }
    out
}

// What the fresh trials say of what was chosen.
fn why(tuned: &files::Tuned, settled: &Choice) -> String {
    let of_writes = tuned.confirmed.iter().filter(|one| one.what != Compares::Mapped);
    let of_writes: Vec<&Compared> = of_writes.collect();
    let chosen = named(&tuned.choice.way, tuned.choice.batch);
    let kept = (settled.way, settled.batch) == (tuned.choice.way, tuned.choice.batch);
    let mut text = if of_writes.is_empty() {
        "Nothing is cheaper here than what most programs do.".to_owned()
    } else if kept {
        "Fresh trials confirm that it is cheaper than what most programs do.".into()
    } else if tuned.fell_back {
        format!("Fresh trials speak against {chosen}, which looked cheapest.")
    } else if of_writes.iter().any(|one| one.ratio.is_err()) {
        format!("Fresh trials do not settle whether {chosen} is cheaper: a figure is missing.")
    } else {
        format!("Fresh trials do not show that {chosen} is cheaper.")
    };
    let mapped = tuned.confirmed.iter().find(|one| one.what == Compares::Mapped);
    if mapped.is_some_and(|one| one.finding.verdict != Verdict::Faster) {
        text += " A mapping keeps msync: nothing was shown to be faster.";
    }
    text
}

fn compared(one: &Compared, choice: &Choice) -> String {
    let plain = named(&PLAIN.way, 1);
    match one.what {
        Compares::Way => format!("{}, not {plain}", named(&choice.way, 1)),
        Compares::Batch => format!("{}, not {plain}", named(&choice.way, choice.batch)),
        Compares::PlainBatch => format!("{}, not {plain}", named(&PLAIN.way, choice.batch)),
        Compares::Mapped => {
            let mapped = choice.mapped.map_or("another call", |sync| sync.name());
            format!("{mapped} of a mapping, not msync")
        }
    }
}

fn commit(way: &Way) -> Commit {
    Commit { sync: way.sync, io: way.io, layout: way.layout, ..Commit::default() }
}

fn named(way: &Way, batch: u32) -> String {
    method::named(&Commit { batch, ..commit(way) })
}
