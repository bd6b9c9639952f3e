//! The source tree: arrows between crates that are forbidden, no import cycles, unsafe code only
//! where a README says so, lines of at most 100 columns, and documentation whose links lead
//! somewhere.
//!
//! Clippy and rustc check the rest: see `clippy.toml` and `[workspace.lints]`.

mod links;
mod modules;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use modules::Crate;
use source::code;

/// Crates that read no clock, file, environment, network or processor.
const PURE: [&str; 3] = ["experiment", "analysis", "simulator"];

/// Folders of other crates that are pure.
const PURE_FOLDERS: [&str; 2] = ["studies/src/claims", "studies/src/describe"];

/// What pure crates may use: each other, and of the others types and traits.
const PURE_USES: [&str; 8] =
    ["experiment", "analysis", "engine", "limits", "machine", "persist", "resctrl", "workloads"];

/// Columns of a line of code or comment.
const COLUMNS: usize = 100;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn crates() -> Vec<(String, PathBuf)> {
    let folders =
        ["lib", "crates"].map(|folder| std::fs::read_dir(workspace().join(folder)).unwrap());
    let mut all: Vec<_> = folders
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    all.sort();
    all
}

fn is_library(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("lib"))
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

/// The crate of this workspace that a package is.
fn own(package: &str) -> Option<&str> {
    package.strip_prefix("ringfence-").or_else(|| (package == "ringfence").then_some(package))
}

/// What a manifest, or a part of it for some platforms, has a crate built with, tests and benches
/// aside.
fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = (&String, &toml::Value)> {
    let tables = ["dependencies", "build-dependencies"]
        .into_iter()
        .filter_map(|key| manifest.get(key)?.as_table());
    tables.flatten()
}

/// The crates of this workspace that a crate is built with, on whatever platform, each by the name
/// that it is given.
fn uses(manifest: &toml::Table) -> BTreeMap<String, String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms =
        platforms.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table);
    let all = dependencies(manifest).chain(platforms.flat_map(dependencies));
    all.filter_map(|(name, what)| {
        let package = what.get("package").and_then(toml::Value::as_str).unwrap_or(name);
        Some((own(package)?.to_string(), name.clone()))
    })
    .collect()
}

/// The manifest in a folder.
fn manifest(folder: &Path) -> toml::Table {
    read(&folder.join("Cargo.toml")).parse().unwrap()
}

#[test]
fn every_way_to_depend_on_a_crate_is_seen() {
    let used = uses(
        &r#"
        dependencies.ringfence-a.workspace = true
        build-dependencies.ringfence-b = { path = "../b" }
        target."cfg(unix)".dependencies.ringfence-c = "1"
        target.x86.build-dependencies.d = { package = "ringfence-d", version = "1" }
        dev-dependencies.ringfence-e.workspace = true
        dependencies.other = "1"
        "#
        .parse()
        .unwrap(),
    );
    let pairs: Vec<(&str, &str)> = used.iter().map(|(own, name)| (&**own, &**name)).collect();
    assert_eq!(
        pairs,
        [("a", "ringfence-a"), ("b", "ringfence-b"), ("c", "ringfence-c"), ("d", "d")]
    );
}

