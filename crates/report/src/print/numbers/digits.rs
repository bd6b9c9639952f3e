//! How many digits a figure deserves.

/// Digits behind the point, at most.
pub(crate) const MOST_DECIMALS: usize = 6;

/// Digits that may follow a figure's first: what differs behind the fourth is not worth reading.
const MOST_BEHIND_FIRST: f64 = 3.0;

/// Figures from here on are written with an exponent.
pub(crate) const SCIENTIFIC_FROM: f64 = 1e7;

/// Figures below this, too.
pub(crate) const SCIENTIFIC_BELOW: f64 = 1e-3;

/// Decimals for a figure, its lower and its upper bound: the last digit is worth at most half of
/// the half-width, and none is shown behind the figure's fourth. At least one digit of the figure
/// shows, whatever the interval.
pub(crate) fn decimals([value, low, high]: [f64; 3]) -> usize {
    let by_width = by_width([value, low, high]) as f64;
    if value == 0.0 {
        return by_width as usize;
    }
    let first = -value.abs().log10().floor();
    by_width.clamp(first, first + MOST_BEHIND_FIRST).clamp(0.0, MOST_DECIMALS as f64) as usize
}

/// Decimals by the interval alone.
pub(crate) fn by_width([value, low, high]: [f64; 3]) -> usize {
    match (high - low) / 2.0 {
        // A point has no width to go by: three digits.
        half if half <= 0.0 => for_three(value),
        // The small subtrahend: 2 / 0.2 may come out as slightly more than 10.
        half => ((2.0 / half).log10() - 1e-9).ceil().clamp(0.0, MOST_DECIMALS as f64) as usize,
    }
}

/// Decimals that show three digits of a figure.
pub(crate) fn for_three(figure: f64) -> usize {
    if figure == 0.0 {
        return 0;
    }
    let d = (2.0 - figure.abs().log10().floor()).clamp(0.0, MOST_DECIMALS as f64) as usize;
    // 9.996 rounds to 10.00: one digit too many.
    if d > 0 && rounded(figure.abs(), d) >= 10f64.powi(3 - d as i32) { d - 1 } else { d }
}

/// A figure with so many decimals, without a minus sign before zeros.
pub(crate) fn number(figure: f64, decimals: usize) -> String {
    let text = format!("{figure:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| matches!(b, b'0' | b'.')) => rest.to_string(),
        _ => text,
    }
}

/// The same with a sign, but none before zeros.
pub(crate) fn signed(figure: f64, decimals: usize) -> String {
    let text = number(figure, decimals);
    if text.bytes().any(|b| matches!(b, b'1'..=b'9')) && !text.starts_with('-') {
        format!("+{text}")
    } else {
        text
    }
}

/// Figures with an exponent each: these are beyond what one compares digit by digit.
pub(crate) fn scientific(figures: [f64; 3]) -> [String; 3] {
    figures.map(|x| format!("{x:.2e}"))
}

/// What a figure shows as.
pub(crate) fn rounded(figure: f64, decimals: usize) -> f64 {
    let scale = 10f64.powi(decimals as i32);
    (figure * scale).round() / scale
}
