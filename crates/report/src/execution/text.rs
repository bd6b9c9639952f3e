//! What a recorded program executed: the census of a trace.

use super::costs;
use std::time::Duration;

use ringfence_machine::text::printable;
use ringfence_machine::units::Bytes;
use ringfence_trace::census::dynamic::checked::Checked;
use ringfence_trace::census::dynamic::saving::Saving;
use ringfence_trace::census::dynamic::{
    AtPlace, BLOCK, Confidence, Executed, Finding, Race, Run, RunDiff,
};
use ringfence_trace::events::{Ended, Location, Medium, TracedFile};

use super::costs::many;
pub use super::costs::{agreement, change, how, in_words, signed, title};
use crate::census::text::differences;

use crate::numbers::{count, duration, percent, units_per_s};
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{capital, faint, hanging, heading, listed, paragraph, plural, section};

// Places that are shown unless all are asked for.
const BUSIEST: usize = 10;

/// The report on a recorded program.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// What it executed.
    pub run: &'a Run,
    /// What the same would cost by other instructions, or why that is not known, if it was asked.
    pub saving: Option<&'a Result<Saving, String>>,
    /// What other instructions would change, predicted and measured, if it was asked.
    pub checked: Option<&'a Checked>,
}

/// What was executed: everything together, what was needless or missing, and the busiest places, or
/// with `all` every place.
pub fn executed(told: &Told, all: bool, style: &Style) -> String {
    let Told { run, saving, checked } = *told;
    let mut out = String::new();
    beginning(&mut out, run, style);
    if run.events == 0 {
        paragraph(&mut out, 0, nothing(run), style);
        return out;
    }
    executed_in_all(&mut out, run, style);
    findings(&mut out, run, style);
    sizes(&mut out, run, style);
    let mut hidden = places(&mut out, "instruction", &run.sites, all, style);
    // Without libraries, both are the same.
    if run.callers != run.sites {
        hidden |= places(&mut out, "called from", &run.callers, all, style);
    }
    hidden |= needless_lines(&mut out, run, all, style);
    hidden |= lints(&mut out, run, all, style);
    match saving {
        None => {}
        Some(Ok(saving)) => costs::saving(&mut out, saving, style),
        Some(Err(why)) => {
            section(&mut out);
            hanging(&mut out, "costs     ", None, &format!("not known: {why}"), style);
        }
    }
    if let Some(checked) = checked {
        costs::checked(&mut out, checked, style);
    }
    if hidden {
        section(&mut out);
        faint(
            &mut out,
            "The busiest places and the first findings are shown: --all shows every one.",
            style,
        );
    }
    out
}

fn beginning(out: &mut String, run: &Run, style: &Style) {
    let (command, events) = (run.command.join(" "), run.events.try_into().unwrap_or(usize::MAX));
    let command = if command.is_empty() { "a program".into() } else { command };
    let threads = plural(run.threads.try_into().unwrap_or(usize::MAX), "thread");
    let events =
        if events == 1 { "1 event".into() } else { format!("{} events", count(run.events)) };
    heading(out, &format!("{command}: {events} of {threads}"), style);
    paragraph(out, 0, &ending(run), style);
    list(out, "files", &files(run), style);
    if let Some(note) = medium_note(run) {
        paragraph(out, 0, note, style);
    }
    run.notes.iter().for_each(|note| paragraph(out, 0, &format!("{}.", capital(note)), style));
}

/// What flushes are worth where a file is not mapped directly.
pub fn medium_note(run: &Run) -> Option<&'static str> {
    let is_direct = |file: &TracedFile| file.medium.is_none_or(|medium| medium == Medium::Dax);
    let flushes = run.total.flushes() + run.total.nt_stores > 0;
    (flushes && !run.files.iter().all(is_direct)).then_some(
        "Lines count as durable as on persistent memory. In the page cache only msync, fsync and \
         related calls make stores \
         durable; in memory nothing does.",
    )
}

