//! The lines of a story: what is told of an instruction, and how many become fewer.

use std::path::{Component, Path};

use crate::event::{At, WORD};
use crate::fate::Fate;

/// Lines of one run that are told at most, but for those of stores that were lost: first ones and
/// last ones.
const FIRST: usize = 40;
const LAST: usize = 20;
/// So many lines that differ only in where they looked are told as one.
const ALIKE: usize = 3;
/// Width of a place in the source, at most.
const PLACE: usize = 24;

#[derive(Clone)]
pub(super) struct Line {
    pub fate: Option<Fate>,
    pub what: String,
    pub field: Option<Field>,
    pub at: At,
}

#[derive(Clone)]
pub(super) struct Field {
    pub name: String,
    pub value: String,
    // Where several are told as one: the last one, and how many.
    pub last: Option<(String, usize)>,
}

impl Line {
    pub(super) fn new(what: String, at: At) -> Self {
        Self { fate: None, what, field: None, at }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        let value = |line: &Self| line.field.as_ref().map(|field| field.value.clone());
        self.field.is_some()
            && self.at == other.at
            && self.fate == other.fate
            && self.what == other.what
            && value(self) == value(other)
    }

    pub(super) fn text(&self) -> String {
        match &self.field {
            None => self.what.clone(),
            Some(Field { name, value, last: None }) => format!("{} {name} = {value}", self.what),
            Some(Field { name, value, last: Some((last, count)) }) => {
                format!("{} {name} ... {last} = {value} ({count} alike)", self.what)
            }
        }
    }
}

// Lines that differ only in where they looked, or stored to, as one.
pub(super) fn alike(lines: Vec<Line>) -> Vec<Line> {
    let mut fewer: Vec<Line> = Vec::new();
    for group in lines.chunk_by(Line::is_like) {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        match (&first.field, &last.field) {
            (Some(field), Some(last)) if group.len() >= ALIKE => {
                let field = Field { last: Some((last.name.clone(), group.len())), ..field.clone() };
                fewer.push(Line { field: Some(field), ..first.clone() });
            }
            _ => fewer.extend_from_slice(group),
        }
    }
    fewer
}

// All of them where they are few; else the first and the last ones, and between them what was lost.
pub(super) fn abridged(lines: Vec<Line>, unread: usize, told: &mut Vec<Result<Line, String>>) {
    let count = lines.len();
    let mut left_out = 0;
    let mut lost = 0;
    let mut unread = if count > FIRST + LAST { unread } else { 0 };
    for (number, line) in lines.into_iter().enumerate() {
        let within = count <= FIRST + LAST || number < FIRST || number >= count - LAST;
        lost += usize::from(!within && line.fate == Some(Fate::Lost));
        if !within && (line.fate != Some(Fate::Lost) || lost > LAST) {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            let left_out = std::mem::take(&mut left_out) + std::mem::take(&mut unread);
            told.push(Err(format!("{:13}... {} left out", "", counted(left_out, "line"))));
        }
        told.push(Ok(line));
    }
}

pub(super) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

// The file, with as much of its path as there is room for.
pub(super) fn place(at: At) -> String {
    let At::Source(at) = at else { return at.to_string() };
    let path = Path::new(at.file());
    let line = at.line();
    if at.file().len() <= PLACE {
        return format!("{}:{line}", at.file());
    }
    let mut text = String::new();
    for part in path.components().rev() {
        let Component::Normal(part) = part else { break };
        let part = part.to_string_lossy();
        if !text.is_empty() && part.len() + 1 + text.len() > PLACE {
            break;
        }
        text = if text.is_empty() { part.into_owned() } else { format!("{part}/{text}") };
    }
    format!(".../{text}:{line}")
}

// Up to a word as a number, else as bytes.
pub(super) fn value(bytes: &[u8]) -> String {
    if bytes.len() <= WORD {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(word);
        return if number > 1 << 32 { format!("{number:#x}") } else { number.to_string() };
    }
    // Words that repeat are counted, so that the odd one out is seen.
    let words: Vec<&[u8]> = bytes.chunks(WORD).collect();
    let groups: Vec<&[&[u8]]> = words.chunk_by(|one, other| one == other).collect();
    let told = |group: &&[&[u8]]| {
        let word: String = group[0].iter().map(|byte| format!("{byte:02x}")).collect();
        if group.len() == 1 { word } else { format!("{} x {word}", group.len()) }
    };
    let most = 2;
    let mut text = groups.iter().take(most).map(told).collect::<Vec<_>>().join(" ");
    if groups.len() > most {
        text.push_str(" ...");
    }
    text
}
