//! Hand-made comparisons with what was published.

use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_studies::reproduce::{Measured, Published, Row, agreement};

use crate::golden::check_both;

fn row(case: &str, value: f64, against: f64, measured: Measured) -> Row {
    Row {
        published: Published {
            experiment: "x".into(),
            case: case.into(),
            quantity: "mcf ref".into(),
            unit: "s".into(),
            value,
            against: Some("alone".into()),
            instead: None,
            instead_against: None,
            source: "note 003, 2022-06-21".into(),
            machine: "2 sockets of 16 cores with SMT".into(),
            remark: Some("another mcf".into()),
        },
        against,
        ratio: value / against,
        measured,
        instead: None,
    }
}

fn measured(published: f64, low: f64, high: f64) -> Measured {
    let interval = Interval {
        value: (low * high).sqrt(),
        low,
        high,
        level: 0.95,
        trials: 10,
        spread: 0.02,
        slack: 0.0,
    };
    let (direction, magnitude) = agreement(published, &interval, 0.01);
    Measured::Ratio { interval, direction, magnitude }
}

#[test]
fn published_beside_measured() {
    let pm = "beside; writer.count=8; writer.instruction=clwb; writer.target=dax:/mnt/pmem0";
    let lacking = || Measured::NotRun("no file system is mounted with DAX at /mnt/pmem0".into());
    let mut instead = row(pm, 563.8, 532.9, lacking());
    instead.published.instead = Some(pm.replace("dax:/mnt/pmem0", "dram"));
    instead.instead = Some(measured(563.8 / 532.9, 1.02, 1.04));
    let mut slides = row("PM, unpinned", 8.799517, 2.650731, measured(3.3, 1.5, 1.6));
    slides.published.source = "slides 004".into();
    let of_size = |size: &str, value: f64, against: f64| {
        let mut row =
            row("beside; writer.count=2", value, against, measured(value / against, 1.09, 1.12));
        row.published.quantity = format!("mcf {size}");
        row
    };
    let rows = [
        of_size("test", 13.899757, 13.643775),
        of_size("train", 80.058192, 77.325902),
        of_size("ref", 564.545805, 532.873423),
        row("beside; writer.count=1", 564.5, 532.9, measured(564.5 / 532.9, 1.05, 1.08)),
        row("beside; writer.count=4", 538.1, 532.9, measured(538.1 / 532.9, 0.98, 1.03)),
        row("beside; writer.count=8", 532.8, 532.9, measured(1.0, 1.9, 2.3)),
        instead,
        row(
            "beside",
            530.0,
            532.9,
            Measured::NotEstimable(NotEstimable::TooFewTrials { trials: 1 }),
        ),
        slides,
    ];
    check_both("reproduced", |style| {
        ringfence_report::reproduced(&rows, style)
            + &ringfence_report::reproduced_summary(&rows, style)
    });
}
