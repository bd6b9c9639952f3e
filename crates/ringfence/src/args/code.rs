//! The verbs that look at programs.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// `census`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is run: what stands in the code is counted; of a trace, what was executed.
  ringfence census ./my-program
  ringfence census --diff old/libstore.so new/libstore.so")]
#[command(after_long_help = "\
Nothing is run. The counts say what stands in the code, not what is executed; those of a trace say what a program \
executed while it was recorded, where, and what of it was needless or missing. 'nt store' counts non-temporal stores \
(movnti, movntdq and their kin) and the direct stores movdiri and movdir64b; 'locked' counts instructions with a lock \
prefix and xchg with memory, which are full fences, too.

Examples:
  ringfence census ./my-program
  ringfence census /usr/lib/x86_64-linux-gnu --json
  ringfence census --package libpmem1
  ringfence census --diff old/libstore.so new/libstore.so
  ringfence census my-trace")]
pub struct Census {
    /// A program, library, object file, archive, folder or trace
    ///
    /// Links within a folder are not followed. Files in it that are for another processor are listed and passed over.
    #[arg(value_name = "PATH", required_unless_present = "package")]
    pub paths: Vec<PathBuf>,
    /// An installed Debian package; may be repeated
    #[arg(long, value_name = "NAME")]
    pub package: Vec<String>,
    /// Compare with this older build, function by function
    #[arg(long, value_name = "OLD", conflicts_with = "package")]
    pub diff: Option<PathBuf>,
    /// Of a trace: what it would cost by a survey's costs
    #[arg(long, value_name = "SURVEY", conflicts_with = "diff")]
    pub costs: Option<PathBuf>,
    /// List every function, and every place of a trace
    #[arg(long, conflicts_with = "diff")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