/// The files that were recorded, each with its size and medium.
pub fn files(run: &Run) -> Vec<String> {
    let one = |file: &TracedFile| {
        let medium = match file.medium {
            Some(medium) => medium.to_string(),
            None => "medium not known".into(),
        };
        format!("{} ({} at first, {medium})", printable(&file.path), Bytes(file.size))
    };
    let mut files: Vec<String> = run.files.iter().take(BUSIEST).map(one).collect();
    if run.files.len() > BUSIEST {
        files.push(format!("{} more", run.files.len() - BUSIEST));
    }
    files
}

/// What advice about a recorded program rests on.
pub const SCOPE: &str = "Findings and advice are about the recorded files alone: what the program \
                         does to other memory is not in the trace.";

/// What is said of a run without events.
pub fn nothing(run: &Run) -> &'static str {
    match run.uncertain.is_empty() {
        true => "It did nothing with the files that were recorded.",
        false => "Nothing was recorded.",
    }
}

/// How long it was recorded, and how it ended.
pub fn ending(run: &Run) -> String {
    let time = match run.events_per_second {
        Some(rate) => {
            let time = duration(Duration::from_nanos(run.recorded_ns));
            format!("Recorded in {time}, {}. ", units_per_s(rate, "events"))
        }
        None => String::new(),
    };
    let ended = match &run.ended {
        Some(Ended::Exited(code)) => format!("It exited with code {code}."),
        Some(Ended::Signal(signal)) => format!("Signal {signal} ended it."),
        Some(Ended::Stopped(why)) => format!("Recording stopped: {}.", why.trim_end_matches('.')),
        None => {
            "The recorder did not finish the trace (it was killed, or the disk was full): the end \
             is missing."
                .into()
        }
    };
    format!("{time}{ended}")
}

/// What was executed how often, of how many bytes.
pub fn operations(total: &Executed) -> impl Iterator<Item = (&'static str, u64, Option<u64>)> {
    let rows = [
        ("stores", total.stores, Some(total.stored_bytes)),
        ("non-temporal stores", total.nt_stores, Some(total.nt_bytes)),
        ("locked instructions", total.locked, Some(total.locked_bytes)),
        ("written by the kernel", total.writes, Some(total.written_bytes)),
        ("loads", total.loads, Some(total.loaded_bytes)),
        ("clflush", total.clflush, None),
        ("clflushopt", total.clflushopt, None),
        ("clwb", total.clwb, None),
        ("sfence", total.sfence, None),
        ("mfence", total.mfence, None),
        ("msync", total.msync, None),
        ("sync_file_range: not durable by itself", total.sync_ranges, None),
    ];
    let rows = rows.into_iter().filter(|(_, times, _)| *times > 0);
    rows.map(|(name, times, bytes)| (name, times, bytes.filter(|bytes| *bytes > 0)))
}

fn executed_in_all(out: &mut String, run: &Run, style: &Style) {
    let total = &run.total;
    section(out);
    let mut table =
        Table::new(vec![Column::left("what"), Column::right("times"), Column::right("bytes")]);
    for (name, times, bytes) in operations(total) {
        let bytes = bytes.map_or_else(String::new, |bytes| Bytes(bytes).to_string());
        table.row(vec![Cell::new(name), Cell::new(count(times)), Cell::new(bytes)]);
    }
    out.push_str(&table.render(style));
    if let Some(all) = run.locked_in_all.filter(|all| *all > total.locked) {
        let text = format!(
            "In all, {} were executed; the others had nothing to wait for.",
            plural(all.try_into().unwrap_or(usize::MAX), "locked instruction")
        );
        paragraph(out, 0, &text, style);
    }
}

/// What could have been left out.
pub fn needless(total: &Executed) -> Vec<String> {
    let (flushes, fences) = (total.flushes(), total.sfence + total.mfence);
    let mut needless = Vec::new();
    if total.clean_flushes > 0 {
        needless
            .push(format!("{} were of clean lines", of(total.clean_flushes, flushes, "flushes")));
    }
    if total.flushed_again > 0 {
        let unchanged = match total.flushed_again_unchanged {
            0 => "something was stored to each meanwhile".into(),
            many if many == total.flushed_again => "nothing was stored to any meanwhile".into(),
            many => format!("nothing was stored to {} of them meanwhile", count(many)),
        };
        let again = of(total.flushed_again, flushes, "flushes");
        needless.push(format!(
            "{again} were of lines that had been flushed since the last fence; {unchanged}"
        ));
    }
    if total.idle_fences > 0 {
        let idle = of(total.idle_fences, fences, "fences");
        needless.push(format!("{idle} had nothing to wait for in the recorded files"));
    }
    if needless.is_empty() && flushes + fences > 0 {
        needless.push(
            "no flush of a clean line, no line flushed twice, no fence with nothing to wait for"
                .into(),
        );
    }
    needless
}

