//! Figures stay in one piece: no line ends within `+0.5 %`, `12 345`, `3.41 GB/s` or `[1.0, 2.3]`.

/// Units that follow a figure and a space.
const UNITS: [&str; 18] = [
    "%", "ns", "us", "ms", "s", "min", "h", "d", "B", "B/s", "kB/s", "MB/s", "GB/s", "MiB/s", "GHz", "k",
    "M", "G",
];

/// A space at which no line may end.
pub const NO_BREAK: char = '\u{a0}';

/// The same text with spaces at which no line may end, wherever a figure has spaces.
pub fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        let within = c == ' '
            && match before {
                ',' => within_interval(&text[..at - 1], after),
                before => before.is_ascii_digit() && (unit(after) || group(after)),
            };
        out.push(if within { NO_BREAK } else { c });
        before = c;
    }
    out
}

// Whether a unit comes next, and ends there.
fn unit(after: &str) -> bool {
    let word = after.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '%' | '/'))).next();
    word.is_some_and(|word| UNITS.contains(&word))
}

// Whether three digits come next, as in `12 345`, and end there.
fn group(after: &str) -> bool {
    after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len() == 3
}

// Whether a comma between these is that of `[1.0, 2.3]`.
fn within_interval(before: &str, after: &str) -> bool {
    let figure = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | ' ' | '%');
    let open = before.trim_end_matches(figure);
    let rest = after.trim_start_matches(figure);
    open.ends_with('[') && rest.starts_with(']') && rest.len() < after.len()
}

#[cfg(test)]
#[path = "../../tests/inside/unbroken.rs"]
mod tests;
