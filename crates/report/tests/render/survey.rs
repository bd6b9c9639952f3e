//! The survey, and what an A/A experiment says.

use ringfence_analysis::estimate::{AaSummary, Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::start::Start;
use ringfence_experiment::task::{Flush, Instruction};
use ringfence_report::{Style, html};
use ringfence_studies::fixtures::survey;
use ringfence_studies::survey::Outside;
use ringfence_studies::survey::answer::Seen;

use crate::advice::said;
use crate::golden::{check, check_both};

#[test]
fn a_survey_with_a_harmful_instruction() {
    let harm = |victim: &str, instruction: Instruction, paced: bool| match (victim, instruction) {
        ("chase", Instruction::Flush(Flush::Clwb)) => 12.0,
        ("chase", Instruction::Flush(Flush::Clflush)) if !paced => 1.08,
        _ => 1.0,
    };
    let survey = survey(harm);
    check_both("survey", |style| ringfence_report::survey(&survey, style));
}

#[test]
fn a_survey_cut_short() {
    let mut cut = survey(|_, _, _| 1.0);
    cut.cost.clear();
    cut.parts.clear();
    cut.neighbours.truncate(1);
    cut.probes.round_trips.clear();
    cut.probes.failed =
        vec!["round trip between CPUs 0 and 1: the ping-pong did not finish".into()];
    cut.not_run =
        vec!["neighbours-mcf: 7 cases, because it needs 2 CPUs, this machine has 1".into()];
    let level = cut.probes.victim_level.clone().unwrap();
    cut.outside = vec![Outside {
        experiment: "neighbours-chase".into(),
        footprint: cut.probes.victim_footprint,
        level,
        starts: 16,
        outside: vec![Start { trial: 7, instance: 0, variant: 0, ns: 95.3 }],
    }];
    cut.ended_early = Some("interrupted".into());
    cut.conclude();
    check_both("survey-cut", |style| ringfence_report::survey(&cut, style));
}

#[test]
fn a_survey_of_a_machine_that_is_too_busy() {
    let mut busy = survey(|_, _, _| 1.0);
    let wide = Interval {
        value: 1.2,
        low: 0.2,
        high: 7.2,
        level: 0.95,
        trials: 4,
        spread: 3.0,
        slack: 0.0,
    };
    for row in busy.neighbours.iter_mut().flat_map(|table| &mut table.rows) {
        let effect = row.result.effect.as_mut().unwrap();
        effect.by_class.all.slowdown = Ok(wide);
        effect.finding = Finding::new(&effect.by_class.all.slowdown, 0.01);
        row.together = Some(Interval { low: 0.1, high: 11.52, ..wide });
        row.seen = Seen::new(Some(&effect.finding), row.together.as_ref());
    }
    busy.conclude();
    check("survey-busy", |style| ringfence_report::survey(&busy, style));
    let text = ringfence_report::survey(&busy, &Style::plain(80));
    assert!(!text.contains("ruled out") && text.matches("too busy").count() == 1, "{text}");
    assert!(text.lines().count() <= 60);
}

#[test]
fn an_aa_experiment() {
    let interval = |value: f64| -> Estimate {
        Ok(Interval {
            value,
            low: value * 0.98,
            high: value * 1.02,
            level: 0.95,
            trials: 10,
            spread: 0.03,
            slack: 0.0,
        })
    };
    let mut estimates: Vec<Estimate> = (0..19).map(|_| interval(1.0)).collect();
    estimates.push(interval(1.1));
    estimates.push(Err(NotEstimable::NothingMeasured));
    let summary = AaSummary::new(&estimates, 0.95);
    check_both("aa", |style| ringfence_report::aa(&summary, style));
    let none = AaSummary::new(&[], 0.95);
    check_both("aa-none", |style| ringfence_report::aa(&none, style));
}

// nt slows by +3.4 % [+0.1, +6.7] as the tables have it, which all figures together do not bear
// out, and costs most for a log's appends.
#[test]
fn what_is_said_on_top_is_what_the_tables_say() {
    let interval = |value: f64, low: f64, high: f64| Interval {
        value,
        low,
        high,
        level: 0.95,
        trials: 10,
        spread: 0.05,
        slack: 0.0,
    };
    let mut survey = survey(|_, _, _| 1.0);
    for row in survey.neighbours.iter_mut().flat_map(|table| &mut table.rows) {
        if row.label == "nt" && !row.paced {
            let effect = row.result.effect.as_mut().unwrap();
            effect.by_class.all.slowdown = Ok(interval(1.034, 1.001, 1.067));
            effect.finding = Finding::new(&effect.by_class.all.slowdown, 0.01);
            row.together = Some(interval(1.034, 0.97, 1.10));
            row.seen = Seen::new(Some(&effect.finding), row.together.as_ref());
        }
    }
    for row in survey.cost.iter_mut().filter(|row| row.write.block.0 == 64) {
        let ns = if row.write.instruction == Instruction::Nt { 177.0 } else { 123.0 };
        row.result.ns_per_unit = Ok(interval(ns, ns * 0.99, ns * 1.01));
    }
    survey.conclude();
    check_both("survey-perhaps", |style| ringfence_report::survey(&survey, style));
    let headline = ringfence_report::headline(survey.answer.as_ref().unwrap());
    assert!(headline.contains("clflush, clflushopt or clwb for small appends"), "{headline}");
    assert!(
        headline.contains("writing pages with nt may slow chase")
            && headline.contains("writing bulk with nt was not seen to slow anything"),
        "{headline}"
    );
    let details = Style { details: true, ..Style::plain(200) };
    let text = ringfence_report::survey(&survey, &details);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(&headline) && flat.contains("slower?: this comparison's own interval"),
        "{text}"
    );
    let page = crate::html::spaced(&html::survey(&survey, &[]));
    // The page says the same, a card for each thing that is written.
    assert!(page.contains(&format!("<h1>{}.</h1>", headline.split_once(". ").unwrap().0)));
    let cards: Vec<&str> = page.split("<div class=\"card\"").skip(1).collect();
    assert_eq!(cards.len(), 3);
    let [appends, pages, bulk] = cards[..] else { unreachable!() };
    assert!(
        appends.contains(">clflush, clflushopt or clwb<") && appends.contains("nt, 177 ns a line"),
        "{appends}"
    );
    assert!(
        pages.contains("<dd>perhaps slows chase: slower by 3.4 % [0.1, 6.7], which may be chance"),
        "{pages}"
    );
    assert!(pages.contains("<dt>gentlest</dt>") && !bulk.contains("gentlest"), "{pages}");
    assert!(bulk.contains("<dd>no slowdown seen; up to +"), "{bulk}");
    // Only the answer says what is cheapest, or which writers were seen to slow a victim down.
    for said in said(&survey) {
        assert!(
            !said.contains("no slowdown seen with nt ") && !said.contains("No writer was seen"),
            "{said}"
        );
    }
}
