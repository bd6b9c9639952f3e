//! The verbs that look at programs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

/// `census`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is run, but with --check: code is counted; of a trace, what was executed.
  ringfence census ./my-program
  ringfence census --diff old/libstore.so new/libstore.so")]
#[command(after_long_help = "\
Nothing is run, but with --check. The counts say what stands in the code, not what is executed; \
those of a trace say what a program \
executed while it was recorded, where, and what of it was needless or missing. 'nt store' counts \
non-temporal stores \
(movnti, movntdq and their kin) and the direct stores movdiri and movdir64b; 'locked' counts \
instructions with a lock \
prefix and xchg with memory, which are full fences, too.

Of functions that a program chooses from when it runs, such as those of an IFUNC symbol, each is \
listed with the \
features of the processor that it needs, and those that this machine lacks. Which one is taken is \
not told where the \
machine can run several. Of several files, --all lists them. They are not detected in object files.

Functions are named that have non-temporal stores with no fence on any path out: their callers \
have to fence. Files in \
which no code is found are listed with the reason; where there is no code at all, the exit code is \
2.

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
    /// Links within a folder are not followed. Files in it that are for another processor are
    /// listed and passed over.
    #[arg(value_name = "PATH", required_unless_present = "package")]
    pub paths: Vec<PathBuf>,
    /// An installed Debian package; may be repeated
    #[arg(long, value_name = "NAME")]
    pub package: Vec<String>,
    /// Compare with this older build or trace, place by place
    ///
    /// Of two builds, functions are compared. Of two traces, what was executed: by function, by
    /// instruction and by caller, each known by its function, source file and line.
    #[arg(long, value_name = "OLD", conflicts_with = "package")]
    pub diff: Option<PathBuf>,
    /// Of a trace: lint by intel, amd, old-amd or eadr rules
    ///
    /// Intel's processors without eADR, AMD's, AMD's before clflushopt, or processors whose caches
    /// are durable. Intel's unless it is given. What is counted depends on none of them.
    #[arg(long, value_name = "WHOSE", conflicts_with = "diff")]
    pub rules: Option<String>,
    /// Of a trace: what it would cost by a survey's costs
    #[arg(long, value_name = "SURVEY", conflicts_with = "diff")]
    pub costs: Option<PathBuf>,
    /// Of a trace: run its command with other instructions
    ///
    /// What they would change is predicted by playing the trace's stores, flushes and fences back
    /// on this machine, and measured by running the command on copies of its files: with
    /// clflushopt, clflush and no flush, as PMDK's variables (PMEM_NO_CLWB and its kin) ask for.
    /// Its environment must be that in which it was recorded.
    #[arg(long, conflicts_with = "diff")]
    pub check: bool,
    /// How long --check may take, about
    ///
    /// 30s unless it is given.
    #[arg(long, value_name = "TIME", requires = "check")]
    pub time: Option<String>,
    /// Do not show how --check comes along
    #[arg(long, requires = "check")]
    pub quiet: bool,
    /// Of a trace: write an HTML page to this file as well
    #[arg(long, value_name = "FILE", conflicts_with = "diff")]
    pub html: Option<PathBuf>,
    /// List every function and choice; of a trace, every place
    #[arg(long, conflicts_with = "diff")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `trace`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The command works on a copy of the files; nothing of it reaches them.
  ringfence trace --file /mnt/pmem/pool -- ./my-program /mnt/pmem/pool
  ringfence census ringfence-trace")]
#[command(after_long_help = "\
Records every store to the mapped files with its bytes, every flush of them, and every fence and \
locked instruction \
that follows, with its place in the code, thread and order: of the command, its libraries, \
threads, children and what \
they execute, linked statically or not. Nothing has to be compiled anew. What does not touch the \
files runs at its \
own speed. The exit code is the command's own, or 128 and the number of the signal that ended it.

A trace holds the program's data: only its owner can read it.

Examples:
  ringfence trace --file /mnt/pmem/pool -- ./my-program /mnt/pmem/pool
  ringfence trace --file stores/ --loads --out with-loads -- ./my-tests
  ringfence trace --import pmemcheck.log --out from-pmemcheck
  ringfence census ringfence-trace")]
pub struct Trace {
    /// A file that the command maps, or a folder; may be repeated
    ///
    /// It need not exist yet: then the command makes it, in its place.
    #[arg(long, value_name = "PATH", required_unless_present = "import")]
    pub file: Vec<PathBuf>,
    /// A new folder for the trace
    #[arg(long, value_name = "FOLDER", default_value = "ringfence-trace")]
    pub out: PathBuf,
    /// Record loads, too: each then costs as much as a store
    #[arg(long)]
    pub loads: bool,
    /// Let the command change the files themselves
    ///
    /// Otherwise it finds copies in their places, which are removed in the end; this needs a mount
    /// that is the command's own, for which it is put into a mount namespace (and, without
    /// privileges, a user namespace).
    #[arg(long)]
    pub in_place: bool,
    /// Make a trace of a log of pmemcheck's stores
    ///
    /// That is what 'valgrind --tool=pmemcheck --log-stores=yes' writes.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["file", "loads", "in_place", "command"])]
    pub import: Option<PathBuf>,
    /// The command, behind '--'
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "import")]
    pub command: Vec<OsString>,
}
