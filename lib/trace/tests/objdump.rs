//! The census against binutils' objdump, an independent reader of the same code: the same
//! instructions at the same addresses, in programs that are installed and in one that is made for
//! it.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_persist::Flush;
use ringfence_trace::census;
use ringfence_trace::code::Operation;

use support::{has, skip};

// What objdump prints before a mnemonic.
const PREFIXES: [&str; 20] = [
    "data16", "addr32", "cs", "ds", "es", "ss", "fs", "gs", "repz", "repnz", "rep", "notrack",
    "bnd", "xacquire", "xrelease", "rex.W", "rex", "rex.R", "rex.B", "rex.X",
];

fn operation(text: &str) -> Option<Operation> {
    let mut words = text.split_whitespace().skip_while(|word| {
        PREFIXES.contains(word) || word.starts_with("rex.") || word.starts_with('{')
    });
    let mnemonic = words.next()?;
    Some(match mnemonic {
        // A prefix alone, or before what cannot be locked, is an error of the processor: data that
        // is read as code.
        "lock" if can_be_locked(&words.collect::<Vec<_>>()) => Operation::Locked,
        "clflush" => Operation::Flush(Flush::Clflush),
        "clflushopt" => Operation::Flush(Flush::Clflushopt),
        "clwb" => Operation::Flush(Flush::Clwb),
        "sfence" => Operation::Sfence,
        "mfence" => Operation::Mfence,
        "lfence" => Operation::Lfence,
        "maskmovq" | "maskmovdqu" | "vmaskmovdqu" | "movdiri" | "movdir64b" => {
            Operation::NonTemporal
        }
        // movntdqa loads.
        _ if mnemonic.trim_start_matches('v').starts_with("movnt")
            && !mnemonic.ends_with("movntdqa") =>
        {
            Operation::NonTemporal
        }
        _ if mnemonic.starts_with("xchg") && text.contains('(') => Operation::Locked,
        _ if mnemonic.starts_with("xchg") && text.contains("0x") => Operation::Locked,
        _ => return None,
    })
}

// The words behind the prefix, in AT&T's order: what is written comes last.
fn can_be_locked(words: &[&str]) -> bool {
    let words: Vec<&str> =
        words.iter().copied().skip_while(|word| PREFIXES.contains(word)).collect();
    let [mnemonic, operands, ..] = words[..] else { return false };
    let lockable = [
        "add",
        "adc",
        "and",
        "btc",
        "btr",
        "bts",
        "cmpxchg",
        "cmpxchg8b",
        "cmpxchg16b",
        "dec",
        "inc",
        "neg",
        "not",
        "or",
        "sbb",
        "sub",
        "xor",
        "xadd",
    ];
    let plain = mnemonic.strip_suffix(['b', 'w', 'l', 'q']).unwrap_or(mnemonic);
    let takes_it = lockable.contains(&mnemonic) || lockable.contains(&plain);
    let memory = operands.ends_with(')')
        || !operands.rsplit(',').next().unwrap_or_default().starts_with('%');
    (takes_it && memory) || (mnemonic.starts_with("xchg") && operands.contains('('))
}

type Sites = BTreeMap<(String, u64), Vec<Operation>>;

/// What objdump reads.
struct Theirs {
    // By member and address: object files have several sections that begin at 0.
    sites: Sites,
    // Where data is read as code: from a symbol, in each member, to the next. There objdump finds
    // what no processor runs, and where a reader goes on behind that is its own affair.
    data: Vec<(String, std::ops::Range<u64>)>,
}

impl Theirs {
    fn without_data(&self, sites: &Sites) -> Sites {
        let is_data = |member: &String, address: u64| {
            self.data.iter().any(|(of, range)| of == member && range.contains(&address))
        };
        sites
            .iter()
            .filter(|((member, address), _)| !is_data(member, *address))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }
}

fn by_objdump(path: &Path) -> Theirs {
    let ran = Command::new("objdump")
        .args(["-d", "-w", "--no-show-raw-insn"])
        .arg(path)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8_lossy(&ran.stdout);
    let (mut sites, mut member, mut data) = (Sites::new(), String::new(), Vec::new());
    let (mut begun, mut last, mut is_data) = (0, 0, false);
    for line in text.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        let symbol = u64::from_str_radix(first, 16).ok().filter(|_| line.ends_with(">:"));
        let is_end = line.contains("Disassembly of section") || line.contains(":     file format");
        if symbol.is_some() || is_end {
            if is_data {
                data.push((member.clone(), begun..last + 16));
            }
            is_data = false;
        }
        if let Some((name, _)) = line.split_once(":     file format") {
            member = name.to_owned();
        }
        begun = symbol.unwrap_or(begun);
        let Some((address, rest)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
        last = address;
        is_data |= rest.contains("(bad)");
        if let Some(operation) = operation(rest) {
            sites.entry((member.clone(), address)).or_default().push(operation);
        }
    }
    if is_data {
        data.push((member, begun..last + 16));
    }
    sites.values_mut().for_each(|all| all.sort());
    Theirs { sites, data }
}

fn by_us(path: &Path) -> Sites {
    let mut sites = Sites::new();
    for file in census::of(&[path.to_owned()]).unwrap().files {
        let member = file.member.clone().unwrap_or_else(|| path.display().to_string());
        for site in file.functions.iter().flat_map(|function| &function.sites) {
            sites.entry((member.clone(), site.address)).or_default().push(site.operation);
        }
    }
    sites.values_mut().for_each(|all| all.sort());
    sites
}

