//! Regions on this machine's own file systems: the contract, and every way in which it is refused.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use ringfence_persist::{Domain, Durability, Explanation, Region, RegionError};

/// A folder that removes itself.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    fn below(dir: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = dir.join(format!("ringfence-regions-{unique}"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says that a test cannot run here; where everything is required, fails instead.
fn skip(reason: &str) {
    let required = std::env::var_os("RINGFENCE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "cannot run: {reason}");
    // Past the test harness, which keeps what passing tests print.
    _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

fn is_root() -> bool {
    // SAFETY: no memory is touched.
    unsafe { libc::geteuid() == 0 }
}

fn store(region: &Region, at: usize, byte: u8) {
    assert!(at < region.len());
    // SAFETY: a byte of the region, which nothing else uses.
    unsafe { region.base().add(at).write_volatile(byte) };
}

fn load(region: &Region, at: usize) -> u8 {
    assert!(at < region.len());
    // SAFETY: as above.
    unsafe { region.base().add(at).read_volatile() }
}

#[track_caller]
fn refused(result: Result<Region, RegionError>, part: &str) -> RegionError {
    let error = result.expect_err("must be refused");
    let text = error.to_string();
    assert!(text.contains(part), "'{part}' is not in: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(error.is_usage(), "{text}");
    error
}

// A folder on a disk, where there is one: tests may be run with a /tmp in memory.
fn on_disk() -> Option<Folder> {
    let folder = Folder::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let found = Explanation::of(&folder.0).unwrap();
    (found.durability() == Durability::PageCache).then_some(folder)
}

#[test]
fn a_file_is_created_whole_and_opened_again() {
    let folder = Folder::new();
    for (n, len) in [1, 4095, 4096, 4097, 3 << 20].into_iter().enumerate() {
        let path = folder.file(&n.to_string());
        let region = Region::create(&path, len, Durability::Volatile).unwrap();
        assert_eq!((region.len(), region.path()), (len, Some(path.as_path())));
        assert_eq!(region.base() as usize % 4096, 0);
        assert!((0..len).step_by(511).all(|at| load(&region, at) == 0));
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), len as u64);
        assert!(meta.blocks() * 512 >= len as u64, "its blocks are allocated");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        store(&region, len - 1, 7);
        region.msync(0..len).unwrap();
        region.msync(len - 1..len).unwrap();
        region.msync(len..len).unwrap();
        region.intact().unwrap();
        // What another process would read.
        assert_eq!(fs::read(&path).unwrap()[len - 1], 7);
        drop(region);
        let again = Region::open(&path, Durability::Volatile).unwrap();
        assert_eq!((again.len(), load(&again, len - 1)), (len, 7));
        refused(Region::create(&path, len, Durability::Volatile), "never overwritten");
        assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
    }
}

#[test]
fn ranges_that_are_none_are_refused() {
    let region = Region::anonymous(8192, Durability::Volatile).unwrap();
    let backwards = std::ops::Range { start: 5, end: 4 };
    for range in [0..8193, 8193..8193, backwards, 0..usize::MAX, usize::MAX..usize::MAX] {
        let error = region.msync(range).unwrap_err();
        assert!(
            matches!(error, RegionError::Request(_)) && error.to_string().contains("not inside"),
            "{error}"
        );
    }
    region.msync(0..8192).unwrap();
}

#[test]
fn a_region_goes_to_another_thread() {
    let region = Region::memfd(4096, Durability::Volatile).unwrap();
    let region = std::thread::spawn(move || {
        store(&region, 4095, 3);
        region
    })
    .join()
    .unwrap();
    assert_eq!(load(&region, 4095), 3);
}

#[test]
fn less_durable_than_asked_for_is_refused_with_the_reason() {
    let asked = [
        Durability::PageCache,
        Durability::UnprovenMedium,
        Durability::Persistent(Domain::Adr),
        Durability::Persistent(Domain::Eadr),
    ];
    for least in asked {
        for memory in [Region::memfd(4096, least), Region::anonymous(4096, least)] {
            let error = refused(memory, "ask for Durability::Volatile");
            assert!(
                matches!(error, RegionError::LessDurable { asked, .. } if asked == least),
                "{error}"
            );
        }
    }
    let Some(folder) = on_disk() else { return skip("the target folder lies on no disk") };
    let path = folder.file("x");
    for least in &asked[1..] {
        let error = refused(Region::create(&path, 4096, *least), "MAP_SYNC was refused with E");
        assert!(
            error.to_string().contains("to accept it, ask for Durability::PageCache"),
            "{error}"
        );
        assert!(error.to_string().contains("-o dax"), "{error}");
        assert_eq!(folder.entries(), 0, "what was begun is removed");
    }
    let region = Region::create(&path, 4096, Durability::PageCache).unwrap();
    assert_eq!(region.durability(), Durability::PageCache);
    let said = region.explain();
    assert_eq!(
        (said.subject(), said.durability()),
        (path.to_str().unwrap(), Durability::PageCache)
    );
    assert!(said.verdict().contains("durable once msync has returned"), "{said}");
    assert!(said.reasons().iter().any(|reason| reason.contains("mounted at")), "{said}");
    drop(region);
    refused(Region::open(&path, Durability::UnprovenMedium), "ask for Durability::PageCache");
    assert!(path.exists(), "what was there before stays");
}

#[test]
fn memory_says_that_it_is_volatile() {
    let memfd = Region::memfd(5000, Durability::Volatile).unwrap();
    let anonymous = Region::anonymous(5000, Durability::Volatile).unwrap();
    for region in [&memfd, &anonymous] {
        assert_eq!(
            (region.len(), region.path(), region.durability()),
            (5000, None, Durability::Volatile)
        );
        assert_eq!(load(region, 4999), 0);
    }
    assert!(memfd.is_file() && !anonymous.is_file());
    if !Path::new("/dev/shm").is_dir() {
        return skip("there is no /dev/shm");
    }
    let folder = Folder::below(Path::new("/dev/shm"));
    let path = folder.file("x");
    refused(Region::create(&path, 4096, Durability::PageCache), "tmpfs is memory");
    assert_eq!(folder.entries(), 0);
    let region = Region::create(&path, 4096, Durability::Volatile).unwrap();
    assert_eq!(region.durability(), Durability::Volatile);
    assert_eq!(Explanation::of(&path).unwrap(), *region.explain());
}

#[test]
fn lengths_that_cannot_be() {
    let folder = Folder::new();
    let path = folder.file("x");
    for len in [0, usize::MAX, isize::MAX as usize] {
        let wanted = if len == 0 { "zero bytes" } else { "cannot be mapped" };
        refused(Region::create(&path, len, Durability::Volatile), wanted);
        refused(Region::memfd(len, Durability::Volatile), wanted);
        refused(Region::anonymous(len, Durability::Volatile), wanted);
    }
    refused(Region::create(&path, 1 << 60, Durability::Volatile), "free, ");
    refused(Region::memfd(1 << 60, Durability::Volatile), "free, ");
    refused(Region::anonymous(1 << 60, Durability::Volatile), "free, ");
    assert_eq!(folder.entries(), 0);
    // More than the file system has, and less than a file may have.
    let sparse = folder.file("sparse");
    File::create(&sparse).unwrap().set_len(1 << 43).unwrap();
    refused(Region::open(&sparse, Durability::Volatile), "free, ");
    assert_eq!(fs::metadata(&sparse).unwrap().blocks(), 0);
}

#[test]
fn a_truncated_file_is_mapped_as_long_as_it_is() {
    let folder = Folder::new();
    let path = folder.file("x");
    drop(Region::create(&path, 8192, Durability::Volatile).unwrap());
    OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(Region::open(&path, Durability::Volatile).unwrap().len(), 10);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    refused(Region::open(&path, Durability::Volatile), "is empty");
}

#[test]
fn holes_are_given_blocks_and_contents_stay() {
    let folder = Folder::new();
    let path = folder.file("x");
    fs::write(&path, "begin").unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
    let region = Region::open(&path, Durability::Volatile).unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.len(), region.len()), (1 << 20, 1 << 20));
    assert!(meta.blocks() * 512 >= 1 << 20);
    assert_eq!((load(&region, 0), load(&region, 5)), (b'b', 0));
}