// What should have been there.
fn missing(total: &Executed) -> Vec<String> {
    let lines = [
        (total.unflushed_lines, "not flushed after the last store"),
        (total.unfenced_lines, "flushed, or stored to past the caches, with no fence behind"),
    ];
    let verb = |many: u64| if many == 1 { "was" } else { "were" };
    let some = lines.into_iter().filter(|(many, _)| *many > 0);
    some.map(|(many, what)| format!("{} {} {what}", self::lines(many), verb(many))).collect()
}

const ALL_DURABLE: &str =
    "nothing: every line that was stored to was flushed and fenced at the end";

fn lines(many: u64) -> String {
    if many == 1 { "1 line".into() } else { format!("{} lines", count(many)) }
}

/// What is not durable at the end, or that all is, or why neither is known.
pub fn left(run: &Run) -> String {
    missing_or_not(run).join("; ")
}

fn missing_or_not(run: &Run) -> Vec<String> {
    let missing = missing(&run.total);
    if run.uncertain.is_empty() {
        return if missing.is_empty() { vec![ALL_DURABLE.into()] } else { missing };
    }
    let reasons = run.uncertain.iter().map(|why| format!("not known, as {why}"));
    reasons
        .chain(missing.into_iter().map(|what| format!("as far as the trace goes, {what}")))
        .collect()
}

/// What was needless, in a sentence.
pub fn sentence(total: &Executed) -> String {
    let share = |part: u64, whole: u64, what: &str| {
        let share = percent(part as f64 / whole as f64);
        (whole > 0).then(|| {
            format!("{} of {} {what}", if part == 0 { "none".into() } else { share }, count(whole))
        })
    };
    let flushes = share(total.needless_flushes(), total.flushes(), "flushes");
    let fences = share(total.idle_fences, total.sfence + total.mfence, "fences");
    match listed(&flushes.into_iter().chain(fences).collect::<Vec<_>>(), "and") {
        none if none.is_empty() => "It executed no flush and no fence.".into(),
        some => format!("Needless: {some}."),
    }
}

fn findings(out: &mut String, run: &Run, style: &Style) {
    let total = &run.total;
    section(out);
    list(out, "needless", &needless(total), style);
    list(out, "missing", &missing_or_not(run), style);
    if total.blocks > 0 {
        let partial = of(total.partial_blocks, total.blocks, "blocks");
        let blocks = format!("{partial} of {BLOCK} bytes were covered in part when a fence came");
        list(out, "blocks", &[blocks], style);
    }
    list(
        out,
        "at once",
        &[format!("at most {} not flushed yet", lines(run.most_dirty_lines))],
        style,
    );
    let races: Vec<String> = run.races.iter().take(BUSIEST).map(|one| race(run, one)).collect();
    list(out, "races", &races, style);
}

// `12 of 100 flushes (12 %)`.
fn of(part: u64, whole: u64, many: &str) -> String {
    format!("{} of {} {many} ({})", count(part), count(whole), percent(part as f64 / whole as f64))
}

fn list(out: &mut String, head: &str, all: &[String], style: &Style) {
    for (number, one) in all.iter().enumerate() {
        let head = if number == 0 { head } else { "" };
        hanging(out, &format!("{head:<10}"), None, one, style);
    }
}

/// A race in words.
pub fn race(run: &Run, race: &Race) -> String {
    let file = run.files.iter().find(|file| file.id == race.file);
    let file = file.map_or_else(|| format!("file {}", race.file), |file| file.path.clone());
    let times =
        if race.count == 1 { "once".into() } else { format!("{} times", count(race.count)) };
    format!(
        "{times}, {} and then {} stored to one line, by two threads with no fence between: first \
         at {file}+{:#x}",
        name(race.first.as_ref()),
        name(race.second.as_ref()),
        race.offset
    )
}

