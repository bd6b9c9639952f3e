//! Whether commands print the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use ringfence_machine::text::printable;
use ringfence_system::checksum;

/// Where two files differ first, in words; none where they are the same.
///
/// # Errors
/// Where one cannot be read.
pub fn difference(one: &Path, other: &Path) -> io::Result<Option<Difference>> {
    let sums = (checksum::of(&mut File::open(one)?)?, checksum::of(&mut File::open(other)?)?);
    if sums.0 == sums.1 {
        return Ok(None);
    }
    let (mut one, mut other) =
        (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    let mut number = 0;
    loop {
        number += 1;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let read = (one.read_until(b'\n', &mut a)?, other.read_until(b'\n', &mut b)?);
        if a != b || read == (0, 0) {
            let differ = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            let shown =
                |bytes: &[u8]| if bytes.is_empty() { None } else { Some(line(bytes, differ)) };
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
            Some(line) => line.clone(),
            None => "nothing more".into(),
        };
        format!(
            "line {}: {first} has {}, {second} has {}",
            self.line,
            has(&self.first),
            has(&self.second)
        )
    }
}

/// So much of a line is shown on each side of where it differs, bytes.
const AROUND: usize = 60;

fn line(bytes: &[u8], differ: usize) -> String {
    let ends = bytes.ends_with(b"\n");
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let from = differ.saturating_sub(AROUND).min(bytes.len());
    let to = (differ + AROUND).min(bytes.len());
    let shown = String::from_utf8_lossy(&bytes[from..to]);
    let [before, after] = [from > 0, to < bytes.len()].map(|more| if more { "..." } else { "" });
    let end = if ends { "" } else { " without an end of line" };
    format!("'{before}{}{after}'{end}", printable(&shown))
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
        assert_eq!(
            differ("", "z").unwrap(),
            "line 1: a has nothing more, b has 'z' without an end of line"
        );
        assert_eq!(
            differ("z\n", "z").unwrap(),
            "line 1: a has 'z', b has 'z' without an end of line"
        );
        // Far behind the beginning of a line it is shown where it differs.
        let told =
            differ(&format!("{}1\n", "x".repeat(500)), &format!("{}2\n", "x".repeat(500))).unwrap();
        assert!(told.contains("x1'") && told.contains("x2'") && told.len() < 200, "{told}");
    }
}
