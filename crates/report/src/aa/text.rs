//! What an A/A experiment says of the machine's noise.

use ringfence_analysis::estimate::{AaSummary, FEWEST_TRIALS};

use crate::numbers;
use crate::style::Style;
use crate::text::{capital, heading, paragraph};

/// Renders how often experiments saw an effect that is not there, and the least effect that they
/// see.
pub fn aa(summary: &AaSummary, style: &Style) -> String {
    let mut out = String::new();
    if !style.details {
        for (number, sentence) in sentences(summary).iter().enumerate() {
            let sentence = format!("{}.", capital(sentence));
            match number {
                0 => heading(&mut out, &sentence, style),
                _ => paragraph(&mut out, 0, &sentence, style),
            }
        }
        return out;
    }
    heading(&mut out, "A/A: the same task in both arms", style);
    for sentence in sentences(summary) {
        paragraph(&mut out, 2, &sentence, style);
    }
    out
}

/// The same as sentences.
pub(crate) fn sentences(summary: &AaSummary) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |text: String| said.push(text);
    let of = summary.estimates;
    match &summary.false_alarm_rate {
        Some(rate) => say(format!(
            "{} of {of} experiments saw an effect that is not there: {} [{}, {}]{}",
            summary.false_alarms,
            numbers::percent(rate.value),
            numbers::percent(rate.low),
            numbers::percent(rate.high),
            summary.allowed_rate.map_or(String::new(), |allowed| {
                format!("; {} is what their intervals promise", numbers::percent(allowed))
            }),
        )),
        None if summary.not_estimable > 0 => {
            say(format!("none of {} experiments has a figure", summary.not_estimable));
        }
        None => say("no experiment was complete".into()),
    }
    if summary.not_estimable > 0 {
        let how_many = if of > 0 {
            format!("{} more have none: ", summary.not_estimable)
        } else {
            String::new()
        };
        say(format!(
            "{how_many}a figure needs at least {FEWEST_TRIALS} trials in each experiment, which \
             must not differ too much"
        ));
    }
    if let Some(effect) = summary.smallest_detectable {
        say(format!(
            "experiments of this size find an effect of {} four times out of five; more trials \
             find smaller ones",
            numbers::percent(effect)
        ));
    }
    said
}
