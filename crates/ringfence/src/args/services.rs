//! Flags for running processes: services as victims, and running processes as aggressors.

use clap::Args as ClapArgs;

// A word that is not a number is probably a service's name.
fn pid(text: &str, unit: &str) -> Result<u32, String> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| match numeric || text.starts_with(['-', '+']) {
        true => "a process ID is a number, as 'pgrep' prints it".into(),
        false => format!("a process ID is a number; for a service: {unit}{text}"),
    })
}

/// A running process as victim or aggressor.
///
/// Hidden are what these were named by before a task could say it itself: `--victim probe:SERVICE`
/// with `send=`, `rate=` and `of=`, and `--aggressor pid:N`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Services {
    /// --victim probe:SERVICE
    #[arg(long, value_name = "SERVICE", hide = true, conflicts_with = "victim")]
    pub victim_probe: Option<String>,
    /// Of a probe: send=BYTES
    #[arg(long, value_name = "BYTES", hide = true)]
    pub probe_send: Option<String>,
    /// Of a probe: rate=N
    #[arg(long, value_name = "N", hide = true)]
    pub probe_rate: Option<u32>,
    /// Of a probe: of=pid:N
    #[arg(
        long,
        value_name = "PID",
        value_parser = |text: &str| pid(text, "of=unit:"),
        hide = true
    )]
    pub victim_pid: Option<u32>,
    /// Of a probe: of=cgroup:PATH
    #[arg(long, value_name = "PATH", hide = true, conflicts_with = "victim_pid")]
    pub victim_cgroup: Option<String>,
    /// Of a probe: of=unit:NAME
    #[arg(long, value_name = "NAME", hide = true)]
    #[arg(conflicts_with_all = ["victim_pid", "victim_cgroup"])]
    pub victim_unit: Option<String>,
    /// Of a probe: of=container:ID
    #[arg(long, value_name = "ID", hide = true)]
    #[arg(conflicts_with_all = ["victim_pid", "victim_cgroup", "victim_unit"])]
    pub victim_container: Option<String>,
    /// --aggressor pid:N
    #[arg(
        long,
        value_name = "PID",
        value_parser = |text: &str| pid(text, "--aggressor unit:"),
        hide = true,
        conflicts_with = "aggressor"
    )]
    pub aggressor_pid: Option<u32>,
    /// --aggressor cgroup:PATH
    #[arg(long, value_name = "PATH", hide = true)]
    #[arg(conflicts_with_all = ["aggressor", "aggressor_pid"])]
    pub aggressor_cgroup: Option<String>,
    /// --aggressor unit:NAME
    #[arg(long, value_name = "NAME", hide = true)]
    #[arg(conflicts_with_all = ["aggressor", "aggressor_pid", "aggressor_cgroup"])]
    pub aggressor_unit: Option<String>,
    /// --aggressor container:ID
    #[arg(long, value_name = "ID", hide = true)]
    #[arg(
        conflicts_with_all = ["aggressor", "aggressor_pid", "aggressor_cgroup", "aggressor_unit"]
    )]
    pub aggressor_container: Option<String>,
    /// The longest pause of the aggressor [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Services", hide_short_help = true)]
    pub longest_freeze: Option<String>,
    /// The largest share of its time that the aggressor is paused [default: 20%]
    ///
    /// Pauses for windows and those of the lever duty count together. That lever tries this share
    /// and half of it.
    #[arg(long, value_name = "SHARE", help_heading = "Services", hide_short_help = true)]
    pub frozen_share: Option<String>,
    /// How the aggressor is paused: group, signals or ptrace [default: the faster of group and
    /// signals]
    ///
    /// By its control group; by SIGSTOP to each process; or by ptrace, as debuggers pause programs.
    /// ptrace is slower with many threads, and refused if another process traces one of them. But
    /// the kernel resumes all of them at once if Ringfence and its guardian are both killed.
    #[arg(long, value_name = "HOW", help_heading = "Services", hide_short_help = true)]
    pub freeze: Option<String>,
}
