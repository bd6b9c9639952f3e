//! What QEMU's user emulation tells of a program, by our plugin (`plugin.c`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::effects::{Happened, Line, Site, whole};

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/counts/plugin.c");

/// Bytes of a record of the log.
const RECORD: usize = 64;
/// Its kinds.
const STORED: u8 = 1;

pub struct Emulated {
    pub code: i32,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// Of each thread of each process.
    pub threads: Vec<Vec<Happened>>,
}

/// What libraries and programs choose by, where QEMU has it and processors may lack it.
const CHOICES: [&str; 7] = ["avx2", "bmi1", "bmi2", "erms", "fma", "clflushopt", "clwb"];

// A processor that has no more of them than this machine's.
fn processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags =
        about.lines().find(|line| line.starts_with("flags")).expect("the processor's features");
    let missing =
        CHOICES.into_iter().filter(|choice| !flags.split(' ').any(|flag| flag == *choice));
    missing.fold("max".to_owned(), |processor, choice| format!("{processor},-{choice}"))
}

fn plugin(folder: &Path) -> PathBuf {
    let plugin = folder.join("plugin.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-shared", "-fPIC", "-pthread", "-o"]).arg(&plugin).arg(PLUGIN);
    assert!(gcc.status().unwrap().success(), "the plugin cannot be built");
    plugin
}

/// Runs a program with its arguments and environment, of which `file` is traced.
pub fn run(folder: &Path, command: &[PathBuf], environment: &[&str], file: &Path) -> Emulated {
    let plugin = plugin(folder);
    let logs = folder.join("log");
    let option = format!("{},traced={},logs={}", plugin.display(), file.display(), logs.display());
    let emulator = ["qemu-x86_64", "-cpu", &processor(), "-plugin", &option];
    // What the program executes as itself is to be emulated, too.
    let again = folder.join("again");
    let words: Vec<String> = emulator.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "#!/bin/sh\nexec {} -0 '{}' '{}' \"$@\"\n",
        words.join(" "),
        again.display(),
        command[0].display()
    );
    fs::write(&again, text).unwrap();
    fs::set_permissions(&again, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // With the shell: a child that another test forks may have inherited a descriptor of the script
    // that is open for writing, and the kernel executes no such file (ETXTBSY).
    let mut first = Command::new("/bin/sh");
    first.arg(&again).args(&command[1..]).env_clear();
    first.envs(environment.iter().map(|pair| pair.split_once('=').unwrap()));
    first.env("PATH", std::env::var_os("PATH").unwrap());
    let ran = first.output().unwrap();
    let code = ran.status.code().unwrap_or_else(|| panic!("{ran:?}"));
    let mut threads = Vec::new();
    for log in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if log.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log.")) {
            threads.extend(read(&log));
        }
    }
    Emulated { code, output: ran.stdout, errors: ran.stderr, threads }
}

fn read(log: &Path) -> Vec<Vec<Happened>> {
    let mut file = File::open(log).unwrap();
    let mut first = [0; RECORD];
    file.read_exact(&mut first).unwrap();
    let count = word(&first, 0) as usize;
    let mut bytes = vec![0; count * RECORD];
    file.read_exact(&mut bytes).unwrap();
    let mut threads: BTreeMap<u32, Vec<Happened>> = BTreeMap::new();
    let mut decoded: BTreeMap<Site, Instruction> = BTreeMap::new();
    for record in bytes.chunks_exact(RECORD) {
        let [turn, offset, code, inode] = [0, 8, 16, 24].map(|at| word(record, at));
        let numbers = word(record, 32);
        let (thread, size) = (numbers as u32, numbers >> 32);
        let site = Site { inode, offset: code };
        let bytes = &record[42..42 + usize::from(record[41])];
        let decode = || Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let instruction = *decoded.entry(site).or_insert_with(decode);
        let stores = if record[40] == STORED { vec![(offset, size)] } else { Vec::new() };
        let happened = Happened { turn, site, instruction, stores, line: Line::Unknown };
        threads.entry(thread).or_default().push(happened);
    }
    threads.into_values().map(whole).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"))
}
