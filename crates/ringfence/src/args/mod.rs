//! What can be asked. Help, manual pages, completions and hints all follow these definitions.

mod answers;
mod client;
mod code;
pub mod commit;
mod common;
mod crash;
mod datasets;
pub mod fleet;
mod front;
mod lock;
mod machine;
mod measuring;
mod resctrl;
mod services;
mod slips;
mod topics;
mod units;
mod versus;
mod whatif;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::failure::Exit;

pub use answers::{Pair, PolluterArg, Prove, Sensitivity, Tune};
pub use client::{Client, Progress, Shown};
pub use code::{Census, Trace};
pub use commit::Commit;
pub use common::{Measuring, On, Output, Placement};
pub use crash::{Crash, CrashMedium};
pub use datasets::{Claims, Compare, Contribute, Notes, NotesAction, Report, Show, ShowNotes};
pub use fleet::Fleet;
pub use front::{command, parse, parse_words, whole};
pub use lock::{
    Lock, LockAction, LockCreate, LockList, LockMeasure, LockMisses, LockRemove, Place, WhichCache,
};
pub use machine::{
    Calibrate, Describe, Doctor, Explain, Inspect, MachineAction, MachineCheck, MachineNew,
    MachineSensitivity, PutBack,
};
pub use measuring::{Aa, Neighbours, Reproduce, Run, Survey, Write};
pub use resctrl::{Apply, Confined, Forget, Resctrl, ResctrlAction, Undo, Watch};
pub use services::Services;
pub use topics::notes;
pub use versus::VersusFlags;
pub use whatif::WhatIf;

/// What does a durable write cost here, what does it slow down, and what helps?
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure this machine: costs, neighbours, advice (about 2 minutes)
    ///
    /// Measures what a durable write costs by every method, and how much each method slows down the
    /// task on the next core; prints the figures with advice, and leaves a folder with every sample
    /// and a page, report.html. It needs no configuration, no root and no special hardware.
    Survey(Survey),
    /// Test a victim's slowdown against a budget, and find what helps
    ///
    /// Measures the victim alone and beside the aggressor. Where the slowdown exceeds the budget,
    /// each lever that this machine offers is tried, the cheapest one that helps is confirmed on
    /// fresh trials, and the command or setting that applies it is printed.
    Prove(Box<Prove>),
    /// Benchmark commands: which is slower, and by how much
    ///
    /// Runs the commands from start to end, interleaved, until the question is settled or the time
    /// is over. Prints first how small a difference can be detected. Use it for two builds of a
    /// program, or two settings. It accepts hyperfine's flags.
    #[command(after_long_help = Exit::table_and(VERSUS))]
    Versus(Box<VersusFlags>),
    /// Explain how durable a store to a path can become
    ///
    /// For a file or folder it also prints what lies between it and its medium (the file system,
    /// the disks, their caches), and so what fsync and similar calls guarantee there. Disks are
    /// watched for a quarter of a second to see whether other processes use them.
    Explain(Explain),
    /// Measure what durable writes cost, for any combination of settings
    Write(Box<Write>),
    /// Measure what durable commits to files cost, by sync method
    Commit(Box<Commit>),
    /// Measure how much aggressors slow a victim down
    #[command(alias = "neighbors")]
    Neighbours(Box<Neighbours>),
    /// Measure tasks in pairs, and advise which to run side by side
    Pair(Box<Pair>),
    /// Measure how sensitive a victim is to losing cache
    ///
    /// Measures a victim's rate while another task, the polluter, uses more and more of the cache.
    Sensitivity(Box<Sensitivity>),
    /// Find the cheapest durable write for a target; write a policy file
    ///
    /// Compares every method on the target, confirms the cheapest on fresh trials, and writes it to
    /// a policy file, which the persistence library reads.
    Tune(Tune),
    /// Keep memory in a cache: measure methods; lock regions
    Lock(Lock),
    /// Compare a task with itself: how often does a false effect show?
    ///
    /// Compares a task with itself many times, and prints how often this machine shows an effect
    /// that does not exist, and how small an effect it can detect.
    #[command(hide = true)]
    Aa(Box<Aa>),
    /// Count flushes, fences, non-temporal stores in programs' code
    ///
    /// Reads program files, libraries, object files and archives, and counts every flush, fence,
    /// non-temporal store and locked instruction in them, by function. Nothing is run.
    Census(Census),
    /// Record a program's stores, flushes and fences to files
    ///
    /// Runs a command and records what it does to files that it maps: every store, flush and fence,
    /// with its place in the code.
    Trace(Trace),
    /// Find crash states that a program's own recovery fails on
    ///
    /// Records what a program stores to the files that it maps, works out what a crash at any
    /// moment can leave in them, and runs the program's own recovery on it.
    Crash(Box<Crash>),
    /// Run an experiment file, or resume an interrupted run
    Run(Box<Run>),
    /// The same as 'notes run'
    #[command(hide = true)]
    Reproduce(Reproduce),
    /// Print a result again, or list all; write its page
    Show(Show),
    /// The same as 'show --html'
    #[command(hide = true)]
    Report(Report),
    /// Repeat published experiments; check published claims
    Notes(Notes),
    /// Compare results from two machines, kernels or days
    Compare(Compare),
    /// The same as 'notes claims'
    #[command(hide = true)]
    Claims(Claims),
    /// The same as 'notes contribute'
    #[command(hide = true)]
    Contribute(Contribute),
    /// Run an experiment on many machines with Slurm; find outliers
    ///
    /// Submits a verb or an experiment file to Slurm as a job array with one task per node,
    /// collects the results into one table, and reports which hosts differ from others of their
    /// kind, and what to expect of a new one.
    Fleet(Fleet),
    /// The same as 'machine whatif'
    #[command(name = "whatif", hide = true)]
    WhatIf(Box<WhatIf>),
    /// List sources of noise on this machine, and what to do about them
    Doctor(Doctor),
    /// The same as 'machine host'
    #[command(hide = true)]
    Topology(Inspect),
    /// Show a described machine, which can be simulated; describe one
    ///
    /// Shows what a machine file says, value by value, and where each value comes from. Without a
    /// file, it lists the machines that come with Ringfence. 'new' writes a file from a survey,
    /// 'check' compares a file with a survey.
    Machine(Describe),
    /// The same as 'machine fit'
    #[command(hide = true)]
    Calibrate(Box<Calibrate>),
    /// Show and limit the use of cache ways and bandwidth
    ///
    /// Shows what the kernel's resctrl reports, and what earlier runs left behind or kept there.
    /// 'run' and 'apply' give programs their own limits and remove them afterwards; 'watch' shows
    /// what groups use.
    Resctrl(Resctrl),
    /// Restore settings that killed runs left changed
    ///
    /// Restores control groups, resctrl and other settings to what they were before a run that was
    /// killed. What 'prove --keep' left in place stays; 'ringfence resctrl undo' removes it.
    Restore(PutBack),
    /// Print a completion script for bash, zsh or fish
    #[command(hide = true)]
    Completions(Completions),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(Man),
}

