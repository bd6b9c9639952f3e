//! The comparison of copies in tables and sentences.

use ringfence_persist::Width;
use ringfence_persist::policy::Policy;

use crate::support::options::Options;
use crate::support::stats::{Ratio, Verdict, median};
use crate::support::table::Report;
use crate::{ABSENT, Cell, Method, PASSES, POLICY_ROUNDS, Pattern, WINDOW_NS};

/// Everything.
pub fn report(
    cells: &[Cell],
    methods: &[Method],
    policy: &Policy,
    options: &Options,
    cpu: u32,
) -> Report {
    let mut report = Report::default();
    let rounds = cells[0].ns[0].len();
    report.heading("Durable copy");
    report.line(crate::support::machine());
    report.line(format!(
        "Target {} of {} MiB, CPU {cpu}, {rounds} rounds of {PASSES} windows of about {} ms, \
         copies by {} registers.",
        options.target,
        options.size >> 20,
        WINDOW_NS / 1e6,
        Width::widest()
    ));
    let threshold =
        policy.nt_threshold.map_or("never".into(), |bytes| format!("from {bytes} bytes on"));
    report.line(format!(
        "Policy from {} earlier rounds: {} below, non-temporal stores {threshold}.",
        if options.quick { 4 } else { POLICY_ROUNDS },
        policy.instruction
    ));
    if !methods.contains(&Method::Pmem) {
        report.line(format!("libpmem: {ABSENT}"));
    }
    let mut verdicts = Verdicts::default();
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let name = if pattern == Pattern::Sequential { "sequential" } else { "random" };
        report.heading(format!(
            "{name}: ns per copy (median over rounds), and ratios of times [95 % interval]"
        ));
        let mut rows = vec![head(methods)];
        for cell in cells.iter().filter(|cell| cell.pattern == pattern) {
            rows.push(row(cell, name, methods, &mut verdicts));
        }
        report.table(rows);
    }
    report.heading("Verdicts");
    let Verdicts { of_best, of_bare, over_pmem } = verdicts;
    verdict(&mut report, "Every size within 5 % of the best primitive", &of_best);
    verdict(&mut report, "The same, of those that do not ask for their lines first", &of_bare);
    if let Some(mean) = mean_over_pmem(cells, methods) {
        report.line(format!(
            "- Geometric mean over all sizes of libpmem's default over ours, at least 1.15: \
             {mean}: {}",
            mean.at_least(1.15)
        ));
        verdict(&mut report, "libpmem's better form over ours nowhere below 0.97", &over_pmem);
    } else {
        report.line(format!("- Against libpmem: {ABSENT}"));
    }
    report
}

// What is claimed at each place: against the best primitive, the best of those that do not ask for
// their lines first, and libpmem's better form.
#[derive(Default)]
struct Verdicts {
    of_best: Vec<(Verdict, String)>,
    of_bare: Vec<(Verdict, String)>,
    over_pmem: Vec<(Verdict, String)>,
}

fn index(methods: &[Method], method: Method) -> Option<usize> {
    methods.iter().position(|other| *other == method)
}

fn library(methods: &[Method]) -> usize {
    index(methods, Method::Library).expect("it was measured")
}

// A cell as a row of its pattern's table.
fn row(cell: &Cell, name: &str, methods: &[Method], verdicts: &mut Verdicts) -> Vec<String> {
    let library = library(methods);
    let medians: Vec<f64> = cell.ns.iter().map(|ns| median(ns)).collect();
    let least = |choose: &dyn Fn(Method) -> bool| {
        let of = (0..methods.len()).filter(|at| choose(methods[*at]));
        of.min_by(|one, other| medians[*one].total_cmp(&medians[*other]))
    };
    let ratio = |one: usize, other: usize| {
        Ratio::of(cell.ns[one].iter().copied().zip(cell.ns[other].iter().copied()))
    };
    let best = least(&Method::is_primitive).expect("there are primitives");
    let over = ratio(library, best).expect("three rounds");
    let place = format!("{name} {}: {over}", bytes(cell.size));
    verdicts.of_best.push((over.at_most(1.05), place));
    let bare = least(&Method::is_bare).expect("there are bare ones");
    let over_bare = ratio(library, bare).expect("three rounds");
    verdicts
        .of_bare
        .push((over_bare.at_most(1.05), format!("{name} {}: {over_bare}", bytes(cell.size))));
    let mut row = vec![bytes(cell.size)];
    row.extend(medians.iter().map(|ns| nanoseconds(*ns)));
    row.push(format!("{over} of {}", methods[best].name()));
    if let (Some(default), Some(better)) = (
        index(methods, Method::Pmem),
        least(&|method| matches!(method, Method::Pmem | Method::PmemNonTemporal)),
    ) {
        let (default, better) = (ratio(default, library).unwrap(), ratio(better, library).unwrap());
        verdicts
            .over_pmem
            .push((better.at_least(0.97), format!("{name} {}: {better}", bytes(cell.size))));
        row.extend([default.to_string(), better.to_string()]);
    }
    row
}

// Of libpmem's default over ours, over all sizes.
fn mean_over_pmem(cells: &[Cell], methods: &[Method]) -> Option<Ratio> {
    let (default, library) = (index(methods, Method::Pmem)?, library(methods));
    let logs = (0..cells[0].ns[0].len()).map(|round| {
        let of = cells.iter().map(|cell| (cell.ns[default][round] / cell.ns[library][round]).ln());
        of.sum::<f64>() / cells.len() as f64
    });
    Some(Ratio::of_logs(logs).expect("three rounds"))
}

fn head(methods: &[Method]) -> Vec<String> {
    let mut head = vec!["bytes".to_owned()];
    head.extend(methods.iter().map(|method| method.name()));
    head.push("ours / best primitive".into());
    if methods.contains(&Method::Pmem) {
        head.extend(["libpmem / ours".into(), "its better form / ours".into()]);
    }
    head
}

fn verdict(report: &mut Report, claim: &str, places: &[(Verdict, String)]) {
    let of = |wanted: Verdict| -> Vec<&str> {
        places.iter().filter(|place| place.0 == wanted).map(|place| place.1.as_str()).collect()
    };
    let (missed, open) = (of(Verdict::Missed), of(Verdict::Undecided));
    let mut text = format!(
        "- {claim}: {} at {} of {}",
        Verdict::Reached,
        of(Verdict::Reached).len(),
        places.len()
    );
    for (name, list) in [("missed", missed), ("undecided", open)] {
        if !list.is_empty() {
            text += &format!("; {name} at {}", list.join(", "));
        }
    }
    report.line(text);
}

fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

fn nanoseconds(ns: f64) -> String {
    if ns < 1000.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}
