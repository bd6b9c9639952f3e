//! Where program files and libraries have the functions of `--checksum`.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use ringfence_trace::code::{Function, Image};
use serde::{Deserialize, Serialize};

/// The functions, and where program files have them. A worker keeps it from run to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Functions {
    names: Vec<String>,
    // By file: the offset of each, and its number. A file that was replaced has another key.
    files: HashMap<String, Vec<(u64, usize)>>,
}

/// A function that a task has entered and that has not returned.
#[derive(Debug, Clone)]
pub(super) struct Entered {
    /// The number of the call.
    pub(super) call: u32,
    /// The function, and others of them that were entered since.
    pub(super) functions: Vec<usize>,
    /// Where the address that it returns to lies.
    pub(super) stack: u64,
    /// That address.
    pub(super) back: u64,
}

impl Functions {
    pub(crate) fn new(names: &[String]) -> Self {
        Self { names: names.to_vec(), files: HashMap::new() }
    }

    /// The addresses of the functions in a process, given its maps (proc_pid_maps(5)).
    pub(super) fn addresses(&mut self, maps: &str) -> Vec<(u64, usize)> {
        let mut all = Vec::new();
        for (path, start, length, offset) in code(maps) {
            let own = self.of_file(path).iter();
            let loaded = own.filter(|(at, _)| (offset..offset + length).contains(at));
            all.extend(loaded.map(|(at, function)| (start + (at - offset), *function)));
        }
        all
    }

    pub(super) fn are_none(&self) -> bool {
        self.names.is_empty()
    }

    fn of_file(&mut self, path: &str) -> &[(u64, usize)] {
        let Ok(about) = std::fs::metadata(path) else { return &[] };
        let (inode, size, seconds) = (about.ino(), about.size(), about.mtime());
        let key = format!("{path} {inode} {size} {seconds}.{}", about.mtime_nsec());
        let names = &self.names;
        self.files
            .entry(key)
            .or_insert_with(|| found(&std::fs::read(path).unwrap_or_default(), names))
    }
}

// The offsets in a program file at which functions begin, and which they are.
fn found(bytes: &[u8], names: &[String]) -> Vec<(u64, usize)> {
    let Ok(image) = Image::parse(bytes) else { return Vec::new() };
    let segments = image.segments();
    let functions = image.functions();
    let offset = |address: u64| {
        let holds = |(start, _, size): &&(u64, u64, u64)| (*start..start + size).contains(&address);
        segments.iter().find(holds).map(|(start, offset, _)| address - start + offset)
    };
    let one = |function: &Function| {
        let name = function.name();
        let number = names.iter().position(|wanted| is_named(&name, wanted))?;
        let address = image.sections[function.section].address + function.offset as u64;
        Some((offset(address)?, number))
    };
    functions.iter().filter_map(one).collect()
}

// Whether a name is the wanted one, with the parameters of C++ or what compilers add to copies.
fn is_named(name: &str, wanted: &str) -> bool {
    let copies = [".constprop.", ".isra.", ".part.", "("];
    name.strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || copies.iter().any(|one| rest.starts_with(one)))
}

// The files of a process's code: each with the address, the length and the offset of a part.
fn code(maps: &str) -> impl Iterator<Item = (&str, u64, u64, u64)> {
    maps.lines().filter_map(|line| {
        let mut parts = line.splitn(6, ' ');
        let (range, protection, offset) = (parts.next()?, parts.next()?, parts.next()?);
        let path = parts.nth(2)?.trim_start();
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        let is_code = protection.as_bytes().get(2) == Some(&b'x') && path.starts_with('/');
        is_code.then_some((path, start, end - start, offset))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_function_have_its_name() {
        assert!(is_named("sum", "sum"));
        assert!(is_named("sum.constprop.0", "sum"));
        assert!(is_named("log::sum(void const*, unsigned long)", "log::sum"));
        assert!(!is_named("sum.cold", "sum"));
        assert!(!is_named("sums", "sum"));
    }

    #[test]
    fn functions_are_found_where_they_are_loaded() {
        let names = ["main".to_owned(), "not_there".to_owned()];
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let all = Functions::new(&names).addresses(&maps);
        let own = std::env::current_exe().unwrap();
        let holds = |(path, start, length, _): &(&str, u64, u64, u64)| {
            *path == own.to_str().unwrap() && (*start..start + length).contains(&all[0].0)
        };
        assert!(code(&maps).any(|one| holds(&one)), "{all:?} {maps}");
        assert!(all.iter().all(|(_, number)| *number == 0), "{all:?}");
    }
}
