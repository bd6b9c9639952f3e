//! The model beside the kernel: the same operations, drawn at random, on both; after each, every
//! answer, every word of the status and every file must be the same.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use ringfence_resctrl::Resctrl;
use ringfence_resctrl::kernel::Kernel;
use ringfence_resctrl::kernel::model::{Hardware, Model};
use ringfence_system::root::FsRoot;

use crate::env::{Env, Guest};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d049bb133111eb);
        word ^ (word >> 31)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }
}

const CONTROL: [&str; 4] = ["", "a", "b", "c"];

#[derive(Debug, Clone)]
enum Operation {
    Make(String),
    Remove(String),
    Write(String, String),
    /// Of which process, by its place.
    Move(String, usize),
}

fn group(draw: &mut Draw) -> String {
    let control = draw.of(&CONTROL);
    match (draw.next() % 4, control) {
        (0, "") => format!("mon_groups/{}", draw.of(&["m", "n"])),
        (0, control) => format!("{control}/mon_groups/{}", draw.of(&["m", "n"])),
        _ => control.to_owned(),
    }
}

fn below(group: &str, file: &str) -> String {
    if group.is_empty() { file.to_owned() } else { format!("{group}/{file}") }
}

fn line(draw: &mut Draw, resources: &[(&str, u32)], group: &str) -> String {
    let (name, ways) = draw.of(resources);
    let value = match (name, draw.next() % 8) {
        ("MB", 0) => "fast".into(),
        ("MB", _) => draw.of(&[0, 9, 10, 35, 50, 100, 101]).to_string(),
        (_, 0) => "xyz".into(),
        (_, 1) => format!("{:x}", draw.next() >> (63 - ways)),
        (_, 2) => format!(
            "{:x}",
            ((1u64 << (1 + draw.next() % 3)) - 1) << (draw.next() % u64::from(ways))
        ),
        // Mostly a part of the cache for each group, so that some come to overlap with none.
        _ => {
            let part = ways / CONTROL.len() as u32;
            let place = CONTROL.iter().position(|name| *name == group).unwrap_or_default() as u32;
            format!("{:x}", ((1u64 << (1 + draw.next() % u64::from(part))) - 1) << (place * part))
        }
    };
    let domain = if draw.next().is_multiple_of(16) { 7 } else { 0 };
    let more =
        if draw.next().is_multiple_of(16) { format!(";{domain}={value}") } else { String::new() };
    format!("{name}:{domain}={value}{more}\n")
}

fn operation(draw: &mut Draw, resources: &[(&str, u32)]) -> Operation {
    let mut group = group(draw);
    let chosen = draw.next() % 16;
    if (5..13).contains(&chosen) && draw.next().is_multiple_of(2) {
        // Groups of control alone have these files, and the default group most of all is to be
        // small.
        group = draw.of(&["", "", "a", "b", "c"]).to_owned();
    }
    match chosen {
        0..3 => Operation::Make(group),
        3 | 4 => Operation::Remove(group),
        5..10 => {
            let lines = if draw.next().is_multiple_of(4) { 2 } else { 1 };
            let text = (0..lines).map(|_| line(draw, resources, &group)).collect();
            Operation::Write(below(&group, "schemata"), text)
        }
        10..13 => {
            let modes =
                ["shareable\n", "exclusive\n", "pseudo-locksetup\n", "pseudo-locked\n", "none\n"];
            Operation::Write(below(&group, "mode"), draw.of(&modes).into())
        }
        13 => {
            let lists = ["\n", "0\n", "1\n", "0-1\n", "9\n", "one\n"];
            Operation::Write(below(&group, "cpus_list"), draw.of(&lists).into())
        }
        _ => Operation::Move(below(&group, "tasks"), draw.next() as usize % 2),
    }
}

/// Carries it out; the errno.
fn ask(kernel: &dyn Kernel, operation: &Operation, processes: &[u32; 2]) -> Option<i32> {
    let write = |path: &str, text: &str| {
        kernel.write(Path::new(path), text).map_err(|error| error.source).err()?.raw_os_error()
    };
    match operation {
        Operation::Make(group) => kernel.make_dir(Path::new(group)).err()?.raw_os_error(),
        Operation::Remove(group) => kernel.remove_dir(Path::new(group)).err()?.raw_os_error(),
        Operation::Write(path, text) => write(path, text),
        Operation::Move(path, place) => write(path, &format!("{}\n", processes[*place])),
    }
}

