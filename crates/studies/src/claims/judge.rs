//! Claims, published figures and evidence become verdicts.

use std::collections::BTreeMap;

use crate::reproduce::{Published, find_case};
use ringfence_analysis::estimate::Interval;
use ringfence_analysis::results;
use ringfence_experiment::{Measure, Reason};
use serde::Serialize;

use crate::claims::evidence::{Evidence, Machine};
use crate::claims::expect::Verdict;
use crate::claims::ledger::{Claim, Ledger, Test};

/// Every claim with its verdict.
#[derive(Debug, Clone)]
pub struct Table {
    /// The machines that there is evidence of, those that were simulated first.
    pub machines: Vec<Machine>,
    /// The claims, in the ledger's order.
    pub claims: Vec<Judged>,
    /// The ledger's documents.
    pub ledger: Ledger,
    /// How many datasets the verdicts rest on; of one experiment on one machine, the newest counts.
    pub datasets: usize,
    /// How many were left out for a newer one.
    pub older: usize,
}

impl Table {
    /// Whether there is no dataset at all, so that "not run" would say nothing of any claim.
    pub fn has_no_results(&self) -> bool {
        self.datasets == 0
    }
}

/// A claim, and what came out.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// Over all machines.
    pub verdict: Verdict,
    /// What that rests on.
    pub basis: Basis,
    /// By the published figures alone; `None` where none of them is about it.
    pub published: Option<Verdict>,
    /// On each of the table's machines, in their order.
    pub by_machine: Vec<Verdict>,
    /// Test by test.
    pub tests: Vec<Tested>,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Figures of machines that exist.
    Measured,
    /// Figures of described machines alone.
    Simulated,
    /// Every state that a crash can leave, by the rules of the manuals.
    Explored,
    /// Nothing.
    Nothing,
}

/// A test, and what came out.
#[derive(Debug, Clone)]
pub struct Tested {
    /// The test.
    pub test: Test,
    /// The published figures, one for each quantity that was published of both cases.
    pub published: Vec<f64>,
    /// On each of the table's machines.
    pub by_machine: Vec<Outcome>,
}

/// A figure of a test, with its interval.
pub type Figure = Interval;

/// What a test came to on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The ratio; `None` where there is none.
    pub figure: Option<Figure>,
    /// Whether it is as claimed.
    pub verdict: Verdict,
    /// The same on DRAM, where the claim is about persistent memory and that was not there: it
    /// decides nothing.
    pub instead: Option<(Figure, Verdict)>,
}

/// Compares every claim with the published figures and with the evidence.
pub fn judge(ledger: &Ledger, published: &[Published], evidence: Vec<Evidence>) -> Table {
    let all = evidence.len();
    let mut newest: BTreeMap<(bool, String, String), Evidence> = BTreeMap::new();
    for one in evidence {
        let key =
            (!one.machine.simulated, one.machine.name.clone(), one.plan.experiment.name.clone());
        if newest.get(&key).is_none_or(|known| known.created < one.created) {
            newest.insert(key, one);
        }
    }
    let mut machines: Vec<Machine> = Vec::new();
    for one in newest.values() {
        if !machines.iter().any(|known| same(known, &one.machine)) {
            machines.push(one.machine.clone());
        }
    }
    let known = Known { machines: &machines, newest: &newest, published };
    let claims = ledger.claims.iter().map(|claim| known.judge(claim)).collect();
    Table {
        claims,
        ledger: ledger.clone(),
        datasets: newest.len(),
        older: all - newest.len(),
        machines,
    }
}

fn same(one: &Machine, other: &Machine) -> bool {
    (one.simulated, &one.name) == (other.simulated, &other.name)
}

struct Known<'a> {
    machines: &'a [Machine],
    newest: &'a BTreeMap<(bool, String, String), Evidence>,
    published: &'a [Published],
}

impl Known<'_> {
    fn judge(&self, claim: &Claim) -> Judged {
        let tests: Vec<Tested> = claim.tests.iter().map(|test| self.test(claim, test)).collect();
        if let Some(explored) = &claim.explored {
            let verdict = if explored.holds { Verdict::Holds } else { Verdict::DoesNot };
            let why = "only the state after a crash shows it, and no figure does";
            return Judged {
                claim: claim.clone(),
                verdict,
                basis: Basis::Explored,
                published: None,
                by_machine: vec![Verdict::NotRun(why.into()); self.machines.len()],
                tests,
            };
        }
        let on = |place: usize| match &claim.untested {
            Some(why) => Verdict::NotRun(why.clone()),
            None => {
                Verdict::all(tests.iter().map(|tested| tested.by_machine[place].verdict.clone()))
            }
        };
        let by_machine: Vec<Verdict> = (0..self.machines.len()).map(on).collect();
        let of = |simulated: bool| {
            let chosen = self.machines.iter().zip(&by_machine);
            let chosen = chosen.filter(move |(machine, _)| machine.simulated == simulated);
            chosen.map(|(_, verdict)| verdict).collect::<Vec<_>>()
        };
        let (verdict, basis) = match (agreed(&of(false)), agreed(&of(true))) {
            (Some(verdict), _) => (verdict, Basis::Measured),
            (None, Some(verdict)) => (verdict, Basis::Simulated),
            (None, None) => (Verdict::NotRun(why_not(claim, &by_machine, &tests)), Basis::Nothing),
        };
        let margin = Measure::default().margin.0;
        let by_figures = tests.iter().filter(|tested| !tested.published.is_empty()).map(|tested| {
            let verdict = |ratio: &f64| tested.test.expect.of_published(*ratio, margin);
            Verdict::all(tested.published.iter().map(verdict))
        });
        let by_figures: Vec<Verdict> = by_figures.collect();
        let published = (!by_figures.is_empty()).then(|| Verdict::all(by_figures));
        Judged { claim: claim.clone(), verdict, basis, published, by_machine, tests }
    }

    fn test(&self, claim: &Claim, test: &Test) -> Tested {
        let outcome = |machine: &Machine| {
            if !machine.is_one_of(&claim.machines) {
                return not_run("it is about other machines".into());
            }
            let key = (!machine.simulated, machine.name.clone(), test.experiment.clone());
            match self.newest.get(&key) {
                None => not_run(format!("results/ has no dataset of {}", test.experiment).into()),
                Some(evidence) => outcome(test, evidence),
            }
        };
        Tested {
            test: test.clone(),
            published: published(test, self.published),
            by_machine: self.machines.iter().map(outcome).collect(),
        }
    }
}

