//! The executable: where it lies, and that it needs nothing.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use ringfence_trace_runtime::ELF;
use ringfence_trace_runtime::layout::{RUNTIME, SHARED};

fn number(at: usize, bytes: usize) -> u64 {
    ELF[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

// Program headers: type, flags, address, size in memory (System V ABI, "Program Header").
fn segments() -> Vec<[u64; 4]> {
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let places = (0..count).map(|one| (first + one * size) as usize);
    places
        .map(|at| [(at, 4), (at + 4, 4), (at + 16, 8), (at + 40, 8)].map(|(at, n)| number(at, n)))
        .collect()
}

#[test]
fn it_lies_where_the_layout_says() {
    const LOAD: u64 = 1;
    const EXECUTE: u64 = 1;
    const WRITE: u64 = 2;
    assert!(ELF.starts_with(b"\x7fELF\x02\x01"), "64 bits, little endian");
    let loaded: Vec<_> = segments().into_iter().filter(|[kind, ..]| *kind == LOAD).collect();
    assert_eq!(loaded[0][2], RUNTIME);
    for [_, flags, address, size] in &loaded {
        assert!((RUNTIME..SHARED).contains(address) && address + size <= SHARED);
        assert!(flags & EXECUTE == 0 || flags & WRITE == 0, "code cannot be written to");
    }
    let entry = number(24, 8);
    let code = loaded.iter().find(|[_, flags, ..]| flags & EXECUTE != 0).expect("it has code");
    assert!((code[2]..code[2] + code[3]).contains(&entry));
}

#[test]
fn it_needs_no_library() {
    const DYNAMIC: u64 = 2;
    const INTERPRETER: u64 = 3;
    for [kind, ..] in segments() {
        assert!(![DYNAMIC, INTERPRETER].contains(&kind));
    }
}

// The build's folder is no part of it, so that two builds are the same.
#[test]
fn it_has_no_path_of_this_machine() {
    let folder = env!("CARGO_MANIFEST_DIR").as_bytes();
    assert!(!ELF.windows(folder.len()).any(|bytes| bytes == folder));
}
