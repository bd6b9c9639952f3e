//! The frontier: what is written against what it slows down.

use maud::{Markup, html};
use ringfence_analysis::frontier::{Better, Frontier, Point, Reached, Standing, Writer};
use ringfence_experiment::task::Instruction;
use serde::Serialize;

use crate::html::Section;
use crate::html::figure::{Chart, Figure, Tip, legend};
use crate::html::table::{Align, table};
use crate::numbers;

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    pub x: String,
    pub y: String,
    pub points: Vec<DrawnPoint>,
    /// Whether the first is a time in ns, and no slowdown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ns: bool,
    /// The first value without a co-runner, if not 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<f64>,
    /// What is counted, where that is not bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DrawnPoint {
    pub name: String,
    pub color: &'static str,
    pub standing: Standing,
    pub paced: bool,
    /// Slowdown: value, lower and upper bound.
    pub x: [f64; 3],
    /// Bytes a second, the same.
    pub y: [f64; 3],
    pub tip: Tip,
}

/// The colour of an instruction, by its name in tables.
pub(crate) fn color(name: &str) -> &'static str {
    let named =
        |instruction: &Instruction| instruction.label() == name || instruction.name() == name;
    match Instruction::ALL.into_iter().find(named) {
        Some(Instruction::None) => "plain",
        Some(instruction) => instruction.name(),
        None if name == "alu" => "alu",
        None => "other",
    }
}

/// Why there is no figure, if so.
fn missing(frontier: &Frontier) -> Option<&'static str> {
    if frontier.points.is_empty() {
        Some("There is no frontier here: nothing writes in this experiment.")
    } else if frontier.victim.is_none() {
        Some(
            "There is no frontier here: this experiment measures costs only, without a victim to \
             disturb ('ringfence neighbours' and 'ringfence survey' have one).",
        )
    } else {
        None
    }
}

/// The frontier of an experiment; none where no role writes.
pub(crate) fn section(frontier: &Frontier) -> Option<Section> {
    if frontier.points.is_empty() {
        return None;
    }
    let body = match missing(frontier) {
        Some(why) => html! { p { (why) } },
        None => figure(frontier, 420)?,
    };
    Some(Section { id: "frontier", title: "Frontier".into(), body })
}

/// The figure; none where no method has both figures.
pub(crate) fn figure(frontier: &Frontier, height: u32) -> Option<Markup> {
    let victim = frontier.victim.as_deref()?;
    let written = match frontier.reached {
        Reached::Flushed => "flushed",
        Reached::Durable => "made durable",
    };
    let points: Vec<DrawnPoint> =
        frontier.points.iter().filter_map(|point| drawn(frontier, point, victim)).collect();
    if points.is_empty() {
        return None;
    }
    let mut entries: Vec<(&str, &str, &str)> = Vec::new();
    for point in frontier.points.iter().filter(|point| drawn(frontier, point, victim).is_some()) {
        let name = instruction(point);
        if point.fenced() && !entries.iter().any(|(_, _, known)| *known == name) {
            entries.push(("dot", color(name), name));
        }
    }
    if points.iter().any(|point| point.paced) {
        entries.push(("triangle", "ink", "paced to one rate"));
    }
    let left_out = frontier.points.len() - points.len();
    let mut explanation =
        "Higher is more written, further left is gentler on the victim. Bars are \
                           intervals, with an arrow where they go on beyond the frame. Efficient: \
                           the fastest, and every method that is gentler than all faster \
                           ones."
            .to_owned();
    if left_out > 0 {
        explanation += &format!(
            " Not drawn, because a figure is missing: {left_out} of {} methods.",
            frontier.points.len()
        );
    }
    entries.push(("ring", "ink", "efficient"));
    if points.iter().any(|point| matches!(point.standing, Standing::Unfenced)) {
        entries.push(("diamond", "plain", "not flushed when the writer moves on"));
    }
    let chart = Chart::new(
        "frontier",
        Drawn {
            x: format!("slowdown of {victim}"),
            y: format!("{written}, bytes a second"),
            points,
            ns: false,
            alone: None,
            count: None,
        },
    );
    let title = format!("Bytes {written} against the slowdown of {victim}");
    Some(
        Figure {
            title: &title,
            explanation: &explanation,
            chart: &chart,
            height,
            legend: legend(entries),
            table: numbers_table(frontier),
        }
        .render(),
    )
}

fn instruction(point: &Point) -> &'static str {
    point.writers.first().map_or("", |writer| writer.write.instruction.label())
}

fn name(point: &Point) -> String {
    let pace = point.writers.iter().find_map(|writer| writer.write.pace);
    // The plan's words say what varied; without any, how it writes.
    let words = point.label.strip_prefix("write ").unwrap_or(&point.label);
    let words = match words.strip_prefix("none") {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => format!("plain store{rest}"),
        _ => words.to_owned(),
    };
    let words = words.replace("block=", "");
    pace.map_or(words.clone(), |pace| format!("{words}, {pace}"))
}

