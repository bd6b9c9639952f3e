//! The house: which crate may use which, no circles between files, unsafe code only where a README says so, and
//! documentation whose links lead somewhere.
//!
//! Files are read as text, with comments, strings and tests left out; what is found are paths such as `crate::a::B`,
//! `super::B` and `ringfence_x::B`.

mod links;
mod modules;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use modules::Crate;
use source::code;

/// What each crate may use of the others, directly. What is not named here may use nothing.
const ARROWS: [(&str, &[&str]); 38] = [
    (
        "ringfence",
        &[
            "json",
            "hosts",
            "fleet",
            "claims",
            "confine",
            "describe",
            "report",
            "reproduce",
            "studies",
            "prove",
            "whatif",
            "compare",
            "versus",
            "study",
            "engine",
            "isolation",
            "analysis",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "simulated",
            "probe",
            "changes",
            "persist",
            "sysfs",
            "trace",
        ],
    ),
    (
        "json",
        &[
            "hosts",
            "fleet",
            "claims",
            "describe",
            "report",
            "reproduce",
            "studies",
            "prove",
            "whatif",
            "compare",
            "versus",
            "analysis",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "simulated",
            "trace",
        ],
    ),
    ("hosts", &["report", "text", "fleet", "analysis"]),
    ("fleet", &["versus", "engine", "analysis", "dataset", "experiment", "machine", "sysfs"]),
    ("claims", &["report", "text", "reproduce", "analysis", "dataset", "experiment"]),
    ("describe", &["text", "studies", "simulated", "engine", "analysis", "experiment", "machine", "persist"]),
    (
        "report",
        &[
            "inspect",
            "programs",
            "tuned",
            "text",
            "reproduce",
            "studies",
            "prove",
            "whatif",
            "compare",
            "versus",
            "study",
            "analysis",
            "experiment",
            "machine",
            "resctrl",
            "simulated",
            "sysfs",
            "trace",
        ],
    ),
    ("inspect", &["text", "machine", "resctrl"]),
    ("programs", &["text", "machine", "trace"]),
    ("tuned", &["text", "studies", "analysis", "experiment"]),
    ("versus", &["text", "analysis", "dataset", "experiment", "machine", "sysfs"]),
    ("text", &["analysis"]),
    ("reproduce", &["studies", "study", "analysis", "dataset", "experiment", "machine"]),
    ("whatif", &["compare", "study", "analysis", "dataset", "experiment", "machine", "simulated"]),
    ("compare", &["analysis", "dataset", "experiment", "machine"]),
    (
        "studies",
        &[
            "prove",
            "study",
            "engine",
            "analysis",
            "workloads",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "persist",
            "simulated",
        ],
    ),
    ("prove", &["study", "engine", "isolation", "analysis", "dataset", "experiment", "machine", "resctrl"]),
    (
        "study",
        &[
            "engine",
            "analysis",
            "workloads",
            "dataset",
            "experiment",
            "machine",
            "simulated",
            "sysfs",
            "trace",
        ],
    ),
    (
        "simulated",
        &["engine", "isolation", "experiment", "machine", "resctrl", "persist", "sim", "workloads"],
    ),
    ("sim", &["persist"]),
    (
        "engine",
        &[
            "isolation",
            "attach",
            "analysis",
            "workloads",
            "dataset",
            "experiment",
            "machine",
            "resctrl",
            "changes",
        ],
    ),
    ("isolation", &["attach", "experiment", "machine", "resctrl", "changes", "sysfs"]),
    ("analysis", &["experiment"]),
    ("workloads", &["probe", "experiment", "machine", "persist", "sysfs"]),
    ("dataset", &["experiment", "machine", "sysfs"]),
    ("experiment", &["machine", "resctrl", "persist"]),
    ("machine", &["resctrl", "changes", "sysfs"]),
    ("confine", &["attach", "resctrl", "sysfs"]),
    ("resctrl", &["changes", "sysfs"]),
    ("attach", &["changes", "sysfs"]),
    ("changes", &["sysfs"]),
    ("trace", &["code", "crashcheck", "persist", "sysfs"]),
    ("code", &["persist", "sysfs"]),
    ("crashcheck", &["persist"]),
    ("persist", &["sysfs"]),
    ("sysfs", &[]),
    ("probe", &[]),
    ("testbed", &[]),
];

