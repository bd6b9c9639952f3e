//! All hosts at once: groups, a summary of each figure in each group, outliers, and how many reach
//! a bound.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::Interval;
use ringfence_analysis::hosts::{self, Expected, Reached};
use ringfence_fleet::{Facts, Figure, LeftOut, Read, State, Task};
use serde::Serialize;

use crate::fleet::names;

/// The joint confidence of all statements.
pub(crate) const LEVEL: f64 = 0.95;

/// What is asked of a fleet's figures.
#[derive(Debug, Clone)]
pub struct Question {
    /// The facts by which hosts are grouped, such as `processor`.
    pub by: Vec<String>,
    /// Only figures whose name has this in it.
    pub figure: Option<String>,
    /// The slowdown that hosts are counted for.
    pub at_least: f64,
}

impl Question {
    /// What was typed; `at_least` is such as `2x` or `10%`.
    ///
    /// # Errors
    /// One sentence where a fact or a figure is not there, or it is not a slowdown.
    pub fn new(
        by: Vec<String>,
        figure: Option<String>,
        at_least: &str,
        read: &Read,
    ) -> Result<Self, String> {
        let facts = facts();
        if let Some(unknown) = by.iter().find(|fact| !facts.contains(&fact.as_str())) {
            return Err(format!(
                "--by: there is no fact '{unknown}'; there are {}",
                facts.join(", ")
            ));
        }
        let asked = Self { by, figure, at_least: factor(at_least)? };
        let has = read.figures.is_empty()
            || read.figures.iter().any(|(figure, _)| is_wanted(figure, &asked));
        match &asked.figure {
            Some(text) if !has => Err(format!("--figure: no figure has '{text}' in its name")),
            _ => Ok(asked),
        }
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let factor = match (text.strip_suffix('x'), text.strip_suffix('%')) {
        (Some(factor), _) => number(factor),
        (_, Some(percent)) => number(percent).map(|percent| 1.0 + percent / 100.0),
        _ => None,
    };
    let sensible = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
    sensible.ok_or_else(|| format!("--at-least: '{text}' is not a slowdown, such as 2x or 10%"))
}

/// The facts that hosts can be grouped by.
pub(crate) fn facts() -> Vec<&'static str> {
    Facts::default().columns().into_iter().map(|(name, _)| name).collect()
}

/// The report on a fleet.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The described machine, where nothing was measured.
    pub simulated: Option<String>,
    /// Whether these are runs of one machine, one after the other, and not hosts.
    pub one_machine: bool,
    /// Tasks by state.
    pub tasks: Counts,
    /// Tasks without figures, each with its reason.
    pub lost: Vec<Lost>,
    /// Tasks that have figures which cannot be had, each with its reason.
    pub left_out: Vec<LeftOut>,
    /// The hosts that have figures.
    pub hosts: Vec<Host>,
    /// The facts by which they are grouped.
    pub by: Vec<String>,
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// Each figure in each group.
    pub figures: Vec<Summary>,
    /// How many hosts reach the bound that was asked for, where any does or may.
    pub claims: Vec<Claim>,
    /// Cases that hosts could not run.
    pub not_run: Vec<NotRun>,
    /// The confidence of what holds together.
    pub level: f64,
}

/// Tasks by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetCounts"))]
pub struct Counts {
    /// All of them.
    pub all: usize,
    /// With figures.
    pub done: usize,
    /// Under way.
    pub running: usize,
    /// Not begun.
    pub waiting: usize,
    /// Ended without figures.
    pub failed: usize,
    /// That left nothing, and that no job is going to run.
    pub missing: usize,
    /// Of which cannot be told whether they run.
    pub unknown: usize,
}

/// A task without figures.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// Its number.
    pub task: u32,
    /// `failed`, `missing` or `unknown`.
    pub state: State,
    /// The node that it was on.
    pub node: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// A host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetHost"))]
pub struct Host {
    /// The task that ran there.
    pub task: u32,
    /// The node.
    pub node: String,
    /// The group that it is in, by its place.
    pub group: usize,
    /// What it is, by the names of columns of the table.
    pub facts: BTreeMap<&'static str, String>,
    /// What doctor found when the task began, by its names.
    pub doctor: Vec<String>,
    /// What other work there was, where doctor saw any.
    pub busy: Option<String>,
}

/// Hosts of one kind.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetGroup"))]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// The hosts, by their places.
    pub hosts: Vec<usize>,
}

/// A figure in a group.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The figure in words.
    pub name: String,
    /// The experiment, or the stage of a study.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// What sets the case apart.
    pub label: String,
    /// `slowdown` or `cost`, which is in ns.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["slowdown", "cost"])))]
    pub figure: String,
    /// Of what: `mean`, or a quantile such as `p99`.
    pub quantity: String,
    /// What work is counted in.
    pub unit: String,
    /// The group, by its place.
    pub group: usize,
    /// What to expect of such hosts; absent where there are too few.
    pub expected: Option<Expected>,
    /// Hosts that the others do not let expect.
    pub outliers: Vec<Outlying>,
    /// The figure of each host of the group.
    pub hosts: Vec<HostFigure>,
    #[serde(skip)]
    pub(crate) of: Figure,
}

