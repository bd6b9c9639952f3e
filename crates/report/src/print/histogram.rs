//! How latencies are spread: bars over a logarithmic axis.

use std::collections::BTreeMap;

use crate::print::numbers::{count, ns, percent};
use crate::print::style::{Paint, Style};
use crate::print::text::{paragraph, width};

/// Rows, at most.
const MOST_ROWS: usize = 24;

/// Shares of which the quantile is shown.
pub const QUANTILES: [(f64, &str); 4] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// The floor of a row that stands for a stretch without latencies.
const GAP: u64 = u64::MAX;

/// A row: latencies from `floor` up to the next row's floor.
struct Row {
    floor: u64,
    count: u64,
    marks: Vec<&'static str>,
}

/// A latency histogram. Buckets are (lowest latency in ns, count), in any order; a bucket reaches
/// up to the next one's floor. Rows divide powers of two, stretches without latencies are one row,
/// and bars are as long as the logarithm of the count, so that the tail can be seen. Of the
/// quantiles those are marked that the latencies bear.
pub fn histogram(buckets: &[(u64, u64)], bear: impl Fn(f64) -> bool, style: &Style) -> String {
    let mut buckets: Vec<(u64, u64)> =
        buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
    buckets.sort_unstable();
    if buckets.is_empty() {
        return "no latencies were recorded\n".into();
    }
    let total: u128 = buckets.iter().map(|(_, count)| u128::from(*count)).sum();
    let borne = QUANTILES.into_iter().filter(|(share, _)| bear(*share));
    let quantiles: Vec<_> =
        borne.map(|(share, name)| (name, quantile(&buckets, total, share))).collect();
    let rows = rows(&buckets, &quantiles);

    let gap = if style.unicode { "⋮" } else { ":" };
    let label = |row: &Row| if row.floor == GAP { gap.into() } else { time(row.floor) };
    let floors: Vec<String> = rows.iter().map(label).collect();
    let shares: Vec<String> =
        rows.iter().map(|row| percent(row.count as f64 / total as f64)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let (floor_width, share_width) = (widest(&floors), widest(&shares));
    let marks_width = rows.iter().map(|row| width(&row.marks.join(" "))).max().unwrap_or(0);
    let room =
        style.columns().saturating_sub(floor_width + share_width + marks_width + 6).clamp(4, 60);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1);

    let mut out = String::new();
    for ((row, floor), share) in rows.iter().zip(&floors).zip(&shares) {
        let bar = bar(row.count, most, room, style);
        let padding = " ".repeat(room - width(&bar));
        let marks = style.paint(Paint::Strong, &row.marks.join(" "));
        let share = if row.count == 0 { "" } else { share };
        let line = format!("{floor:>floor_width$}  {bar}{padding}  {share:>share_width$}  {marks}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let figures: Vec<String> =
        quantiles.iter().map(|(name, floor)| format!("{name} {}", time(*floor))).collect();
    let total = count(u64::try_from(total).unwrap_or(u64::MAX));
    let (figures, ends) = match figures.is_empty() {
        true => (String::new(), ""),
        false => (figures.join(", ") + " over ", "; a figure is the lower end of its bucket"),
    };
    out.push('\n');
    paragraph(&mut out, 0, &format!("{figures}{total} latencies"), style);
    paragraph(&mut out, 0, &format!("bars: logarithm of the count{ends}"), style);
    out
}

/// Whole nanoseconds as such, longer times with three digits.
pub fn time(floor: u64) -> String {
    if floor < 1000 { format!("{floor} ns") } else { ns(floor as f64) }
}

/// The floor of the bucket in which the share is reached.
pub fn quantile(sorted: &[(u64, u64)], total: u128, share: f64) -> u64 {
    let wanted = (total as f64 * share).ceil() as u128;
    let mut seen = 0;
    for (floor, count) in sorted {
        seen += u128::from(*count);
        if seen >= wanted {
            return *floor;
        }
    }
    sorted.last().map_or(0, |(floor, _)| *floor)
}

/// Rows from the lowest to the highest latency, as fine as [`MOST_ROWS`] allows when stretches
/// without any are one row.
fn rows(buckets: &[(u64, u64)], quantiles: &[(&'static str, u64)]) -> Vec<Row> {
    let at = |scale: Scale| {
        let mut places: BTreeMap<u64, Row> = BTreeMap::new();
        for (ns, count) in buckets {
            let place = scale.place(*ns);
            let floor = scale.floor(place);
            let row = places.entry(place).or_insert(Row { floor, count: 0, marks: Vec::new() });
            row.count = row.count.saturating_add(*count);
        }
        for (name, ns) in quantiles {
            places.entry(scale.place(*ns)).and_modify(|row| row.marks.push(name));
        }
        let mut rows = Vec::new();
        let mut next = None;
        for (place, row) in places {
            // A gap of one is shown as what it is; a longer one as one row.
            match next.map(|next| place - next) {
                Some(1) => {
                    rows.push(Row { floor: scale.floor(place - 1), count: 0, marks: Vec::new() })
                }
                Some(gap) if gap > 1 => rows.push(Row { floor: GAP, count: 0, marks: Vec::new() }),
                _ => {}
            }
            next = Some(place + 1);
            rows.push(row);
        }
        rows
    };
    let scales =
        [Scale::Parts(8), Scale::Parts(4), Scale::Parts(2), Scale::Parts(1), Scale::Octaves(2)];
    scales
        .into_iter()
        .map(at)
        .find(|rows| rows.len() <= MOST_ROWS)
        .unwrap_or_else(|| at(Scale::Octaves(4)))
}

/// Where rows begin.
#[derive(Clone, Copy)]
enum Scale {
    /// Each power of two in so many equal parts; latencies are recorded in eighths or finer.
    Parts(u64),
    /// So many powers of two in a row.
    Octaves(u64),
}

impl Scale {
    // 0 ns shares the row of 1 ns: the axis is logarithmic.
    fn place(self, ns: u64) -> u64 {
        let ns = ns.max(1);
        let octave = u64::from(ns.ilog2());
        match self {
            Scale::Parts(parts) => {
                let above = u128::from(ns - (1 << octave));
                octave * parts + ((above * u128::from(parts)) >> octave) as u64
            }
            Scale::Octaves(octaves) => octave / octaves,
        }
    }

    /// The lowest latency of a row, in whole ns.
    fn floor(self, place: u64) -> u64 {
        match self {
            Scale::Parts(parts) => {
                let one = 1u128 << (place / parts);
                (one + (one * u128::from(place % parts)).div_ceil(u128::from(parts))) as u64
            }
            Scale::Octaves(octaves) => 1 << (place * octaves),
        }
    }
}

/// As long as the logarithm of the count, and never empty for a count above 0.
fn bar(count: u64, most: u64, room: usize, style: &Style) -> String {
    if count == 0 {
        return String::new();
    }
    let share = (count as f64 + 1.0).ln() / (most as f64 + 1.0).ln();
    if !style.unicode {
        return "#".repeat(((share * room as f64).round() as usize).clamp(1, room));
    }
    let eighths = ((share * room as f64 * 8.0).round() as usize).clamp(1, room * 8);
    let part = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(part[eighths % 8 - 1]);
    }
    bar
}
