//! What a survey advises, in words.

use ringfence_experiment::task::Instruction;
use ringfence_studies::fixtures::{harmless, survey, zen};
use ringfence_studies::survey::Survey;
use ringfence_studies::survey::answer::Answer;

pub fn said(survey: &Survey) -> Vec<String> {
    survey.advice.iter().map(ringfence_report::advice).collect()
}

pub fn says(survey: &Survey, parts: &[&str]) -> bool {
    said(survey).iter().any(|sentence| parts.iter().all(|part| sentence.contains(part)))
}

#[test]
fn advice_names_the_cheapest_the_worst_and_the_gentler() {
    let survey = survey(zen);
    assert!(
        says(&survey, &["Pages (4KiB blocks", "cost least with nt at 4.2 ns", "times less than"]),
        "{:#?}",
        said(&survey)
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
        said(&survey)
    );
    assert!(says(&survey, &["Paced to the slowest", "clwb still slows chase", "it is not its speed alone"]));
    assert!(says(&survey, &["No writer was seen to slow mcf", "at most"]));
}

#[test]
fn advice_finds_no_harm_where_there_is_none() {
    let survey = survey(harmless);
    assert!(!said(&survey).iter().any(|sentence| sentence.contains("slower by")), "{:#?}", said(&survey));
    for victim in ["chase", "mcf", "alu"] {
        assert!(says(&survey, &["No writer was seen to slow", victim]));
    }
}

#[test]
fn pacing_that_helps_is_said_to_help() {
    let by_rate = |victim: &str, instruction: Instruction, paced: bool| {
        if victim == "chase" && instruction == Instruction::Nt && !paced { 1.5 } else { 1.0 }
    };
    assert!(says(&survey(by_rate), &["nt is not seen to slow chase", "pacing helps"]));
}

fn headline(survey: &Survey) -> String {
    ringfence_report::headline(&Answer::new(survey).unwrap())
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
    unknown.conclude();
    assert!(unknown.answer.is_none() && !says(&unknown, &["cost least"]));
}