/// All that can be seen, but for spaces and for processes that the other one does not have.
fn seen(fs: &Resctrl, processes: &[u32; 2]) -> String {
    let (kernel, mut all) = (fs.kernel(), String::new());
    let mut read = |path: &Path| {
        let text = kernel.read(path).map_err(|error| error.raw_os_error());
        let text = text.map(|text| text.replace(' ', ""));
        _ = writeln!(all, "{}: {text:?}", path.display());
    };
    read(Path::new("info/last_cmd_status"));
    for name in kernel.dirs(Path::new("info")).unwrap() {
        read(&Path::new("info").join(&name).join("bit_usage"));
    }
    let groups = fs.groups().unwrap();
    for group in &groups {
        for file in ["schemata", "size", "mode", "cpus_list", "cpus"] {
            read(&group.id().path().join(file));
        }
    }
    for group in &groups {
        let tasks = group.tasks().map_err(|error| error.errno());
        let ours = tasks.map(|tasks| processes.map(|pid| tasks.contains(&pid)));
        _ = writeln!(all, "{}: {ours:?}", group.id());
    }
    all
}

/// What the kernel had to say.
type Words = BTreeSet<String>;

/// Nothing is compared that does not come up.
fn assert_said(words: &Words, parts: &[&str]) {
    for part in parts {
        assert!(
            words.iter().any(|said| said.contains(part)),
            "'{part}' did not come up, but: {words:?}"
        );
    }
}

fn compare(
    hardware: Hardware,
    resources: &[(&str, u32)],
    seed: u64,
    operations: usize,
    words: &mut Words,
) {
    let (guest, model) = (Guest::new(), Model::new(hardware));
    let real = [guest.spawn(), guest.spawn()];
    let modelled = [model.spawn(), model.spawn()];
    let (kernel, other) = (Resctrl::find(&FsRoot::host()).unwrap(), model.resctrl());
    // Both begin with an empty status.
    assert!(kernel.kernel().write(Path::new("mode"), "shareable\n").is_ok());
    let (mut draw, mut last, mut refused) = (Draw(seed), Vec::new(), 0);
    for number in 0..operations {
        let operation = operation(&mut draw, resources);
        last.push(operation.clone());
        let (found, expected) =
            (ask(kernel.kernel(), &operation, &real), ask(&model, &operation, &modelled));
        let context = || {
            format!(
                "operation {number} of seed {seed}: {:?}",
                &last[last.len().saturating_sub(8)..]
            )
        };
        assert_eq!(found, expected, "{}\nthe model says {:?}", context(), other.last_status());
        // "No task 4711" and the like name processes that the other one does not have.
        assert_eq!(seen(&kernel, &real), seen(&other, &modelled), "{}", context());
        refused += usize::from(found.is_some());
        words.extend(
            other.last_status().iter().flat_map(|status| status.split("; ")).map(str::to_owned),
        );
    }
    // Both of what is taken and what is refused there was enough.
    assert!(
        refused > operations / 10 && operations - refused > operations / 10,
        "{refused} of {operations}"
    );
    guest.end_all();
    crate::env::clean().unwrap();
}

pub fn on_broadwell(_: &dyn Env) {
    let mut words = Words::new();
    for seed in 0..4 {
        compare(
            crate::broadwell(vec![0]),
            &[("L3", 20), ("L3", 20), ("MB", 0), ("L2", 8)],
            seed,
            400,
            &mut words,
        );
    }
    assert_said(
        &words,
        &[
            "Overlaps with exclusive group",
            "Overlaps with other group",
            "is pseudo-locked",
            "Monitoring in",
        ],
    );
}

pub fn with_code_and_data_apart(_: &dyn Env) {
    let mut words = Words::new();
    let mut hardware = crate::cascade_lake().with_cdp();
    hardware.mb.as_mut().unwrap().closids = 16;
    for seed in 10..12 {
        compare(hardware.clone(), &[("L3CODE", 11), ("L3DATA", 11)], seed, 800, &mut words);
    }
    assert_said(&words, &["CDP enabled", "Schemata overlaps", "Overlaps with other group"]);
}

pub fn where_all_is_scarce(_: &dyn Env) {
    let mut words = Words::new();
    for seed in 20..23 {
        compare(crate::scarce(), &[("L3", 4), ("L3", 4), ("MB", 0)], seed, 400, &mut words);
    }
    assert_said(&words, &["Out of RMIDs", "Cannot change pseudo-locked group", "Tasks assigned"]);
}
