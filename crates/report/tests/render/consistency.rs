//! No sentence says other than a figure of the same survey.

use proptest::prelude::*;
use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::task::{FenceAt, Instruction, LineState};
use ringfence_machine::units::Bytes;
use ringfence_studies::fixtures::{harmless, survey};
use ringfence_studies::survey::{NeighbourRow, Neighbours, Survey, answer};

use crate::advice::{said, says};

/// Writers of a victim in the order of the fixture's rows.
const WRITERS: [&str; 5] = ["clflush", "clflushopt", "clwb", "nt", "plain store"];

fn interval(value: f64, half: f64, level: f64) -> Interval {
    let (low, high) = (value / half.exp(), value * half.exp());
    Interval { value, low, high, level, trials: 10, spread: half, slack: 0.0 }
}

// A row's own interval, and one that is `wider` times as wide.
fn set(row: &mut NeighbourRow, slowdown: Result<(f64, f64), NotEstimable>, wider: f64) {
    let own: Estimate = slowdown.map(|(value, half)| interval(value, half, 0.95));
    let effect = row.result.effect.as_mut().unwrap();
    effect.finding = Finding::new(&own, 0.01);
    effect.by_class.all.slowdown = own;
    row.together = slowdown.ok().map(|(value, half)| interval(value, half * wider, 0.9986));
    row.seen = answer::Seen::new(Some(&effect.finding), row.together.as_ref());
}

fn own(row: &NeighbourRow) -> Option<Interval> {
    row.result.effect.as_ref()?.finding.slowdown
}

fn writer_rows<'a>(
    survey: &'a Survey,
    name: &'a str,
    block: Bytes,
) -> impl Iterator<Item = (&'a Neighbours, &'a NeighbourRow)> {
    let rows =
        survey.neighbours.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.filter(move |(_, row)| !row.paced && row.co_runner == name && row.block == Some(block))
}

// The fenced costs of a block as the table has them.
fn costs(survey: &Survey, block: u64) -> Vec<(&'static str, Interval)> {
    let rows = survey.cost.iter().filter(|row| {
        row.write.block.0 == block
            && row.write.fence_at == FenceAt::Block
            && row.write.line == LineState::AsIs
            && row.write.instruction != Instruction::None
    });
    rows.filter_map(|row| Some((row.write.instruction.label(), row.result.ns_per_unit.ok()?)))
        .collect()
}

fn names(text: &str) -> Vec<String> {
    text.replace(" or ", ", ").replace(" and ", ", ").split(", ").map(str::to_owned).collect()
}

