//! The mounts of the system, and layers over them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A file system that is mounted somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mounted {
    pub at: PathBuf,
    pub kind: String,
}

/// Those of the system, each once, a folder before what lies in it. Of several at one place the
/// last one counts.
pub(super) fn mounted() -> io::Result<Vec<Mounted>> {
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?))
}

fn parse(text: &str) -> Vec<Mounted> {
    struct Line {
        id: u64,
        parent: u64,
        mounted: Mounted,
    }
    let line = |line: &str| {
        let (about, of) = line.split_once(" - ")?;
        let mut words = about.split(' ');
        let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (at, kind) = (unescaped(words.nth(2)?), of.split(' ').next()?.to_owned());
        Some(Line { id, parent, mounted: Mounted { at, kind } })
    };
    let lines: Vec<Line> = text.lines().filter_map(line).collect();
    let covers = |over: &Line, one: &Line| {
        let (above, below) = (&over.mounted.at, &one.mounted.at);
        let on_it = over.parent == one.id && above == below;
        let around = over.parent == one.parent && above != below && below.starts_with(above);
        on_it || around
    };
    let is_seen = |one: &&Line| !lines.iter().any(|over| covers(over, one));
    let mut all: Vec<Mounted> =
        lines.iter().filter(is_seen).map(|line| line.mounted.clone()).collect();
    all.sort_by(|one, other| one.at.cmp(&other.at));
    all.dedup_by(|one, other| one.at == other.at);
    all
}

// Spaces and the like are octal numbers (proc(5)).
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let number = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &more[3..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_at_a_place_counts() {
        let text = "22 27 0:21 / /proc rw - proc proc rw\n\
                    27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    28 27 0:5 / /a\\040b rw - tmpfs x rw\n\
                    29 28 0:6 / /a\\040b rw - ext4 y rw\n\
                    30 27 0:7 / /c/d rw - tmpfs z rw\n\
                    31 27 0:8 / /c rw - tmpfs z rw\n";
        let found = parse(text);
        let at: Vec<&str> = found.iter().map(|one| one.at.to_str().unwrap()).collect();
        assert_eq!(at, ["/", "/a b", "/c", "/proc"]);
        assert_eq!(found[1].kind, "ext4");
    }
}