/// A host's figure.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFigure {
    /// The host, by its place.
    pub host: usize,
    /// The figure, or why there is none.
    pub figure: Known,
    /// The verdict in a word, of slowdowns.
    pub verdict: Option<String>,
}

/// A figure, or why there is none.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Known {
    /// The figure.
    Figure(Interval),
    /// Why there is none.
    Unknown {
        /// In words.
        unknown: String,
    },
}

/// A host whose figure the others do not let expect.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outlying {
    /// The host, by its place.
    pub host: usize,
    /// Its figure over the middle of the others.
    pub value: f64,
    /// Lower bound of that; the bounds of all hosts hold together.
    pub low: f64,
    /// Upper bound of that.
    pub high: f64,
}

/// On how many hosts of a group a slowdown reaches a bound.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetClaim"))]
pub struct Claim {
    /// All of it in a sentence.
    pub sentence: String,
    /// The figure in words.
    pub name: String,
    /// The group, by its place.
    pub group: usize,
    /// The bound, as a factor.
    pub at_least: f64,
    /// Hosts that it holds on, by their places.
    pub above: Vec<usize>,
    /// Hosts that it does not hold on.
    pub below: Vec<usize>,
    /// Hosts of which it is not known.
    pub undecided: Vec<usize>,
    /// Hosts without a figure.
    pub without: Vec<usize>,
}

/// Cases that a host could not run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetNotRun"))]
pub struct NotRun {
    /// Why.
    pub reason: String,
    /// Cases, all hosts together.
    pub cases: usize,
    /// The hosts, by their places.
    pub hosts: Vec<usize>,
}

impl Overview {
    /// What a row is.
    pub(crate) fn noun(&self) -> &'static str {
        noun(self.one_machine)
    }

    /// Whether no group has enough hosts to say anything of others.
    pub(crate) fn are_few(&self) -> bool {
        self.groups.iter().all(|group| group.hosts.len() < hosts::FEWEST_HOSTS)
    }

    /// Hosts that others used while they were measured: a few of them, and how many more there are.
    pub(crate) fn busy(&self) -> (Vec<(&str, &str)>, usize) {
        const MOST: usize = 4;
        let busy = |host: &&Host| host.busy.is_some();
        let all = self.hosts.iter().filter(busy).count();
        let told =
            self.hosts.iter().filter_map(|host| Some((host.node.as_str(), host.busy.as_deref()?)));
        (told.take(MOST).collect(), all.saturating_sub(MOST))
    }
}

/// What is counted: runs of one machine are not hosts.
pub(crate) fn noun(one_machine: bool) -> &'static str {
    if one_machine { "run" } else { "host" }
}

/// Puts everything together.
pub fn overview(read: &Read, tasks: &[Task], asked: &Question) -> Overview {
    let groups = groups(&read.hosts, &asked.by);
    let of = |host: usize| {
        groups.iter().position(|group| group.hosts.contains(&host)).unwrap_or_default()
    };
    let places: Vec<usize> = (0..read.hosts.len()).map(of).collect();
    let wanted: Vec<&(Figure, Vec<ringfence_fleet::OnHost>)> =
        read.figures.iter().filter(|(figure, _)| is_wanted(figure, asked)).collect();
    // Alarms are by chance in at most 5 % of all such pages.
    let level = 1.0 - (1.0 - LEVEL) / (wanted.len() * groups.len()).max(1) as f64;
    let mut figures = Vec::new();
    let mut claims = Vec::new();
    for (figure, on_hosts) in wanted {
        for (place, group) in groups.iter().enumerate() {
            let own: Vec<&ringfence_fleet::OnHost> =
                on_hosts.iter().filter(|one| places.get(one.host) == Some(&place)).collect();
            if own.is_empty() {
                continue;
            }
            let known: Vec<(usize, hosts::OnHost)> = own
                .iter()
                .filter_map(|one| Some((one.host, hosts::OnHost::of(one.figure.as_ref().ok()?))))
                .collect();
            let values: Vec<hosts::OnHost> = known.iter().map(|(_, value)| *value).collect();
            if figure.figure == "slowdown" {
                let reached = hosts::reached(&values, asked.at_least, LEVEL);
                claims.extend(claim(figure, place, group, &known, &reached, read, &own));
            }
            let outliers = hosts::outliers(&values, level);
            let outlying = |outlier: hosts::Outlier| {
                let hosts::Outlier { host, value, low, high } = outlier;
                Outlying { host: known[host].0, value, low, high }
            };
            let Figure { experiment, arm, label, figure: what, quantity, unit } = figure.clone();
            figures.push(Summary {
                name: names::name(figure),
                experiment,
                arm,
                label,
                figure: what,
                quantity,
                unit,
                group: place,
                expected: hosts::expected(&values, LEVEL),
                outliers: outliers.into_iter().map(outlying).collect(),
                hosts: own.into_iter().map(host_figure).collect(),
                of: figure.clone(),
            });
        }
    }
    Overview {
        simulated: read.simulated.clone(),
        one_machine: read.one_machine,
        tasks: counts(tasks),
        lost: tasks.iter().filter(|task| is_without(task.state)).map(lost).collect(),
        left_out: read.left_out.clone(),
        hosts: read
            .hosts
            .iter()
            .zip(&read.tasks)
            .zip(&places)
            .map(|((facts, task), group)| host(facts, *task, *group))
            .collect(),
        by: asked.by.clone(),
        groups,
        figures,
        claims,
        not_run: not_run(read),
        level: LEVEL,
    }
}

