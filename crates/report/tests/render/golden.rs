//! Comparing with the files in `tests/golden`, each named `WHAT.WIDTH.txt`.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_report::Style;
use unicode_width::UnicodeWidthStr;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Renders in ASCII at both widths, compares each with its file, and checks that colours change
/// nothing but colours.
#[track_caller]
pub fn check(name: &str, render: impl Fn(&Style) -> String) {
    check_form(name, false, render);
}

/// The same in the form with details.
#[track_caller]
pub fn check_details(name: &str, render: impl Fn(&Style) -> String) {
    check_form(name, true, render);
}

/// Both forms; the files of that with details are named `WHAT-details`.
#[track_caller]
pub fn check_both(name: &str, render: impl Fn(&Style) -> String) {
    check(name, &render);
    check_details(&format!("{name}-details"), &render);
}

#[track_caller]
fn check_form(name: &str, details: bool, render: impl Fn(&Style) -> String) {
    for width in [80, 120] {
        let plain = Style { details, ..Style::plain(width) };
        let text = render(&plain);
        let path = folder().join(format!("{name}.{width}.txt"));
        if std::env::var_os("RINGFENCE_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{} differs; RINGFENCE_BLESS=1 accepts it", path.display());
        let colored = render(&Style { color: true, ..plain });
        assert_eq!(without_escapes(&colored), text, "{name} at {width} in colour");
    }
    for width in [40, 57, 80, 100, 120, 200] {
        for unicode in [false, true] {
            let text = render(&Style { color: false, width, unicode, details });
            sound(&format!("{name} at {width}"), &text, width, unicode);
        }
    }
}

/// What holds for every output.
#[track_caller]
fn sound(name: &str, text: &str, width: usize, unicode: bool) {
    assert!(text.is_empty() || text.ends_with('\n'), "{name} ends within a line");
    assert!(unicode || text.is_ascii(), "{name} is beyond ASCII: {text}");
    for line in text.lines() {
        assert!(line.width() <= width, "{name} is too wide: {line:?}");
        assert!(line.trim_end() == line, "{name} has trailing spaces: {line:?}");
        assert!(!line.chars().any(char::is_control), "{name} has control characters: {line:?}");
        let words = line.split(|c: char| !c.is_alphabetic());
        assert!(words.clone().all(|word| word != "NaN" && word != "inf"), "{name}: {line:?}");
    }
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        plain.push_str(part.split_once('m').unwrap().1);
    }
    // What was cut off a line's end in ASCII may have been spaces between two escapes.
    plain.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn no_file_is_wider_than_it_says() {
    let mut files = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let width = name.split('.').nth(1).unwrap().parse().unwrap();
        sound(&name, &fs::read_to_string(&path).unwrap(), width, false);
        files += 1;
    }
    assert!(files > 0);
}
