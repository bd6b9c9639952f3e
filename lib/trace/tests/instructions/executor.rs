//! The executor: built once, run natively and recorded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use ringfence_trace::events::Ended;
use ringfence_trace::record::{Options, Outcome, record};
use ringfence_trace::recording::{About, Reader, Writer};
use ringfence_trace::replay;

use crate::addresses::{ALL, CODE, HIGH, HIGH_SIZE, LOW_SIZE, MARKER_SIZE};
use crate::maker::{SLOT, Sequence};
use crate::random::Random;

/// What became of one sequence, as the executor writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Became {
    pub registers: [u64; 16],
    pub flags: u64,
    /// Where and why it failed: the signal's number, its code, the address it names, the
    /// instruction. Else zeros.
    pub failed: [u64; 4],
    /// Hashes: of x87, masks and vectors, of the two mappings of the file, of other memory.
    pub vectors: u64,
    pub memory: [u64; 3],
}

/// Bytes of the file.
pub const FILE_SIZE: u64 = LOW_SIZE + HIGH_SIZE + MARKER_SIZE;

/// Where the code of sequences is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Each has memory of its own.
    Apart,
    /// All take the same, one after the other.
    Same,
    /// In the program.
    Program,
}

pub struct Executor {
    folder: tempfile::TempDir,
    program: PathBuf,
    /// How often each sequence is executed: what accesses a file often is replaced.
    pub times: u32,
    // Recording waits for any child: there may be no other one.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// Makes a program out of sources in C and assembly.
pub fn compile(into: &Path, sources: &[PathBuf]) {
    let mut compiler = Command::new("gcc");
    compiler.args([
        "-O2",
        "-static",
        "-no-pie",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-mgeneral-regs-only",
    ]);
    compiler.arg(format!("-Wl,--section-start=.sequences={CODE:#x}"));
    compiler.args(ALL.iter().map(|(name, value)| format!("-D{name}={value:#x}")));
    let status = compiler.arg("-o").arg(into).args(sources).status().expect("gcc runs");
    assert!(status.success(), "the program is built");
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions").join(name)
}

impl Executor {
    pub fn new() -> Self {
        Self::with(".section .note.GNU-stack,\"\",@progbits\n")
    }

    /// With more code, in assembly, that begins at [`CODE`].
    pub fn with(assembly: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("executor");
        let more = folder.path().join("sequences.s");
        std::fs::write(&more, assembly).expect("the assembly");
        compile(&program, &[source("executor.c"), more]);
        Self { folder, program, times: 1, _alone: alone }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the file holds before.
    pub fn initial(&self) -> Vec<u8> {
        let mut random = Random(7);
        let mut bytes = Vec::new();
        while bytes.len() < FILE_SIZE as usize {
            bytes.extend(random.next().to_le_bytes());
        }
        let slot = (LOW_SIZE + SLOT - HIGH) as usize;
        bytes[slot..].fill(0);
        bytes
    }

    fn new_file(&self) -> PathBuf {
        let path = self.path("file");
        std::fs::write(&path, self.initial()).expect("the file");
        path
    }

    /// Writes what is to be executed. Its code goes where the sequences say, unless the program has
    /// it already.
    pub fn write(&self, sequences: &[Sequence], code: Where) {
        let head = 32 + 48 * sequences.len() as u64;
        let ends = sequences.iter().map(|one| one.at + one.code.len() as u64);
        let size = match code {
            Where::Program => 0,
            _ => ends.max().unwrap_or(CODE) - CODE,
        };
        let mut text = vec![0xcc; size as usize];
        let (mut entries, mut rest) = (Vec::<u8>::new(), Vec::<u8>::new());
        for one in sequences {
            let from = (one.at - CODE) as usize;
            if code == Where::Apart {
                text[from..from + one.code.len()].copy_from_slice(&one.code);
            }
            let at = head + size + rest.len() as u64;
            let [constants, bytes] = [one.constants.len() as u64, one.code.len() as u64];
            for value in [one.seed, one.at, at, constants, at + constants, bytes] {
                entries.extend(u64::to_le_bytes(value));
            }
            rest.extend(&one.constants);
            rest.extend(&one.code);
        }
        let mut script = Vec::new();
        for value in [sequences.len() as u64, head, size, u64::from(code == Where::Same)] {
            script.extend(value.to_le_bytes());
        }
        script.extend(entries);
        script.extend(text);
        script.extend(rest);
        std::fs::write(self.path("script"), script).expect("the script");
    }

    fn command(&self, first: usize, count: usize) -> Vec<OsString> {
        vec![
            self.program.clone().into(),
            self.path("script").into(),
            self.path("file").into(),
            self.path("results").into(),
            first.to_string().into(),
            count.to_string().into(),
            self.times.to_string().into(),
        ]
    }

    fn results(&self) -> Vec<Became> {
        let bytes = std::fs::read(self.path("results")).unwrap_or_default();
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let each = words.chunks_exact(25).map(|one| Became {
            registers: one[..16].try_into().unwrap(),
            flags: one[16],
            failed: [one[18], one[19], one[20], one[17]],
            vectors: one[21],
            memory: one[22..25].try_into().unwrap(),
        });
        each.collect()
    }

    /// Runs some of them natively.
    pub fn natively(&self, first: usize, count: usize) -> Vec<Became> {
        self.new_file();
        let command = self.command(first, count);
        let status =
            Command::new(&command[0]).args(&command[1..]).status().expect("the executor starts");
        assert!(status.success(), "the executor: {status}");
        self.results()
    }

    /// Runs some of them recorded. The file is what it is afterwards; the recording is in a folder
    /// of that name.
    pub fn recorded(
        &self,
        first: usize,
        count: usize,
        loads: bool,
    ) -> (Outcome, Vec<Became>, Option<Reader>) {
        let file = self.new_file();
        let _ = std::fs::remove_file(self.path("results"));
        let folder = self.path("recording");
        let _ = std::fs::remove_dir_all(&folder);
        let mut writer = Writer::create(&folder, About::default()).expect("a recording");
        let options = Options {
            command: self.command(first, count),
            files: vec![file],
            loads,
            ..Options::default()
        };
        let outcome = record(options, &mut writer).expect("it is recorded");
        writer.finish(outcome.ended.clone()).expect("it is kept");
        let reader = matches!(outcome.ended, Ended::Exited(0))
            .then(|| Reader::open(&folder).expect("it opens"));
        (outcome, self.results(), reader)
    }

    /// All of the state behind a sequence that was run alone: the processor's, the file's, other
    /// memory.
    pub fn state(&self) -> Vec<u8> {
        std::fs::read(self.path("results.state")).expect("the state")
    }

    /// Whether the replay of a recording makes the file that is there.
    pub fn is_replayed(&self, reader: &Reader) -> bool {
        let path = self.path("replayed");
        let into = std::fs::File::create(&path).expect("a file");
        replay(reader, 0, &into).expect("it is replayed");
        std::fs::read(&path).expect("it is read")
            == std::fs::read(self.path("file")).expect("the file")
    }
}
