//! The answer of `prove`: the verdict and how it is kept, then the figures that it rests on.

use ringfence_experiment::warning;
use ringfence_studies::prove::{Proof, Verdict};

use crate::experiment::text::SIMULATED;
use crate::prove::conclusion::{conclusion, word};
use crate::prove::{details, short};
use crate::style::{Paint, Style};
use crate::text::{command, hanging, heading, paragraph};

/// Renders an answer, the verdict first.
pub fn prove(proof: &Proof, style: &Style) -> String {
    let mut out = String::new();
    if proof.simulated {
        heading(&mut out, SIMULATED, style);
    }
    verdict(&mut out, proof, style);
    let rest = match style.details {
        true => details::render(proof, style),
        false => short::render(proof, style),
    };
    if !rest.is_empty() {
        out.push('\n');
    }
    out + &rest
}

fn verdict(out: &mut String, proof: &Proof, style: &Style) {
    let (word, how) = word(proof);
    let how = if how.is_empty() { String::new() } else { format!(", {how}") };
    let said = conclusion(proof);
    let sentences: Vec<String> =
        [format!("{word}{how}."), said.answer].into_iter().chain(said.besides).collect();
    let mut text = String::new();
    paragraph(&mut text, 0, &sentences.join(" "), style);
    // A word or two at the start of the first line.
    out.push_str(&style.paint(paint(proof.verdict), word));
    out.push_str(&text[word.len()..]);
    if let Some(keep) = &said.keep {
        hanging(out, "keep it: ", None, keep, style);
        said.commands.iter().for_each(|line| command(out, 4, line));
    }
    for note in &said.notes {
        hanging(out, "note: ", None, note, style);
    }
}

fn paint(verdict: Verdict) -> Paint {
    match verdict {
        Verdict::NothingNeeded | Verdict::Met => Paint::Good,
        Verdict::Missed => Paint::Bad,
        Verdict::Undecided | Verdict::NothingHappened | Verdict::SimulatedOnly => Paint::Caution,
    }
}

/// Renders the warnings among these sentences, which stand above everything else.
pub fn warnings(left: &[String], style: &Style) -> String {
    let mut out = String::new();
    for sentence in warning::split(left).0 {
        paragraph(&mut out, 0, sentence, style);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Renders what the user should know of resctrl after a measurement: what another process has
/// changed meanwhile, what could not be restored, which tasks were not in their groups. Empty where
/// there is nothing of the kind.
pub fn left(left: &[String], style: &Style) -> String {
    let mut out = String::new();
    for sentence in warning::split(left).1 {
        paragraph(&mut out, 0, sentence, style);
    }
    out
}
