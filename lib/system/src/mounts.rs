//! Mounted file systems, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)) and `/proc/mounts`
//! (fstab(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// As `mnt_id` in `/proc/self/fdinfo` has it; `/proc/mounts` does not say.
    pub id: Option<u64>,
    /// The `id` of the mount that it is mounted on; `/proc/mounts` does not say.
    pub parent: Option<u64>,
    /// `MAJOR:MINOR` of its device; major 0 where it has none. Empty where `/proc/mounts` was read.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The name of its type.
    pub fs: String,
    /// What is mounted: a device's path, or any word.
    pub source: String,
    /// Options of the mount, then those of the file system, each once.
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

/// All mounts of the text of a `mountinfo`, in its order: a later one hides an earlier one on the
/// same point. Lines that are none are left out.
///
/// ```
/// use ringfence_system::mounts;
/// let text = "36 27 259:1 / /mnt/a\\040b rw,noatime shared:2 - ext4 /dev/pmem1 rw,dax=always\n";
/// let mounts = mounts::of_mountinfo(text);
/// assert_eq!(mounts[0].point.to_str(), Some("/mnt/a b"));
/// assert!(mounts[0].has("dax=always"));
/// ```
pub fn of_mountinfo(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let mut after = after.split(' ');
        let (fs, source) = (text_of(after.next()?), text_of(after.next()?));
        Some(Mount {
            id: Some(before[0].parse().ok()?),
            parent: before.get(1).and_then(|parent| parent.parse().ok()),
            device: before.get(2)?.to_string(),
            point: PathBuf::from(unescaped(before.get(4)?)),
            fs,
            source,
            options: options([before.get(5)?, after.next().unwrap_or("")]),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The same of the text of a `/proc/mounts`.
pub fn of_table(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let (source, point, fs) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Mount {
            id: None,
            parent: None,
            device: String::new(),
            point: PathBuf::from(unescaped(point)),
            fs: text_of(fs),
            source: text_of(source),
            options: options([fields.next()?, ""]),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The mount that contains a path: the longest mount point that is its prefix, the last of them.
pub fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of equal ones this takes the last.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

/// The mounts of a `mountinfo` that no other mount covers, sorted by their points.
pub fn visible(mounts: &[Mount]) -> Vec<&Mount> {
    let covers = |over: &Mount, one: &Mount| {
        let on_it = over.parent == one.id && over.point == one.point;
        let around = over.parent == one.parent
            && over.point != one.point
            && one.point.starts_with(&over.point);
        on_it || around
    };
    let is_visible = |one: &&Mount| !mounts.iter().any(|over| covers(over, one));
    let mut visible: Vec<&Mount> = mounts.iter().filter(is_visible).collect();
    visible.sort_by(|one, other| one.point.cmp(&other.point));
    visible.dedup_by(|one, other| one.point == other.point);
    visible
}

fn options(fields: [&str; 2]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for option in fields.into_iter().flat_map(|field| field.split(',')) {
        let option = text_of(option);
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options
}

fn text_of(field: &str) -> String {
    unescaped(field).to_string_lossy().into_owned()
}

// The kernel writes what would end a field as a backslash and three octal digits (`mangle_path` in
// Linux): space, tab, newline, backslash, `#`, and commas of options.
fn unescaped(field: &str) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, after) = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), after)
            }
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_another_covers_is_not_visible() {
        let text = "22 27 0:21 / /proc rw - proc proc rw\n\
                    27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    28 27 0:5 / /a\\040b rw - tmpfs x rw\n\
                    29 28 0:6 / /a\\040b rw - ext4 y rw\n\
                    30 27 0:7 / /c/d rw - tmpfs z rw\n\
                    31 27 0:8 / /c rw - tmpfs z rw\n";
        let mounts = of_mountinfo(text);
        let visible: Vec<(&str, &str)> = visible(&mounts)
            .into_iter()
            .map(|mount| (mount.point.to_str().unwrap(), mount.fs.as_str()))
            .collect();
        assert_eq!(visible, [("/", "ext4"), ("/a b", "ext4"), ("/c", "tmpfs"), ("/proc", "proc")]);
    }

    #[test]
    fn mountinfo_with_optional_fields_escapes_and_mounts_over_mounts() {
        let text = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
36 27 259:1 /x /mnt/a\\040b rw,noatime master:1 shared:2 - ext4 /dev/pmem1 rw,dax=always
37 27 0:44 / /mnt/o rw - overlay overlay rw,lowerdir=/l\\054x,upperdir=/u
38 36 0:45 / /mnt/a\\040b rw - tmpfs none rw
1 2 3 - ext4
nonsense";
        let mounts = of_mountinfo(text);
        assert_eq!(mounts.len(), 4);
        assert_eq!((mounts[1].id, mounts[1].device.as_str()), (Some(36), "259:1"));
        assert!(mounts[1].has("dax=always") && mounts[1].has("noatime") && !mounts[1].has("dax"));
        assert_eq!(mounts[2].value("lowerdir"), Some("/l,x"));
        assert_eq!(mounts[2].value("upperdir"), Some("/u"));
        assert_eq!(mounts[2].value("upper"), None);
        let of = |path: &str| containing(&mounts, Path::new(path)).unwrap().fs.clone();
        assert_eq!((of("/mnt/a b/c"), of("/mnt/a bc"), of("/mnt/o"), of("/")), {
            let own = |name: &str| name.to_string();
            (own("tmpfs"), own("ext4"), own("overlay"), own("ext4"))
        });
    }

    // Which controllers a hierarchy of control groups has is said by the file system's options
    // alone.
    #[test]
    fn options_of_the_mount_and_of_the_file_system_in_both_tables() {
        let info = "\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/unified rw,nosuid,nsdelegate - cgroup2 cgroup2 rw";
        let table = "\
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nsdelegate 0 0";
        let (info, table) = (of_mountinfo(info), of_table(table));
        for (info, table) in info[1..].iter().zip(&table) {
            assert_eq!(
                (&info.fs, &info.point, &info.source),
                (&table.fs, &table.point, &table.source)
            );
            assert_eq!(info.options, table.options);
        }
        assert!(table[0].fs == "cgroup" && table[0].has("cpu") && !table[0].has("cpuset"));
        assert_eq!(table[0].point, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(table[1].fs == "cgroup2" && table[1].has("nsdelegate"));
    }

    #[test]
    fn the_table_and_every_escape() {
        let text = "no\\040ne /mnt/a\\011b\\012c\\134040d\\043\\777\\08 resctrl rw,mba_MBps 0 \
                    0\nshort /mnt\n";
        let mounts = of_table(text);
        assert_eq!(mounts.len(), 1);
        // A backslash that was escaped begins no other escape, and what is not an octal number
        // stays.
        assert_eq!(mounts[0].point.to_str(), Some("/mnt/a\tb\nc\\040d#\\777\\08"));
        assert_eq!((mounts[0].source.as_str(), mounts[0].id), ("no ne", None));
        assert!(mounts[0].has("mba_MBps") && !mounts[0].has("mba"));
        assert_eq!(
            of_table("x /mnt/\\344 ext4 rw 0 0")[0].point.as_os_str().as_encoded_bytes(),
            b"/mnt/\xe4"
        );
    }
}