pub(crate) fn is_wanted(figure: &Figure, asked: &Question) -> bool {
    asked.figure.as_ref().is_none_or(|text| names::name(figure).contains(text.as_str()))
}

fn host_figure(one: &ringfence_fleet::OnHost) -> HostFigure {
    let figure = match &one.figure {
        Ok(figure) => Known::Figure(*figure),
        Err(why) => Known::Unknown { unknown: why.clone() },
    };
    HostFigure { host: one.host, figure, verdict: one.verdict.clone() }
}

fn host(facts: &Facts, task: u32, group: usize) -> Host {
    Host {
        task,
        node: facts.node.clone(),
        group,
        facts: facts.columns().into_iter().map(|(name, fact)| (name, fact.words())).collect(),
        doctor: facts.doctor.clone(),
        busy: facts.busy.clone(),
    }
}

fn groups(all: &[Facts], by: &[String]) -> Vec<Group> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (host, facts) in all.iter().enumerate() {
        let columns = facts.columns();
        let value = |name: &String| {
            columns.iter().find(|(known, _)| known == name).map(|(_, fact)| fact.words())
        };
        let name: Vec<String> = by.iter().filter_map(value).collect();
        groups.entry(name.join(", ")).or_default().push(host);
    }
    let mut groups: Vec<Group> =
        groups.into_iter().map(|(name, hosts)| Group { name, hosts }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
    groups
}

fn claim(
    figure: &Figure,
    place: usize,
    group: &Group,
    known: &[(usize, hosts::OnHost)],
    reached: &Reached,
    read: &Read,
    own: &[&ringfence_fleet::OnHost],
) -> Option<Claim> {
    let places =
        |found: &[usize]| -> Vec<usize> { found.iter().map(|found| known[*found].0).collect() };
    let (above, undecided) = (places(&reached.above), places(&reached.undecided));
    if above.is_empty() && undecided.is_empty() {
        return None;
    }
    let without: Vec<usize> =
        own.iter().filter(|one| one.figure.is_err()).map(|one| one.host).collect();
    let names = |hosts: &[usize]| match hosts {
        [] => String::new(),
        few if few.len() <= 6 => {
            let names: Vec<&str> = few.iter().map(|host| read.hosts[*host].node.as_str()).collect();
            format!(" ({})", names.join(", "))
        }
        _ => String::new(),
    };
    let noun = noun(read.one_machine);
    let mut sentence = format!(
        "Of {} {}, {} is slower by {} or more on {}{}",
        crate::print::text::plural(own.len(), noun),
        if group.name.is_empty() { "in all".into() } else { format!("of '{}'", group.name) },
        names::name(figure),
        bound(reached.at_least),
        above.len(),
        names(&above),
    );
    if !undecided.is_empty() {
        sentence += &format!("; on {} it is not known{}", undecided.len(), names(&undecided));
    }
    if !without.is_empty() {
        sentence +=
            &format!("; {} without a figure", crate::print::text::plural(without.len(), noun));
    }
    Some(Claim {
        sentence: sentence + ".",
        name: names::name(figure),
        group: place,
        at_least: reached.at_least,
        above,
        below: places(&reached.below),
        undecided,
        without,
    })
}

// As it was typed.
fn bound(at_least: f64) -> String {
    if at_least >= 2.0 {
        format!("{at_least}x")
    } else {
        crate::print::numbers::percent(at_least - 1.0)
    }
}

pub(crate) fn counts(tasks: &[Task]) -> Counts {
    let of = |state: State| tasks.iter().filter(|task| task.state == state).count();
    Counts {
        all: tasks.len(),
        done: of(State::Done),
        running: of(State::Running),
        waiting: of(State::Waiting),
        failed: of(State::Failed),
        missing: of(State::Missing),
        unknown: of(State::Unknown),
    }
}

fn is_without(state: State) -> bool {
    state.is_lost() || state == State::Unknown
}

fn lost(task: &Task) -> Lost {
    Lost {
        task: task.number,
        state: task.state,
        node: task.node.clone(),
        reason: task.reason.clone(),
    }
}

fn not_run(read: &Read) -> Vec<NotRun> {
    let mut all: BTreeMap<&str, NotRun> = BTreeMap::new();
    for (host, _, reason) in &read.not_run {
        let entry = all.entry(reason).or_insert_with(|| NotRun {
            reason: reason.clone(),
            cases: 0,
            hosts: Vec::new(),
        });
        entry.cases += 1;
        if entry.hosts.last() != Some(host) {
            entry.hosts.push(*host);
        }
    }
    all.into_values().collect()
}