fn not_run(why: Reason) -> Outcome {
    Outcome { figure: None, verdict: Verdict::NotRun(why), instead: None }
}

// What machines say together; `None` where none of them has figures.
fn agreed(verdicts: &[&Verdict]) -> Option<Verdict> {
    let has = |wanted: Verdict| verdicts.iter().any(|one| **one == wanted);
    match (has(Verdict::Holds), has(Verdict::DoesNot), has(Verdict::Undecided)) {
        (true, true, _) => Some(Verdict::Undecided),
        (true, _, _) => Some(Verdict::Holds),
        (_, true, _) => Some(Verdict::DoesNot),
        (_, _, true) => Some(Verdict::Undecided),
        _ => None,
    }
}

// The reason of a machine that has figures of some of the tests, or of any; those that exist first:
// they come last.
fn why_not(claim: &Claim, by_machine: &[Verdict], tests: &[Tested]) -> Reason {
    let has_some =
        |place: usize| tests.iter().any(|tested| tested.by_machine[place].figure.is_some());
    let in_part = by_machine.iter().enumerate().rev().find_map(|(place, verdict)| match verdict {
        Verdict::NotRun(why) if has_some(place) => {
            Some(format!("one of its tests has no figures: {why}").into())
        }
        _ => None,
    });
    if let (Some(why), None) = (in_part, &claim.untested) {
        return why;
    }
    let reasons = by_machine.iter().rev().filter_map(|verdict| match verdict {
        Verdict::NotRun(why) => Some(why.clone()),
        _ => None,
    });
    let none = || "results/ has no dataset of its experiments".into();
    claim.untested.clone().unwrap_or_else(|| reasons.into_iter().next().unwrap_or_else(none))
}

fn outcome(test: &Test, evidence: &Evidence) -> Outcome {
    let margin = evidence.plan.experiment.measure.margin.0;
    match figure(test, evidence) {
        Ok(figure) => Outcome {
            verdict: test.expect.verdict(&figure, margin),
            figure: Some(figure),
            instead: None,
        },
        Err(why) => {
            let instead = test.on_dram().and_then(|other| figure(&other, evidence).ok());
            let instead = instead.map(|figure| (figure, test.expect.verdict(&figure, margin)));
            Outcome { figure: None, verdict: Verdict::NotRun(why), instead }
        }
    }
}

// The ratio, or the quotient of two.
fn figure(test: &Test, evidence: &Evidence) -> Result<Figure, Reason> {
    let first = ratio(&test.case, &test.against, evidence)?;
    let Some([case, against]) = &test.than else { return Ok(first) };
    let second = ratio(case, against, evidence)?;
    // Wider than an interval of the quotient itself would be: as if both were off in opposite
    // directions at once.
    Ok(Interval {
        value: first.value / second.value,
        low: first.low / second.high,
        high: first.high / second.low,
        trials: first.trials.min(second.trials),
        ..first
    })
}

fn ratio(case: &str, against: &str, evidence: &Evidence) -> Result<Figure, Reason> {
    let Evidence { plan, samples, .. } = evidence;
    let [case, against] = [find_case(plan, case)?, find_case(plan, against)?];
    if let Some(why) = plan.refusal(case).or_else(|| plan.refusal(against)) {
        return Err(why.clone());
    }
    results::ratio(plan, samples, case, against, results::level(plan, samples))
        .map_err(|why| why.to_string().into())
}

// One for each quantity and source that has all figures of the comparison.
fn published(test: &Test, all: &[Published]) -> Vec<f64> {
    let first = ratios(&test.experiment, &test.case, &test.against, all);
    let Some([case, against]) = &test.than else {
        return first.into_iter().map(|(_, ratio)| ratio).collect();
    };
    let second = ratios(&test.experiment, case, against, all);
    let pair = |(quantity, ratio): (&str, f64)| match &second[..] {
        // Each side of the comparison was published under a name of its own.
        [(_, only)] => Some(ratio / only),
        several => {
            several.iter().find(|(other, _)| *other == quantity).map(|(_, other)| ratio / other)
        }
    };
    first.into_iter().filter_map(pair).collect()
}

fn ratios<'a>(
    experiment: &str,
    case: &str,
    against: &str,
    all: &'a [Published],
) -> Vec<(&'a str, f64)> {
    let of = |wanted: &str| {
        let wanted = wanted.to_owned();
        all.iter().filter(move |row| row.experiment == experiment && row.case == wanted)
    };
    let with = |row: &'a Published| {
        let fits =
            |other: &&Published| other.quantity == row.quantity && other.source == row.source;
        of(against).find(fits).map(|other| (row.quantity.as_str(), row.value / other.value))
    };
    of(case).filter_map(with).collect()
}