#[track_caller]
fn assert_same(path: &Path) -> usize {
    let (theirs, ours) = (by_objdump(path), by_us(path));
    let (theirs, ours) = (theirs.without_data(&theirs.sites), theirs.without_data(&ours));
    for (place, operations) in &theirs {
        assert_eq!(ours.get(place), Some(operations), "{}: {place:x?}", path.display());
    }
    for (place, operations) in &ours {
        assert_eq!(theirs.get(place), Some(operations), "{}: {place:x?}", path.display());
    }
    ours.len()
}

const EVERY: &str = r#"
    .intel_syntax noprefix
    .text
    .globl every
    .type every, @function
every:
    clflush [rdi]
    clflushopt [rdi + rsi*8 + 64]
    clwb [r8]
    clwb [rip + every]
    sfence
    mfence
    lfence
    movnti [rdi], rax
    movnti [rdi], eax
    movntdq [rdi], xmm9
    movntps [rdi], xmm0
    movntpd [rdi], xmm0
    movntq [rdi], mm0
    maskmovq mm0, mm1
    maskmovdqu xmm0, xmm1
    vmaskmovdqu xmm0, xmm1
    vmovntdq [rdi], ymm8
    vmovntps [rdi], zmm31
    vmovntpd [rdi], ymm0
    movdiri [rdi], rax
    movdir64b rax, [rdi]
    movntdqa xmm0, [rdi]
    lock inc dword ptr [rdi]
    lock cmpxchg16b [rdi]
    lock xadd [rdi], rax
    lock btr qword ptr [rdi], rcx
    xchg [rdi], rax
    xchg gs:[16], eax
    xchg rax, rcx
    xchg ax, ax
    pause
    ret
    .size every, . - every
    # Data that looks like the beginning of a long instruction, before the next function.
    .byte 0x48, 0xb8, 1
    .globl behind
    .type behind, @function
behind:
    clwb [rdi]
    ret
    .size behind, . - behind
    .section .text.other, "ax"
    .type other, @function
other:
    sfence
    ret
    .size other, . - other
    .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn every_instruction_is_found_where_it_is() {
    if !has("gcc") || !has("objdump") {
        return skip("this needs gcc and objdump");
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("every.s"), folder.path().join("every.o"));
    fs::write(&source, EVERY).unwrap();
    let ran = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status().unwrap();
    assert!(ran.success());
    // Of these, two lie at the beginning of their sections.
    assert_eq!(assert_same(&object), 28);

    let found = census::of(std::slice::from_ref(&object)).unwrap();
    let [file] = &found.files[..] else { panic!("{found:?}") };
    let names: Vec<&str> = file.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["every", "behind", "other"]);
    let counts: Vec<u64> = Operation::ALL.iter().map(|one| file.counts.of(*one)).collect();
    assert_eq!(counts, [1, 1, 3, 14, 2, 1, 1, 6]);

    // An archive's members one by one, and a folder's files.
    let archive = folder.path().join("libevery.a");
    assert!(Command::new("ar").arg("rcs").arg(&archive).arg(&object).status().unwrap().success());
    assert_same(&archive);
    let both = census::of(&[folder.path().to_owned()]).unwrap();
    assert_eq!(both.files.len(), 2);
    assert_eq!(both.files[1].member.as_deref(), Some("every.o"));
    assert_eq!(both.total().of(Operation::Sfence), 4);
    assert!(both.unread.is_empty(), "{:?}", both.unread);
}

// Hand-written assembly, C, C++ and Rust; stripped and not; with tables of data in the code of
// some.
#[test]
fn installed_programs_and_libraries() {
    if !has("objdump") {
        return skip("this needs objdump");
    }
    let mut paths = vec![std::env::current_exe().unwrap()];
    let libraries = Path::new("/usr/lib/x86_64-linux-gnu");
    for name in [
        "libc.so.6",
        "libm.so.6",
        "libstdc++.so.6",
        "libpmem.so.1",
        "libcrypto.so.3",
        "libgmp.so.10",
        "libz.so.1",
    ] {
        paths.extend([libraries.join(name)].into_iter().filter(|path| path.is_file()));
    }
    for name in
        ["/usr/bin/bash", "/usr/bin/stress-ng", "/usr/bin/fio", "/usr/bin/gcc", "/usr/bin/python3"]
    {
        paths.extend([PathBuf::from(name)].into_iter().filter(|path| path.is_file()));
    }
    let found: usize = paths.iter().map(|path| assert_same(path)).sum();
    assert!(found > 100, "{found} in {paths:?}");
}

/// Everything that is installed: `cargo test -p ringfence-trace --test objdump -- --ignored
/// --nocapture`.
#[test]
#[ignore = "minutes long"]
fn everything_that_is_installed() {
    let (mut files, mut sites, mut in_data, mut differing) = (0, 0, 0, 0);
    for folder in ["/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu"] {
        let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = entries
            .filter(|path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()))
            .collect();
        paths.sort();
        for path in paths.iter().filter(|path| census::of(&[path.to_path_buf()]).is_ok()) {
            let (read, all) = (by_objdump(path), by_us(path));
            let (theirs, ours) = (read.without_data(&read.sites), read.without_data(&all));
            files += 1;
            in_data += all.len() - ours.len();
            sites += theirs.values().map(Vec::len).sum::<usize>();
            if theirs != ours {
                let missing =
                    theirs.iter().filter(|(place, all)| ours.get(place) != Some(all)).count();
                let more =
                    ours.iter().filter(|(place, all)| theirs.get(place) != Some(all)).count();
                println!(
                    "{}: {missing} of objdump's {} are not found, {more} are found besides",
                    path.display(),
                    theirs.len()
                );
                differing += missing + more;
            }
        }
    }
    println!(
        "{files} files, {sites} instructions, {differing} differences; {in_data} in what is data \
         to objdump, too"
    );
    assert_eq!(differing, 0);
}
