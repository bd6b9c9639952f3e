use ringfence_analysis::estimate::Verdict;
use ringfence_experiment::task::{FenceAt, Flush, Instruction};

use super::*;
use crate::fixtures::{ns_per_line, survey};

// As on a Zen 5: clwb and plain stores flood the shared cache, whatever their rate; clflush harms a
// little by its rate; non-temporal stores not at all.
fn zen(victim: &str, instruction: Instruction, paced: bool) -> f64 {
    match (victim, instruction) {
        ("chase", Instruction::Flush(Flush::Clwb)) => 12.0,
        ("chase", Instruction::None) => 11.0,
        ("chase", Instruction::Flush(Flush::Clflush)) if !paced => 1.08,
        _ => 1.0,
    }
}

fn harmless(_: &str, _: Instruction, _: bool) -> f64 {
    1.0
}

fn says(survey: &Survey, parts: &[&str]) -> bool {
    survey.advice.iter().any(|sentence| parts.iter().all(|part| sentence.contains(part)))
}

#[test]
fn the_tables_hold_what_was_put_in() {
    let survey = survey(zen);
    assert_eq!(survey.cost.len(), 45 + 2 + 12);
    for row in &survey.cost {
        let cost = row.result.ns_per_unit.as_ref().unwrap();
        let truth = ns_per_line(&row.write);
        assert!((cost.value / truth - 1.0).abs() < 0.01, "{cost:?} for {truth}");
    }
    let chase = &survey.neighbours[0];
    assert_eq!((chase.victim.as_str(), chase.rows.len()), ("chase", 7 + 2 + 5));
    let row = |name: &str, paced: bool| {
        chase.rows.iter().find(|row| row.label == name && row.paced == paced).unwrap()
    };
    let slowdown = |name: &str, paced: bool| {
        let effect = row(name, paced).result.effect.as_ref().unwrap();
        (effect.finding.verdict, effect.by_class.all.slowdown.as_ref().unwrap().value)
    };
    assert!((slowdown("clwb", false).1 - 12.0).abs() < 0.2);
    assert_eq!(slowdown("clwb", true).0, Verdict::Slower);
    assert_eq!(slowdown("nt", false).0, Verdict::NoChangeLargerThanMargin);
    // Wider, since it holds together with all the others.
    let each = *row("clwb", false).result.effect.as_ref().unwrap().by_class.all.slowdown.as_ref().unwrap();
    let together = row("clwb", false).together.unwrap();
    assert!(together.low < each.low && together.high > each.high);
    // clflush, fenced once a block, is the slowest: 64 B in 103.25 ns, less 5 %.
    let slowest = 64e9 / (102.0 + 80.0 / 64.0) * 0.95 / f64::from(1 << 20);
    assert_eq!(survey.pace, Some(format!("{}MiB/s", slowest.floor())));
}

#[test]
fn the_parts_add_up_to_what_was_put_in() {
    let survey = survey(harmless);
    let clwb = survey.parts.iter().find(|parts| parts.instruction == "clwb").unwrap();
    let close = |part: &parts::Part, truth: f64| {
        let part = part.as_ref().unwrap();
        assert!(
            (part.ns - truth).abs() < 0.5 && part.low <= part.ns && part.ns <= part.high,
            "{part:?}, {truth}"
        );
    };
    close(&clwb.copy, 2.0);
    close(clwb.ownership.as_ref().unwrap(), 3.0);
    close(&clwb.flush, 10.0);
    close(&clwb.fence_per_block, 80.0 / 64.0);
    close(&clwb.fence_per_line, 80.0);
    assert!((clwb.reload.unwrap() - 0.2).abs() < 1e-9);
    let nt = survey.parts.iter().find(|parts| parts.instruction == "nt").unwrap();
    assert!(nt.ownership.is_none() && nt.reload.is_none());
    let unfenced = survey.cost.iter().find(|row| {
        row.write.instruction == Instruction::Nt
            && row.write.fence_at == FenceAt::None
            && row.write.block.0 == 64
    });
    assert!((unfenced.unwrap().result.ns_per_unit.as_ref().unwrap().value - 3.0).abs() < 0.05);
}

