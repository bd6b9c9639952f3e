//! Bugs of persistent memory that are known from the literature, each in its minimal form beside
//! its repaired twin: the checker finds every one under the profiles that it exists under, and has
//! nothing to say of the twins.

mod atomicity;
mod case;
mod counters;
mod files;
mod flushes;
mod indexes;
mod lints;
mod lists;
mod logs;
mod pages;
mod processors;
mod publication;
mod recovery;
mod ring;
mod sharing;
mod tables;
mod trees;
mod xfdetector;

use std::collections::BTreeSet;

use case::{By, Case};
use ringfence_crashcheck::{Fate, Profile, Report, Rule};
use ringfence_persist::Memory;

fn cases() -> Vec<Case> {
    let classes: [&[Case]; 17] = [
        flushes::CASES,
        publication::CASES,
        atomicity::CASES,
        lists::CASES,
        tables::CASES,
        trees::CASES,
        logs::CASES,
        pages::CASES,
        counters::CASES,
        xfdetector::CASES,
        recovery::CASES,
        processors::CASES,
        ring::CASES,
        lints::CASES,
        indexes::CASES,
        files::CASES,
        sharing::CASES,
    ];
    classes.concat()
}

fn is_found(case: &Case, report: &Report) -> bool {
    match case.found_by {
        By::Violation => report.violation.is_some(),
        By::Lint(rule) => report.lints.iter().any(|lint| lint.rule == rule),
    }
}

// Of a twin: these say that something is wrong, the others that something is wasted.
fn is_alarm(rule: Rule) -> bool {
    matches!(rule, Rule::NeverDurable | Rule::AcknowledgedTooEarly | Rule::MissingFence)
}

fn told(report: &Report) -> String {
    match &report.violation {
        Some(violation) => format!("{}\n{}", violation.message, violation.story),
        None => format!("{:?}", report.lints),
    }
}

// What is wrong with the verdicts on one case under one profile.
fn faults(case: &Case, profile: Profile) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |text: &str, report: &Report| {
        faults.push(format!("{}, {profile}: {text}: {}", case.name, told(report)));
    };
    let buggy = case.check(profile, true, case.crashes);
    match (is_found(case, &buggy), case.found_under.contains(&profile)) {
        (false, true) => fault("the bug was not found", &buggy),
        (true, false) => fault("the bug does not exist here, but was found", &buggy),
        _ => {}
    }
    if matches!(case.found_by, By::Lint(rule) if !is_alarm(rule)) && buggy.violation.is_some() {
        fault("the waste was found to be wrong", &buggy);
    }
    if case.crashes > 1 {
        let fewer = case.check(profile, true, case.crashes - 1);
        if is_found(case, &fewer) {
            fault("the bug needs fewer crashes", &fewer);
        }
    }
    let twin = case.check(profile, false, case.crashes);
    if twin.violation.is_some()
        || is_found(case, &twin)
        || twin.lints.iter().any(|lint| is_alarm(lint.rule))
    {
        fault("an alarm about the twin", &twin);
    }
    // A search that was cut short has found its bug, or says nothing.
    if (buggy.bounded && buggy.violation.is_none()) || twin.bounded {
        fault("not searched to the end", &twin);
    }
    faults
}