impl Verb {
    /// The flags of every verb that measures.
    pub fn output(&self) -> Option<&Output> {
        Some(match self {
            Verb::Survey(survey) => &survey.output,
            Verb::Prove(prove) => &prove.output,
            Verb::Tune(tune) => &tune.output,
            Verb::Reproduce(reproduce)
            | Verb::Notes(Notes { action: NotesAction::Run(reproduce) }) => &reproduce.output,
            Verb::Write(write) => &write.measuring.output,
            Verb::Commit(commit) => &commit.measuring.output,
            Verb::Neighbours(neighbours) => &neighbours.measuring.output,
            Verb::Pair(pair) => &pair.measuring.output,
            Verb::Sensitivity(sensitivity) => &sensitivity.measuring.output,
            Verb::Run(run) => &run.measuring.output,
            Verb::Aa(aa) => &aa.measuring.output,
            Verb::Lock(Lock { action: LockAction::Measure(measure) }) => &measure.measuring.output,
            _ => return None,
        })
    }

    /// Whether everything is to be printed.
    pub fn verbose(&self) -> bool {
        match self {
            Verb::Show(show) => show.verbose,
            Verb::Doctor(doctor) => doctor.why,
            Verb::Versus(versus) => versus.verbose,
            Verb::Claims(claims) | Verb::Notes(Notes { action: NotesAction::Claims(claims) }) => {
                claims.verbose
            }
            Verb::Compare(compare) => compare.verbose,
            Verb::Explain(explain) => explain.verbose,
            Verb::Machine(describe) => describe.why,
            _ => self.output().is_some_and(|output| output.verbose),
        }
    }
}

const VERSUS: &str = "\
With --budget the exit code is 0 if b is within it, 3 if b is slower by more, and 4 if that is \
undecided. Without --budget it is 0 for every result. Commands run without a shell if none of them \
needs one; otherwise in sh, whose start-up time is measured and subtracted.

Examples:
  ringfence versus --a './old input' --b './new input' --budget 2%
  ringfence versus 'gzip -c file' 'zstd -c file' --time 20s
  ringfence versus './sort -j {threads} input' --parameter threads=1,2,4";

/// A shell that can complete verbs and flags.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// `completions`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
bash reads ~/.local/share/bash-completion/completions/ringfence, zsh a file _ringfence in a folder \
of $fpath, and fish ~/.config/fish/completions/ringfence.fish.

Examples:
  ringfence completions fish > ~/.config/fish/completions/ringfence.fish")]
pub struct Completions {
    /// The shell: bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    pub shell: Shell,
}

/// `man`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence man ~/.local/share/man/man1 && man ringfence-prove")]
pub struct Man {
    /// The folder for the pages
    ///
    /// It is created if it is missing. Older pages of Ringfence are replaced; other files are not.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
