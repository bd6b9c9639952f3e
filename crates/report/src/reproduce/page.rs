//! The page of published figures beside simulated ones.

use maud::html;
use ringfence_studies::reproduce::Reproduced;
use ringfence_studies::reproduce::simulated::{Score, Simulated};

use crate::html::table::{Align, table};
use crate::html::{Answer, Group, Layout, Page, Section};
use crate::reproduce::brief::near;
use crate::reproduce::text::{HEADS, TIME_HEADS, Tabled, tabled, verdicts};
use crate::text::capital;

/// The page; `here` is what was measured of an experiment on this host.
pub fn page<'a>(all: &[Simulated], here: &dyn Fn(&str) -> Option<&'a Reproduced>) -> Page {
    let mut verdicts = verdicts(all).into_iter();
    let first = verdicts.next().map(|(_, lines)| lines).unwrap_or_default();
    let headline = near(&Score::new(all.iter().filter(|one| one.alternative.is_none())));
    let others =
        verdicts.flat_map(|(of, lines)| lines.into_iter().map(move |line| format!("{of} {line}")));
    let others: Vec<String> = others.collect();
    // What publications leave open is folded, a reading each.
    let group = |one: &Simulated| {
        let mut tabled = tabled(one, here(&one.experiment));
        let folded = one.alternative.is_some();
        let title = folded.then(|| std::mem::replace(&mut tabled.title, "Comparisons".into()));
        Group { title, sections: vec![section(tabled)] }
    };
    Page {
        title: "Published and simulated".into(),
        subtitle: format!("{} simulations of published experiments", all.len()),
        answer: Answer {
            question: "How near do described machines come to what was published?".into(),
            headline: headline.first().map_or_else(
                || "Nothing was simulated that was published.".into(),
                |text| format!("{}.", capital(text)),
            ),
            sentences: first.iter().map(|line| capital(line)).collect(),
            folded: (!others.is_empty())
                .then(|| ("Other readings of what publications leave open".into(), others)),
            layout: Layout::Stacked,
            ..Answer::default()
        },
        groups: all.iter().map(group).collect(),
        footer: Vec::new(),
        simulated: true,
    }
}

fn section(tabled: Tabled) -> Section {
    let aligned =
        |heads: &[&'static str]| heads.iter().map(|head| (*head, Align::Left)).collect::<Vec<_>>();
    let body = html! {
        @for (source, rows) in &tabled.tables {
            p { (source) }
            (table(source, &aligned(&HEADS), rows))
        }
        @if !tabled.times.is_empty() {
            p { "Seconds for as many bytes" }
            (table("Seconds for as many bytes", &aligned(&TIME_HEADS), &tabled.times))
        }
        @for note in &tabled.notes { p { (note) } }
    };
    Section { id: "simulated", title: tabled.title, body }
}
