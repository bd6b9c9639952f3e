//! Figures stay in one piece: no line ends within `+0.5 %`, `12 345`, `3.41 GB/s` or `[1.0, 2.3]`.

/// Units that follow a figure and a space.
const UNITS: [&str; 18] = [
    "%", "ns", "us", "ms", "s", "min", "h", "d", "B", "B/s", "kB/s", "MB/s", "GB/s", "MiB/s",
    "GHz", "k", "M", "G",
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
mod tests {
    use super::*;

    // With `_` for a space at which no line may end.
    fn shown(text: &str) -> String {
        unbroken(text).replace(NO_BREAK, "_")
    }

    #[test]
    fn figures_are_in_one_piece() {
        for (text, expected) in [
            (
                "slower by +0.5 % [+0.2, +0.8], 95 % of it",
                "slower by +0.5_% [+0.2,_+0.8], 95_% of it",
            ),
            (
                "12.1x [11.8, 12.4] at 3.41 GB/s, for 1 min 20 s",
                "12.1x [11.8,_12.4] at 3.41_GB/s, for 1_min 20_s",
            ),
            ("0 % [0 %, 84.2 %]", "0_% [0_%,_84.2_%]"),
            ("12 345 678 samples", "12_345_678 samples"),
            ("[1.2e8, 3.4e9] [-0.1, 0]", "[1.2e8,_3.4e9] [-0.1,_0]"),
            ("<td>5 %</td><td>3.2 ns</td>", "<td>5_%</td><td>3.2_ns</td>"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn words_are_not() {
        for text in [
            "trial 3 said so, 4 sets, 5 more",
            "CPUs 0, 1 and 2000",
            "[lo, hi] and [1, b] or [1.0, 2.3",
            "at 9 1234 and 7 12",
            "",
            " ",
            "%",
        ] {
            assert_eq!(shown(text), text);
        }
    }
}
