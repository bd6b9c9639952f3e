//! Memory targets by name: `dram`, `tmpfs:/dir`, `file:/path`, `dax:/path`, `devdax:/dev/daxX.Y`,
//! `node:N`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_persist::Medium;

use crate::nearest::nearest;
use crate::units::serde_as_text;

/// Where a writer's memory comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "TaskTarget", with = "String")
)]
pub enum Target {
    /// Anonymous memory.
    #[default]
    Dram,
    /// A file on a tmpfs.
    Tmpfs(PathBuf),
    /// A file through the page cache.
    File(PathBuf),
    /// A file mapped with `MAP_SYNC`.
    Dax(PathBuf),
    /// A devdax device.
    DevDax(PathBuf),
    /// Memory of one NUMA node.
    Node(u32),
}

impl Target {
    /// What the persistence library maps for it.
    pub fn medium(&self) -> Medium {
        match self {
            Target::Dram => Medium::Dram,
            Target::Tmpfs(path) | Target::File(path) => Medium::File(path.clone()),
            Target::Dax(path) => Medium::Dax(path.clone()),
            Target::DevDax(path) => Medium::DevDax(path.clone()),
            Target::Node(node) => Medium::Node(*node),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Dram => f.write_str("dram"),
            Target::Tmpfs(path) => write!(f, "tmpfs:{}", path.display()),
            Target::File(path) => write!(f, "file:{}", path.display()),
            Target::Dax(path) => write!(f, "dax:{}", path.display()),
            Target::DevDax(path) => write!(f, "devdax:{}", path.display()),
            Target::Node(node) => write!(f, "node:{node}"),
        }
    }
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a target: {hint}", hint = hint(.0))]
pub struct ParseTargetError(String);

// What was probably meant; else all that there is.
fn hint(text: &str) -> String {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    if ["ram", "memory", "mem"].contains(&text.to_ascii_lowercase().as_str()) {
        return "did you mean dram?".into();
    }
    if !rest.is_empty()
        && let Some(meant) = nearest(kind, &["tmpfs", "file", "dax", "devdax", "node"])
        && meant != kind
    {
        return format!("did you mean {meant}:{rest}?");
    }
    if text.starts_with("/dev/dax") {
        return format!("for a device, write devdax:{text}");
    }
    if text.starts_with("/dev/shm") {
        return format!("for a folder on a tmpfs, write tmpfs:{text}");
    }
    if text.starts_with(['/', '.', '~']) {
        return format!(
            "write tmpfs:{text} for a tmpfs, file:{text} for the page cache, or dax:{text} for a \
             file system mounted with -o dax"
        );
    }
    "use dram, tmpfs:/dir, file:/path, dax:/path, devdax:/dev/daxX.Y or node:N".into()
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseTargetError(text.into());
        if text == "dram" {
            return Ok(Target::Dram);
        }
        let (kind, rest) =
            text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or_else(bad)?;
        match kind {
            "tmpfs" => Ok(Target::Tmpfs(rest.into())),
            "file" => Ok(Target::File(rest.into())),
            "dax" => Ok(Target::Dax(rest.into())),
            "devdax" => Ok(Target::DevDax(rest.into())),
            "node" => rest.parse().map(Target::Node).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

serde_as_text!(Target);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_what_they_print() {
        for text in
            ["dram", "tmpfs:/dev/shm", "file:/a b", "dax:/mnt/pmem", "devdax:/dev/dax0.0", "node:2"]
        {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "disk", "file:", "node:x", "nodes:1", ":"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn paths_without_a_kind_are_told_which_to_take() {
        for (text, part) in [
            ("/dev/shm", "write tmpfs:/dev/shm"),
            ("/dev/dax0.0", "write devdax:/dev/dax0.0"),
            ("/mnt/pmem0", "dax:/mnt/pmem0 for"),
            ("./x", "file:./x for"),
            ("tmpf:/x", "did you mean tmpfs:/x?"),
            ("RAM", "did you mean dram?"),
            ("disk", "use dram, "),
            ("node:x", "use dram, "),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