#[test]
fn libraries_use_no_crate_of_the_program_and_pure_crates_none_that_is_impure() {
    let mut wrong = Vec::new();
    let libraries: BTreeSet<String> =
        crates().into_iter().filter(|(_, path)| is_library(path)).map(|(name, _)| name).collect();
    for (name, path) in crates() {
        for used in uses(&manifest(&path)).into_keys() {
            if libraries.contains(&name) && !libraries.contains(&used) {
                wrong.push(format!("the library {name} uses {used}, a crate of the program"));
            }
            if PURE.contains(&name.as_str()) && !PURE_USES.contains(&used.as_str()) {
                wrong.push(format!("{name} is pure and uses {used}"));
            }
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
        // A folder of data beside a file is not a module.
        let holds_modules = |file: &PathBuf| !files(&file.with_extension("")).is_empty();
        let beside = files(&path.join("src")).into_iter().filter(holds_modules);
        wrong.extend(beside.map(|file| file.display().to_string()));
    }
    assert!(
        wrong.is_empty(),
        "these stand beside a folder of their name, not in it:\n{}",
        wrong.join("\n")
    );
}

// As `src/FILE` or `FILE`.
fn named(list: &str, file: &str) -> bool {
    [format!("`src/{file}`"), format!("`{file}`")].iter().any(|name| list.contains(name))
}

#[test]
fn unsafe_code_stands_where_a_readme_says_so() {
    let mut wrong = Vec::new();
    for (name, path) in crates() {
        let readme = std::fs::read_to_string(path.join("README.md")).unwrap_or_default();
        let listed = readme.split("## Unsafe code").nth(1).unwrap_or_default();
        let listed = listed.split("\n## ").next().unwrap_or_default();
        let src = path.join("src");
        let mut holds_any = false;
        for file in files(&src) {
            let own = file.strip_prefix(&src).unwrap().display().to_string();
            let text = code(&read(&file));
            let holds =
                text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
            holds_any |= holds;
            if holds && !named(listed, &own) {
                wrong.push(format!(
                    "{name}: {own} holds unsafe code, and the README does not list it"
                ));
            }
            if !holds && named(listed, &own) {
                wrong.push(format!("{name}: the README lists {own}, which holds no unsafe code"));
            }
        }
        let root = ["src/lib.rs", "src/main.rs"].map(|file| path.join(file));
        let root = root.into_iter().find(|file| file.exists()).expect("each crate has a root");
        if !holds_any && !read(&root).contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{name} has no unsafe code and does not forbid it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_pure_reads_no_clock_no_file_and_no_processor() {
    const NEVER: [&str; 7] = [
        "std::fs",
        "std::env",
        "Instant",
        "SystemTime",
        "std::net",
        "std::process",
        "Features::detect",
    ];
    let mut wrong = Vec::new();
    let crates = PURE.map(|name| format!("{name}/src"));
    let folders = crates.iter().map(String::as_str).chain(PURE_FOLDERS);
    for folder in folders {
        let all = files(&workspace().join("crates").join(folder));
        assert!(!all.is_empty(), "{folder} is not there");
        for file in all {
            let text = code(&read(&file));
            let found = NEVER.into_iter().filter(|never| text.contains(never));
            wrong.extend(found.map(|never| format!("{}: {never}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_of_source_have_at_most_100_columns() {
    let mut wrong = Vec::new();
    for file in crates().iter().flat_map(|(_, path)| files(path)) {
        for (number, line) in read(&file).lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                wrong.push(format!("{}:{}: {columns} columns", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn words_that_were_given_up_do_not_come_back() {
    let Some(found) = words::given_up(&workspace()) else {
        return ringfence_testbed::skip_here(
            "words that were given up",
            "this is not a clone that git can list",
        );
    };
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    let pages = links::pages(&workspace());
    let wrong: Vec<String> =
        pages.iter().flat_map(|page| links::broken(page, &read(page))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages.len() > 20, "{pages:?}");
}

#[test]
fn pages_that_the_code_names_are_there() {
    let mut wrong = Vec::new();
    for (_, path) in crates() {
        for file in files(&path) {
            let text = read(&file);
            let named = text.split("docs/").skip(1);
            let ends = |c: char| !c.is_alphanumeric() && !['-', '_', '/', '.'].contains(&c);
            let names = named.map(|rest| rest.split(ends).next().unwrap().trim_end_matches('.'));
            let gone = names.filter(|name| {
                name.ends_with(".md") && !workspace().join("docs").join(name).is_file()
            });
            wrong.extend(gone.map(|name| format!("{} names docs/{name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_of_the_documentation_is_complete() {
    let docs = workspace().join("docs");
    let listed = links::links(&read(&docs.join("README.md")));
    for page in links::pages(&docs) {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        assert!(
            name == "README.md" || listed.contains(&name),
            "docs/README.md does not list {name}"
        );
    }
}
