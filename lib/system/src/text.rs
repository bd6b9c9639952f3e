//! Text from outside, made fit for a terminal.

use std::borrow::Cow;

/// A text on one line, with control characters and bidirectional overrides written out (`\u{1b}`),
/// so that nothing in a file or a name can steer the terminal of the user that reads it.
///
/// ```
/// use ringfence_system::text::printable;
/// assert_eq!(printable("red\x1b[31m\n"), r"red\u{1b}[31m\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful)
}

/// The same of a text of several lines, whose newlines and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_harmful(c) && !matches!(c, '\n' | '\t'))
}

/// JSON in which the same characters are written as JSON writes them (`\u009b`): a reader gets the
/// original text.
///
/// ```
/// use ringfence_system::text::printable_json;
/// let json = "{\n  \"name\": \"a\u{9b}2J\"\n}";
/// assert_eq!(printable_json(json), "{\n  \"name\": \"a\\u009b2J\"\n}");
/// ```
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && c != '\n';
    if !json.contains(harmful) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        // All of them are below U+10000.
        if harmful(c) { escaped += &format!("\\u{:04x}", u32::from(c)) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

fn escaped(text: &str, harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if harmful(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

// C0, DEL, C1, line and paragraph separators, and what turns the direction of writing (Unicode TR
// 9).
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Names as text: `sda`, `sda and sdb`, `sda, sdb and sdc`.
pub fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert!(matches!(printable("plain – ä"), Cow::Borrowed("plain – ä")));
        assert_eq!(
            printable("a\tb\r\u{7f}\u{9b}2J\u{202e}x\0"),
            r"a\tb\r\u{7f}\u{9b}2J\u{202e}x\u{0}"
        );
        assert_eq!(printable_lines("a\n\tb\x1b]0;t\x07"), "a\n\tb\\u{1b}]0;t\\u{7}");
    }
}
