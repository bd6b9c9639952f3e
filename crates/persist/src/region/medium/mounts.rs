//! Mounts from `/proc/self/mountinfo`, proc_pid_mountinfo(5).

use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// As `mnt_id` in `/proc/self/fdinfo` has it.
    pub id: u64,
    /// `MAJOR:MINOR` of its device; major 0 where it has none.
    pub device: String,
    pub point: PathBuf,
    pub fs: String,
    pub source: String,
    /// Options of the mount, then those of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether an option is set, such as `dax=always` or `ro`.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// The value of an option such as `upperdir`.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().find_map(|known| known.strip_prefix(option)?.strip_prefix('='))
    }
}

/// All mounts of a mountinfo text, in its order: a later one hides an earlier one on the same point.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<&str> = before.split(' ').collect();
    let mut after = after.split(' ');
    let (fs, source) = (after.next()?, after.next()?);
    let mut options: Vec<String> = Vec::new();
    for option in before.get(5)?.split(',').chain(after.next().unwrap_or("").split(',')) {
        let option = unescape(option);
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        id: before[0].parse().ok()?,
        device: before[2].into(),
        point: unescape(before[4]).into(),
        fs: fs.into(),
        source: unescape(source),
        options,
    })
}

/// The mount that a path lies in: the longest mount point that it begins with, the last of them.
pub(crate) fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of equal ones this takes the last.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

/// The kernel writes space, tab, newline, backslash and, in options, comma as octal escapes.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\054", ","), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_escapes_and_mounts_over_mounts() {
        let text = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
36 27 259:1 /x /mnt/a\\040b rw,noatime master:1 shared:2 - ext4 /dev/pmem1 rw,dax=always
37 27 0:44 / /mnt/o rw - overlay overlay rw,lowerdir=/l\\054x,upperdir=/u
38 36 0:45 / /mnt/a\\040b rw - tmpfs none rw
nonsense";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 4);
        assert_eq!((mounts[1].id, mounts[1].device.as_str()), (36, "259:1"));
        assert!(mounts[1].has("dax=always") && mounts[1].has("noatime") && !mounts[1].has("dax"));
        assert_eq!(mounts[2].value("upperdir"), Some("/u"));
        assert_eq!(mounts[2].value("upper"), None);
        let of = |path: &str| containing(&mounts, Path::new(path)).unwrap().fs.clone();
        assert_eq!((of("/mnt/a b/c"), of("/mnt/a bc"), of("/mnt/o"), of("/")), {
            let own = |name: &str| name.to_string();
            (own("tmpfs"), own("ext4"), own("overlay"), own("ext4"))
        });
    }
}
