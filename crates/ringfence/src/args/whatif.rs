//! `machine whatif`.

use clap::Args as ClapArgs;

use super::common::Output;

/// `machine whatif`.
#[derive(Debug, ClapArgs)]
#[command(override_usage = "ringfence machine whatif MACHINE --change KEY=VALUE... -- VERB")]
#[command(after_long_help = "\
KEY is a path in the machine file: 'ringfence machine MACHINE' lists them with their values. A \
value that no machine can have is refused. VERB is write, neighbours, sensitivity or run, with its \
flags.

Examples:
  ringfence machine whatif zen3-epyc --change llc.size_kib=16384 -- neighbours
  ringfence machine whatif cascade-lake-optane --change processor.eadr=true -- write
  ringfence machine whatif laptop --change core.fill_buffers=6 -- run FILE.toml")]
pub struct WhatIf {
    /// A machine file, or the name of one ('ringfence machine')
    #[arg(value_name = "MACHINE")]
    pub machine: String,
    /// A value to change; may be repeated
    #[arg(long, value_name = "KEY=VALUE", required = true)]
    pub change: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
    /// The verb to run on both, with its flags
    #[arg(
        last = true,
        value_name = "VERB",
        required = true,
        num_args = 1..,
        allow_hyphen_values = true
    )]
    pub command: Vec<String>,
}
