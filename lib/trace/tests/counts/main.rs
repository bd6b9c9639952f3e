//! The recorder's counts are those of tracers that share no code with it but a decoder of
//! instructions: QEMU's user emulation with a plugin, and the processor's single steps. More than
//! counts: each thread has the same events in the same order, with the instruction, the kind, the
//! place in the file and the size.
//!
//! What counts as one is said in `docs/reference/trace-format.md`: a `rep` instruction is one store
//! of all its elements, a masked store one for each run of bytes, and a compare-exchange that does
//! not store is none.
//!
//! QEMU's plugins see neither flags nor operands of flushes, and its `vfork` is a `fork`. Single
//! steps see all that, of one thread, and are slow (20 us each on a virtual machine): those of long
//! programs are ignored by default.

mod comparison;
mod effects;
mod emulation;
mod modules;
#[path = "../support/programs.rs"]
mod programs;
mod recording;
mod single_step;
#[path = "../support/mod.rs"]
mod support;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use comparison::assert_same;
use effects::{Entry, Happened, Line, Site, What, expected};
use programs::build;
use recording::Recorded;
use support::{has, skip};

// The C library chooses its loops by CPUID. QEMU has neither AVX-512 nor RTM, so none is used
// natively (nor what the library prefers where it finds RTM), and what both say of caches differs,
// so that the sizes from which on it takes `rep stosb` and non-temporal stores are set. It takes
// `rep movsb` for no size: how depends on FSRM, which QEMU lacks. How far two blocks lie apart in
// their pages decides which way it copies: larger blocks of the heap get pages of their own, as the
// heap's begin depends on whether there is a vDSO.
const ENVIRONMENT: [&str; 4] = [
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-RTM,-Prefer_No_VZEROUPPER:\
     glibc.cpu.x86_rep_movsb_threshold=1073741824:\
     glibc.cpu.x86_rep_stosb_threshold=2048:glibc.cpu.x86_non_temporal_threshold=1048576:\
     glibc.malloc.mmap_threshold=2048:glibc.malloc.top_pad=0",
    "PMEM_IS_PMEM_FORCE=1",
    "PMEM_AVX512F=0",
    // By the maker of the processor, which QEMU says otherwise.
    "PMEM_WC_WORKAROUND=0",
];

/// From the folder of the programs.
const ORDERS: &str = "../../counts/orders.c";

struct Program {
    folder: tempfile::TempDir,
    program: PathBuf,
    launcher: PathBuf,
}

impl Program {
    fn build(source: &str, compiler: &str, flags: &[&str], libraries: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), source, compiler, flags, libraries)?;
        let launcher =
            build(folder.path(), "../../counts/launch.c", "gcc", &["-O1", "-static"], &[])?;
        Some(Self { folder, program, launcher })
    }

    // A command by which a tracer runs it, in a folder of its own, and the file that is traced.
    fn command(&self, tracer: &str, arguments: &[&str]) -> (PathBuf, Vec<PathBuf>, PathBuf) {
        let folder = self.folder.path().join(tracer);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        let mut command = vec![self.launcher.clone(), folder.join("output")];
        command.extend(ENVIRONMENT.map(PathBuf::from));
        command.extend([self.program.clone(), file.clone()]);
        command.extend(arguments.iter().map(PathBuf::from));
        (folder, command, file)
    }

    fn recorded(&self, arguments: &[&str]) -> (Recorded, Vec<u8>) {
        let (folder, command, file) = self.command("recorded", arguments);
        let command = command.into_iter().map(OsString::from).collect();
        let recorded = recording::of(&folder, command, file);
        (recorded, fs::read(folder.join("output")).unwrap())
    }

    fn emulated(&self, arguments: &[&str]) -> emulation::Emulated {
        let (folder, command, file) = self.command("emulated", arguments);
        emulation::run(&folder, &command[2 + ENVIRONMENT.len()..], &ENVIRONMENT, &file)
    }

    fn stepped(&self, arguments: &[&str]) -> (single_step::Stepped, Vec<u8>) {
        let (folder, command, file) = self.command("stepped", arguments);
        let stepped = single_step::run(&command, &file);
        (stepped, fs::read(folder.join("output")).unwrap())
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap().to_string_lossy().into_owned()
    }
}