#[test]
fn every_bug_is_found_where_it_exists_and_no_twin_alarms() {
    let cases = cases();
    let mut faults = Vec::new();
    println!("{:<68} {:>6} {:>6} {:>9} {:>6}", "", "Intel", "AMD", "old AMD", "eADR");
    for case in &cases {
        print!("{:<68}", case.name);
        for (profile, width) in Profile::ALL.into_iter().zip([6, 6, 9, 6]) {
            let found = case.found_under.contains(&profile);
            print!(" {:>width$}", if found { "found" } else { "-" });
            faults.extend(self::faults(case, profile));
        }
        println!("  {}", case.source);
    }
    let count = |by: fn(By) -> bool| cases.iter().filter(|case| by(case.found_by)).count();
    println!(
        "{} cases, {} found by a crash, {} by a lint",
        cases.len(),
        count(|by| by == By::Violation),
        count(|by| by != By::Violation)
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_wrong_claim_is_noticed() {
    let cases = cases();
    let case = |name| *cases.iter().find(|case| case.name == name).unwrap();
    let missing = case("flush missing");
    assert!(
        faults(&missing, Profile::IntelAdr).is_empty()
            && faults(&missing, Profile::Eadr).is_empty()
    );
    let everywhere = Case { found_under: case::ALL, ..missing };
    assert!(faults(&everywhere, Profile::Eadr)[0].contains("the bug was not found"));
    let nowhere = Case { found_under: case::OLD_AMD, ..missing };
    assert!(faults(&nowhere, Profile::IntelAdr)[0].contains("the bug does not exist here"));
    let no_twin = Case {
        program: |memory, _| {
            memory.store_u64(0, 7);
            memory.sfence();
            memory.acknowledge(1);
        },
        ..missing
    };
    assert!(faults(&no_twin, Profile::IntelAdr)[0].contains("an alarm about the twin"));
    let deeper = Case { crashes: 2, ..missing };
    assert!(faults(&deeper, Profile::IntelAdr)[0].contains("fewer crashes"));
}

#[test]
fn the_corpus_is_large_and_its_names_are_unique() {
    let cases = cases();
    let claimed = format!("A [corpus](tests/corpus/main.rs) of {} bugs", cases.len());
    assert!(
        include_str!("../../README.md").contains(&claimed),
        "the README does not say: {claimed}"
    );
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    assert!(cases.iter().all(|case| !case.name.is_empty() && !case.source.is_empty()));
    assert!(cases.iter().all(|case| !case.found_under.is_empty()), "a bug that nobody finds");
}

#[test]
fn a_story_names_the_stores_and_what_became_of_them() {
    let case =
        cases().into_iter().find(|case| case.name == "payload and flag under one fence").unwrap();
    let violation = case.check(Profile::IntelAdr, true, 1).violation.unwrap();
    let story = violation.story.to_string();
    println!("{}: {}\n{story}", case.name, violation.message);
    assert!(story.contains("publication.rs:"), "no line of the program is named");
    let fates: Vec<_> = violation.story.fates().map(|(_, fate)| fate).collect();
    assert!(fates.contains(&Fate::Lost), "nothing was lost: {fates:?}");
    assert!(fates.contains(&Fate::Reached), "nothing reached memory: {fates:?}");
}

// Of a flush over two lines of which the fix makes one durable before: the other half of it is
// needed.
const HALF_NEEDED: [&str; 4] = [
    "FAST_FAIR: shift across two lines without a flush between",
    "flag in the payload's line where the payload spans two",
    "record's checksum leaves out its type, on a line of its own",
    "undo entry across two lines, its count in the first",
];

#[test]
fn a_fix_leaves_nothing_wasted_and_where_there_is_none_nothing_helps() {
    let (mut fixed, mut none) = (0, 0);
    for case in cases().iter().filter(|case| case.found_by == By::Violation) {
        for &profile in case.found_under {
            let report = case.check(profile, true, case.crashes);
            let violation = report.violation.as_ref().expect("found, as another test asks");
            if violation.fix.is_none() {
                let text = report.to_string();
                assert!(
                    text.contains("nor one of each behind everything that is stored"),
                    "{text}"
                );
                none += 1;
                continue;
            }
            fixed += 1;
            let half = HALF_NEEDED.contains(&case.name);
            assert_eq!(
                violation.left.len(),
                usize::from(half),
                "{}, {profile}: {report}",
                case.name
            );
            assert!(violation.left.iter().all(|lint| lint.rule == Rule::CleanFlush), "{report}");
        }
    }
    assert!(fixed > 200 && none > 200, "{fixed} {none}");
}
