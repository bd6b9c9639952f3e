//! Crash states of a program, as text: the answer, each cause with its story, and what was not
//! examined.

use ringfence_crash::worker::Status;
use ringfence_crash::{Added, Answer, Fault, Found, FoundAlso, LostStore, Medium};

use ringfence_experiment::shell::quote;

use super::notes::{lints, notes, rules};
use super::place::{counted, place_of};
use crate::numbers::count;
use crate::style::{Paint, Style};
use crate::text::{clean, command, faint, hanging, heading, paragraph};

// Other failures with the same remedy that are shown, at most.
const MOST_OTHERS: usize = 4;

/// The answer of `crash`.
pub fn crash(answer: &Answer, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, &headline(answer), style);
    for (number, found) in answer.findings.iter().enumerate() {
        out.push('\n');
        finding(&mut out, number + 1, found, answer, style);
    }
    out.push('\n');
    for note in notes(answer) {
        paragraph(&mut out, 0, &note, style);
    }
    for lint in lints(answer) {
        hanging(&mut out, "lint  ", Some(Paint::Faint), &clean(&lint), style);
    }
    faint(&mut out, &rules(answer), style);
    out
}

/// What was found, in a line.
pub(crate) fn headline(answer: &Answer) -> String {
    let program = answer
        .command
        .first()
        .map_or("the program", |word| word.rsplit('/').next().unwrap_or(word));
    let examined = format!(
        "{}, {}, {:.0} s",
        counted(answer.points, "crash point"),
        counted(answer.states, "state"),
        answer.seconds
    );
    let program = clean(program);
    match (answer.findings.len(), answer.is_complete()) {
        (0, true) => format!("{program}: no failing state: all of {examined}"),
        (0, false) if answer.cut.is_none() && answer.complete == answer.points => {
            format!("{program}: no failing state found, but not all can be judged; {examined}")
        }
        (0, false) => format!("{program}: no failing state found in a part of {examined}"),
        (1, _) => format!("{program}: 1 bug; {examined}"),
        (bugs, _) => format!("{program}: {bugs} bugs; {examined}"),
    }
}

fn finding(out: &mut String, number: usize, found: &Found, answer: &Answer, style: &Style) {
    hanging(out, &format!("{number}  "), Some(Paint::Strong), &title_of(found), style);
    for (lead, text) in story(found, answer) {
        hanging(out, &format!("   {lead:<10}"), Some(Paint::Faint), &clean(&text), style);
    }
    command(out, 3, &rerun(found));
}

/// A cause in a few words, and how often it occurs.
pub(crate) fn title_of(found: &Found) -> String {
    let crashes = if found.crashes == 1 { "crash" } else { "crashes" };
    format!("{} (in {} {crashes})", title_of_fault(found.fault), count(found.crashes))
}

/// What happened: each line of it with what it is about.
pub(crate) fn story(found: &Found, answer: &Answer) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> =
        found.lost.iter().map(|lost| ("lost", lost_store(lost, answer))).collect();
    match &found.killed {
        None => lines.push(("crash", crash_at(found))),
        Some(killed) => {
            lines.push(("kill", place_of(false, killed.last_line.as_deref(), &killed.before)));
            lines.push(("crash", format!("of the recovery after it, {}", crash_at(found))));
        }
    }
    lines.push(("recovery", recovery(found)));
    lines.push(("remedy", remedy(found, answer)));
    lines.extend(found.also.iter().take(MOST_OTHERS).map(|other| ("also", also(other))));
    if let Some(more) = found.also.len().checked_sub(MOST_OTHERS).filter(|more| *more > 0) {
        lines.push(("also", format!("{}, in --json", counted(more as u64, "more failure"))));
    }
    lines.push(("files", found.images.display().to_string()));
    lines
}

/// The command that runs recovery on the files without Ringfence.
pub(crate) fn rerun(found: &Found) -> String {
    format!("sh {}", quote(&found.rerun.display().to_string()))
}