fn how(writer: &Writer) -> String {
    let write = &writer.write;
    let text = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let word = |value: Result<serde_json::Value, _>| value.map(text).unwrap_or_default();
    let fence = match word(serde_json::to_value(write.fence_at)).as_str() {
        "none" => "no fence".into(),
        at => format!("{} at {at}", word(serde_json::to_value(write.fence))),
    };
    let batch =
        if write.batch > 1 { format!(" every {} blocks", write.batch) } else { String::new() };
    let count = if writer.count > 1 { format!("{} x ", writer.count) } else { String::new() };
    let pace = write.pace.map_or(String::new(), |pace| format!(", at most {pace}"));
    let instruction = write.instruction.label();
    format!("{count}{instruction}, {} blocks, {fence}{batch}{pace}", write.block)
}

fn standing(frontier: &Frontier, point: &Point) -> &'static str {
    match point.standing {
        Standing::Efficient => "efficient",
        Standing::Close => "a faster one may be as gentle",
        Standing::Beaten => match frontier.beaten_in(point) {
            Some(Better::Faster) => "another one writes more and may be as gentle",
            Some(Better::Gentler) => "another one is gentler and may write as much",
            Some(Better::Both) => "another one writes more and is gentler",
            None => "another one writes more or is gentler",
        },
        Standing::Unfenced => "not flushed when the writer moves on",
        Standing::Incomplete => "a figure is missing",
    }
}

fn drawn(frontier: &Frontier, point: &Point, victim: &str) -> Option<DrawnPoint> {
    let (rate, slowdown) = (point.bytes_per_s.ok()?, point.slowdown?.ok()?);
    let mut tip = Tip::new(name(point))
        .with(victim, numbers::slowdown(&slowdown))
        .with("written", numbers::bytes_per_s_interval(&rate));
    for writer in &point.writers {
        tip = tip.with(&writer.role, how(writer));
    }
    Some(DrawnPoint {
        name: name(point),
        color: color(instruction(point)),
        standing: point.standing,
        paced: point.paced(),
        x: [slowdown.value, slowdown.low, slowdown.high],
        y: [rate.value, rate.low, rate.high],
        tip: tip.with("stands", standing(frontier, point)),
    })
}

fn numbers_table(frontier: &Frontier) -> Markup {
    let heads = [
        ("method", Align::Left),
        ("writers", Align::Left),
        ("written", Align::Right),
        ("slowdown", Align::Right),
        ("stands", Align::Left),
    ];
    let rows: Vec<Vec<String>> = frontier
        .points
        .iter()
        .map(|point| {
            let rate = match &point.bytes_per_s {
                Ok(rate) => numbers::bytes_per_s_interval(rate),
                Err(reason) => reason.told(),
            };
            let slowdown = match &point.slowdown {
                Some(slowdown) => numbers::slowdown_estimate(slowdown),
                None => String::new(),
            };
            let writers: Vec<String> = point.writers.iter().map(how).collect();
            vec![name(point), writers.join("; "), rate, slowdown, standing(frontier, point).into()]
        })
        .collect();
    table("Every method with what it writes and how it slows the victim", &heads, &rows)
}

#[cfg(test)]
mod tests {
    use ringfence_analysis::estimate::Interval;
    use ringfence_analysis::frontier::judge;

    use super::*;

    fn point(bytes: [f64; 3], slowdown: [f64; 3]) -> Point {
        let interval = |[low, value, high]: [f64; 3]| {
            Ok(Interval { value, low, high, level: 0.95, trials: 20, spread: 0.1, slack: 0.0 })
        };
        Point {
            case: 0,
            label: String::new(),
            writers: Vec::new(),
            bytes_per_s: interval(bytes),
            slowdown: Some(interval(slowdown)),
            standing: Standing::Incomplete,
        }
    }

    #[test]
    fn another_one_is_said_to_be_better_only_where_the_intervals_say_so() {
        let (fast, slow, either) = ([7.9, 8.0, 8.1], [3.9, 4.0, 4.1], [2.0, 7.0, 9.0]);
        let (gentle, harsh, unclear) = ([1.0, 1.1, 1.2], [1.9, 2.0, 2.1], [1.0, 1.4, 2.0]);
        let told = |bytes: [f64; 3], slowdown: [f64; 3]| {
            let mut points = vec![point(fast, gentle), point(bytes, slowdown)];
            judge(&mut points);
            let frontier = Frontier { victim: None, reached: Reached::Flushed, points };
            standing(&frontier, &frontier.points[1])
        };
        assert_eq!(told(slow, harsh), "another one writes more and is gentler");
        assert_eq!(told(slow, unclear), "another one writes more and may be as gentle");
        assert_eq!(told(slow, gentle), "another one writes more and may be as gentle");
        assert_eq!(told(either, harsh), "another one is gentler and may write as much");
        assert_eq!(told(either, unclear), "a faster one may be as gentle");
    }
}
