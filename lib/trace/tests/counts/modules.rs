//! Which file an address is from, and where in that file it lies.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::{Object, ObjectSegment};

use crate::effects::Site;

/// A line of `/proc/PID/maps`.
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub inode: u64,
    pub shared: bool,
}

/// What a process has mapped of files.
pub fn mappings(process: i32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mapping = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (start, end) = words[0].split_once('-')?;
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).unwrap();
        let inode = words[4].parse().unwrap();
        let shared = words[1].ends_with('s');
        let [start, end, offset] = [start, end, words[2]].map(hexadecimal);
        (inode != 0).then_some(Mapping { start, end, offset, inode, shared })
    };
    text.lines().filter_map(mapping).collect()
}

/// Addresses as a recording has them, of each module: those of the file's segments.
#[derive(Default)]
pub struct Modules(HashMap<String, Module>);

struct Module {
    inode: u64,
    /// Address, size, and where it lies in the file.
    segments: Vec<(u64, u64, u64)>,
}

impl Modules {
    pub fn site(&mut self, module: &str, address: u64) -> Site {
        let Module { inode, segments } = self.0.entry(module.to_owned()).or_insert_with(|| {
            let bytes = fs::read(module).unwrap_or_else(|error| panic!("{module}: {error}"));
            let image = object::File::parse(&*bytes).unwrap();
            let segments =
                image.segments().map(|one| (one.address(), one.size(), one.file_range().0));
            let inode = Path::new(module).metadata().unwrap().ino();
            Module { inode, segments: segments.collect() }
        });
        let holds = |(start, size, _): &&(u64, u64, u64)| (*start..start + size).contains(&address);
        let (start, _, offset) = segments.iter().find(holds).expect("an address of a segment");
        Site { inode: *inode, offset: address - start + offset }
    }

    /// A site, to be read by people.
    pub fn name(&self, site: Site) -> String {
        let module = self.0.iter().find(|(_, module)| module.inode == site.inode);
        let path = module.map_or("a file without events", |(path, _)| path);
        format!("{}, file offset {:#x}", path.rsplit('/').next().unwrap_or_default(), site.offset)
    }
}
