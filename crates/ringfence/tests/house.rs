//! The house: which crate may use which, no circles between files, no file and no crate too large, and unsafe code
//! only where a README says so.
//!
//! Files are read as text, with comments, strings and tests left out; what is found are paths such as `crate::a::B`,
//! `super::B` and `ringfence_x::B`.

#[path = "house/modules.rs"]
mod modules;
#[path = "house/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use modules::Crate;
use source::code;

/// What each crate may use of the others, directly. What is not named here may use nothing.
const ARROWS: [(&str, &[&str]); 15] = [
    (
        "ringfence",
        &[
            "report",
            "studies",
            "engine",
            "analysis",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "changes",
            "persist",
            "sysfs",
        ],
    ),
    ("report", &["studies", "analysis", "dataset", "experiment", "machine", "resctrl", "sysfs"]),
    (
        "studies",
        &[
            "engine",
            "analysis",
            "workloads",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "persist",
            "sysfs",
        ],
    ),
    ("engine", &["analysis", "workloads", "dataset", "experiment", "machine", "resctrl", "changes", "sysfs"]),
    ("analysis", &["experiment"]),
    ("workloads", &["experiment", "machine", "persist", "sysfs"]),
    ("dataset", &["experiment", "machine", "sysfs"]),
    ("experiment", &["machine", "resctrl", "persist"]),
    ("machine", &["resctrl", "changes", "sysfs"]),
    ("resctrl", &["changes", "sysfs"]),
    ("changes", &["sysfs"]),
    ("crashcheck", &["persist"]),
    ("persist", &["sysfs"]),
    ("sysfs", &[]),
    ("testbed", &[]),
];

/// Lines in a file, and in a crate's `src`.
const LONGEST_FILE: usize = 500;
const LARGEST_CRATE: usize = 9_000;

/// Source files that may hold unsafe code.
const MOST_UNSAFE: usize = 15;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn crates() -> Vec<(String, PathBuf)> {
    let folder = workspace().join("crates");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    all.sort();
    all
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return all };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all.sort();
    all
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of this workspace in a section of a manifest.
fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let mut here = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            here = line.trim() == section;
        }
        if let Some(name) = line.strip_prefix("ringfence-").filter(|_| here) {
            found.insert(name.split(['.', ' ']).next().unwrap().to_string());
        }
    }
    found
}

#[test]
fn arrows_point_one_way() {
    let allowed: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for (name, path) in crates() {
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} is not in the table of arrows"));
            continue;
        };
        let uses = dependencies(&read(&path.join("Cargo.toml")), "[dependencies]");
        wrong.extend(
            uses.iter()
                .filter(|used| !may.contains(&used.as_str()))
                .map(|used| format!("{name} uses {used}")),
        );
        // What the code names is what the manifest says, so that an unused line is seen too.
        let mut named = BTreeSet::new();
        for file in files(&path.join("src")) {
            let whole = read(&file);
            for part in whole.split("ringfence_").skip(1) {
                let word: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if part[word.len()..].starts_with("::") {
                    named.insert(word);
                }
            }
        }
        let unused = uses.iter().filter(|used| !named.contains(used.as_str()));
        wrong.extend(unused.map(|used| format!("{name} names {used} in its manifest alone")));
    }
    // The table itself has no circle: each crate uses only crates that stand below it.
    let place = |name: &str| ARROWS.iter().position(|(known, _)| *known == name);
    for (name, may) in ARROWS {
        let up = may.iter().filter(|used| place(used) <= place(name));
        wrong.extend(up.map(|used| format!("{name} may use {used}, which stands above it")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_and_no_crate_is_too_large() {
    let mut wrong = Vec::new();
    for (name, path) in crates() {
        let mut sum = 0;
        for part in ["src", "tests", "benches", "examples"] {
            for file in files(&path.join(part)) {
                let lines = read(&file).lines().count();
                if lines > LONGEST_FILE {
                    wrong.push(format!("{} has {lines} lines", file.display()));
                }
                sum += if part == "src" { lines } else { 0 };
            }
        }
        if sum > LARGEST_CRATE {
            wrong.push(format!("{name} has {sum} lines"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_circles_between_files() {
    let circles: Vec<String> =
        crates().iter().flat_map(|(_, path)| Crate::read(&path.join("src")).circles()).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn modules_with_children_are_folders() {
    let mut wrong = Vec::new();
    for (_, path) in crates() {
        // A folder of data beside a file is no module.
        let holds_modules = |file: &PathBuf| !files(&file.with_extension("")).is_empty();
        let beside = files(&path.join("src")).into_iter().filter(holds_modules);
        wrong.extend(beside.map(|file| file.display().to_string()));
    }
    assert!(wrong.is_empty(), "these stand beside a folder of their name, not in it:\n{}", wrong.join("\n"));
}

// As `src/FILE` or `FILE`.
fn named(list: &str, file: &str) -> bool {
    [format!("`src/{file}`"), format!("`{file}`")].iter().any(|name| list.contains(name))
}

#[test]
fn unsafe_code_stands_where_a_readme_says_so() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, path) in crates() {
        let readme = std::fs::read_to_string(path.join("README.md")).unwrap_or_default();
        let listed = readme.split("## Unsafe code").nth(1).unwrap_or_default();
        let listed = listed.split("\n## ").next().unwrap_or_default();
        let src = path.join("src");
        for file in files(&src) {
            let own = file.strip_prefix(&src).unwrap().display().to_string();
            let text = code(&read(&file));
            let holds = text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
            count += usize::from(holds);
            if holds && !named(listed, &own) {
                wrong.push(format!(
                    "crates/{name}/src/{own} holds unsafe code, and the README does not list it"
                ));
            }
            if !holds && named(listed, &own) {
                wrong.push(format!("crates/{name}/README.md lists {own}, which holds no unsafe code"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count <= MOST_UNSAFE, "{count} files hold unsafe code");
    for pure in ["experiment", "analysis"] {
        let lib = workspace().join("crates").join(pure).join("src/lib.rs");
        assert!(read(&lib).contains("#![forbid(unsafe_code)]"), "{pure} does not forbid unsafe code");
    }
}

#[test]
fn what_is_pure_reads_no_clock_no_file_and_no_processor() {
    const NEVER: [&str; 7] =
        ["std::fs", "std::env", "Instant", "SystemTime", "std::net", "std::process", "Features::detect"];
    let mut wrong = Vec::new();
    for pure in ["experiment", "analysis"] {
        for file in files(&workspace().join("crates").join(pure).join("src")) {
            let text = code(&read(&file));
            let found = NEVER.into_iter().filter(|never| text.contains(never));
            wrong.extend(found.map(|never| format!("{}: {never}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