// An emulator is told no flags and no addresses of flushes: what compares is left to the single
// steps, and so is where a flush went.
fn as_emulated(threads: &[Vec<Entry>], except: &HashSet<Site>) -> Vec<Vec<Entry>> {
    let seen =
        |entry: &Entry| Entry { bytes: entry.bytes.filter(|_| !entry.what.is_flush()), ..*entry };
    let of = |thread: &Vec<Entry>| {
        thread.iter().filter(|entry| !except.contains(&entry.site)).map(seen).collect::<Vec<_>>()
    };
    threads.iter().map(of).collect()
}

fn comparing(threads: &[Vec<Happened>]) -> HashSet<Site> {
    let all = threads.iter().flatten();
    all.filter(|one| one.compares() && !one.stores.is_empty()).map(|one| one.site).collect()
}

// Compares with QEMU what was recorded. Of `elsewhere`, flushes are of other memory. Entries of
// which `is_certain` says otherwise are left out.
fn emulate(
    program: &Program,
    (recorded, output): &(Recorded, Vec<u8>),
    arguments: &[&str],
    elsewhere: &HashSet<Site>,
    is_certain: impl Fn(&Entry) -> bool,
) {
    if !has("qemu-x86_64") {
        return skip("there is no qemu-x86_64");
    }
    let mut emulated = program.emulated(arguments);
    let text = String::from_utf8_lossy;
    let errors = text(&emulated.errors);
    assert_eq!((emulated.code, text(&emulated.output)), (recorded.code, text(output)), "{errors}");
    let except = comparing(&emulated.threads);
    for one in emulated.threads.iter_mut().flatten().filter(|one| elsewhere.contains(&one.site)) {
        one.line = Line::Elsewhere;
    }
    let mut entries: Vec<_> =
        emulated.threads.iter().map(|thread| expected(thread, &except)).collect();
    let mut found = as_emulated(&recorded.threads, &except);
    for thread in entries.iter_mut().chain(&mut found) {
        thread.retain(&is_certain);
    }
    assert_same(&format!("{}, emulated", program.name()), entries, found, &recorded.modules);
}

// Compares with single steps what was recorded of a program's first process. Sites that flush other
// memory are returned.
fn step(
    program: &Program,
    (recorded, output): &(Recorded, Vec<u8>),
    arguments: &[&str],
    is_alone: bool,
) -> HashSet<Site> {
    let (stepped, expected_output) = program.stepped(arguments);
    let text = String::from_utf8_lossy;
    assert_eq!((stepped.code, text(&expected_output)), (recorded.code, text(output)));
    let locked =
        stepped.happened.iter().filter(|one| What::of(&one.instruction) == What::Locked).count();
    if is_alone {
        assert_eq!(recorded.locked, locked as u64, "locked instructions in all");
    }
    let entries = vec![expected(&stepped.happened, &HashSet::new())];
    let what = format!("{}, stepped, {locked} locked in all", program.name());
    assert_same(&what, entries, vec![recorded.first.clone()], &recorded.modules);
    stepped.happened.iter().filter(|one| one.line == Line::Elsewhere).map(|one| one.site).collect()
}

fn emulate_all(source: &str, compiler: &str, ways: &[&[&str]], arguments: &[&str]) {
    for flags in ways {
        if flags.contains(&"-mavx2") && !std::arch::is_x86_feature_detected!("avx2") {
            skip("this machine has no AVX2");
            continue;
        }
        if let Some(program) = Program::build(source, compiler, flags, &[]) {
            let recorded = program.recorded(arguments);
            emulate(&program, &recorded, arguments, &HashSet::new(), |_| true);
        }
    }
}

