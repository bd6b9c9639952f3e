//! The licences of everything that is built in: each must be on a list, so that a dependency cannot
//! bring unreviewed terms. It asks cargo offline about the crates for this platform.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

// The list of the policy at the workspace's top, which `cargo deny` follows too.
fn allowed() -> &'static BTreeSet<String> {
    static ALLOWED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let policy: toml::Table = include_str!("../../../../deny.toml").parse().unwrap();
        let list = policy["licenses"]["allow"].as_array().unwrap();
        list.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    });
    &ALLOWED
}

fn packages() -> Vec<Value> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--manifest-path",
        manifest,
    ]);
    let told = cargo.args(platform).output().expect("cargo can be started");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).expect("cargo prints JSON");
    // What is only known of, for other platforms, is not among the nodes.
    let nodes: Vec<&Value> =
        told["resolve"]["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    told["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| nodes.contains(&&p["id"]))
        .cloned()
        .collect()
}

// Whether an expression leaves a choice that is allowed: `(MIT OR Apache-2.0) AND Unicode-3.0`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    // AND binds closer.
    let any = parts(&expression, " OR ");
    if any.len() > 1 {
        return any.iter().any(|part| is_allowed(part));
    }
    let all = parts(&expression, " AND ");
    if all.len() > 1 {
        return all.iter().all(|part| is_allowed(part));
    }
    let one = expression.trim();
    match one.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => allowed().contains(one),
    }
}

// The parts of an expression between a word that stands outside of all brackets.
fn parts(expression: &str, word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut rest) = (0, expression);
    while let Some(letter) = rest.chars().next() {
        if depth == 0 && rest.starts_with(word) {
            parts.push(String::new());
            rest = &rest[word.len()..];
            continue;
        }
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    parts
}

#[test]
fn expressions_are_read() {
    for allowed in [
        "MIT",
        "MIT OR GPL-3.0-only",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "MIT OR GPL-3.0-only AND X",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in
        ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT OR Zlib) AND (SSPL-1.0)", "MITX"]
    {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn every_dependency_may_be_shipped() {
    let packages = packages();
    assert!(packages.len() > 60, "{} packages", packages.len());
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default()))
        .map(|package| {
            format!("{} {}: {}", package["name"], package["version"], package["license"])
        })
        .collect();
    assert!(wrong.is_empty(), "licences that are not on the list:\n{}", wrong.join("\n"));
}