#[test]
fn paths_that_are_no_region() {
    let folder = Folder::new();
    let path = |name: &str| folder.file(name);
    symlink("b", path("a")).unwrap();
    symlink("a", path("b")).unwrap();
    symlink("nothing", path("dangling")).unwrap();
    let pipe = std::ffi::CString::new(path("pipe").to_str().unwrap()).unwrap();
    // SAFETY: a terminated path.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let open: &[(PathBuf, &str)] = &[
        (path("nothing"), "create it first"),
        (path("nothing/below"), "create it first"),
        (path("dangling"), "create it first"),
        (folder.0.clone(), "is a directory: name a file in it"),
        (path("a"), "round in a circle"),
        (path("pipe"), "is a pipe"),
        (path("socket"), "is a socket"),
        ("/dev/null".into(), "no device-DAX one"),
        ("/proc/version".into(), ""),
        ("/x\0y".into(), "opening"),
    ];
    for (path, part) in open {
        refused(Region::open(path, Durability::Volatile), part);
    }
    let create: &[(PathBuf, &str)] = &[
        (path("nothing/below"), "name a directory that exists"),
        (path("dangling"), "never overwritten"),
        (folder.0.clone(), "never overwritten"),
        (path("a"), "never overwritten"),
        (path("pipe"), "never overwritten"),
        ("/dev/null".into(), "no device-DAX one"),
        ("/proc/ringfence".into(), "creating"),
        (path(&"x".repeat(300)), "File name too long"),
    ];
    let before = folder.entries();
    for (path, part) in create {
        refused(Region::create(path, 4096, Durability::Volatile), part);
    }
    assert_eq!(folder.entries(), before);
    assert!(Explanation::of(path("pipe")).unwrap_err().to_string().contains("is a pipe"));
}

