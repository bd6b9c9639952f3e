//! Mount options that matter to what is written, and what they do.

use ringfence_system::mounts::Mount;

use super::model::Setting;

// Those that end in `=` stand for all their values. Of file systems that give a word another
// meaning, the first part says which.
const MEANINGS: [(&str, &str, &str); 39] = [
    ("", "ro", "nothing can be written"),
    ("", "sync", "every write is followed by a sync of it (mount(8))"),
    ("", "dirsync", "changes of folders are synced at once (mount(8))"),
    ("", "noatime", "reading changes no times, so that it causes no writes (mount(8))"),
    ("", "relatime", "reading sets the time of access once a day or after a change (mount(8))"),
    ("", "strictatime", "every read sets the time of access, which is written later (mount(8))"),
    (
        "",
        "lazytime",
        "times are kept in memory and written with the inode, by fsync, or once a day (mount(8))",
    ),
    (
        "",
        "discard",
        "freed blocks are discarded as they are freed, and other requests can wait for that \
         (ext4(5))",
    ),
    ("btrfs", "discard=async", "freed blocks are discarded later, next to the commits (btrfs(5))"),
    ("", "nobarrier", "no flush is sent to the device (ext4(5), btrfs(5))"),
    ("", "barrier=0", "no flush is sent to the device (ext4(5))"),
    (
        "",
        "data=journal",
        "data are written to the journal first, then to their place; O_DIRECT is as buffered \
         (ext4(5))",
    ),
    ("", "data=ordered", "data are written before the journal names their blocks (ext4(5))"),
    (
        "",
        "data=writeback",
        "the journal may name blocks before their data are written: old data can show after a \
         crash (ext4(5))",
    ),
    ("", "journal_checksum", "blocks of the journal have checksums (ext4(5))"),
    (
        "",
        "journal_async_commit",
        "the commit block does not wait for the blocks before it (ext4(5))",
    ),
    ("", "noload", "the journal was not replayed (ext4(5))"),
    ("", "norecovery", "the journal was not replayed (ext4(5), xfs(5))"),
    (
        "",
        "commit=",
        "seconds after which the journal is committed without a sync (ext4(5), btrfs(5))",
    ),
    ("", "wsync", "changes of folders are synced at once (xfs(5))"),
    ("", "logdev=", "the journal lies on this device, which is not followed here (xfs(5))"),
    ("", "rtdev=", "data may lie on this device, which is not followed here (xfs(5))"),
    ("", "dax", "files are mapped and written with no page cache between"),
    ("", "dax=always", "files are mapped and written with no page cache between"),
    ("", "dax=inode", "files that have the DAX attribute are written with no page cache between"),
    ("btrfs", "nodatacow", "data are overwritten in place, without checksums (btrfs(5))"),
    (
        "btrfs",
        "notreelog",
        "fsync commits the whole file system instead of a log of one file (btrfs(5))",
    ),
    ("btrfs", "flushoncommit", "a commit writes all data first (btrfs(5))"),
    ("btrfs", "compress=", "data are compressed before they are written (btrfs(5))"),
    ("f2fs", "fsync_mode=nobarrier", "fsync sends no flush to the device (f2fs.rst in Linux)"),
    ("f2fs", "checkpoint=disable", "what is written since is lost at a crash (f2fs.rst in Linux)"),
    ("overlay", "volatile", "nothing is ever synced (overlayfs.rst in Linux)"),
    ("overlay", "fsync=volatile", "nothing is ever synced (overlayfs.rst in Linux)"),
    ("overlay", "upperdir=", "the folder that takes what is written"),
    (
        "nfs",
        "soft",
        "a server that does not answer makes a write fail, which fsync reports (nfs(5))",
    ),
    ("nfs", "hard", "a server that does not answer is waited for (nfs(5))"),
    ("cifs", "nostrictsync", "fsync does not ask the server to write to its disk (mount.cifs(8))"),
    ("", "cache=", "how the client caches what the server has (mount.cifs(8), 9p.rst in Linux)"),
    ("", "vers=", "the version of the protocol"),
];

/// Of a mount, the options that matter, in the order of the kernel.
pub(super) fn that_matter(mount: &Mount) -> Vec<Setting> {
    let meaning = |option: &String| {
        let family = family(&mount.fs);
        let fits = |&&(of, name, _): &&(&str, &str, &str)| {
            (of.is_empty() || of == family)
                && (option == name || (name.ends_with('=') && option.starts_with(name)))
        };
        let found = MEANINGS.iter().find(fits)?;
        Some(Setting { option: option.clone(), meaning: found.2 })
    };
    mount.options.iter().filter_map(meaning).collect()
}

fn family(fs: &str) -> &str {
    match fs {
        "nfs4" => "nfs",
        "smb3" => "cifs",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_system::mounts::of_mountinfo;

    #[test]
    fn what_matters_and_what_it_means_there() {
        let of = |line: &str| -> Vec<(String, &str)> {
            let settings = that_matter(&of_mountinfo(line)[0]).into_iter();
            settings.map(|setting| (setting.option, setting.meaning)).collect()
        };
        let ext4 =
            of("27 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw,nobarrier,commit=30,hard,stripe=4");
        let names: Vec<&str> = ext4.iter().map(|(option, _)| option.as_str()).collect();
        assert_eq!(names, ["noatime", "nobarrier", "commit=30"]);
        assert!(ext4[2].1.starts_with("seconds after which"));
        let nfs = of("9 1 0:50 / /n rw - nfs4 s:/x rw,hard,vers=4.2");
        assert_eq!(nfs.len(), 2, "{nfs:?}");
    }
}
