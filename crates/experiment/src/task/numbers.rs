//! Numbers as programs print them, with the unit behind them.

/// Units of time, in ns. Without minutes and hours: an 'm' or an 'h' behind a number is more often
/// something else.
pub const TIMES: [(&str, f64); 12] = [
    ("ns", 1.0),
    ("nsec", 1.0),
    ("us", 1e3),
    ("usec", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("msec", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("secs", 1e9),
    ("seconds", 1e9),
];
// Eleven days: whatever is longer is no latency.
const LONGEST_NS: f64 = 1e15;

/// The first number with a unit of time in a line, in ns: `310us`, `0.31 ms` and `took 3.1e-4 s`
/// are all 310,000.
///
/// Numbers that are part of a word, of a time of day or of a number with commas are passed over,
/// and so are negative ones.
pub fn latency_in(line: &str) -> Option<u64> {
    let mut from = 0;
    while let Some(at) = line[from..].find(|c: char| c.is_ascii_digit()).map(|at| at + from) {
        let length = number_length(&line[at..]);
        from = at + length;
        let rest = &line[from..];
        let unit = unit_of(rest.strip_prefix([' ', '\t']).unwrap_or(rest), &TIMES);
        // A number such as .5 begins with its point.
        let begin = if is_point(line, at) { at - 1 } else { at };
        if let (false, Some((scale, _))) = (is_inside(line, begin), unit) {
            let ns = line[begin..from].parse::<f64>().ok()? * scale;
            if ns < LONGEST_NS {
                return Some(ns.round() as u64);
            }
        }
    }
    None
}

fn is_point(line: &str, at: usize) -> bool {
    line[..at].ends_with('.') && !line[..at - 1].ends_with(|c: char| c.is_alphanumeric())
}

// Whether what begins there goes on from something else.
fn is_inside(line: &str, at: usize) -> bool {
    line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | ':' | '-' | '_'))
}

/// How many bytes at the begin of a text are a number, such as `12`, `.5` or `1.5e-3`; 0 where none
/// is.
pub fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
    }
    if length > 0 && matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let power = digits((length + 1 + sign).min(bytes.len()));
        if power > 0 {
            length += 1 + sign + power;
        }
    }
    length
}

/// The unit that a text begins with as a whole word: what it stands for, and its length.
pub fn unit_of(text: &str, units: &[(&str, f64)]) -> Option<(f64, usize)> {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    units.iter().find(|(name, _)| *name == &text[..end]).map(|(_, scale)| (*scale, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_the_first_number_with_a_unit_of_time() {
        for (line, ns) in [
            ("0.31 ms", 310_000),
            ("310us", 310_000),
            ("310 us", 310_000),
            ("0.00031s", 310_000),
            ("12345ns", 12_345),
            ("3.1e-4 s", 310_000),
            (".5ms", 500_000),
            ("request 17 took 310\u{b5}s, of 1 s", 310_000),
            ("12:05:31 GET /a?b=2 latency=310us", 310_000),
            ("p99 2 s", 2_000_000_000),
            ("(4 ms)", 4_000_000),
            ("0 ns", 0),
        ] {
            assert_eq!(latency_in(line), Some(ns), "{line}");
        }
    }

    #[test]
    fn what_is_no_latency_is_none() {
        for line in [
            "",
            "ready",
            "310",
            "12 ops/s",
            "12 scans",
            "p99s",
            "12:05:31 s",
            "1,234 us",
            "0,31 ms",
            "-5 ms",
            "v1.5 s",
            "1e300 s",
            "5\u{202f}ms",
            "7e ms",
        ] {
            assert_eq!(latency_in(line), None, "{line}");
        }
    }
}
