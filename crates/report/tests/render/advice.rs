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
                "Chase next to a writer",
                ": 12.0",
                "] with clwb; ",
                "; slower by 8.1 % [8.0, 8.2] with clflush; no slowdown seen with clflushopt",
                "cannot be ruled out"
            ]
        ),
        "{:#?}",
        said(&survey)
    );
    assert!(says(
        &survey,
        &["Paced to the slowest", "clwb still slows chase", "its speed alone is not the cause"]
    ));
    assert!(says(&survey, &["No writer was seen to slow mcf", "; up to +"]));
}

#[test]
fn advice_finds_no_harm_where_there_is_none() {
    let survey = survey(harmless);
    assert!(
        !said(&survey).iter().any(|sentence| sentence.contains("slower by")),
        "{:#?}",
        said(&survey)
    );
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
    let cheapest = "Durable stores cost least here with nt for small appends (64B blocks), pages \
                    (4KiB blocks) and bulk (1MiB blocks).";
    assert!(calm.starts_with(cheapest), "{calm}");
    assert!(
        calm.contains(
            ": writing small appends with nt, pages with nt and bulk with nt was not seen to slow \
             anything (up to +0."
        ) && calm.ends_with("cannot be ruled out)."),
        "{calm}"
    );
    let nt_harms =
        survey(
            |victim, instruction, _| {
                if (victim, instruction) == ("mcf", Instruction::Nt) { 3.0 } else { 1.0 }
            },
        );
    let text = headline(&nt_harms);
    assert!(
        text.contains("writing pages with nt slows mcf (")
            && text.contains("writing bulk with nt slows mcf ("),
        "{text}"
    );
    assert!(
        text.contains("Writing pages with clflushopt was not seen to slow anything ("),
        "{text}"
    );
    assert!(text.ends_with("at 13 ns a line."), "{text}");
    let all_harm = headline(&survey(|_, _, _| 1.5));
    assert!(all_harm.contains("nt slows ") && !all_harm.contains("not seen"), "{all_harm}");
    let mut unknown = survey(harmless);
    unknown.neighbours.clear();
    assert!(headline(&unknown).ends_with("What they do to other tasks was not measured."));
    unknown.cost.clear();
    unknown.conclude();
    assert!(unknown.answer.is_none() && !says(&unknown, &["cost least"]));
}
