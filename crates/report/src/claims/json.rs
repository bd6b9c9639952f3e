//! What was claimed, and what came out.

use ringfence_studies::claims::{Basis, Figure, Kind, Machine, Table, Verdict};
use serde::Serialize;

/// `claims`: every claim with its verdict and figures.
pub fn claims(table: &Table) -> impl Serialize {
    let claim = |judged: &ringfence_studies::claims::Judged| {
        let named = |verdict: &Verdict, place: usize| OnMachine {
            machine: table.machines[place].name.clone(),
            simulated: table.machines[place].simulated,
            verdict: word(verdict),
            because: because(verdict),
        };
        let test = |tested: &ringfence_studies::claims::Tested| Tested {
            experiment: tested.test.experiment.clone(),
            case: tested.test.case.clone(),
            against: tested.test.against.clone(),
            than: tested.test.than.clone(),
            expected: tested.test.expect.to_string(),
            published: tested.published.clone(),
            results: (tested.by_machine.iter().enumerate())
                .map(|(place, outcome)| Result {
                    on: named(&outcome.verdict, place),
                    figure: outcome.figure,
                    on_dram: outcome.instead.as_ref().map(|(figure, verdict)| OnDram {
                        figure: *figure,
                        verdict: word(verdict),
                    }),
                })
                .collect(),
        };
        Claim {
            id: judged.claim.id.clone(),
            kind: judged.claim.kind,
            place: judged.claim.place.clone(),
            says: judged.claim.says.clone(),
            verdict: word(&judged.verdict),
            because: because(&judged.verdict),
            basis: judged.basis,
            published: judged.published.as_ref().map(word),
            by_machine: judged
                .by_machine
                .iter()
                .enumerate()
                .map(|(place, one)| named(one, place))
                .collect(),
            tests: judged.tests.iter().map(test).collect(),
        }
    };
    let document = |document: &ringfence_studies::claims::Document| Documented {
        id: document.id.clone(),
        title: document.title.clone(),
    };
    Claims {
        documents: table.ledger.documents.iter().map(document).collect(),
        machines: table.machines.clone(),
        datasets: table.datasets,
        claims: table.claims.iter().map(claim).collect(),
    }
}

fn word(verdict: &Verdict) -> Word {
    match verdict {
        Verdict::Holds => Word::Holds,
        Verdict::DoesNot => Word::DoesNot,
        Verdict::Undecided => Word::Undecided,
        Verdict::NotRun(_) => Word::NotRun,
    }
}

fn because(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::NotRun(why) => Some(why.to_string()),
        _ => None,
    }
}

/// Whether it holds; `not-run` where there are no figures.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "ClaimVerdict"))]
enum Word {
    Holds,
    DoesNot,
    Undecided,
    NotRun,
}

/// `claims`: what documents claimed, and what came out.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/claims/1")]
pub(crate) struct Claims {
    /// Which documents.
    documents: Vec<Documented>,
    /// The machines that there are datasets of, simulated ones first.
    machines: Vec<Machine>,
    /// How many datasets the verdicts rest on.
    datasets: usize,
    /// The claims, document by document.
    claims: Vec<Claim>,
}

/// One document.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Documented {
    /// How the ids of its claims begin.
    id: String,
    /// What it is.
    title: String,
}

/// A claim, its verdict, and the figures it follows from.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Claim {
    /// The document's id and a short name.
    id: String,
    /// How it was stated.
    kind: Kind,
    /// Where in the document it stands.
    place: String,
    /// The statement.
    says: String,
    /// Whether it holds; `not-run` where there are no figures.
    verdict: Word,
    /// Why it was not run; null where it was.
    because: Option<String>,
    /// What the verdict rests on.
    basis: Basis,
    /// The verdict by the published figures alone; null where none is about it.
    published: Option<Word>,
    /// The verdict on each machine, over all tests.
    by_machine: Vec<OnMachine>,
    /// What tests it; all must come out.
    tests: Vec<Tested>,
}

/// One machine's.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OnMachine {
    /// The machine's name, one of `machines`.
    machine: String,
    /// Whether nothing was measured.
    simulated: bool,
    /// Whether it holds; `not-run` where there are no figures.
    verdict: Word,
    /// Why it was not run; null where it was.
    because: Option<String>,
}

/// A comparison, and what it came to.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Tested {
    /// The shipped experiment.
    experiment: String,
    /// The case.
    case: String,
    /// The case that its time is divided by.
    against: String,
    /// Another pair, by whose ratio the first is divided; null where there is none.
    than: Option<[String; 2]>,
    /// What the figure must be, in words.
    expected: String,
    /// The published figure, for each quantity that has one.
    published: Vec<f64>,
    /// The figure on each machine.
    results: Vec<Result>,
}

/// One machine's.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Result {
    #[serde(flatten)]
    on: OnMachine,
    /// The ratio; null where there is none.
    figure: Option<Figure>,
    /// The same on DRAM, where the claim is about persistent memory and that was not there: it
    /// decides nothing.
    on_dram: Option<OnDram>,
}

/// Figure and verdict.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OnDram {
    /// A positive figure with the interval that holds it at the stated level.  The figure is a
    /// geometric mean over trials, the interval symmetric on the log scale. All fields are finite,
    /// and `0 < low <= value <= high`.
    figure: Figure,
    /// Whether it holds; `not-run` where there are no figures.
    verdict: Word,
}
