//! The entries of a log, one by one.

use std::io::{self, BufRead};

// No entry is longer: a stack of some hundred frames, or a path.
const LONGEST: usize = 1 << 20;

/// Something that the log says.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// The file that was mapped, the address, the bytes, and where in the file.
    File {
        path: String,
        base: u64,
        size: u64,
        offset: u64,
    },
    /// Address, value and bytes; the frames where they were asked for, the innermost first.
    Store {
        address: u64,
        value: u64,
        size: u64,
        frames: Vec<String>,
    },
    /// Address and bytes.
    Flush {
        address: u64,
        size: u64,
    },
    Fence,
    /// Address and bytes of `msync` or its like.
    Sync {
        address: u64,
        size: u64,
    },
    /// What the program itself put there.
    Note,
    Stop,
}

/// What cannot be read: the system's error, or the number of the entry and what is wrong.
#[derive(Debug)]
pub enum Unreadable {
    Io(io::Error),
    Entry(u64, String),
}

/// Reads entries.
pub struct Entries<R> {
    log: R,
    number: u64,
    begun: bool,
}

impl<R: BufRead> Entries<R> {
    pub fn new(log: R) -> Self {
        Self { log, number: 0, begun: false }
    }

    /// The next entry; `None` where the log ends without saying so.
    pub fn next(&mut self) -> Result<Option<Entry>, Unreadable> {
        if !std::mem::replace(&mut self.begun, true) {
            // Before the first entry, valgrind identifies itself.
            let before = self.part()?.unwrap_or_default();
            if !before.ends_with("START") {
                return Err(Unreadable::Entry(0, "it does not begin with START".into()));
            }
        }
        let Some(text) = self.part()? else { return Ok(None) };
        self.number += 1;
        // A message of valgrind may stand behind an entry, on a line of its own.
        let text = text.split('\n').next().unwrap_or_default().trim_end();
        let wrong =
            |what: String| Unreadable::Entry(self.number, format!("'{}': {what}", brief(text)));
        entry(text).map(Some).map_err(wrong)
    }

    // Up to the next bar.
    fn part(&mut self) -> Result<Option<String>, Unreadable> {
        let mut bytes = Vec::new();
        let mut some = io::Read::take(&mut self.log, LONGEST as u64);
        some.read_until(b'|', &mut bytes).map_err(Unreadable::Io)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() == LONGEST {
            return Err(Unreadable::Entry(self.number + 1, "it is longer than any".into()));
        }
        if bytes.last() == Some(&b'|') {
            bytes.pop();
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn brief(text: &str) -> String {
    text.chars().take(60).collect()
}

fn entry(text: &str) -> Result<Entry, String> {
    let mut fields = text.split(';');
    let name = fields.next().unwrap_or_default();
    let mut number = |what: &str| {
        let field = fields.next().ok_or_else(|| format!("it has no {what}"))?;
        hexadecimal(field).ok_or_else(|| format!("'{}' is no {what}", brief(field)))
    };
    Ok(match name {
        "STORE" => {
            let (address, value, size) = (number("address")?, number("value")?, number("size")?);
            if !(1..=8).contains(&size) {
                return Err(format!("no store has {size} bytes"));
            }
            Entry::Store { address, value, size, frames: fields.map(str::to_owned).collect() }
        }
        "FLUSH" => Entry::Flush { address: number("address")?, size: number("size")? },
        "DEEP_SYNC" => Entry::Sync { address: number("address")?, size: number("size")? },
        "FENCE" => Entry::Fence,
        "STOP" => Entry::Stop,
        "REGISTER_FILE" => {
            // The path may hold what separates fields.
            let mut from_behind = text.rsplitn(4, ';');
            let mut number = |what: &str| {
                let field = from_behind.next().unwrap_or_default();
                hexadecimal(field).ok_or_else(|| format!("it has no {what}"))
            };
            let (offset, size, base) = (number("offset")?, number("size")?, number("address")?);
            let path =
                from_behind.next().and_then(|rest| rest.split_once(';')).map(|(_, path)| path);
            Entry::File { path: path.ok_or("it has no path")?.into(), base, size, offset }
        }
        _ => Entry::Note,
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Entries as pmemcheck writes them (pmemcheck/pmc_main.c, and its tests' expected output).
    #[test]
    fn every_entry_is_read() {
        let log = "==12== pmemcheck-1.0\n==12== \nSTART|REGISTER_FILE;/mnt/a;b;0x1000;0x800;0x0\
                   |STORE;0x1008;0xff;0x4|STORE;0x1008;0x1;0x1;0x4A73: main (a.c:2);0x4B00: ??? \
                   (in /lib/b.so)\
                   |FLUSH;0x1000;0x40|FENCE\n==12== a \
                   message\n|DEEP_SYNC;0x1000;0x800|pmemobj_open.BEGIN|STOP\n";
        let mut entries = Entries::new(log.as_bytes());
        let mut next = || entries.next().unwrap();
        let store = |value, size, frames| Entry::Store { address: 0x1008, value, size, frames };
        let frames = vec!["0x4A73: main (a.c:2)".into(), "0x4B00: ??? (in /lib/b.so)".into()];
        assert_eq!(
            next(),
            Some(Entry::File { path: "/mnt/a;b".into(), base: 0x1000, size: 0x800, offset: 0 })
        );
        assert_eq!(next(), Some(store(0xff, 4, vec![])));
        assert_eq!(next(), Some(store(1, 1, frames)));
        assert_eq!(next(), Some(Entry::Flush { address: 0x1000, size: 64 }));
        assert_eq!(next(), Some(Entry::Fence));
        assert_eq!(next(), Some(Entry::Sync { address: 0x1000, size: 0x800 }));
        assert_eq!(next(), Some(Entry::Note));
        assert_eq!(next(), Some(Entry::Stop));
        assert_eq!(next(), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |log: &str| match Entries::new(log.as_bytes()).next() {
            Err(Unreadable::Entry(number, what)) => format!("{number}: {what}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(""), "0: it does not begin with START");
        assert_eq!(wrong("hello|START"), "0: it does not begin with START");
        assert_eq!(wrong("START|STORE;0x1;0x2"), "1: 'STORE;0x1;0x2': it has no size");
        assert_eq!(wrong("START|STORE;12;0x2;0x1"), "1: 'STORE;12;0x2;0x1': '12' is no address");
        assert_eq!(
            wrong("START|STORE;0x1;0x2;0x9"),
            "1: 'STORE;0x1;0x2;0x9': no store has 9 bytes"
        );
        assert_eq!(wrong("START|FLUSH;0x1"), "1: 'FLUSH;0x1': it has no size");
        assert_eq!(
            wrong("START|REGISTER_FILE;0x1;0x2;0x3"),
            "1: 'REGISTER_FILE;0x1;0x2;0x3': it has no path"
        );
        assert_eq!(
            wrong("START|REGISTER_FILE;/a;0x2;0x3"),
            "1: 'REGISTER_FILE;/a;0x2;0x3': it has no address"
        );
        assert_eq!(wrong(&format!("START|{}", "x".repeat(LONGEST))), "1: it is longer than any");
    }
}
