//! The kinds of pages.

use ringfence_analysis::frontier::Frontier;
use ringfence_machine::Machine;
use ringfence_studies::pair::Outcome;
use ringfence_studies::prove::Proof;
use ringfence_studies::survey::Survey;

use crate::aa::page as aa;
use crate::commits::{page as commits, stalls};
use crate::doctor::page as doctor;
use crate::experiment::page as experiment;
use crate::experiment::page::{costs, not_run, on_disk, placement, probes, slowdowns, timeline};
use crate::html::answer;
use crate::html::{Answer, Digest, Group, Page, Section};
use crate::latencies::{page as latencies, quantiles};
use crate::numbers;
use crate::survey::text::{INTERVALS, describe, precision};

/// The page of a survey, with the datasets that it measured.
pub fn survey(survey: &Survey, digests: &[Digest]) -> Page {
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

/// The page of one dataset, or of several that are not a survey, each under its name.
pub fn datasets(digests: &[Digest]) -> Page {
    let all: Vec<&Digest> = digests.iter().collect();
    let several = digests.len() > 1;
    let groups = digests
        .iter()
        .map(|digest| Group {
            title: several.then(|| digest.folder.clone()),
            sections: sections(digest, several),
        })
        .collect();
    let answer = match digests {
        [one] => answer::of_dataset(one),
        _ => Answer {
            question: format!("{} datasets", digests.len()),
            headline: "What each of them says:".into(),
            sentences: digests
                .iter()
                .map(|digest| {
                    let one = answer::of_dataset(digest);
                    format!("{}: {} {}", digest.folder, one.question, one.headline)
                })
                .collect(),
            ..Answer::default()
        },
    };
    let title = match digests {
        [one] if one.findings.sensitivity.is_some() => "Sensitivity".into(),
        [one] => one.findings.plan.experiment.name.clone(),
        _ => "datasets".into(),
    };
    let machine = digests.iter().find_map(|digest| digest.machine.as_ref());
    let footer = provenance(&all);
    let simulated = simulated(digests.iter());
    Page { title, subtitle: subtitle(machine, digests.first()), answer, groups, footer, simulated }
}

/// The page of a proof, with the datasets of its stages; where it was cut short, why, and how to
/// resume it.
pub fn proof(proof: &Proof, cut_short: Option<&str>, digests: &[Digest]) -> Page {
    let (answer, section) =
        (crate::prove::page::answer(proof, cut_short), crate::prove::page::section(proof));
    let page = with_datasets("Proof", answer, section, digests);
    Page { simulated: page.simulated || proof.simulated, ..page }
}

/// The page of `pair`: the pairwise interference and the advice, with the datasets of its stages.
pub fn pairs(outcome: &Outcome, digests: &[Digest]) -> Page {
    let mut page = with_datasets(
        "Pairs",
        crate::pair::page::answer(outcome),
        crate::pair::page::section(outcome),
        digests,
    );
    // Each writer is beside another task: their slowdowns are not choice between ways of writing.
    page.groups
        .iter_mut()
        .for_each(|group| group.sections.retain(|section| section.id != "frontier"));
    page
}

// An answer that rests on several datasets, and each of these.
fn with_datasets(title: &str, answer: Answer, first: Option<Section>, digests: &[Digest]) -> Page {
    let all: Vec<&Digest> = digests.iter().collect();
    let mut groups = vec![Group { title: None, sections: first.into_iter().collect() }];
    groups.extend(digests.iter().map(|digest| {
        Group {
            title: Some(
                digest
                    .findings
                    .plan
                    .experiment
                    .question
                    .clone()
                    .unwrap_or_else(|| digest.folder.clone()),
            ),
            sections: sections(digest, true),
        }
    }));
    let machine = digests.iter().find_map(|digest| digest.machine.as_ref());
    Page {
        title: title.into(),
        subtitle: subtitle(machine, digests.first()),
        answer,
        groups,
        footer: provenance(&all),
        simulated: simulated(digests.iter()),
    }
}

fn sections(digest: &Digest, several: bool) -> Vec<Section> {
    let one = [digest];
    let findings = digest.machine.as_ref().map(|machine| machine.findings.as_slice());
    // A polluter writes to fill the cache; its efficiency is not of interest.
    let curves = digest
        .findings
        .sensitivity
        .as_ref()
        .and_then(|found| crate::sensitivity::page::section(found, digest));
    let frontier = crate::experiment::page::frontier::section(&digest.findings.frontier)
        .filter(|_| digest.findings.sensitivity.is_none());
    let all = [
        // The page of one dataset has it on its first screen, or says there why it has none.
        // Among several datasets, a single method has nothing to be compared with.
        frontier.filter(|_| {
            if several {
                digest.findings.frontier.points.len() > 1
            } else {
                digest.findings.frontier.victim.is_none()
            }
        }),
        curves.filter(|_| several),
        aa::section(digest, !several),
        slowdowns::section(&digest.findings.plan, &digest.findings.results),
        quantiles::section(&one),
        costs::section(&digest.findings.plan, &digest.findings.results),
        on_disk::section(digest),
        commits::section(&one),
        stalls::section(&one),
        timeline::section(&one),
        latencies::section(digest),
        placement::section(&one),
        not_run::said(&digest.manifest.said),
        not_run::section(&not_run::lines(&digest.findings.plan)),
        findings.map(doctor::section),
        Some(experiment::section(&one)),
    ];
    all.into_iter().flatten().collect()
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

fn simulated<'a>(mut digests: impl Iterator<Item = &'a Digest>) -> bool {
    digests.any(|digest| digest.findings.simulated)
}

fn subtitle(machine: Option<&Machine>, first: Option<&Digest>) -> String {
    let when = first.map(|digest| digest.manifest.created.replacen('T', " ", 1));
    let parts = [machine.map(describe), when];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn provenance(digests: &[&Digest]) -> Vec<String> {
    if digests.is_empty() {
        return Vec::new();
    }
    let samples: usize = digests.iter().map(|digest| digest.findings.samples).sum();
    let manifest = digests.first().map(|digest| &digest.manifest);
    let who = manifest.map_or(String::new(), |manifest| {
        let how = if simulated(digests.iter().copied()) { "Simulated" } else { "Measured" };
        format!("{how} by {} {}, seed {}; ", manifest.program, manifest.version, manifest.seed)
    });
    let datasets = crate::text::plural(digests.len(), "dataset");
    vec![format!("{who}{} samples in {datasets}.", numbers::count(samples as u64))]
}