#[test]
fn every_kind_of_instruction() {
    emulate_all("kinds.c", "gcc", &[&["-O3", "-mavx2"]], &[]);
    for flags in [&["-O0"][..], &["-O2", "-static"]] {
        let Some(program) = Program::build("kinds.c", "gcc", flags, &[]) else { return };
        let recorded = program.recorded(&[]);
        step(&program, &recorded, &[], true);
        emulate(&program, &recorded, &[], &HashSet::new(), |_| true);
    }
}

#[test]
fn what_is_ordered_and_what_is_not() {
    let Some(program) = Program::build(ORDERS, "gcc", &["-O1", "-static"], &[]) else { return };
    let recorded = program.recorded(&[]);
    let elsewhere = step(&program, &recorded, &[], true);
    assert!(elsewhere.len() > 1, "{elsewhere:?}");
    emulate(&program, &recorded, &[], &elsewhere, |_| true);
}

#[test]
fn the_c_library_s_loops() {
    emulate_all("strings.c", "gcc", &[&["-O2"], &["-O2", "-static"]], &[]);
}

#[test]
fn the_kernel_as_another_writer() {
    emulate_all("kernel.c", "gcc", &[&["-O3", "-mavx2"]], &[]);
    let Some(program) = Program::build("kernel.c", "gcc", &["-O2", "-static"], &[]) else { return };
    let recorded = program.recorded(&[]);
    // Of its child, too, locked instructions are counted.
    step(&program, &recorded, &[], false);
    emulate(&program, &recorded, &[], &HashSet::new(), |_| true);
}

#[test]
fn threads_and_children() {
    // Where functions are found when they are first called, it is by chance which thread executes
    // what that takes.
    let ways = [&["-O0", "-pthread", "-Wl,-z,now"][..], &["-O2", "-static", "-pthread"]];
    emulate_all("threads.c", "gcc", &ways, &["emulated"]);
}

#[test]
fn cpp_with_exceptions() {
    emulate_all("classes.cpp", "g++", &[&["-O0", "-pthread"], &["-O3", "-pthread", "-mavx2"]], &[]);
}

#[test]
fn rust_with_panics() {
    let fixed = ["-Copt-level=2", "-Ctarget-feature=+crt-static"];
    emulate_all("safe.rs", "rustc", &[&["-Copt-level=3"], &fixed], &[]);
}

#[test]
fn handlers_and_timers() {
    let Some(program) = Program::build("signals.c", "gcc", &["-O1", "-pthread"], &[]) else {
        return;
    };
    let recorded = program.recorded(&[]);
    // How often the timer strikes is by chance, and whether its fence comes before a locked
    // instruction that would have ordered a store.
    let timer = recorded.0.functions["tick"].clone();
    emulate(&program, &recorded, &[], &HashSet::new(), |entry| {
        !timer.contains(&entry.site) && (entry.what != What::Locked || entry.bytes.is_some())
    });
}

#[test]
fn transactional_objects() {
    let Some(program) = Program::build("objects.c", "gcc", &["-O2"], &["-lpmemobj", "-lpmem"])
    else {
        return;
    };
    let recorded = program.recorded(&["50"]);
    emulate(&program, &recorded, &["50"], &HashSet::new(), |_| true);
}

#[test]
#[ignore = "takes six minutes"]
fn transactional_objects_step_by_step() {
    let Some(program) = Program::build("objects.c", "gcc", &["-O2"], &["-lpmemobj", "-lpmem"])
    else {
        return;
    };
    step(&program, &program.recorded(&["50"]), &["50"], true);
}

#[test]
#[ignore = "takes half a minute"]
fn the_c_library_s_loops_step_by_step() {
    let Some(program) = Program::build("strings.c", "gcc", &["-O2"], &[]) else { return };
    step(&program, &program.recorded(&[]), &[], true);
}