// `+15.1 %`, `8.3x`.
fn bound(text: &str) -> f64 {
    match text.trim().strip_suffix('x') {
        Some(factor) => factor.parse().unwrap(),
        None => 1.0 + text.trim().trim_end_matches(" %").parse::<f64>().unwrap() / 100.0,
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

// Named are those, and only those, whose interval no other one's lies below.
fn cheapest_of(named: &[String], costs: &[(&'static str, Interval)], said: &str) {
    for (name, cost) in costs {
        let beaten = costs.iter().any(|(_, other)| other.high < cost.low);
        assert_eq!(named.iter().any(|named| named == name), !beaten, "{name}, {cost:?}: {said}");
    }
}

// As it is within a sentence, or at its start.
fn same(said: &str, named: &str) -> bool {
    said.to_lowercase() == named
}

fn for_block(survey: &Survey, block: Bytes) -> Vec<answer::Method> {
    let of = survey.answer.iter().flat_map(|answer| &answer.blocks).find(|of| of.block == block);
    of.map_or_else(Vec::new, |of| of.methods.clone())
}

// The writers that were not seen to slow anything down, and the upper bound of the slowdown.
fn calm(headline: &str) -> Vec<(Vec<String>, f64)> {
    let ends = headline.match_indices(" not seen to slow anything (");
    ends.map(|(at, end)| {
        let before = &headline[..at];
        let before = before.strip_suffix(" was").unwrap();
        let start = ["; ", ": ", ". "]
            .iter()
            .filter_map(|mark| Some(before.rfind(mark)? + 2))
            .max()
            .unwrap_or(0);
        let most = headline[at + end.len()..]
            .split_once(" cannot be")
            .unwrap()
            .0
            .trim_start_matches("up to ");
        // `small appends with clflush or clwb` are two.
        let mut what = "";
        let told = before[start..]
            .strip_prefix("writing ")
            .or(before[start..].strip_prefix("Writing "))
            .unwrap();
        let all = names(told);
        let each = all.iter().map(|name| match name.split_once(" with ") {
            Some((of, _)) => {
                what = of;
                name.clone()
            }
            None => format!("{what} with {name}"),
        });
        (each.collect(), bound(most))
    })
    .collect()
}

fn check_headline(survey: &Survey, headline: &str) {
    let first = between(headline, "cost least here ", ".").unwrap();
    let mut told = 0;
    for part in first.split("; ") {
        let (methods, what) = part.strip_prefix("with ").unwrap().split_once(" for ").unwrap();
        for (block, name) in answer::WRITTEN {
            if what.contains(&format!("{name} ({block} blocks)")) {
                cheapest_of(&names(methods), &costs(survey, block.0), headline);
                told += 1;
            }
        }
    }
    let known =
        answer::WRITTEN.iter().filter(|(block, _)| !costs(survey, block.0).is_empty()).count();
    assert_eq!(told, known, "{headline}");
    // Of each that is called cheapest it is said what it does to others, once.
    let Some((_, others)) = headline.split_once(" Next to other tasks: ") else {
        assert!(headline.ends_with("What they do to other tasks was not measured."), "{headline}");
        return;
    };
    let calm = calm(others);
    for (block, what) in answer::WRITTEN {
        for name in WRITERS {
            let named = format!("{what} with {name}");
            let rows: Vec<_> = writer_rows(survey, name, block).collect();
            if let Some((_, most)) =
                calm.iter().find(|(calm, _)| calm.iter().any(|one| same(one, &named)))
            {
                assert!(rows.len() == 3, "{named}: {headline}");
                assert!(
                    rows.iter().all(|(_, row)| own(row).unwrap().low <= 1.0),
                    "{named}: {headline}"
                );
                assert!(
                    rows.iter().all(|(_, row)| own(row).unwrap().high <= most + 1e-9),
                    "{headline}"
                );
            }
            for (table, row) in rows {
                if others.contains(&format!("{named} slows {} (", table.victim)) {
                    assert!(
                        own(row).unwrap().low > 1.0 && row.together.unwrap().low > 1.0,
                        "{headline}"
                    );
                }
                if others.contains(&format!("{named} may slow {} (", table.victim)) {
                    assert!(
                        own(row).unwrap().low > 1.0 && row.together.unwrap().low <= 1.0,
                        "{headline}"
                    );
                }
            }
        }
        for method in for_block(survey, block).iter().filter(|method| method.cheapest) {
            assert!(others.contains(what) && others.contains(method.instruction), "{headline}");
        }
    }
}

fn check_advice(survey: &Survey) {
    for said in &said(survey) {
        for (block, _) in answer::WRITTEN {
            if said.contains(&format!("({block} blocks made durable one by one)")) {
                let methods = between(said, "cost least with ", " a line").unwrap();
                let named: Vec<String> = names(methods)
                    .iter()
                    .map(|method| method.split(' ').next().unwrap().to_owned())
                    .collect();
                cheapest_of(&named, &costs(survey, block.0), said);
            }
        }
        for table in &survey.neighbours {
            let rows: Vec<_> = table.rows.iter().filter(|row| !row.paced && row.writes()).collect();
            if said.contains(&format!("No writer was seen to slow {} ", table.victim)) {
                assert!(
                    rows.iter().all(|row| own(row).is_some_and(|own| own.low <= 1.0)),
                    "{said}"
                );
            }
            let victim = format!(
                "{}{} beside a writer",
                table.victim[..1].to_uppercase(),
                &table.victim[1..]
            );
            if !said.starts_with(&victim) {
                continue;
            }
            let calm = between(said, "no slowdown seen with ", " (").map_or_else(Vec::new, names);
            for row in rows {
                let slower = own(row).is_some_and(|own| own.low > 1.0);
                let not_seen = calm.contains(&row.label);
                assert_eq!(not_seen, own(row).is_some() && !slower, "{}: {said}", row.label);
                assert_eq!(
                    slower,
                    said.contains(&format!(
                        "{} with {}",
                        ringfence_report::sentence(&Finding::new(&row.slowdown(), 0.0)),
                        row.label
                    )) && !not_seen
                        && own(row).is_some(),
                    "{said}"
                );
                if not_seen {
                    let most = bound(between(said, "up to ", " cannot be").unwrap());
                    assert!(own(row).unwrap().high <= most + 1e-9, "{said}");
                }
            }
        }
        for paced in survey.neighbours.iter().flat_map(|table| &table.rows).filter(|row| row.paced)
        {
            if said.contains(&format!("rate, {} is not seen to slow", paced.label)) {
                let victims = survey
                    .neighbours
                    .iter()
                    .filter(|table| said.contains(&format!("slow {} ", table.victim)));
                let rows = victims.flat_map(|table| &table.rows);
                let mut same = rows.filter(|row| row.paced && row.co_runner == paced.label);
                assert!(same.all(|row| own(row).is_some_and(|own| own.low <= 1.0)), "{said}");
            }
        }
    }
}

fn check(survey: &mut Survey) {
    survey.conclude();
    let headline = survey.answer.as_ref().map(ringfence_report::headline).unwrap_or_default();
    if !headline.is_empty() {
        check_headline(survey, &headline);
    }
    check_advice(survey);
}

#[test]
fn what_was_reported_is_not_said_again() {
    let mut survey = survey(harmless);
    for row in survey.neighbours.iter_mut().flat_map(|table| &mut table.rows) {
        // +3.4 % [+0.1, +6.7], and [-2.8, +10] once all are taken together.
        let (value, half): (f64, f64) =
            if row.label == "nt" && !row.paced { (1.034, 0.0323) } else { (1.0, 0.02) };
        set(row, Ok((value, half)), 1.9);
    }
    for row in &mut survey.cost {
        if row.write.block.0 == 64 && row.write.fence_at == FenceAt::Block {
            let ns = if row.write.instruction == Instruction::Nt { 177.0 } else { 123.0 };
            row.result.ns_per_unit = Ok(interval(ns, 0.01, 0.95));
        }
    }
    check(&mut survey);
    let headline = ringfence_report::headline(survey.answer.as_ref().unwrap());
    assert!(
        headline.contains("clflush, clflushopt or clwb for small appends (64B blocks)"),
        "{headline}"
    );
    assert!(headline.contains("nt for pages (4KiB blocks) and bulk (1MiB blocks)"), "{headline}");
    assert!(
        headline.contains("writing pages with nt may slow ") && headline.contains("[0.1, 6.8]"),
        "{headline}"
    );
    assert!(says(
        &survey,
        &[
            "Chase next to a writer",
            "perhaps slower by 3.4 % [0.1, 6.8] with nt",
            "no slowdown seen with clflush"
        ]
    ));
    assert!(!says(&survey, &["No writer was seen"]));
}

fn figure() -> impl Strategy<Value = Result<(f64, f64), NotEstimable>> {
    prop_oneof![
        12 => (-0.3..0.6f64, 0.001..0.5f64).prop_map(|(log, half)| Ok((log.exp(), half))),
        4 => (-0.02..0.02f64, 0.001..0.03f64).prop_map(|(log, half)| Ok((log.exp(), half))),
        1 => Just(Err(NotEstimable::TooFewTrials { trials: 2 })),
        1 => Just(Err(NotEstimable::Stalled { baseline: 0, arm: 1, of: 10 })),
    ]
}

fn cost() -> impl Strategy<Value = Estimate> {
    prop_oneof![
        9 => (0.0..5.0f64, 0.001..0.4f64)
            .prop_map(|(log, half)| Ok(interval(log.exp(), half, 0.95))),
        1 => Just(Err(NotEstimable::TooFewTrials { trials: 3 })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn no_sentence_contradicts_a_figure(
        slowdowns in prop::collection::vec((figure(), 1.0..2.5f64), 42),
        costs in prop::collection::vec(cost(), 60),
    ) {
        thread_local! { static MADE: Survey = survey(harmless); }
        let mut survey = MADE.with(Survey::clone);
        let rows = survey.neighbours.iter_mut().flat_map(|table| &mut table.rows);
        rows.zip(&slowdowns).for_each(|(row, (slowdown, wider))| set(row, *slowdown, *wider));
        survey.cost.iter_mut().zip(&costs).for_each(|(row, cost)| row.result.ns_per_unit = *cost);
        check(&mut survey);
    }
}
