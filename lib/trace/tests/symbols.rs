//! Functions, source files and lines of addresses: in a program with DWARF, in one whose DWARF is
//! elsewhere, and in one without.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use ringfence_trace::code::build_id;
use ringfence_trace::events::{Location, Module};
use ringfence_trace::symbols::locate;

use support::{has, skip};

const SOURCE: &str = "\
static inline __attribute__((always_inline)) void inner(volatile int *p) {
    *p += 7;
}
int shared;
__attribute__((noinline)) void outer(volatile int *p) {
    inner(p);
    shared = 3;
}
int main(void) {
    int here = 0;
    outer(&here);
    return here - 7;
}
";

fn run(program: &str, words: &[&str], folder: &Path) {
    let ran = Command::new(program).args(words).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

// A folder with the program, and the address of the function in it.
fn program() -> Option<(tempfile::TempDir, PathBuf, u64)> {
    if !has("gcc") || !has("objcopy") {
        skip("this needs gcc and objcopy");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("it.c"), SOURCE).unwrap();
    let words = ["-g", "-O1", "-Wl,--build-id=sha1", "-gz=none", "-o", "it", "it.c"];
    run("gcc", &words, folder.path());
    let path = folder.path().join("it");
    let bytes = fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let outer = file.symbols().find(|symbol| symbol.name() == Ok("outer")).unwrap().address();
    Some((folder, path, outer))
}

// What is known of the function's first instruction.
fn of(root: &Path, path: &Path, outer: u64) -> Location {
    let module = Module { path: path.display().to_string(), build_id: build_id(path) };
    let found = locate(root, &module, &BTreeSet::from([outer]));
    assert_eq!(found.len(), 1);
    found.into_iter().next().unwrap()
}

fn is_whole(location: &Location) {
    assert_eq!((location.function.as_deref(), location.offset), (Some("outer"), 0), "{location:?}");
    assert_eq!(
        (location.inlined.as_deref(), location.line),
        (Some("inner"), Some(2)),
        "{location:?}"
    );
    assert!(location.file.as_ref().is_some_and(|file| file.ends_with("it.c")), "{location:?}");
}

#[test]
fn a_program_with_dwarf_has_lines_and_what_was_inlined() {
    let Some((folder, path, outer)) = program() else { return };
    is_whole(&of(folder.path(), &path, outer));
    // In main there is nothing inlined at its last instruction, and no symbol far behind the end.
    let far = of(folder.path(), &path, 1 << 40);
    assert_eq!(far, Location::bare(&path.display().to_string(), 1 << 40));
}

#[test]
fn a_separate_debug_file_is_found_by_its_build_id() {
    let Some((folder, path, outer)) = program() else { return };
    let id = build_id(&path).unwrap();
    let place = folder.path().join("usr/lib/debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&place).unwrap();
    // As distributions do it.
    for compressed in ["--compress-debug-sections=none", "--compress-debug-sections=zlib"] {
        let debug = place.join(format!("{}.debug", &id[2..])).display().to_string();
        let whole = folder.path().join("whole");
        fs::copy(&path, &whole).unwrap();
        run("objcopy", &["--only-keep-debug", compressed, "whole", &debug], folder.path());
        run("objcopy", &["--strip-debug", "whole", "stripped"], folder.path());
        is_whole(&of(folder.path(), &folder.path().join("stripped"), outer));
        // Without symbols, DWARF has the name.
        run("objcopy", &["--strip-all", "whole", "bare"], folder.path());
        is_whole(&of(folder.path(), &folder.path().join("bare"), outer));
    }
    let nothing = of(&folder.path().join("none"), &folder.path().join("stripped"), outer);
    assert_eq!((nothing.function.as_deref(), nothing.line), (Some("outer"), None));
}

#[test]
fn a_debug_link_is_followed_to_the_same_build_alone() {
    let Some((folder, _, outer)) = program() else { return };
    let root = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("it.stripped");
    let link = |build_id: &str| {
        run("objcopy", &["--only-keep-debug", build_id, "it", "it.debug"], folder.path());
        run("objcopy", &["--strip-debug", build_id, "it", "it.stripped"], folder.path());
        run("objcopy", &["--add-gnu-debuglink=it.debug", "it.stripped"], folder.path());
    };
    // Told by the build ID, and without one by the checksum.
    for build_id in ["--keep-section=.note.gnu.build-id", "--remove-section=.note.gnu.build-id"] {
        link(build_id);
        is_whole(&of(root.path(), &stripped, outer));
        let hidden = folder.path().join(".debug");
        fs::create_dir(&hidden).unwrap();
        fs::rename(folder.path().join("it.debug"), hidden.join("it.debug")).unwrap();
        is_whole(&of(root.path(), &stripped, outer));
        let below =
            root.path().join("usr/lib/debug").join(folder.path().strip_prefix("/").unwrap());
        fs::create_dir_all(&below).unwrap();
        fs::rename(hidden.join("it.debug"), below.join("it.debug")).unwrap();
        is_whole(&of(root.path(), &stripped, outer));
        fs::remove_file(below.join("it.debug")).unwrap();
        fs::remove_dir(hidden).unwrap();
        // Another build of that name.
        fs::write(folder.path().join("other.c"), format!("{SOURCE}int more;")).unwrap();
        run("gcc", &["-g", "-o", "it.debug", "other.c"], folder.path());
        if build_id.starts_with("--remove") {
            run("objcopy", &[build_id, "it.debug"], folder.path());
        }
        assert_eq!(of(root.path(), &stripped, outer).line, None);
    }
}

#[test]
fn nothing_is_said_of_another_build_or_of_what_is_gone() {
    let Some((folder, path, outer)) = program() else { return };
    let bare = |path: &str, build_id: Option<&str>| {
        let module = Module { path: path.into(), build_id: build_id.map(Into::into) };
        let found = locate(folder.path(), &module, &BTreeSet::from([outer, outer + 1]));
        assert_eq!(found, [Location::bare(path, outer), Location::bare(path, outer + 1)]);
    };
    bare(&path.display().to_string(), Some("0123"));
    bare("/no/such/file", None);
    bare("[vdso]", None);
    bare(&folder.path().display().to_string(), None);
    bare(&folder.path().join("it.c").display().to_string(), None);
}

// `_mm_sfence` and its kin are functions of headers, which no user wants to be sent to.
#[test]
fn an_intrinsic_is_where_somebody_wrote_it() {
    if !has("gcc") {
        return skip("this needs gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <immintrin.h>\nstatic inline void drain(void) \
                  {\n    _mm_sfence();\n}\nint main(void) {\n    drain();\n    return 0;\n}\n";
    fs::write(folder.path().join("it.c"), source).unwrap();
    run("gcc", &["-g", "-O1", "-o", "it", "it.c"], folder.path());
    let path = folder.path().join("it");
    let found = ringfence_trace::census::of(std::slice::from_ref(&path)).unwrap();
    let main = found.files[0].functions.iter().find(|function| function.name == "main").unwrap();
    let place = of(folder.path(), &path, main.sites[0].address);
    assert_eq!(
        (place.function.as_deref(), place.inlined.as_deref()),
        (Some("main"), Some("drain"))
    );
    assert_eq!(place.line, Some(3), "{place:?}");
}

// Whatever is damaged, the reader does not crash.
#[test]
fn damaged_files_are_known_no_worse_than_not_at_all() {
    let Some((folder, path, outer)) = program() else { return };
    let whole = fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged");
    let mut state = 7u64;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (state >> 20) as usize % bytes.len();
            bytes[at] ^= (state >> 10) as u8;
        }
        fs::write(&damaged, bytes).unwrap();
        let module = Module { path: damaged.display().to_string(), build_id: None };
        assert_eq!(locate(folder.path(), &module, &BTreeSet::from([outer])).len(), 1);
    }
}
