//! The verbs that look at programs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

/// `census`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Counts instructions in code, or executed ones in a trace. Only --check runs anything.
  ringfence census ./my-program
  ringfence census --diff old/libstore.so new/libstore.so")]
#[command(after_long_help = "\
Only --check runs anything. The counts are of instructions in the code, not of executed ones. For \
a trace, they are of what the program executed while it was recorded, where, and which flushes and \
fences were unnecessary or missing. 'nt store' counts non-temporal stores (movnti, movntdq and \
similar) and the direct stores movdiri and movdir64b; 'locked' counts instructions with a lock \
prefix and xchg with memory, which are full fences as well.

A program may choose between variants of a function at run time, such as those of an IFUNC symbol. \
Each variant is listed with the processor features that it needs, and those that this machine \
lacks. If the machine can run several, the choice is unknown. For several files, --all lists the \
variants. They are not detected in object files.

A function that has non-temporal stores and no fence on any path out is named: its callers must \
fence. Files without code are listed with the reason. If no file has code, the exit code is 2.

Examples:
  ringfence census ./my-program
  ringfence census /usr/lib/x86_64-linux-gnu --json
  ringfence census --package libpmem1
  ringfence census --diff old/libstore.so new/libstore.so
  ringfence census my-trace
  ringfence census --diff old-trace new-trace")]
pub struct Census {
    /// A program, library, object file, archive, folder or trace
    ///
    /// Links within a folder are not followed. Files in it for another processor are listed and
    /// skipped.
    #[arg(value_name = "PATH", required_unless_present = "package")]
    pub paths: Vec<PathBuf>,
    /// An installed Debian package; may be repeated
    #[arg(long, value_name = "NAME")]
    pub package: Vec<String>,
    /// Compare with this older build or trace, place by place
    ///
    /// For two builds, functions are compared. For two traces, executed code is compared: by
    /// function, by instruction and by caller, each identified by its function, source file and
    /// line.
    #[arg(long, value_name = "OLD", conflicts_with = "package")]
    pub diff: Option<PathBuf>,
    /// For a trace: lint by intel, amd, old-amd or eadr rules
    ///
    /// The rules of Intel's processors without eADR (the default), of AMD's, of AMD's before
    /// clflushopt, or of processors with durable caches. The counts do not depend on them.
    #[arg(long, value_name = "WHOSE", conflicts_with = "diff")]
    pub rules: Option<String>,
    /// For a trace: what it would cost, by a survey's figures
    #[arg(long, value_name = "SURVEY", conflicts_with = "diff")]
    pub costs: Option<PathBuf>,
    /// For a trace: run its command with other instructions
    ///
    /// Their effect is predicted by replaying the trace's stores, flushes and fences on this
    /// machine, and measured by running the command on copies of its files: with clflushopt,
    /// clflush and no flush, as PMDK's variables (PMEM_NO_CLWB and similar) select them. The
    /// environment must be that of the recording.
    #[arg(long, conflicts_with = "diff")]
    pub check: bool,
    /// Approximate time for --check [default: 30s]
    ///
    /// 30s unless it is given.
    #[arg(long, value_name = "TIME", requires = "check")]
    pub time: Option<String>,
    /// Show no progress of --check
    #[arg(long, requires = "check")]
    pub quiet: bool,
    /// For a trace: write an HTML page to this file as well
    #[arg(long, value_name = "FILE", conflicts_with = "diff")]
    pub html: Option<PathBuf>,
    /// List all functions and variants; of a trace, all places
    #[arg(long, conflicts_with = "diff")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `trace`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The command works on copies of the files; the originals do not change.
  ringfence trace --file /mnt/pmem/pool -- ./my-program /mnt/pmem/pool
  ringfence show")]
#[command(after_long_help = "\
Records every store to the mapped files with its bytes, every flush of them, and every fence and \
locked instruction that follows, with its place in the code, thread and order. This covers the \
command, its libraries, threads and children and the programs that these execute, statically \
linked or not. No recompilation is needed. Code that does not touch the files runs at full speed. \
The exit code is the command's, or 128 plus the number of the signal that ended it.

A trace holds the program's data: only its owner can read it.

Examples:
  ringfence trace --file /mnt/pmem/pool -- ./my-program /mnt/pmem/pool
  ringfence trace --file stores/ --loads --out with-loads -- ./my-tests
  ringfence trace --import pmemcheck.log --out from-pmemcheck
  ringfence census from-pmemcheck")]
pub struct Trace {
    /// A file that the command maps, or a folder; may be repeated
    ///
    /// It need not exist yet; the command may create it.
    #[arg(long, value_name = "PATH", required_unless_present = "import")]
    pub file: Vec<PathBuf>,
    /// A new folder for the trace [default: a new result]
    ///
    /// Without it, the trace goes below the state directory, where 'ringfence show' finds it.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Also record loads; each then costs as much as a store
    #[arg(long)]
    pub loads: bool,
    /// Let the command change the files themselves
    ///
    /// Otherwise the command sees copies at the same paths, which are removed at the end. For this
    /// it runs in its own mount namespace (and, without privileges, in a user namespace).
    #[arg(long)]
    pub in_place: bool,
    /// Convert a log of pmemcheck's stores to a trace
    ///
    /// Such a log is written by 'valgrind --tool=pmemcheck --log-stores=yes'.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["file", "loads", "in_place", "command"])]
    pub import: Option<PathBuf>,
    /// The command, behind '--'
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "import")]
    pub command: Vec<OsString>,
}