// Root may do everything, so it becomes an unprivileged user first: in a process of its own.
#[test]
fn without_permission() {
    if std::env::var_os("RINGFENCE_NOBODY").is_none() {
        let folder = Folder::new();
        fs::write(folder.file("mine"), [1; 4096]).unwrap();
        fs::write(folder.file("readable"), [1; 4096]).unwrap();
        fs::set_permissions(folder.file("mine"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(folder.file("readable"), fs::Permissions::from_mode(0o444)).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o555)).unwrap();
        let mut child = child("without_permission");
        child.env("RINGFENCE_NOBODY", &folder.0);
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        return;
    }
    let folder = PathBuf::from(std::env::var_os("RINGFENCE_NOBODY").unwrap());
    if is_root() {
        // SAFETY: no memory is touched; the process ends with this test.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
    for name in ["mine", "readable"] {
        let error = refused(
            Region::open(folder.join(name), Durability::Volatile),
            "must be allowed to read and write",
        );
        assert!(error.to_string().contains("Permission denied"), "{error}");
    }
    refused(Region::create(folder.join("new"), 4096, Durability::Volatile), "Permission denied");
    assert!(
        Explanation::of(folder.join("mine")).unwrap_err().to_string().contains("Permission denied")
    );
    // What may be read can be explained, and so can what a file would be in a folder.
    for path in [folder.join("readable"), folder.clone()] {
        let said = Explanation::of(&path).unwrap();
        assert!(
            said.to_string().contains("nothing can be stored there now: Permission denied"),
            "{said}"
        );
    }
}

fn child(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    child
}

#[test]
fn a_file_shrunk_behind_our_back_is_told_and_kills_only_who_touches_it() {
    const LEN: usize = 16 << 10;
    if let Some(path) = std::env::var_os("RINGFENCE_TOUCH") {
        let region = Region::open(&path, Durability::Volatile).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        // The page that is left can be used still.
        store(&region, 4095, 9);
        println!("before the touch");
        store(&region, LEN - 1, 9);
        println!("after the touch");
        return;
    }
    let folder = Folder::new();
    let path = folder.file("x");
    let region = Region::create(&path, LEN, Durability::Volatile).unwrap();
    let output = child("a_file_shrunk_behind_our_back_is_told_and_kills_only_who_touches_it")
        .env("RINGFENCE_TOUCH", &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{said}");
    assert!(said.contains("before the touch") && !said.contains("after the touch"), "{said}");
    // This process has the same pages mapped, and lives: it is told before it touches them.
    let looked = region.intact().unwrap_err();
    let RegionError::Lost(synced) = region.msync(0..1).unwrap_err() else {
        panic!("it was not kept")
    };
    for error in [&looked, &*synced] {
        assert!(matches!(error, RegionError::Shrunk { now: 4096, mapped: 16384, .. }), "{error}");
        assert!(error.to_string().contains("do not touch") && !error.is_usage(), "{error}");
    }
    assert!(region.health().is_err(), "it stays");
    assert_eq!(load(&region, 4095), 9);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(LEN as u64 + 1).unwrap();
    region.intact().unwrap();
    assert_eq!(load(&region, LEN - 1), 0, "what was stored there is gone");
}

#[test]
fn a_memfd_cannot_be_shrunk_or_grown() {
    let region = Region::memfd(8192, Durability::Volatile).unwrap();
    let links = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let of_memfd = |link: &PathBuf| {
        let target = fs::read_link(link).unwrap_or_default();
        target.starts_with("/memfd:ringfence (deleted)")
            && fs::metadata(link).is_ok_and(|meta| meta.len() == 8192)
    };
    let link = links.into_iter().find(of_memfd).expect("it is among the descriptors");
    let file = OpenOptions::new().write(true).open(&link).unwrap();
    for len in [0, 4096, 8193] {
        assert_eq!(file.set_len(len).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    region.intact().unwrap();
    // Another process would open it so.
    let other = Region::open(&link, Durability::Volatile).unwrap();
    store(&region, 8191, 5);
    assert_eq!(
        (other.len(), load(&other, 8191), other.durability()),
        (8192, 5, Durability::Volatile)
    );
}

/// A file system of its own for a test, unmounted at the end.
struct Mounted(Folder);

impl Mounted {
    fn new(options: &str) -> Option<Self> {
        let folder = Folder::new();
        let tmpfs = ["-t", "tmpfs", "-o", options, "ringfence-test"];
        let status = Command::new("mount").args(tmpfs).arg(&folder.0).status();
        let mounted = is_root() && status.is_ok_and(|status| status.success());
        if !mounted {
            skip("mounting a tmpfs needs root and mount(8)");
        }
        mounted.then_some(Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_full_file_system() {
    let Some(mounted) = Mounted::new("size=1m") else { return };
    let (folder, volatile) = (&mounted.0, Durability::Volatile);
    refused(Region::create(folder.file("big"), 2 << 20, volatile), "1MiB free, 2MiB are needed");
    let half = Region::create(folder.file("half"), 512 << 10, volatile).unwrap();
    refused(Region::create(folder.file("rest"), 513 << 10, volatile), "512KiB free");
    File::create(folder.file("sparse")).unwrap().set_len(513 << 10).unwrap();
    refused(Region::open(folder.file("sparse"), volatile), "512KiB free");
    let rest = Region::create(folder.file("exact"), 512 << 10, volatile).unwrap();
    assert_eq!(folder.entries(), 3);
    // Full to the last byte, and every byte of both can be stored to.
    for region in [&half, &rest] {
        (0..region.len()).for_each(|at| store(region, at, 1));
        region.msync(0..region.len()).unwrap();
    }
    refused(Region::create(folder.file("one"), 1, volatile), "0B free");
}

#[test]
fn a_read_only_file_system() {
    let Some(mounted) = Mounted::new("size=1m") else { return };
    let folder = &mounted.0;
    fs::write(folder.file("x"), [1; 4096]).unwrap();
    let remount = ["-o", "remount,ro"];
    assert!(Command::new("mount").args(remount).arg(&folder.0).status().unwrap().success());
    refused(Region::open(folder.file("x"), Durability::Volatile), "mounted read-only");
    refused(Region::create(folder.file("y"), 4096, Durability::Volatile), "mounted read-only");
    for path in [folder.file("x"), folder.0.clone()] {
        let said = Explanation::of(&path).unwrap();
        assert!(
            said.to_string().contains("nothing can be stored there now: Read-only file system"),
            "{said}"
        );
    }
}

#[test]
fn explaining_changes_nothing() {
    let folder = Folder::new();
    let path = folder.file("x");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let old = fs::FileTimes::new()
        .set_accessed(std::time::UNIX_EPOCH)
        .set_modified(std::time::UNIX_EPOCH);
    OpenOptions::new().write(true).open(&path).unwrap().set_times(old).unwrap();
    let state = || {
        let meta = fs::metadata(&path).unwrap();
        (meta.len(), meta.blocks(), meta.accessed().unwrap(), meta.modified().unwrap(), meta.ino())
    };
    let before = state();
    let of_file = Explanation::of(&path).unwrap();
    let of_folder = Explanation::of(&folder.0).unwrap();
    assert_eq!(state(), before);
    assert_eq!(folder.entries(), 1);
    assert_eq!(of_file.durability(), of_folder.durability());
    assert_eq!(of_file.reasons(), of_folder.reasons());
    let empty = folder.file("empty");
    File::create(&empty).unwrap();
    assert_eq!(Explanation::of(&empty).unwrap().reasons(), of_file.reasons());
}
