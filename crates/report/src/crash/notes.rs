//! What was examined of a program's crash states, and what was not.

use ringfence_crash::{Answer, ByOtherRules, Cut, Medium};
use ringfence_experiment::shell::quote;

use super::place::{counted, place_of};
use crate::numbers::count;
use crate::text::clean;

// Lints that are shown, at most.
const MOST_LINTS: usize = 4;

// What the printed lines say about what was checked.
fn acknowledgements(answer: &Answer) -> String {
    if answer.expect.is_some() {
        "What recovery prints was checked by the command of --expect.".into()
    } else if answer.acknowledged == 0 {
        "No printed line counts as an acknowledgement: only the way in which recovery ends was \
         checked."
            .into()
    } else if answer.checkable == 0 && answer.unseen > 0 {
        "It is not known yet which printed lines change what recovery prints.".into()
    } else if answer.checkable == 0 {
        format!(
            "None of {} printed lines changes what recovery prints: only the way in which it ends \
             was checked.",
            count(answer.acknowledged)
        )
    } else {
        format!(
            "{} of {} printed lines change what recovery prints: only their loss can be seen.",
            count(answer.checkable),
            count(answer.acknowledged)
        )
    }
}

/// What was examined, and what was not.
pub(crate) fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = vec![acknowledgements(answer)];
    notes.extend(judged(answer));
    notes.extend(examined(answer));
    notes.extend(by_other_rules(answer));
    if answer.batches > 0 {
        notes.push(format!(
            "{} calls printed several lines at once, which count as one.",
            count(answer.batches)
        ));
    }
    notes
}

// What cannot be told right from wrong.
fn judged(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if answer.other_crashes > 0 {
        notes.push(format!(
            "{} more crashes fail for other causes, which were too many to work out.",
            count(answer.other_crashes)
        ));
    }
    if answer.undecided > 0 {
        notes.push(format!(
            "The output of {} states cannot be judged: kills since the last printed line make \
             recovery print more than two different things. --expect can judge it.",
            count(answer.undecided)
        ));
        if let Some(line) = &answer.passing {
            notes.push(format!(
                "Recovery prints the line '{}' only after kills in the middle of an operation. If \
                 it does not count, more can be judged with --ignore {}.",
                clean(line),
                quote(&pattern(line))
            ));
        }
    }
    if let Some(gap) = &answer.gap {
        let at = place_of(false, gap.killed.last_line.as_deref(), &gap.killed.before);
        notes.push(format!(
            "After a mere kill {at}, recovery lacks the line '{}', which it prints before and \
             after that operation (in all, {}). The comparison with kills cannot tell whether \
             that is right: --expect can.",
            clean(&gap.line),
            counted(answer.gaps, "such kill")
        ));
    }
    notes
}

// What was left out.
fn examined(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(kills) = answer.kills {
        notes.push(format!(
            "Recovery was crashed, too, after {} of {} kills.",
            count(kills.examined),
            count(kills.all)
        ));
    }
    if answer.bounded > 0 {
        notes.push(format!(
            "The bytes that {} reads were taken to be covered by an ideal checksum: at {}, only \
             all-new, all-old and one torn content of each call's bytes were examined.",
            answer.checksum.join(" or "),
            counted(answer.bounded, "crash point")
        ));
    }
    let left = answer.points - answer.complete - answer.bounded;
    if left > 0 {
        let why = match answer.cut {
            Some(Cut::Time) => "the time was over (--time)",
            Some(Cut::Interrupted) => "it was interrupted",
            Some(Cut::States) => "the number of states was reached (--states)",
            None => "they have more than 4,096 states each",
        };
        let first = answer.first_left.as_ref().map_or_else(String::new, |first| {
            let at = place_of(false, first.last_line.as_deref(), &first.before);
            format!("; the first is {at}")
        });
        notes.push(format!(
            "Not all states of {} were examined, because {why}{first}.",
            counted(left, "crash point")
        ));
        if answer.unseen > 0 {
            notes.push(format!(
                "Of the last {}, no state was examined.",
                counted(answer.unseen, "crash point")
            ));
        }
        if answer.unseen < left {
            notes.push(
                "A sample was: everything lost, one unit lost, one unit written back, then pairs \
                 and random ones, as far as the limits allowed."
                    .into(),
            );
        }
    }
    if answer.kills_left > 0 && left == 0 {
        notes.push(format!(
            "Kills right after {} were left out, because a limit was reached.",
            counted(answer.kills_left, "store")
        ));
    }
    notes
}

// An expression for a line, whatever numbers it has.
fn pattern(line: &str) -> String {
    let mut pattern = String::from("^");
    let mut in_number = false;
    for one in line.chars() {
        match one {
            '0'..='9' if in_number => continue,
            '0'..='9' => pattern += "[0-9]+",
            _ if one.is_alphanumeric() || " _:,;='\"/<>@#%&!~-".contains(one) => pattern.push(one),
            _ => pattern.extend(['\\', one]),
        }
        in_number = one.is_ascii_digit();
    }
    pattern + "$"
}

fn by_other_rules(answer: &Answer) -> Option<String> {
    let all = &answer.by_other_rules;
    let named = |by: &ByOtherRules| by.medium.rules().map_or("pages", |rules| rules.name());
    let is_fine = |by: &ByOtherRules| !by.fails && by.is_complete;
    if all.is_empty() {
        return None;
    }
    if all.iter().all(is_fine) {
        let names: Vec<&str> = all.iter().map(named).collect();
        return Some(format!(
            "By the rules of other processors ({}) there is no failing state either.",
            names.join(", ")
        ));
    }
    let one = |by: &ByOtherRules| {
        let found = match (by.fails, by.is_complete) {
            (true, _) => "fails",
            (false, true) => "no failing state",
            (false, false) => "no failing state found in a part of them",
        };
        format!("{}: {found}", named(by))
    };
    let found: Vec<String> = all.iter().map(one).collect();
    Some(format!("By the rules of other processors (--rules): {}.", found.join("; ")))
}

/// Suspicions that no crash state has confirmed.
pub(crate) fn lints(answer: &Answer) -> Vec<String> {
    let mut lints: Vec<String> = answer.lints.iter().take(MOST_LINTS).cloned().collect();
    if let Some(more) = answer.lints.len().checked_sub(MOST_LINTS).filter(|more| *more > 0) {
        lints.push(format!("{}, in --json", counted(more as u64, "more suspicion")));
    }
    lints
}

/// The model.
pub(crate) fn rules(answer: &Answer) -> String {
    let rules = match answer.medium {
        Medium::PmemIntel => "persistent memory by the rules of Intel's processors",
        Medium::PmemAmd => "persistent memory by the rules of AMD's processors",
        Medium::PmemOldAmd => {
            "persistent memory by the rules of AMD's processors before clflushopt"
        }
        Medium::PmemEadr => "persistent memory with durable caches (eADR)",
        Medium::Pages => "an ordinary file's pages, torn at sectors of 512 bytes",
    };
    let threads = match answer.threads {
        0 | 1 => String::new(),
        threads => format!("; other interleavings of its {threads} threads were not examined"),
    };
    format!("Model: {rules}; the recorded order{threads}.")
}
