//! Whether commands print the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use ringfence_machine::text::printable;
use ringfence_sysfs::checksum;

/// Where two files differ first, in words; none where they are the same.
///
/// # Errors
/// Where one cannot be read.
pub fn difference(one: &Path, other: &Path) -> io::Result<Option<Difference>> {
    let sums = (checksum::of(&mut File::open(one)?)?, checksum::of(&mut File::open(other)?)?);
    if sums.0 == sums.1 {
        return Ok(None);
    }
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    let mut number = 0;
    loop {
        number += 1;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let read = (one.read_until(b'\n', &mut a)?, other.read_until(b'\n', &mut b)?);
        if a != b || read == (0, 0) {
            let shown = |bytes: &[u8]| if bytes.is_empty() { None } else { Some(line(bytes)) };
            return Ok(Some(Difference { line: number, first: shown(&a), second: shown(&b) }));
        }
    }
}

/// The first difference between two outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the line, from 1.
    pub line: u64,
    /// What the first has there; none where it has ended.
    pub first: Option<String>,
    /// What the second has there.
    pub second: Option<String>,
}

impl Difference {
    /// In words.
    pub fn told(&self, first: &str, second: &str) -> String {
        let has = |line: &Option<String>| match line {
            Some(line) => format!("'{line}'"),
            None => "nothing more".into(),
        };
        format!("line {}: {first} has {}, {second} has {}", self.line, has(&self.first), has(&self.second))
    }
}

// Long lines differ somewhere; their beginning must do.
fn line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\n');
    let cut: String = text.chars().take(100).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{more}", printable(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let differ = |a: &str, b: &str| {
            std::fs::write(&one, a).unwrap();
            std::fs::write(&other, b).unwrap();
            difference(&one, &other).unwrap().map(|found| found.told("a", "b"))
        };
        assert_eq!(differ("x\ny\n", "x\ny\n"), None);
        assert_eq!(differ("x\ny\n", "x\nz\n").unwrap(), "line 2: a has 'y', b has 'z'");
        assert_eq!(differ("x\n", "x\nz\n").unwrap(), "line 2: a has nothing more, b has 'z'");
        assert_eq!(differ("", "z").unwrap(), "line 1: a has nothing more, b has 'z'");
    }
}
