//! The modules of a crate, and which of them use which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::code;

type Name = Vec<String>;

/// A crate's modules, one for each file.
pub struct Crate {
    modules: BTreeMap<Name, Module>,
}

struct Module {
    file: PathBuf,
    /// Paths that its code names, from the crate's root, with what it re-exports left out.
    uses: Vec<Name>,
    /// What it re-exports: a name, or `*`, and the path from the crate's root.
    exports: Vec<(String, Name)>,
    /// What is defined in it.
    defines: BTreeSet<String>,
}

impl Crate {
    /// Reads all files of a folder.
    pub fn read(src: &Path) -> Self {
        let mut modules = BTreeMap::new();
        for file in super::files(src) {
            let mut name: Name = file
                .strip_prefix(src)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|part| part.to_str().unwrap().into())
                .collect();
            if ["mod", "lib", "main"].contains(&name.last().unwrap().as_str()) {
                name.pop();
            }
            // Tests may use whatever they like.
            if name.iter().any(|part| part == "tests" || part == "fixtures") {
                continue;
            }
            let module = Module::of(&file, &name);
            modules.insert(name, module);
        }
        Self { modules }
    }

    /// Circles, a sentence each.
    pub fn circles(&self) -> Vec<String> {
        let mut edges: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        for (name, module) in &self.modules {
            let targets = module
                .uses
                .iter()
                .filter_map(|path| self.target(path, 0))
                .filter(|target| *target != name);
            edges.insert(name, targets.collect());
        }
        let reached: BTreeMap<&Name, _> =
            edges.keys().map(|name| (*name, reach(&edges, name))).collect();
        let mut told = BTreeSet::new();
        let mut out = Vec::new();
        for name in edges.keys() {
            if !reached[name].contains(*name) || !told.insert(*name) {
                continue;
            }
            let together = reached[name].iter().filter(|other| reached[**other].contains(*name));
            let together: BTreeSet<&Name> = together.copied().collect();
            told.extend(together.iter().copied());
            let inside = |from: &Name| {
                let to =
                    edges[from].iter().filter(|to| together.contains(**to)).map(|to| to.join("::"));
                format!(
                    "{} -> {}",
                    self.modules[from].file.display(),
                    to.collect::<Vec<_>>().join(", ")
                )
            };
            out.push(together.iter().map(|name| inside(name)).collect::<Vec<_>>().join("\n  "));
        }
        out
    }

    /// The file in which the item of a path is defined.
    fn target(&self, path: &[String], depth: usize) -> Option<&Name> {
        // The longest beginning of the path that is a module.
        let (length, name, module) = (0..=path.len()).rev().find_map(|length| {
            let (name, module) = self.modules.get_key_value(&path[..length])?;
            Some((length, name, module))
        })?;
        let Some(item) = path.get(length).filter(|_| depth < 8) else { return Some(name) };
        if module.defines.contains(item) {
            return Some(name);
        }
        for (exported, from) in &module.exports {
            if exported == item {
                return self.target(from, depth + 1);
            }
        }
        for (_, from) in module.exports.iter().filter(|(exported, _)| exported == "*") {
            let mut whole = from.clone();
            whole.push(item.clone());
            if let Some(target) = self.target(&whole, depth + 1).filter(|target| *target != name)
                && self.modules[target].defines.contains(item)
            {
                return Some(target);
            }
        }
        Some(name)
    }
}

/// Everything that can be reached from a module.
fn reach<'a>(edges: &BTreeMap<&'a Name, BTreeSet<&'a Name>>, from: &'a Name) -> BTreeSet<&'a Name> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        open.extend(edges[name].iter().filter(|target| seen.insert(**target)));
    }
    seen
}

