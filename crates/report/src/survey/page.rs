//! The page of a survey.

use ringfence_analysis::frontier::Frontier;
use ringfence_studies::survey::Survey;

use crate::commits::{page as commits, stalls};
use crate::doctor::page as doctor;
use crate::experiment::page as experiment;
use crate::experiment::page::{costs, not_run, placement, probes, slowdowns, timeline};
use crate::html::answer;
use crate::html::datasets::{provenance, simulated, subtitle};
use crate::html::{Digest, Group, Page, Section};
use crate::latencies::{page as latencies, quantiles};
use crate::survey::text::{INTERVALS, precision};

/// The page of a survey, with the datasets that it measured.
pub fn page(survey: &Survey, digests: &[Digest]) -> Page {
    let all: Vec<&Digest> = digests.iter().collect();
    let findings: Vec<_> = digests.iter().map(|digest| &digest.findings).collect();
    let frontiers = survey.frontiers(&findings);
    let shown = survey.most_harmed(&frontiers);
    let mut sections: Vec<Option<Section>> = vec![
        others(&frontiers, shown),
        costs::of_survey(survey),
        slowdowns::matrix(survey),
        timeline::section(&all),
        probes::section(survey),
    ];
    sections.extend([commits::section(&all), quantiles::section(&all), stalls::section(&all)]);
    sections.extend(digests.iter().map(latencies::section));
    let mut not_run_lines = survey.not_run.clone();
    not_run_lines.extend(survey.probes.failed.iter().map(|line| format!("not probed: {line}")));
    sections.extend([
        placement::section(&all),
        not_run::section(&not_run_lines),
        Some(doctor::section(&survey.machine.findings)),
        (!all.is_empty()).then(|| experiment::section(&all)),
    ]);
    let mut footer = Vec::new();
    if let Some((median, worst)) = survey.precision {
        footer.push(format!("{} Brackets are {INTERVALS}", precision(median, worst)));
    }
    footer.extend(provenance(&all));
    let tables = survey.files.iter().map(|found| {
        let (plan, results) = (&found.plan, &found.results);
        let tables = [slowdowns::section(plan, results), costs::section(plan, results)];
        let title = plan.experiment.question.clone();
        Group { title, sections: tables.into_iter().flatten().collect() }
    });
    let first = Group { title: None, sections: sections.into_iter().flatten().collect() };
    Page {
        title: "Survey".into(),
        subtitle: subtitle(Some(&survey.machine), digests.first()),
        answer: answer::of_survey(survey, shown.map(|number| &frontiers[number])),
        groups: std::iter::once(first).chain(tables).collect(),
        footer,
        simulated: simulated(digests.iter()),
    }
}

fn others(frontiers: &[Frontier], shown: Option<usize>) -> Option<Section> {
    let figures: Vec<_> = frontiers
        .iter()
        .enumerate()
        .filter(|(number, _)| Some(*number) != shown)
        .filter_map(|(_, frontier)| crate::experiment::page::frontier::figure(frontier, 380))
        .collect();
    if figures.is_empty() {
        return None;
    }
    let body = maud::html! { div class="row" { @for figure in figures { (figure) } } };
    Some(Section { id: "frontier", title: "The frontier for other victims".into(), body })
}