fn name(location: Option<&Location>) -> String {
    location.map_or_else(|| "an unknown place".into(), Location::to_string)
}

/// How sure a finding is, in a word.
pub fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// What the order of findings means.
pub const ORDER: &str =
    "The program's own code first, then libraries; by confidence, then by frequency.";

// Whether some were left out.
fn lints(out: &mut String, run: &Run, all: bool, style: &Style) -> bool {
    if run.findings.is_empty() {
        return false;
    }
    let most = if all { usize::MAX } else { BUSIEST };
    let (making, own): (Vec<&Finding>, Vec<&Finding>) =
        run.findings.iter().partition(|finding| finding.makes_pool);
    let list = |out: &mut String, findings: &[&Finding]| {
        for finding in findings.iter().take(most) {
            let head = format!("{:<8}", confidence(finding.confidence));
            hanging(out, &head, None, &finding.text, style);
        }
    };
    section(out);
    heading(
        out,
        &format!("What the crash checker finds, by the rules of {}", run.rules.whose()),
        style,
    );
    faint(out, SCOPE, style);
    faint(out, ORDER, style);
    list(out, &own);
    if making.is_empty() {
        return own.len() > most;
    }
    let text = making_findings(making.len());
    match all {
        true => {
            section(out);
            heading(out, &text, style);
            list(out, &making);
        }
        false => paragraph(out, 0, &format!("{text}: --all lists them."), style),
    }
    own.len() > most
}

/// How many findings are about the making of pools.
pub fn making_findings(many: usize) -> String {
    let are = if many == 1 { "is" } else { "are" };
    format!("{} {are} about pool creation by PMDK", plural(many, "finding"))
}

// Whether some were left out.
fn needless_lines(out: &mut String, run: &Run, all: bool, style: &Style) -> bool {
    if let Some(making) = &run.pool_making {
        section(out);
        paragraph(out, 0, &pool_making(making), style);
    }
    if run.needless_lines.is_empty() {
        return false;
    }
    section(out);
    heading(out, "Lines with needless flushes", style);
    let most = if all { usize::MAX } else { BUSIEST };
    let mut table = Table::new(vec![
        Column::text("line, with what it calls", 24),
        Column::right("flushes"),
        Column::right("needless"),
        Column::left("confidence"),
        Column::left("in"),
    ]);
    for line in run.needless_lines.iter().take(most) {
        table.row(vec![
            Cell::new(&line.place),
            figure(line.flushes),
            figure(line.needless),
            Cell::new(confidence(line.confidence)),
            Cell::new(if line.own { "program" } else { "library" }),
        ]);
    }
    out.push_str(&table.render(style));
    run.needless_lines.len() > most
}

/// What the making of pools executed.
pub fn pool_making(making: &Executed) -> String {
    format!(
        "Pool creation by PMDK: {}. Included in the figures above, but not in the lines with \
         needless flushes.",
        of(making.needless_flushes(), making.flushes(), "flushes were needless")
    )
}

fn sizes(out: &mut String, run: &Run, style: &Style) {
    if run.sizes.is_empty() {
        return;
    }
    section(out);
    let past = run.sizes.iter().any(|size| size.nt_stores > 0);
    let mut columns = vec![Column::left("size of stores"), Column::right("stores")];
    columns.extend(past.then(|| Column::right("non-temporal")));
    let mut table = Table::new(columns);
    for size in &run.sizes {
        let from = size.up_to / 2 + 1;
        let range = match size.up_to {
            0..=2 => format!("{} B", size.up_to),
            up_to if up_to < 1024 => format!("{from} to {up_to} B"),
            up_to => format!("up to {}", Bytes(up_to)),
        };
        let mut row = vec![Cell::new(range), figure(size.stores)];
        row.extend(past.then(|| figure(size.nt_stores)));
        table.row(row);
    }
    out.push_str(&table.render(style));
}

fn figure(many: u64) -> Cell {
    Cell::new(if many == 0 { ".".into() } else { count(many) })
}

