//! How latencies are spread: bars over a logarithmic axis.

use crate::numbers::{count, ns, percent};
use crate::style::{Paint, Style};
use crate::text::{paragraph, width};

/// Rows, at most.
const MOST_ROWS: usize = 24;

/// Shares of which the quantile is shown.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// A row: latencies from `floor` up to the next row's floor.
struct Row {
    floor: f64,
    count: u64,
    marks: Vec<&'static str>,
}

/// A latency histogram. Buckets are (lowest latency in ns, count), in any order; a bucket reaches
/// up to the next one's floor. Rows are a constant factor apart, and bars are as long as the
/// logarithm of the count, so that the tail can be seen.
pub fn histogram(buckets: &[(u64, u64)], style: &Style) -> String {
    let mut buckets: Vec<(u64, u64)> = buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
    buckets.sort_unstable();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return "no latencies were recorded\n".into();
    };
    let total: u128 = buckets.iter().map(|(_, count)| u128::from(*count)).sum();
    let quantiles = QUANTILES.map(|(share, name)| (name, quantile(&buckets, total, share)));
    let rows = rows(&buckets, (first.0, last.0), &quantiles);

    let floors: Vec<String> = rows.iter().map(|row| ns(row.floor)).collect();
    let shares: Vec<String> = rows.iter().map(|row| percent(row.count as f64 / total as f64)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let (floor_width, share_width) = (widest(&floors), widest(&shares));
    let marks_width = rows.iter().map(|row| width(&row.marks.join(" "))).max().unwrap_or(0);
    let room = style.columns().saturating_sub(floor_width + share_width + marks_width + 6).clamp(4, 60);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1);

    let mut out = String::new();
    for ((row, floor), share) in rows.iter().zip(&floors).zip(&shares) {
        let bar = bar(row.count, most, room, style);
        let padding = " ".repeat(room - width(&bar));
        let marks = style.paint(Paint::Strong, &row.marks.join(" "));
        let share = if row.count == 0 { "" } else { share };
        let line =
            format!("{floor:>floor_width$}  {bar}{padding}  {share:>share_width$}  {marks}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let figures: Vec<String> = quantiles.iter().map(|(name, floor)| format!("{name} {}", ns(*floor as f64))).collect();
    let total = count(u64::try_from(total).unwrap_or(u64::MAX));
    out.push('\n');
    paragraph(&mut out, 0, &format!("{} over {total} latencies", figures.join(", ")), style);
    paragraph(&mut out, 0, "bars: logarithm of the count; a figure is the lower end of its bucket", style);
    out
}

/// The floor of the bucket in which the share is reached.
fn quantile(sorted: &[(u64, u64)], total: u128, share: f64) -> u64 {
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

fn rows(buckets: &[(u64, u64)], (low, high): (u64, u64), quantiles: &[(&'static str, u64)]) -> Vec<Row> {
    // Floors of 0 ns share the row of 1 ns: the axis is logarithmic.
    let log = |ns: u64| (ns.max(1) as f64).log2();
    // Rows per power of two: the most that still give few enough rows.
    let span = |per_octave: f64| {
        let place = |ns: u64| (log(ns) * per_octave + 1e-9).floor() as i64;
        (place(low), place(high))
    };
    let steps = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25];
    let fits = |per_octave: &&f64| {
        let (first, last) = span(**per_octave);
        last - first < MOST_ROWS as i64
    };
    let per_octave = *steps.iter().find(fits).unwrap_or(&0.25);
    let (first, last) = span(per_octave);
    let place = |ns: u64| ((log(ns) * per_octave + 1e-9).floor() as i64 - first) as usize;
    let floor = |row: i64| (row as f64 / per_octave).exp2();
    let mut rows: Vec<Row> =
        (first..=last).map(|row| Row { floor: floor(row), count: 0, marks: Vec::new() }).collect();
    for (ns, count) in buckets {
        let row = &mut rows[place(*ns)];
        row.count = row.count.saturating_add(*count);
    }
    for (name, ns) in quantiles {
        rows[place(*ns)].marks.push(name);
    }
    rows
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
    if eighths % 8 > 0 {
        bar.push(part[eighths % 8 - 1]);
    }
    bar
}