impl Module {
    fn of(file: &Path, name: &Name) -> Self {
        let text = code(&super::read(file));
        let (mut uses, mut exports) = (Vec::new(), Vec::new());
        let mut rest = String::new();
        for statement in text.split_inclusive(';') {
            let at = statement.rfind("use ").filter(|at| {
                let before = statement[..*at].chars().last();
                before.is_none_or(|c| c.is_whitespace()) && !statement[*at..].contains(['(', '='])
            });
            let Some(at) = at else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..at]);
            let public = statement[..at].trim_end();
            let public = public.ends_with("pub")
                || public.ends_with("pub(crate)")
                || public.ends_with("pub(super)");
            for (path, alias) in leaves(statement[at + 4..].trim_end_matches(';')) {
                let Some(path) = absolute(&path, name, &text) else { continue };
                let last = path.last().cloned().unwrap_or_default();
                match public {
                    true => exports.push((
                        alias.unwrap_or(last.clone()),
                        if last == "*" { path[..path.len() - 1].to_vec() } else { path },
                    )),
                    false => uses.push(path),
                }
            }
        }
        for start in ["crate::", "super::"] {
            for (at, _) in rest.match_indices(start) {
                let before = rest[..at].chars().last();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                    continue;
                }
                let end = rest[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let path = &rest[at..at + end.unwrap_or(rest.len() - at)];
                uses.extend(absolute(&segments(path), name, &text));
            }
        }
        // Children by their names alone.
        let children: Vec<&str> = text
            .split("mod ")
            .skip(1)
            .filter_map(|rest| rest.split_once(';'))
            .map(|(child, _)| child)
            .collect();
        for child in children {
            for (at, _) in rest.match_indices(&format!("{child}::")) {
                let before = rest[..at].chars().last();
                if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
                    let end =
                        rest[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                    let path = &rest[at..at + end.unwrap_or(rest.len() - at)];
                    uses.extend(absolute(&segments(path), name, &text));
                }
            }
        }
        Self { file: file.into(), uses, exports, defines: defined(&rest) }
    }
}

fn segments(path: &str) -> Name {
    path.split("::").map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// The paths of a `use` tree, with their new names where they have one.
fn leaves(tree: &str) -> Vec<(Name, Option<String>)> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, alias) = match tree.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.trim().to_string())),
            None => (tree, None),
        };
        return vec![(segments(path), alias)];
    };
    let start = segments(&tree[..open]);
    let inside = tree[open + 1..].trim_end().trim_end_matches('}');
    let inside = &tree[open + 1..open + 1 + closing(&tree[open + 1..]).unwrap_or(inside.len())];
    let (mut depth, mut part, mut parts) = (0, String::new(), Vec::new());
    for c in inside.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let mut out = Vec::new();
    for (path, alias) in
        parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| leaves(part))
    {
        let mut whole = start.clone();
        whole.extend(path.into_iter().filter(|part| part != "self"));
        out.push((whole, alias));
    }
    out
}

// Where the brace that was opened before closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        (depth == 0).then_some(at)
    })
}

/// A path from the crate's root; `None` for one into another crate.
fn absolute(path: &[String], module: &Name, text: &str) -> Option<Name> {
    let first = path.first()?.as_str();
    let mut from: Name = match first {
        "crate" => Vec::new(),
        "super" | "self" => module.clone(),
        // A child that this file declares.
        child if text.contains(&format!("mod {child};")) => {
            let mut whole = module.clone();
            whole.extend_from_slice(path);
            return Some(whole);
        }
        _ => return None,
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                from.pop();
            }
            other => from.push(other.into()),
        }
    }
    Some(from)
}

fn defined(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '!')
        .filter(|word| !word.is_empty())
        .collect();
    let keyword =
        ["struct", "enum", "fn", "trait", "const", "static", "type", "union", "macro_rules!"];
    words
        .windows(2)
        .filter(|pair| keyword.contains(&pair[0]))
        .map(|pair| pair[1].to_string())
        .collect()
}

#[test]
fn trees_of_use_are_read() {
    let joined =
        |tree: &str| leaves(tree).into_iter().map(|(path, _)| path.join("::")).collect::<Vec<_>>();
    assert_eq!(
        joined("crate::a::{self, b::{C, D as E}, f::*}"),
        ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a::f::*"]
    );
    assert_eq!(joined("super::X"), ["super::X"]);
    let module: Name = vec!["a".into(), "b".into()];
    let path =
        |text: &str| absolute(&segments(text), &module, "mod child;").map(|path| path.join("::"));
    assert_eq!(path("super::C").as_deref(), Some("a::C"));
    assert_eq!(path("super::super::C").as_deref(), Some("C"));
    assert_eq!(path("crate::C").as_deref(), Some("C"));
    assert_eq!(path("child::C").as_deref(), Some("a::b::child::C"));
    assert_eq!(path("std::fs"), None);
}
