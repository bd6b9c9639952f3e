//! Links between Markdown files: each leads to a file of this workspace, and to a heading in it if
//! it names one.
//!
//! What is found are inline links and pictures, `[text](path#heading)`, outside of code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The Markdown files below a folder, without those that are built or hidden.
pub fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir()
            && !name.starts_with('.')
            && !["target", "node_modules"].contains(&name.as_str())
        {
            all.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// What is wrong with the links of a page, one sentence each.
pub fn broken(page: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for link in
        links(text).iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
    {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let to = if path.is_empty() { page.into() } else { page.parent().unwrap().join(path) };
        let found = match std::fs::read_to_string(&to) {
            Ok(text) => heading.is_empty() || headings(&text).contains(heading),
            // A folder, or a picture.
            Err(_) => heading.is_empty() && to.exists(),
        };
        if !found {
            wrong.push(format!("{}: {link} leads nowhere", page.display()));
        }
    }
    wrong
}

/// The targets of the links in a text.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    after
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim().to_owned())
        .collect()
}

// The text without code, in which brackets mean something else.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    for (inside, line) in fenced(text) {
        if !inside {
            // Code between backticks is every second part.
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

// Each line, and whether it is one of a block of code.
fn fenced(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut inside = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (inside || fence || line.starts_with("    "), line)
    })
}

/// The headings of a text, as links name them: lower case, without punctuation, `-` for a space;
/// the second of the same name ends in `-1`.
pub fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in fenced(text).filter(|(inside, line)| !inside && line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let new = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(new);
    }
    found
}

#[test]
fn links_are_found_outside_of_code() {
    let text = "# What? Is `it`!\n[a](b.md) ![c](d.png)\n```\n[e](f)\n```\n    [g](h)\n`[i](j)` \
                [`k`](l.md#what-is-it)\n## What? Is `it`!\n";
    assert_eq!(links(text), ["b.md", "d.png", "l.md#what-is-it"]);
    assert_eq!(
        headings(text),
        BTreeSet::from(["what-is-it".to_owned(), "what-is-it-1".to_owned()])
    );
}
