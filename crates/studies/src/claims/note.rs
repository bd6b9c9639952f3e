//! A note's own tables: each published figure, and what was simulated and measured of it.

use ringfence_analysis::results;

use crate::claims::evidence::{Evidence, Machine};
use crate::reproduce::simulated::{Seconds, Setting, Time, times};
use crate::reproduce::{self, Published, Row, rows};

/// A table of a document: the figures of one experiment.
#[derive(Debug, Clone)]
pub struct NoteTable {
    /// The experiment's name.
    pub experiment: String,
    /// What it asks.
    pub question: String,
    /// Where the figures were published.
    pub source: String,
    /// The described machine on which they were simulated, if they were.
    pub simulated: Option<Machine>,
    /// The machine on which they were measured most recently, if they were.
    pub measured: Option<Machine>,
    /// The figures, in the order of the document.
    pub lines: Vec<NoteLine>,
}

/// A case of a table. It can have several published figures, as a program with inputs of three
/// sizes has.
#[derive(Debug, Clone)]
pub struct NoteLine {
    /// What was published, and the ratio of each to the case that it is compared with; none for a
    /// case that only others are compared with.
    pub published: Vec<(Published, Option<f64>)>,
    /// What was simulated of each; empty if nothing was.
    pub simulated: Vec<Row>,
    /// The simulated time, if the published one is for a known number of bytes. All such lines of
    /// a table have it, or none.
    pub seconds: Option<Seconds>,
    /// What was measured of each.
    pub measured: Vec<Row>,
}

/// The tables of the document with this id, such as `002`.
///
/// # Errors
/// One sentence where a dataset lacks a case that a published figure is of.
pub fn note_tables(
    id: &str,
    published: &[Published],
    setting: &Setting,
    evidence: &[Evidence],
) -> Result<Vec<NoteTable>, String> {
    // `note 002, 2022-06-23` and `slides 004` name their documents.
    let is_of = |figure: &&Published| figure.source.split([' ', ',']).any(|word| word == id);
    let mut groups: Vec<Vec<Published>> = Vec::new();
    for figure in published.iter().filter(is_of) {
        let own = |group: &&mut Vec<Published>| {
            (&group[0].source, &group[0].experiment) == (&figure.source, &figure.experiment)
        };
        match groups.iter_mut().find(own) {
            Some(group) => group.push(figure.clone()),
            None => groups.push(vec![figure.clone()]),
        }
    }
    groups.into_iter().map(|figures| table(&figures, setting, evidence)).collect()
}

fn table(
    figures: &[Published],
    setting: &Setting,
    evidence: &[Evidence],
) -> Result<NoteTable, String> {
    let Published { source, experiment, .. } = &figures[0];
    let newest = |fits: &dyn Fn(&Machine) -> bool| {
        let of = |one: &&Evidence| one.plan.experiment.name == *experiment && fits(&one.machine);
        evidence.iter().filter(of).max_by(|one, other| one.created.cmp(&other.created))
    };
    let on = setting.machine(source);
    let simulated = newest(&|machine| machine.simulated && on == Some(machine.name.as_str()));
    let measured = newest(&|machine| !machine.simulated);
    let compared = |one: Option<&Evidence>| match one {
        Some(Evidence { plan, samples, .. }) => {
            rows(figures, plan, samples, results::level(plan, samples))
        }
        None => Ok(Vec::new()),
    };
    let seconds = match simulated {
        Some(Evidence { plan, samples, .. }) => {
            times(figures, setting, None, plan, samples, results::level(plan, samples))?
        }
        None => Vec::new(),
    };
    let all_known = seconds.iter().all(|time| matches!(time.simulated, Seconds::Time(_)));
    let (in_simulation, in_measurement) = (compared(simulated)?, compared(measured)?);
    let ratio = |one: &Published| Some(one.value / one.reference(figures)?.value);
    let line = |group: Vec<&Published>| {
        let own = |rows: &[Row]| {
            let is_own = |row: &&Row| group.iter().any(|figure| figure.is_same(&row.published));
            rows.iter().filter(is_own).cloned().collect()
        };
        let is_own = |time: &&Time| all_known && time.published.is_same(group[0]);
        let time = seconds.iter().find(is_own);
        NoteLine {
            simulated: own(&in_simulation),
            measured: own(&in_measurement),
            seconds: time.map(|time| time.simulated.clone()),
            published: group.iter().map(|one| ((*one).clone(), ratio(one))).collect(),
        }
    };
    let known = reproduce::experiments().into_iter().find(|one| one.name == *experiment);
    Ok(NoteTable {
        experiment: experiment.clone(),
        question: known.and_then(|one| one.question).unwrap_or_else(|| experiment.clone()),
        source: source.clone(),
        simulated: simulated.map(|one| one.machine.clone()),
        measured: measured.map(|one| one.machine.clone()),
        lines: by_case(figures).into_iter().map(line).collect(),
    })
}

fn by_case(figures: &[Published]) -> Vec<Vec<&Published>> {
    let mut groups: Vec<Vec<&Published>> = Vec::new();
    for figure in figures {
        let own = |group: &&mut Vec<&Published>| {
            (&group[0].case, &group[0].against) == (&figure.case, &figure.against)
        };
        match groups.iter_mut().find(own) {
            Some(group) => group.push(figure),
            None => groups.push(vec![figure]),
        }
    }
    groups
}