/// A column: its head, and what of a place it counts.
pub type Figure = (&'static str, fn(&Executed) -> u64);

/// Columns of places; those in which all have nothing are left out.
pub const FIGURES: [Figure; 11] = [
    ("flushes", Executed::flushes),
    ("needless", Executed::needless_flushes),
    ("fences", |executed| executed.sfence + executed.mfence),
    ("idle", |executed| executed.idle_fences),
    ("nt stores", |executed| executed.nt_stores),
    ("stores", |executed| executed.stores),
    ("locked", |executed| executed.locked),
    ("loads", |executed| executed.loads),
    ("msync", |executed| executed.msync),
    ("kernel", |executed| executed.writes),
    ("left", |executed| executed.unflushed_lines + executed.unfenced_lines),
];

/// What differs between two runs: everything together, then by function, by instruction and by
/// caller.
pub fn executed_diff(diff: &RunDiff, style: &Style) -> String {
    let mut out = String::new();
    for (head, run) in [("before    ", &diff.before), ("after     ", &diff.after)] {
        let (events, threads) =
            (many(run.events, "event", "events"), many(run.threads, "thread", "threads"));
        let text = format!("{}: {events} of {threads}", run.command.join(" "));
        hanging(&mut out, head, None, &text, style);
    }
    section(&mut out);
    let mut table =
        Table::new(vec![Column::left("what"), Column::right("before"), Column::right("after")]);
    let totals = diff.before.total.figures().into_iter().zip(diff.after.total.figures());
    for ((name, before), (_, after)) in
        totals.filter(|((_, before), (_, after))| before + after > 0)
    {
        table.row(vec![Cell::new(name), figure(before), figure(after)]);
    }
    out.push_str(&table.render(style));
    let all = [
        ("function", &diff.functions),
        ("instruction", &diff.sites),
        ("called from", &diff.callers),
    ];
    for (head, places) in all.into_iter().filter(|(_, places)| !places.is_empty()) {
        let rows: Vec<_> =
            places.iter().map(|one| (one.place.as_str(), one.before, one.after)).collect();
        section(&mut out);
        out.push_str(&differences(head, &rows, &FIGURES, style));
    }
    if diff.functions.is_empty() && diff.callers.is_empty() {
        paragraph(&mut out, 0, "Nowhere do the runs differ.", style);
    }
    out
}

// Whether some were left out.
fn places(out: &mut String, head: &str, rows: &[AtPlace], all: bool, style: &Style) -> bool {
    // Some events are of none of these, such as that a file was mapped.
    let is_shown = |row: &&AtPlace| FIGURES.iter().any(|(_, get)| get(&row.executed) > 0);
    let rows: Vec<&AtPlace> = rows.iter().filter(is_shown).collect();
    let shown = if all { &rows[..] } else { &rows[..rows.len().min(BUSIEST)] };
    let there: Vec<&Figure> =
        FIGURES.iter().filter(|(_, get)| shown.iter().any(|row| get(&row.executed) > 0)).collect();
    section(out);
    let table = |figures: &[&Figure]| {
        let mut columns = vec![Column::text(head, 24)];
        columns.extend(figures.iter().map(|(name, _)| Column::right(*name)));
        let mut table = Table::new(columns);
        let has_any = |row: &&&AtPlace| figures.iter().any(|(_, get)| get(&row.executed) > 0);
        for row in shown.iter().filter(has_any) {
            let figures = figures.iter().map(|(_, get)| figure(get(&row.executed)));
            let name =
                row.location.as_ref().map_or_else(|| "not known".into(), Location::to_string);
            table.row(std::iter::once(Cell::new(name)).chain(figures).collect());
        }
        table
    };
    // Where there is no room, what has least to do with flushes is left to --json.
    let mut figures = there;
    while !table(&figures).fits(style)
        && let Some(least) = figures
            .iter()
            .rposition(|(name, _)| ["kernel", "loads", "locked", "msync"].contains(name))
    {
        figures.remove(least);
    }
    let table = table(&figures);
    out.push_str(&table.render(style));
    shown.len() < rows.len()
}
