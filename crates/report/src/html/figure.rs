//! A figure: what is drawn as JSON, a caption, and the same numbers as a table.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

/// What the page's script draws: a kind that it knows, and what it is drawn from.
#[derive(Debug, Serialize)]
pub(crate) struct Chart<T> {
    kind: &'static str,
    #[serde(flatten)]
    drawn: T,
}

impl<T: Serialize> Chart<T> {
    /// Such as `frontier`, with points that have whiskers in both directions.
    pub(crate) fn new(kind: &'static str, drawn: T) -> Self {
        Self { kind, drawn }
    }
}

/// A chart of any kind, as JSON.
pub(crate) trait Drawable {
    fn json(&self) -> Markup;
}

impl<T: Serialize> Drawable for Chart<T> {
    fn json(&self) -> Markup {
        json(self)
    }
}

/// A hover text: its heading, then names and values.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tip(pub String, pub Vec<(String, String)>);

impl Tip {
    /// With its heading alone.
    pub fn new(title: impl Into<String>) -> Self {
        Self(title.into(), Vec::new())
    }

    /// The same with one more name and value.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.1.push((name.into(), value.into()));
        self
    }
}

/// A table whose cells are coloured.
#[derive(Debug, Serialize)]
pub(crate) struct Heat {
    pub columns: Vec<String>,
    pub rows: Vec<String>,
    pub cells: Vec<HeatCell>,
    /// `more` is dearer: from pale to dark; else coloured to both sides of 1.
    pub scale: Scale,
    /// The least and the greatest value over all figures that are to be compared.
    pub range: (f64, f64),
}

/// How values become colours; both on a logarithmic scale.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// Pale to dark.
    More,
    /// Two colours around 1.
    Around,
}

#[derive(Debug, Serialize)]
pub(crate) struct HeatCell {
    pub column: usize,
    pub row: usize,
    /// What is coloured; none for a cell that says something else.
    pub value: Option<f64>,
    pub text: String,
    /// Of no weight: not flushed, or no change that the interval bears out.
    pub faint: bool,
    pub tip: Tip,
}

/// Figures with intervals, a row each.
#[derive(Debug, Serialize)]
pub struct Ranges {
    /// What the axis shows.
    pub axis: String,
    /// `slowdown`, `ns`.
    pub unit: &'static str,
    /// From top to bottom.
    pub rows: Vec<RangeRow>,
    /// A value that rows are compared with, and its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<(f64, &'static str)>,
}

/// A figure with its interval.
#[derive(Debug, Serialize)]
pub struct RangeRow {
    /// What it is of.
    pub name: String,
    /// `good`, `bad`, `other`, or the colour of a method to write.
    pub color: String,
    /// Of no weight.
    pub faint: bool,
    /// Value, lower and upper bound.
    pub figure: Option<[f64; 3]>,
    /// What stands beside it.
    pub text: String,
    /// What is shown where one points at it.
    pub tip: Tip,
}

impl Ranges {
    /// The figure of them, as high as its rows want.
    pub fn figure(self, title: &str, explanation: &str, table: Markup) -> Markup {
        let height = 64 + 26 * self.rows.len() as u32 + if self.mark.is_some() { 16 } else { 0 };
        let chart = &Chart::new("ranges", self);
        Figure { title, explanation, chart, height, legend: html! {}, table }.render()
    }
}

/// A figure with its caption and its table.
pub(crate) struct Figure<'a> {
    /// What it shows, in a few words.
    pub title: &'a str,
    /// How to read it.
    pub explanation: &'a str,
    pub chart: &'a dyn Drawable,
    /// Height in px.
    pub height: u32,
    /// What colours and shapes mean.
    pub legend: Markup,
    pub table: Markup,
}

impl Figure<'_> {
    pub(crate) fn render(&self) -> Markup {
        html! {
            figure {
                figcaption {
                    strong { (self.title) }
                    @if !self.explanation.is_empty() { " " span { (self.explanation) } }
                }
                (self.legend)
                div class="chart"
                    role="img"
                    aria-label=(self.title)
                    style={ "height:" (self.height) "px" }
                {
                    script type="application/json" { (self.chart.json()) }
                }
                details class="numbers" {
                    summary { "Numbers" span class="unseen" { " of: " (self.title) } }
                    (self.table)
                }
            }
        }
    }
}

/// JSON for a script element: nothing in it can end the element or begin a comment.
fn json(value: &impl Serialize) -> Markup {
    let text = serde_json::to_string(value).expect("figures have text keys only");
    let safe: String = text
        .chars()
        .map(|c| match c {
            // Inside JSON these occur in texts alone, where an escape stands for the same
            // character.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    PreEscaped(safe)
}

/// Colours and shapes of cases that are compared with each other; of more than these, colours and
/// shapes say nothing.
pub(crate) const LOOKS: [(&str, &str); 7] = [
    ("plain", "dot"),
    ("clflush", "triangle"),
    ("clwb", "square"),
    ("nt", "diamond"),
    ("msync", "dot"),
    ("clflushopt", "triangle"),
    ("alu", "square"),
];

/// Of figures with the methods of a survey.
pub(crate) const NT: &str = "nt: non-temporal stores, which bypass the cache.";

/// A swatch and its name for each colour.
pub(crate) fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Markup {
    html! {
        ul class="legend" {
            @for (shape, color, name) in entries {
                li { span class={ "swatch " (shape) } data-color=(color) {} (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_leave_its_element() {
        let text = "</script><!-- & \u{2028}\u{2029}\"\\";
        let safe = json(&text).into_string();
        assert!(!safe.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }
}
