//! Whether a proof's measurement means anything.

use ringfence_studies::prove::control::LEAST_RATIO;
use ringfence_studies::prove::{LEAST_BYTES_PER_S, Proof};

use crate::experiment::too_long::too_long;
use crate::numbers::{bytes_per_s, units_per_s};
use crate::text::clean;

/// What tells whether the measurement means anything, in sentences: the control of the victim, and
/// what the aggressor did.
pub(crate) fn checks(proof: &Proof) -> Vec<String> {
    let control = proof.record.control.as_ref().map(|control| match control.ratio() {
        Some(ratio) => format!(
            "Control: stopped half of the time, the victim takes {ratio:.2} times as long{}",
            if ratio >= LEAST_RATIO { "." } else { ", which should be about 2." }
        ),
        None => format!(
            "Control: not possible, because the victim's {} are too short or too few to be stopped \
             half of the time.",
            clean(&control.unit)
        ),
    });
    let worked = proof.record.worked.and_then(|worked| {
        let share = worked.cpu_share()? * 100.0;
        let mut text =
            format!("The aggressor used {} % of a CPU beside the victim", two_digits(share));
        if let Some(bytes) = worked.bytes_per_s().filter(|bytes| *bytes >= LEAST_BYTES_PER_S) {
            text += &format!(", and read or wrote {}", bytes_per_s(bytes));
        }
        if let Some(units) = worked.units.filter(|units| *units > 0) {
            let per_s = units as f64 / worked.used.windows_ns as f64 * 1e9;
            text += &format!(", at {}", units_per_s(per_s, "units of its work"));
        }
        if let Some(starts) = worked.restarts_per_s().filter(|_| worked.used.restarts > 0) {
            text += &format!(
                "; it had ended and was started again {} times a second",
                two_digits(starts)
            );
        }
        Some(text + ".")
    });
    control.into_iter().chain(worked).chain(too_long(proof.too_long)).collect()
}

fn two_digits(value: f64) -> String {
    if value <= 0.0 {
        return "0".into();
    }
    let digits = (1.0 - value.log10().floor()).max(0.0) as usize;
    trimmed_zeros(format!("{value:.digits$}"))
}

fn trimmed_zeros(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