/// Bytes in the README.
const LONGEST_README: usize = 10_240;

/// Source files that may hold unsafe code.
const MOST_UNSAFE: usize = 20;

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

/// The crate of this workspace that a package is.
fn own(package: &str) -> Option<&str> {
    package.strip_prefix("ringfence-").or_else(|| (package == "ringfence").then_some(package))
}

/// What a manifest, or a part of it for some platforms, has a crate built with, tests and benches aside.
fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = (&String, &toml::Value)> {
    let tables =
        ["dependencies", "build-dependencies"].into_iter().filter_map(|key| manifest.get(key)?.as_table());
    tables.flatten()
}

/// The crates of this workspace that a crate is built with, on whatever platform, each by the name that it is given.
fn uses(manifest: &toml::Table) -> BTreeMap<String, String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table);
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
    assert_eq!(pairs, [("a", "ringfence-a"), ("b", "ringfence-b"), ("c", "ringfence-c"), ("d", "d")]);
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
        let uses = uses(&manifest(&path));
        let renamed = uses.iter().filter(|(used, called)| own(called) != Some(used.as_str()));
        wrong.extend(renamed.map(|(used, called)| format!("{name} calls {used} {called}")));
        wrong.extend(
            uses.keys()
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
        let unused = uses.keys().filter(|used| !named.contains(used.as_str()));
        wrong.extend(unused.map(|used| format!("{name} names {used} in its manifest alone")));
    }
    // What the workspace renames, no crate's own manifest shows.
    let shared = manifest(&workspace())["workspace"]["dependencies"].as_table().unwrap().clone();
    let package =
        |what: &toml::Value| what.get("package").and_then(toml::Value::as_str).and_then(own).is_some();
    wrong.extend(
        shared
            .iter()
            .filter(|(_, what)| package(what))
            .map(|(name, _)| format!("the workspace renames {name}")),
    );
    // The table itself has no circle: each crate uses only crates that stand below it.
    let place = |name: &str| ARROWS.iter().position(|(known, _)| *known == name);
    for (name, may) in ARROWS {
        let up = may.iter().filter(|used| place(used) <= place(name));
        wrong.extend(up.map(|used| format!("{name} may use {used}, which stands above it")));
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
    for pure in ["experiment", "analysis", "claims", "describe", "sim", "simulated"] {
        let lib = workspace().join("crates").join(pure).join("src/lib.rs");
        assert!(read(&lib).contains("#![forbid(unsafe_code)]"), "{pure} does not forbid unsafe code");
    }
}

#[test]
fn what_is_pure_reads_no_clock_no_file_and_no_processor() {
    const NEVER: [&str; 7] =
        ["std::fs", "std::env", "Instant", "SystemTime", "std::net", "std::process", "Features::detect"];
    let mut wrong = Vec::new();
    for pure in ["experiment", "analysis", "claims", "describe", "sim", "simulated"] {
        for file in files(&workspace().join("crates").join(pure).join("src")) {
            let text = code(&read(&file));
            let found = NEVER.into_iter().filter(|never| text.contains(never));
            wrong.extend(found.map(|never| format!("{}: {never}", file.display())));
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
    let wrong: Vec<String> = pages.iter().flat_map(|page| links::broken(page, &read(page))).collect();
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
            let gone =
                names.filter(|name| name.ends_with(".md") && !workspace().join("docs").join(name).is_file());
            wrong.extend(gone.map(|name| format!("{} names docs/{name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// The README is where one starts, and the index where one finds the rest.
#[test]
fn the_readme_is_short_and_the_index_complete() {
    let readme = read(&workspace().join("README.md")).len();
    assert!(
        readme <= LONGEST_README,
        "README.md has {readme} bytes: move what is not for a first visit to docs/"
    );
    let docs = workspace().join("docs");
    let listed = links::links(&read(&docs.join("README.md")));
    for page in links::pages(&docs) {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        assert!(name == "README.md" || listed.contains(&name), "docs/README.md does not list {name}");
    }
}