#[test]
fn advice_names_the_cheapest_the_worst_and_the_gentler() {
    let survey = survey(zen);
    assert!(
        says(&survey, &["Pages (4KiB blocks", "cost least with nt at 4.2 ns", "times less than"]),
        "{:#?}",
        survey.advice
    );
    assert!(says(&survey, &["fence after every line", "flush first, fence once"]));
    assert!(says(&survey, &["clwb keeps the line"]));
    assert!(
        says(
            &survey,
            &[
                "Chase beside a writer",
                ": clwb 12.0",
                "clflush slower by 8.",
                "not seen for clflushopt",
                "at most"
            ]
        ),
        "{:#?}",
        survey.advice
    );
    assert!(says(&survey, &["Paced to the slowest", "clwb still slows chase", "it is not its speed alone"]));
    assert!(says(&survey, &["No writer was seen to slow mcf", "at most"]));
}

#[test]
fn advice_finds_no_harm_where_there_is_none() {
    let survey = survey(harmless);
    assert!(!survey.advice.iter().any(|sentence| sentence.contains("slower by")), "{:#?}", survey.advice);
    for victim in ["chase", "mcf", "alu"] {
        assert!(says(&survey, &["No writer was seen to slow", victim]));
    }
    let (median, worst) = survey.precision.unwrap();
    assert!(median > 0.0 && median <= worst && worst < 0.02, "{median} {worst}");
}

#[test]
fn pacing_that_helps_is_said_to_help() {
    let by_rate = |victim: &str, instruction: Instruction, paced: bool| {
        if victim == "chase" && instruction == Instruction::Nt && !paced { 1.5 } else { 1.0 }
    };
    assert!(says(&survey(by_rate), &["nt is not seen to slow chase", "pacing helps"]));
}

#[test]
fn a_survey_opens_from_its_folder_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let was = crate::fixtures::survey_in(dir.path(), zen);
    let mut seen = Vec::new();
    let is = Survey::open(dir.path(), |dataset| seen.push(dataset.plan.experiment.name.clone())).unwrap();
    let json = |survey: &Survey| serde_json::to_value(survey).unwrap();
    assert_eq!(json(&is), json(&was));
    assert_eq!(seen[..3], ["cost", "neighbours-chase", "neighbours-mcf"]);
    assert_eq!(seen.len(), 7);
    assert!(Survey::is_at(dir.path()) && !Survey::is_at(&dir.path().join("cost")));
}

#[test]
fn a_folder_that_is_no_survey_or_a_newer_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = || Survey::open(dir.path(), |_| {}).unwrap_err();
    assert!(refused().is_usage());
    for (text, part) in [
        ("{", "no survey"),
        ("{}", "no schema"),
        (r#"{"schema":2}"#, "newer"),
        (r#"{"schema":1}"#, "no survey"),
    ] {
        std::fs::write(dir.path().join("survey.json"), text).unwrap();
        let error = refused();
        assert!(!error.is_usage() && error.to_string().contains(part), "{error}");
    }
}

fn headline(survey: &Survey) -> String {
    answer::Answer::new(survey).unwrap().headline
}

#[test]
fn the_headline_is_by_what_is_written_and_says_what_that_does() {
    // ns a line in 4 KiB blocks: nt 3 and a fence in 64 lines, 4.25; clflushopt and clwb 13.25.
    let calm = headline(&survey(harmless));
    let cheapest = "Cheapest to make durable here: nt for small appends (64B blocks), pages (4KiB blocks) and bulk (1MiB blocks).";
    assert!(calm.starts_with(cheapest), "{calm}");
    assert!(
        calm.contains(
            ": small appends with nt, pages with nt and bulk with nt were not seen to slow anybody (+0."
        ) && calm.ends_with("left possible)."),
        "{calm}"
    );
    let nt_harms = survey(
        |victim, instruction, _| {
            if (victim, instruction) == ("mcf", Instruction::Nt) { 3.0 } else { 1.0 }
        },
    );
    let text = headline(&nt_harms);
    assert!(text.contains("pages with nt slow mcf (") && text.contains("bulk with nt slow mcf ("), "{text}");
    assert!(text.contains("Pages with clflushopt were not seen to slow anybody ("), "{text}");
    assert!(text.ends_with("at 13 ns a line."), "{text}");
    let all_harm = headline(&survey(|_, _, _| 1.5));
    assert!(all_harm.contains("nt slow ") && !all_harm.contains("not seen"), "{all_harm}");
    let mut unknown = survey(harmless);
    unknown.neighbours.clear();
    assert!(headline(&unknown).ends_with("Whom they disturb was not measured."));
    unknown.cost.clear();
    assert_eq!(answer::Answer::new(&unknown), None);
    unknown.conclude();
    assert!(unknown.answer.is_none() && !unknown.advice.iter().any(|said| said.contains("cost least")));
}

#[path = "survey_consistency.rs"]
mod consistency;
