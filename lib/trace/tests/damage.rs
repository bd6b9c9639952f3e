//! Files that are no programs, or not whole.

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ringfence_trace::census::{self, CensusError};

use support::{has, skip};

fn of(path: PathBuf) -> Result<census::Census, CensusError> {
    census::of(&[path])
}

#[test]
fn what_was_named_and_has_no_code_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    for (path, said) in [
        (folder.path().join("none"), "cannot be read"),
        (PathBuf::from("/dev/null"), "neither a file nor a folder"),
        (file("empty", b""), "not an ELF file"),
        (file("text", b"#!/bin/sh\n"), "not an ELF file"),
        (file("cut", b"\x7fELF\x02\x01\x01"), "damaged"),
        (file("archive", b"!<arch>\n"), "no object files"),
        (file("cut.a", b"!<arch>\nnonsense"), ""),
    ] {
        let error = of(path.clone()).expect_err(said).to_string();
        assert!(error.contains(said) && error.contains(&path.display().to_string()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = census::of_package(folder.path(), "none").unwrap_err().to_string();
    assert!(error.contains("no package 'none' is installed"), "{error}");
}

#[test]
fn code_that_is_not_there_is_reported_as_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read("/proc/self/exe").unwrap();
    // Without e_shoff, and e_shnum and e_shstrndx.
    let mut bare = whole.clone();
    bare[0x28..0x30].fill(0);
    bare[0x3c..0x40].fill(0);
    let mut core = bare.clone();
    core[0x10] = 4;
    let path = folder.path().join("file");
    for (bytes, why) in [
        (&bare, "no code found: its section headers are missing"),
        (&core, "no code found: it is a core dump"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = of(path.clone()).unwrap_err().to_string();
        assert!(error.ends_with(why), "{error}");
        // Beside others it is listed.
        let census = of(folder.path().to_owned()).unwrap();
        assert_eq!((census.files.len(), &*census.unread[0].why), (0, why));
    }
    fs::write(&path, &whole).unwrap();
    if has("objcopy") {
        let debug = folder.path().join("file.debug");
        let made = Command::new("objcopy")
            .arg("--only-keep-debug")
            .args([&path, &debug])
            .status()
            .unwrap();
        assert!(made.success());
        let error = of(debug).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "no code found: it has debug information only, and its code is in another file"
            ),
            "{error}"
        );
    } else {
        skip("there is no objcopy");
    }
    let census = of(folder.path().to_owned()).unwrap();
    assert_eq!(census.files.len(), 1);
    assert!(census.files[0].code_bytes > 0);
}

// Cut anywhere, or with a byte changed: an error or a census, and nothing else.
#[test]
fn damage_is_told_and_nothing_worse() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read("/proc/self/exe").unwrap();
    let path = folder.path().join("damaged");
    // Headers are at both ends; the middle is code.
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    let small = &whole[..whole.len().min(1 << 20)];
    for round in 0..200 {
        let mut bytes = small.to_vec();
        if round % 2 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        for _ in 0..random(8) {
            let at = random(bytes.len().clamp(1, 4096));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random(256) as u8;
            }
        }
        fs::write(&path, &bytes).unwrap();
        match of(path.clone()) {
            Ok(census) => assert_eq!(census.files.len(), 1),
            Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        }
    }
}

#[test]
fn a_packages_files_are_those_that_dpkg_lists() {
    let root = tempfile::tempdir().unwrap();
    let info = root.path().join("var/lib/dpkg/info");
    fs::create_dir_all(&info).unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::copy("/proc/self/exe", root.path().join("usr/bin/tool")).unwrap();
    fs::write(root.path().join("usr/bin/script"), "#!/bin/sh\n").unwrap();
    fs::write(root.path().join("usr/bin/broken"), b"\x7fELF\x02\x01\x01 and no more").unwrap();
    fs::write(
        info.join("tool:amd64.list"),
        "/.\n/usr\n/usr/bin\n/usr/bin/tool\n/usr/bin/script\n/usr/bin/broken\n/gone\n",
    )
    .unwrap();
    let census = census::of_package(root.path(), "tool").unwrap();
    assert_eq!(census.files.len(), 1);
    assert!(census.files[0].path.ends_with("usr/bin/tool"));
    assert_eq!(census.unread.len(), 1);
    assert!(census.unread[0].path.ends_with("broken"), "{:?}", census.unread);
}
