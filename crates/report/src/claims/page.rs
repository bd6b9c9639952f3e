//! The ledger as an HTML page.

use crate::html::{Align, Answer, Group, Layout, Page, Section, table as rows_of};
use crate::print::text::clean;
use maud::html;

use ringfence_studies::claims::{Document, Judged, Table, Tested};

use crate::claims::text::{summary, verdict, words};

/// Every claim with its verdict and figures, document by document.
pub fn page(table: &Table) -> Page {
    let of_document = |document: &Document| {
        let own: Vec<&Judged> =
            table.claims.iter().filter(|judged| judged.claim.is_of(document)).collect();
        let body = html! {
            @for judged in own {
                h4 { (clean(&judged.claim.says)) }
                p {
                    (clean(&format!(
                        "{}; {}. {}.",
                        judged.claim.kind,
                        judged.claim.place,
                        verdict(table, judged),
                    )))
                }
                @if !judged.tests.is_empty() && !table.machines.is_empty() {
                    (figures(table, judged))
                }
            }
        };
        let section = Section { id: "claims", title: "Claims".into(), body };
        Group { title: Some(clean(&document.title)), sections: vec![section] }
    };
    let machines: Vec<String> = table
        .machines
        .iter()
        .map(|machine| {
            let how = if machine.simulated { "simulated" } else { "measured" };
            clean(&format!("{} ({how}): {}", machine.name, machine.title))
        })
        .collect();
    Page {
        title: "Which claims hold?".into(),
        subtitle: "claims of the documents that Ringfence began with".into(),
        answer: Answer {
            question: "Which claims hold?".into(),
            headline: summary(table),
            sentences: machines,
            layout: Layout::Stacked,
            ..Answer::default()
        },
        groups: table.ledger.documents.iter().map(of_document).collect(),
        footer: Vec::new(),
        simulated: !table.machines.is_empty()
            && table.machines.iter().all(|machine| machine.simulated),
    }
}

fn figures(table: &Table, judged: &Judged) -> maud::Markup {
    let heads: Vec<(String, Align)> = ["comparison", "expected", "published"]
        .map(str::to_owned)
        .into_iter()
        .chain(table.machines.iter().map(|machine| {
            let how = if machine.simulated { "simulated" } else { "measured" };
            clean(&format!("{how}: {}", machine.name))
        }))
        .map(|head| (head, Align::Left))
        .collect();
    let heads: Vec<(&str, Align)> =
        heads.iter().map(|(head, align)| (head.as_str(), *align)).collect();
    let row = |tested: &Tested| {
        let published: Vec<String> =
            tested.published.iter().map(|figure| format!("{figure:.3}")).collect();
        let labels: Vec<&str> = [&tested.test.case, &tested.test.against]
            .into_iter()
            .chain(tested.test.than.iter().flatten())
            .map(String::as_str)
            .collect();
        let mut cells = vec![
            comparison(&labels),
            tested.test.expect.to_string(),
            if published.is_empty() { "no figure".into() } else { published.join(", ") },
        ];
        cells.extend(tested.by_machine.iter().map(words));
        cells
    };
    let rows: Vec<Vec<String>> = judged.tests.iter().map(row).collect();
    rows_of(&judged.claim.says, &heads, &rows)
}

// Two cases, or two pairs of them. Parameters that all cases with parameters share come last.
fn comparison(labels: &[&str]) -> String {
    let parts: Vec<Vec<&str>> = labels.iter().map(|label| label.split("; ").collect()).collect();
    let with: Vec<&[&str]> =
        parts.iter().map(|parts| &parts[1..]).filter(|p| !p.is_empty()).collect();
    let is_shared = |part: &&str| with.len() > 1 && with.iter().all(|one| one.contains(part));
    let shared: Vec<&str> = with
        .first()
        .map_or(Vec::new(), |first| first.iter().copied().filter(|part| is_shared(part)).collect());
    let own: Vec<String> = parts
        .iter()
        .map(|parts| {
            let rest = parts[1..].iter().copied().filter(|part| !is_shared(part));
            std::iter::once(parts[0]).chain(rest).collect::<Vec<_>>().join("; ")
        })
        .collect();
    let mut text = match &own[..] {
        [case, against, of, than] => format!("({case} / {against}) / ({of} / {than})"),
        own => own.join(" / "),
    };
    if !shared.is_empty() {
        text += &format!("; with {}", shared.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::comparison;

    #[test]
    fn shared_parameters_come_last() {
        let on = "writer.target=dram";
        let (clwb, clflush) = (format!("write; by=clwb; {on}"), format!("write; by=clflush; {on}"));
        assert_eq!(comparison(&[&clwb, "alone"]), "write; by=clwb; writer.target=dram / alone");
        assert_eq!(
            comparison(&[&clwb, "alone", &clflush, "alone"]),
            "(write; by=clwb / alone) / (write; by=clflush / alone); with writer.target=dram"
        );
    }
}
