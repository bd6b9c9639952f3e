//! The comparison of rings in tables and sentences.

use ringfence_machine::cpulist::CpuId;

use crate::baselines::Form;
use crate::contestants::Kind;
use crate::cores::Class;
use crate::support::options::Options;
use crate::support::stats::{Ratio, Verdict, median};
use crate::support::table::Report;
use crate::{CURSOR_EVERY, Figures, Measured, PASSES};

const TWO_FENCES: Kind = Kind::Slides(Form::Repaired);

/// Entries that should not have been handed out.
pub fn wrong(all: &[Measured]) -> Vec<String> {
    let figures = all
        .iter()
        .flat_map(|measured| measured.figures.iter().map(move |f| (measured.load.name, f)));
    let wrong =
        figures.filter(|(_, f)| f.kind != Kind::Slides(Form::Published) && f.stale + f.torn > 0);
    wrong.map(|(load, f)| format!("{load}: {} handed out {}", f.kind.name(), bad(f))).collect()
}

fn bad(figures: &Figures) -> String {
    let Figures { stale, torn, entries, .. } = figures;
    format!("{stale} stale and {torn} torn entries of {entries}")
}

/// Everything.
pub fn report(all: &[Measured], options: &Options, cpus: [CpuId; 2]) -> Report {
    let mut report = Report::default();
    report.heading("Ring");
    report.line(crate::support::machine());
    let trips: Vec<f64> = all.iter().flat_map(|measured| measured.trips.iter().copied()).collect();
    let range = |one: f64, other: f64| format!("{one:.0} to {other:.0}");
    report.line(format!(
        "Target {} of {} MiB in eight shares; producer on CPU {}, consumer on CPU {}; {} rounds of \
         {PASSES} windows; \
         round trip between the CPUs {:.0} ns in the median, {} in all; a consumer's position \
         becomes durable once in \
         {CURSOR_EVERY} entries.",
        options.target,
        options.size >> 20,
        cpus[0],
        cpus[1],
        all[0].figures[0].rounds.len(),
        median(&trips),
        range(
            trips.iter().copied().fold(f64::INFINITY, f64::min),
            trips.iter().copied().fold(0.0, f64::max)
        ),
    ));
    for measured in all {
        measured
            .absent
            .iter()
            .for_each(|reason| report.line(format!("{}: {reason}", measured.load.name)));
        for class in classes(measured) {
            table(&mut report, measured, class);
        }
    }
    report.heading("Verdicts");
    for measured in all {
        for class in classes(measured) {
            verdicts(&mut report, measured, class);
        }
    }
    for measured in all {
        for figures in &measured.figures {
            if figures.kind == Kind::Slides(Form::Published) {
                let sentence = if figures.stale + figures.torn == 0 {
                    "handed out no stale entry here, which proves nothing"
                } else {
                    "WARNING: handed out"
                };
                report.line(format!(
                    "- {}, {}: {sentence}: {}",
                    measured.load.name,
                    figures.kind.name(),
                    bad(figures)
                ));
            }
        }
    }
    report
}

fn classes(measured: &Measured) -> Vec<Class> {
    let windows = measured.figures.iter().flat_map(|figures| figures.rounds.iter().flatten());
    let mut classes: Vec<Class> = windows.map(|window| window.0).collect();
    classes.sort();
    classes.dedup();
    classes
}

// The median of each round's windows of this class; `None` where there are fewer than three.
fn of_class(figures: &Figures, class: Class) -> Vec<Option<f64>> {
    let median_of = |windows: &Vec<(Class, f64)>| {
        let ns: Vec<f64> =
            windows.iter().filter(|window| window.0 == class).map(|window| window.1).collect();
        (ns.len() >= 3).then(|| median(&ns))
    };
    figures.rounds.iter().map(median_of).collect()
}

fn ratio(measured: &Measured, one: Kind, other: Kind, class: Class) -> Option<Ratio> {
    let column = |kind: Kind| {
        let figures = measured.figures.iter().find(|figures| figures.kind == kind)?;
        Some(of_class(figures, class))
    };
    Ratio::of(
        column(one)?.into_iter().zip(column(other)?).filter_map(|(one, other)| one.zip(other)),
    )
}

fn of_rounds(figures: &Figures, class: Class) -> String {
    let ns: Vec<f64> = of_class(figures, class).into_iter().flatten().collect();
    if ns.is_empty() { "-".into() } else { format!("{:.1}", median(&ns)) }
}

fn table(report: &mut Report, measured: &Measured, class: Class) {
    let windows = measured.figures.iter().flat_map(|figures| figures.rounds.iter().flatten());
    let (of, all) =
        windows.fold((0, 0), |(of, all), window| (of + usize::from(window.0 == class), all + 1));
    report.heading(format!("{}; cores {class} ({of} of {all} windows)", measured.load.name));
    let head = [
        "",
        "ns per entry",
        "time over ours [95 % interval]",
        "stale in all",
        "torn in all",
        "entries read in all",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for figures in &measured.figures {
        let over = ratio(measured, figures.kind, Kind::Ours, class);
        let count =
            |number: u64| if figures.entries == 0 { "-".into() } else { number.to_string() };
        rows.push(vec![
            figures.kind.name().into(),
            of_rounds(figures, class),
            over.map_or("too few windows".into(), |over| over.to_string()),
            count(figures.stale),
            count(figures.torn),
            count(figures.entries),
        ]);
    }
    report.table(rows);
}

fn verdicts(report: &mut Report, measured: &Measured, class: Class) {
    let mut say = |claim: &str, ratio: Option<Ratio>, judge: &dyn Fn(&Ratio) -> Verdict| {
        let (figure, verdict) = match ratio {
            Some(ratio) => (ratio.to_string(), judge(&ratio).to_string()),
            None => ("too few windows of this class".into(), Verdict::Undecided.to_string()),
        };
        report
            .line(format!("- {}, cores {class}: {claim}: {figure}: {verdict}", measured.load.name));
    };
    let two_fences = ratio(measured, TWO_FENCES, Kind::Ours, class);
    let bare = ratio(measured, Kind::Ours, Kind::BareEntry, class);
    match (measured.load.payload, measured.load.batch) {
        (64, 1) => {
            say("two fences over ours, at least 2.2", two_fences, &|ratio| ratio.at_least(2.2));
            say("ours over a bare writer of the same bytes, at most 1.6", bare, &|ratio| {
                ratio.at_most(1.6)
            });
        }
        (64, _) => {
            let ours = &measured.figures[0];
            let ns = of_class(ours, class).into_iter().flatten().map(|ns| (ns, 1.0));
            say("ns per entry (geometric mean), at most 18", Ratio::of(ns), &|ratio| {
                ratio.at_most(18.0)
            });
        }
        (4096, _) => {
            say("two fences over ours, at least 1.3", two_fences, &|ratio| ratio.at_least(1.3))
        }
        _ => say("two fences over ours (4 KiB: at least 1.3)", two_fences, &|ratio| {
            ratio.at_least(1.3)
        }),
    }
}
