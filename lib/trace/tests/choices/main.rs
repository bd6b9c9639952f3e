//! Functions that are chosen from at run time: in what gcc makes of C in many ways, and in an
//! installed libpmem.

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_persist::Flush;
use ringfence_trace::census;
use ringfence_trace::code::Operation;
use ringfence_trace::code::choices::{Choice, Holder};

use support::{has, skip};

fn built(folder: &Path, name: &str, source: &str, words: &[&str]) -> PathBuf {
    let (source_file, program) = (folder.join(name).with_extension("c"), folder.join(name));
    fs::write(&source_file, source).unwrap();
    let ran =
        Command::new("gcc").args(words).arg("-o").arg(&program).arg(&source_file).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    program
}

fn chosen(path: &Path) -> Vec<Choice> {
    census::of(&[path.to_owned()]).unwrap().files.remove(0).chosen
}

fn names(choice: &Choice) -> Vec<&str> {
    choice.variants.iter().map(|variant| variant.function.as_str()).collect()
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

#[track_caller]
fn assert_holds(choices: &[Choice], holder: Holder, name: &str, expected: &[&str], how: &str) {
    let all: Vec<&Choice> = choices
        .iter()
        .filter(|choice| choice.holder == holder && choice.name.contains(name))
        .filter(|choice| sorted(&names(choice)) == sorted(expected))
        .collect();
    assert_eq!(all.len(), 1, "{how}: {holder:?} {name} with {expected:?} in {choices:#?}");
}

const POINTERS: &str = include_str!("pointers.c");
const IFUNC: &str = include_str!("ifunc.c");

#[test]
fn pointers_are_found_whatever_the_compiler_makes_of_them() {
    if !has("gcc") {
        return skip("this needs gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for kind in
            [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"], &["-static"], &["-shared", "-fPIC"]]
        {
            let how = format!("{level} {kind:?}");
            let words: Vec<&str> = [level].iter().chain(kind).copied().collect();
            let found = chosen(&built(folder.path(), "pointers", POINTERS, &words));
            // That it begins with clflush is in the data alone: only what code stores is found.
            let in_variable = ["in_variable_clwb", "in_variable_clflushopt"];
            assert_holds(&found, Holder::Variable, "flush", &in_variable, &how);
            let in_field = ["in_field_clflush", "in_field_clwb"];
            assert_holds(&found, Holder::Field, "+0x10, set by set", &in_field, &how);
            assert_holds(
                &found,
                Holder::Field,
                "+0x8, set by set",
                &["copy_sse2", "copy_avx512f"],
                &how,
            );
            assert_holds(
                &found,
                Holder::Returned,
                "best",
                &["returned_clwb", "returned_clflush"],
                &how,
            );
            let in_table = ["in_table_clflush", "in_table_clflushopt", "in_table_clwb"];
            assert_holds(&found, Holder::Table, "methods", &in_table, &how);
            assert!(
                found.iter().all(|choice| !names(choice).contains(&"only_called")),
                "{how}: {found:#?}"
            );
        }
    }
}

#[test]
fn what_variants_have_and_need_is_what_their_instructions_say() {
    if !has("gcc") {
        return skip("this needs gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path(), "pointers", POINTERS, &["-O2"]);
    let mut found = census::of(&[program]).unwrap();
    let lacks = |found: &census::Census, name: &str| {
        let variants = found.files[0].chosen.iter().flat_map(|choice| &choice.variants);
        let variant =
            variants.into_iter().find(|variant| variant.function == name).unwrap().clone();
        assert!(variant.counts.are_for_durability());
        (variant.needs.join(" "), variant.lacks, variant.counts)
    };
    assert_eq!(lacks(&found, "in_table_clwb").1, None);
    // A machine of the day before yesterday.
    found.ask(&["clflush", "clflushopt", "avx2"].map(String::from).into());
    let (needs, lacking, counts) = lacks(&found, "in_table_clwb");
    assert_eq!((needs.as_str(), lacking), ("clwb", Some(vec!["clwb".into()])));
    assert_eq!(counts.of(Operation::Flush(Flush::Clwb)), 1);
    let (needs, lacking, counts) = lacks(&found, "in_table_clflushopt");
    assert_eq!((needs.as_str(), lacking), ("clflushopt", Some(vec![])));
    assert_eq!(counts.of(Operation::Flush(Flush::Clflushopt)), 1);
    let (needs, lacking, counts) = lacks(&found, "copy_avx512f");
    assert!(needs.contains("avx512f"), "{needs}");
    assert!(lacking.unwrap().contains(&"avx512f".into()));
    assert_eq!(counts.of(Operation::NonTemporal), 1);
    let (needs, lacking, _) = lacks(&found, "copy_sse2");
    assert_eq!((needs.as_str(), lacking), ("", Some(vec![])));
}

#[test]
fn a_resolver_is_named_by_its_symbol() {
    if !has("gcc") || !has("strip") {
        return skip("this needs gcc and strip");
    }
    let folder = tempfile::tempdir().unwrap();
    let expected = ["persist_clflush", "persist_clflushopt", "persist_clwb"];
    for level in ["-O0", "-O2"] {
        for kind in
            [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"], &["-static"], &["-shared", "-fPIC"]]
        {
            let how = format!("{level} {kind:?}");
            let words: Vec<&str> = [level].iter().chain(kind).copied().collect();
            let program = built(folder.path(), "ifunc", IFUNC, &words);
            let found = chosen(&program);
            assert_holds(&found, Holder::Ifunc, "persist", &expected, &how);
            let [own] = &found
                .iter()
                .filter(|choice| names(choice).contains(&expected[0]))
                .collect::<Vec<_>>()[..]
            else {
                panic!("{how}: {found:#?}")
            };
            assert_eq!(own.name, "persist", "{how}");

            // Without names, the addresses are the same; only libraries keep the symbol.
            let addresses: Vec<u64> = own.variants.iter().map(|variant| variant.address).collect();
            assert!(Command::new("strip").arg(&program).status().unwrap().success());
            let stripped = chosen(&program);
            let same = stripped.iter().find(|choice| {
                choice.variants.iter().map(|variant| variant.address).collect::<Vec<_>>()
                    == addresses
            });
            let same = same.unwrap_or_else(|| panic!("{how}: {stripped:#?}"));
            assert_eq!(same.holder, Holder::Ifunc, "{how}");
            assert!(
                same.variants.iter().all(|variant| variant.function.starts_with("unnamed at ")),
                "{how}"
            );
            assert_eq!(same.name == "persist", kind.contains(&"-shared"), "{how}: {}", same.name);
        }
    }
}

#[test]
fn object_files_and_other_functions_have_no_choices() {
    if !has("gcc") {
        return skip("this needs gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(chosen(&built(folder.path(), "object", POINTERS, &["-O2", "-c"])), []);
    // Comparisons that differ, in a table and in a variable; neither makes anything durable. One
    // that does is called.
    let other = "
        #include <immintrin.h>
        static int up(const void *a, const void *b) { return *(int *)a - *(int *)b; }
        __attribute__((target(\"avx2\"))) static int wide(const void *a, const void *b) {
            return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256(a), \
            _mm256_loadu_si256(b)));
        }
        __attribute__((noinline)) static void drain(void) { _mm_sfence(); }
        int (*const both[])(const void *, const void *) = {up, wide};
        int (*now)(const void *, const void *);
        int main(int count, char **words) {
            now = count > 1 ? up : wide;
            drain();
            return now(words[0], words[0]);
        }";
    assert_eq!(chosen(&built(folder.path(), "other", other, &["-O1"])), []);
}

// Whatever is changed in a file, a census of it is an error or a census.
#[test]
fn damaged_files_do_no_harm() {
    if !has("gcc") {
        return skip("this needs gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(built(folder.path(), "pointers", POINTERS, &["-O2"])).unwrap();
    let damaged = folder.path().join("damaged");
    let (mut state, mut others) = (11u64, 0);
    let before = chosen(&folder.path().join("pointers"));
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // What names the format stays, so that the rest is read.
            let at = 64 + (state >> 20) as usize % (bytes.len() - 64);
            bytes[at] ^= (state >> 10) as u8;
        }
        fs::write(&damaged, bytes).unwrap();
        if let Ok(found) = census::of(std::slice::from_ref(&damaged)) {
            others += usize::from(found.files[0].chosen != before);
        }
    }
    assert!(others > 10, "damage changed {others} alone");
}

#[test]
fn libpmem_has_three_flushes_for_one_pointer() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libpmem.so.1");
    if !library.is_file() {
        return skip("this needs libpmem1");
    }
    let found = chosen(library);
    let has_only = |choice: &Choice, at: usize, flush| {
        choice.variants[at]
            .counts
            .iter()
            .all(|(operation, count)| count == u64::from(operation == Operation::Flush(flush)))
    };
    let flushes = found.iter().filter(|choice| {
        let of = |flush| (0..choice.variants.len()).any(|at| has_only(choice, at, flush));
        choice.variants.len() == 3 && Flush::ALL.into_iter().all(of)
    });
    assert_eq!(flushes.count(), 1, "{found:#?}");
    // Copies and fills: each kind of vector with each flush.
    for feature in ["avx", "avx512f"] {
        let with = found.iter().flat_map(|choice| &choice.variants).filter(|variant| {
            variant.needs.contains(&feature.to_owned())
                && variant.needs.contains(&"clwb".to_owned())
        });
        assert!(with.count() > 0, "{feature}: {found:#?}");
    }
}
