//! Words that were given up, with those that took their place: `docs/reference/words.md` says more.

use std::path::Path;
use std::process::Command;

/// Part of a line that contains it, in small letters, and what to write instead.
const GIVEN_UP: [(&str, &str); 18] = [
    ("lie to the victim", "where aggressors run relative to the victim"),
    ("lies to the victim", "where the aggressor runs relative to the victim"),
    ("lay to each other", "how far apart the CPUs were"),
    ("bear each other", "pairwise interference"),
    ("what spoils", "sources of noise"),
    ("spoils a measurement", "sources of noise"),
    ("slow is no gentle", "slow is not the same as harmless"),
    ("is no tmpfs", "is not a tmpfs"),
    ("is no target", "is not a target"),
    ("is no role", "is not a role"),
    ("is no survey", "is not a survey"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("fenced off", "isolated"),
    ("fresh lives", "fresh trials"),
    ("lives of the victim", "trials"),
    ("fence_settle", "isolation_settle"),
    ("let_drift", "mark_unsettled"),
];

// Where old names are named as such: what reads them, what tells of them, and what was written with
// them.
const MAY: [&str; 9] = [
    "CHANGELOG.md",
    "docs/reference/experiment-files.md",
    "STABILITY.md",
    "docs/reference/words.md",
    "crates/dataset/tests/data/",
    "crates/experiment/src/experiment/mod.rs",
    "crates/experiment/src/experiment/tests.rs",
    "crates/ringfence/tests/repository/house/words.rs",
    "crates/studies/src/prove/proof.rs",
];

// Whether a line has a phrase at the beginning of a word: 'recommended' has no 'mended'.
fn has(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| !line[..at].ends_with(char::is_alphabetic))
}

/// Uses of what was given up in the files that git knows; none where this is not a clone.
pub fn given_up(workspace: &Path) -> Option<Vec<String>> {
    let listed =
        Command::new("git").current_dir(workspace).args(["ls-files", "-z"]).output().ok()?;
    if !listed.status.success() {
        return None;
    }
    let names = String::from_utf8(listed.stdout).ok()?;
    let texts = ["rs", "md", "toml", "json", "txt", "html", "sh", "c", "py"];
    let names =
        names.split('\0').filter(|name| texts.iter().any(|end| name.ends_with(&format!(".{end}"))));
    let mut found = Vec::new();
    for name in names.filter(|name| !MAY.iter().any(|may| name.starts_with(may))) {
        // A file that is deleted and not yet committed is listed too.
        let Ok(text) = std::fs::read_to_string(workspace.join(name)) else { continue };
        for (number, line) in text.to_lowercase().lines().enumerate() {
            let here = GIVEN_UP.iter().filter(|(phrase, _)| has(line, phrase));
            found.extend(
                here.map(|(phrase, instead)| {
                    format!("{name}:{}: '{phrase}': {instead}", number + 1)
                }),
            );
        }
    }
    Some(found)
}
