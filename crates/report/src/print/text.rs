//! Lines of prose: wrapped, indented, cut, and free of control characters.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::print::numbers::{NO_BREAK, unbroken};
use crate::print::style::{Paint, Style};

/// A text from outside, made harmless to a terminal and to [`crate::print::table`]: one line,
/// without control characters and without characters that take no column but may change others.
pub fn clean(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\t' => ' ',
        // Bidirectional overrides and the format characters that the table uses as marks.
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => '?',
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(harmless).collect()
}

/// Texts without those that came before, in their order.
pub fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A text cut to `columns`, with an ellipsis where something was cut off.
pub fn ellipsize(text: &str, columns: usize, style: &Style) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let room = columns.saturating_sub(width(style.ellipsis()));
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += UnicodeWidthChar::width(c).unwrap_or(0);
        if used > room {
            break;
        }
        cut.push(c);
    }
    cut.trim_end().to_string() + style.ellipsis()
}

/// Appends `head` and `text` to `out`, wrapped, with every line but the first indented by the
/// width of `head`. The head is painted, the text is not.
pub fn hanging(out: &mut String, head: &str, paint: Option<Paint>, text: &str, style: &Style) {
    let indent = " ".repeat(width(head));
    let lines = wrap(text, &indent, style);
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push_str(line);
        } else {
            // Trailing spaces of the head stay outside of the paint.
            let name = head.trim_end();
            out.push_str(&paint.map_or(name.to_string(), |paint| style.paint(paint, name)));
            // The indent is spaces, as many as the head takes columns, whatever its bytes.
            out.push_str(&line[width(name).min(line.len())..]);
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
}

/// Appends a paragraph, every line indented by `indent` spaces and those after the first by two
/// more.
pub fn paragraph(out: &mut String, indent: usize, text: &str, style: &Style) {
    let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
    for line in lines(text, options(style).initial_indent(&first).subsequent_indent(&rest)) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// Appends a command to be pasted into a shell, on a line of its own however long: broken in two it
/// would be two commands.
pub fn command(out: &mut String, indent: usize, command: &str) {
    out.push_str(&" ".repeat(indent));
    out.push_str(&clean(command));
    out.push('\n');
}

/// Appends a painted heading line.
pub fn heading(out: &mut String, text: &str, style: &Style) {
    painted(out, text, Paint::Strong, style);
}

/// Appends a paragraph of secondary interest.
pub fn faint(out: &mut String, text: &str, style: &Style) {
    painted(out, text, Paint::Faint, style);
}

/// Appends a paragraph of one paint.
pub fn painted(out: &mut String, text: &str, paint: Paint, style: &Style) {
    for line in lines(text, options(style)) {
        out.push_str(&style.paint(paint, &line));
        out.push('\n');
    }
}

/// Appends items side by side in columns of equal width.
pub fn grid(out: &mut String, indent: usize, items: &[String], style: &Style) {
    const GAP: usize = 3;
    let room = style.columns().saturating_sub(indent);
    let items: Vec<String> = items.iter().map(|item| ellipsize(item, room, style)).collect();
    let widest = items.iter().map(|item| width(item)).max().unwrap_or(0);
    let in_row = ((room + GAP) / (widest + GAP)).max(1);
    for row in items.chunks(in_row) {
        let mut line = " ".repeat(indent);
        for item in row {
            line.push_str(item);
            line.push_str(&" ".repeat(widest + GAP - width(item)));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// `1 core`, `2 cores`.
pub fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `a, b or c`.
pub fn listed<T: AsRef<str>>(names: &[T], last: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [] => String::new(),
        [one] => one.into(),
        [ref first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// With a capital at its start.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn wrap(text: &str, indent: &str, style: &Style) -> Vec<String> {
    let lines = lines(text, options(style).initial_indent(indent).subsequent_indent(indent));
    if lines.is_empty() { vec![indent.to_string()] } else { lines }
}

// A line does not end within a figure either.
fn lines(text: &str, options: Options) -> Vec<String> {
    let text = unbroken(&clean(text));
    textwrap::wrap(&text, options)
        .iter()
        .map(|line| line.trim_end().replace(NO_BREAK, " "))
        .collect()
}

// Words are broken only where a single one is wider than the line: commands and paths stay whole.
fn options(style: &Style) -> Options<'static> {
    Options::new(style.columns())
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(true)
}

/// One empty line, wherever the text stands.
pub fn section(out: &mut String) {
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(clean("a\x1b[31mb\u{206a}\tc\nd"), "a?[31mb? c d");
    }

    #[test]
    fn a_cut_text_says_so() {
        let style = Style::plain(80);
        assert_eq!(ellipsize("abcdefgh", 8, &style), "abcdefgh");
        assert_eq!(ellipsize("abcdefgh", 7, &style), "abcd...");
        assert_eq!(ellipsize("abc defgh", 7, &style), "abc...");
        assert_eq!(ellipsize("宽宽宽宽", 7, &Style { unicode: true, ..style }), "宽宽宽…");
    }

    #[test]
    fn hanging_lines_align_below_the_text() {
        let mut out = String::new();
        hanging(&mut out, "  cause  ", Some(Paint::Faint), &"word ".repeat(10), &Style::plain(40));
        assert_eq!(out, "  cause  word word word word word word\n         word word word word\n");
        out.clear();
        hanging(&mut out, "  cause  ", None, "", &Style::plain(40));
        assert_eq!(out, "  cause\n");
        out.clear();
        hanging(&mut out, "  • ", None, "ringfence-aggressor", &Style::plain(40));
        assert_eq!(out, "  • ringfence-aggressor\n");
    }

    #[test]
    fn a_command_stays_on_its_line() {
        let mut out = String::new();
        command(&mut out, 4, &format!("echo {}", "word ".repeat(40).trim()));
        assert_eq!(out.lines().count(), 1);
    }

    #[test]
    fn a_grid_fills_the_width() {
        let mut out = String::new();
        let items: Vec<String> = (0..5).map(|i| format!("core {i}: {i}+{}", i + 8)).collect();
        grid(&mut out, 2, &items, &Style::plain(40));
        assert_eq!(
            out,
            "  core 0: 0+8    core 1: 1+9\n  core 2: 2+10   core 3: 3+11\n  core 4: 4+12\n"
        );
    }
}
