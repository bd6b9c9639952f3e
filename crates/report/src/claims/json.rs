//! What was claimed, and what came out.

use ringfence_studies::claims::{Basis, Figure, Kind, Machine, Table, Verdict};
use serde::Serialize;

use crate::json::Document;

/// `claims`: every claim with its verdict and figures.
pub fn claims(table: &Table) -> impl Serialize {
    Document { schema: "ringfence/claims/1", body: body(table) }
}

fn body(table: &Table) -> Body {
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
    Body {
        documents: table.ledger.documents.iter().map(document).collect(),
        machines: table.machines.clone(),
        datasets: table.datasets,
        claims: table.claims.iter().map(claim).collect(),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNot => "does-not",
        Verdict::Undecided => "undecided",
        Verdict::NotRun(_) => "not-run",
    }
}

fn because(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::NotRun(why) => Some(why.to_string()),
        _ => None,
    }
}

#[derive(Serialize)]
struct Body {
    documents: Vec<Documented>,
    machines: Vec<Machine>,
    datasets: usize,
    claims: Vec<Claim>,
}

#[derive(Serialize)]
struct Documented {
    id: String,
    title: String,
}

#[derive(Serialize)]
struct Claim {
    id: String,
    kind: Kind,
    place: String,
    says: String,
    verdict: &'static str,
    because: Option<String>,
    basis: Basis,
    published: Option<&'static str>,
    by_machine: Vec<OnMachine>,
    tests: Vec<Tested>,
}

#[derive(Serialize)]
struct OnMachine {
    machine: String,
    simulated: bool,
    verdict: &'static str,
    because: Option<String>,
}

#[derive(Serialize)]
struct Tested {
    experiment: String,
    case: String,
    against: String,
    than: Option<[String; 2]>,
    expected: String,
    published: Vec<f64>,
    results: Vec<Result>,
}

#[derive(Serialize)]
struct Result {
    #[serde(flatten)]
    on: OnMachine,
    figure: Option<Figure>,
    on_dram: Option<OnDram>,
}

#[derive(Serialize)]
struct OnDram {
    figure: Figure,
    verdict: &'static str,
}