fn title_of_fault(fault: Fault) -> String {
    match fault {
        Fault::Lost => "printed, then lost".into(),
        Fault::Differs => "recovery prints a state that never existed".into(),
        Fault::Refused => "recovery prints what --expect refuses".into(),
        Fault::Ends(Status::TooLong) => "recovery does not end".into(),
        Fault::Ends(Status::TooMany) => "recovery starts processes without end".into(),
        Fault::Ends(Status::TooMuch) => "recovery prints without end".into(),
        Fault::Ends(status @ Status::Signal(_)) => format!("recovery dies by {status}"),
        Fault::Ends(status) => format!("recovery ends with {status}"),
    }
}

fn lost_store(lost: &LostStore, answer: &Answer) -> String {
    let bytes = lost.bytes.len() / 2;
    let what = if bytes == 1 { "1 byte".into() } else { format!("{bytes} bytes") };
    let file = lost.file.rsplit('/').next().unwrap_or(&lost.file);
    let state = match (&lost.flushed, answer.medium) {
        (_, Medium::Pages) => "not synced".to_owned(),
        (Some(flush), _) => format!("flushed at {flush}, with no fence after it"),
        (None, _) => "never flushed".to_owned(),
    };
    format!("{what} at {:#x} of {file}, stored at {}; {state}", lost.offset, lost.at)
}

fn crash_at(found: &Found) -> String {
    place_of(found.right_after, found.last_line.as_deref(), &found.before)
}

fn recovery(found: &Found) -> String {
    let mut text = if found.status == found.right_status {
        String::new()
    } else {
        format!("{} instead of {}", found.status, found.right_status)
    };
    let mut add = |more: String| {
        if !text.is_empty() {
            text += "; ";
        }
        text += &more;
    };
    match (&found.printed, &found.right_line) {
        (Some(own), Some(right)) => add(format!("prints '{own}' instead of '{right}'")),
        (None, Some(right)) => add(format!("does not print '{right}'")),
        (Some(own), None) => add(format!("also prints '{own}'")),
        (None, None) => {}
    }
    if let Some(message) = &found.message {
        let whose = if found.fault == Fault::Refused { "--expect says" } else { "says" };
        add(format!("{whose} '{message}'"));
    }
    text
}

fn remedy(found: &Found, answer: &Answer) -> String {
    if found.lost.is_empty() {
        return "no store was lost: recovery also fails if the program is merely killed there"
            .into();
    }
    if found.killed.is_some() {
        // The program may be right: the kill may lie between its flush and its fence.
        let what = match answer.medium {
            Medium::Pages => "an msync or fsync",
            Medium::PmemEadr => "an sfence",
            _ => "a flush and an sfence",
        };
        return format!(
            "{what} for these bytes in recovery, before it prints what depends on them"
        );
    }
    let Some(remedy) = &found.remedy else {
        let what = match answer.medium {
            Medium::Pages => "an msync",
            Medium::PmemEadr => "an sfence",
            _ => "a flush and an sfence",
        };
        return format!(
            "{what} right after this store does not help: the order of the stores has to change"
        );
    };
    let own = remedy.stores.iter().all(|store| *store == remedy.after);
    let of = match remedy.stores.as_slice() {
        _ if own => String::new(),
        [one] => format!(" of what was stored at {one}"),
        [first, .., last] => format!(" of what was stored at {first} to {last}"),
        [] => String::new(),
    };
    let what = match remedy.added {
        Added::Fence => "an sfence".into(),
        Added::FlushAndFence => format!("a flush{of} and an sfence"),
        Added::Sync => format!("an msync{of}"),
    };
    let effect = match (remedy.left, found.crashes) {
        (0, 1) => "this crash is impossible then".into(),
        (0, _) => "none of these crashes is possible then".into(),
        (left, all) => format!("{} of {} crashes are possible even then", count(left), count(all)),
    };
    format!("{what} right after {}: tried on the recording, {effect}", remedy.after)
}

// Another failure that has the same remedy.
fn also(also: &FoundAlso) -> String {
    let crashes = if also.crashes == 1 { "crash" } else { "crashes" };
    let stores = match also.lost.as_slice() {
        [] => String::new(),
        [one] => format!(", if what {one} stores is lost"),
        several => format!(", if what {} store is lost", several.join(" and ")),
    };
    format!("{} (in {} {crashes}){stores}", title_of_fault(also.fault), count(also.crashes))
}
