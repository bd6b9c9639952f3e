//! Flags for running processes: services as victims, and whatever runs with them.

use clap::Args as ClapArgs;

// What is no number is probably a service's name.
fn pid(text: &str, unit: &str) -> Result<u32, String> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| match numeric || text.starts_with(['-', '+']) {
        true => "a process has a number, as 'pgrep' prints it".into(),
        false => format!("a process has a number; for a service: {unit} {text}"),
    })
}

/// A victim or an aggressor that runs already.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Services {
    /// Ask a service that runs, and time its answers
    ///
    /// The victim is the service that answers: http://HOST:PORT/PATH, redis://HOST:PORT,
    /// postgres://HOST/DATABASE (through psql), tcp://HOST:PORT and unix:PATH with the bytes of
    /// --probe-send, or exec:COMMAND, a program that answers lines with lines. Questions are asked
    /// at a fixed rate whether or not the last was answered, and the time of an answer counts from
    /// when its question was due.
    #[arg(long, value_name = "SERVICE", help_heading = "Services", conflicts_with = "victim")]
    pub victim_probe: Option<String>,
    /// What to send to tcp: and unix:, as 'PING\r\n'
    ///
    /// The bytes of a question, with \r, \n and \xHH. redis: sends PING without it, and postgres:
    /// SELECT 1;
    #[arg(long, value_name = "BYTES", help_heading = "Services", requires = "victim_probe")]
    pub probe_send: Option<String>,
    /// Questions a second [default: 1000]
    ///
    /// The rate is part of the question: at another one the answers take another time.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    pub probe_rate: Option<u32>,
    /// The process that answers, so that it is known whose the answers are
    ///
    /// It is never paused, moved or sent a signal.
    #[arg(
        long,
        value_name = "PID",
        value_parser = |text: &str| pid(text, "--victim-unit"),
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    pub victim_pid: Option<u32>,
    /// Or its control group, by its path as in /proc/PID/cgroup
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    #[arg(conflicts_with = "victim_pid")]
    pub victim_cgroup: Option<String>,
    /// Or its systemd unit
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    #[arg(conflicts_with_all = ["victim_pid", "victim_cgroup"])]
    pub victim_unit: Option<String>,
    /// Or its container, by id
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    #[arg(conflicts_with_all = ["victim_pid", "victim_cgroup", "victim_unit"])]
    pub victim_container: Option<String>,
    /// A process that runs already, and all it started
    ///
    /// It is the aggressor. It is paused for windows of a tenth of a second, a fifth of its time at
    /// most, and goes on whatever happens.
    #[arg(
        long,
        value_name = "PID",
        value_parser = |text: &str| pid(text, "--aggressor-unit"),
        help_heading = "Services",
        conflicts_with = "aggressor"
    )]
    pub aggressor_pid: Option<u32>,
    /// A control group, by its path as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH", help_heading = "Services", hide_short_help = true)]
    #[arg(conflicts_with_all = ["aggressor", "aggressor_pid"])]
    pub aggressor_cgroup: Option<String>,
    /// A systemd unit
    #[arg(long, value_name = "NAME", help_heading = "Services", hide_short_help = true)]
    #[arg(conflicts_with_all = ["aggressor", "aggressor_pid", "aggressor_cgroup"])]
    pub aggressor_unit: Option<String>,
    /// A container, by its id or the beginning of it
    #[arg(long, value_name = "ID", help_heading = "Services", hide_short_help = true)]
    #[arg(
        conflicts_with_all = ["aggressor", "aggressor_pid", "aggressor_cgroup", "aggressor_unit"]
    )]
    pub aggressor_container: Option<String>,
    /// The longest that it is paused at once [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Services", hide_short_help = true)]
    pub longest_freeze: Option<String>,
    /// The share of its time that it is paused, at most [default: 20%]
    ///
    /// Pauses for windows and those of the lever duty count together. That lever tries this share
    /// and half of it.
    #[arg(long, value_name = "SHARE", help_heading = "Services", hide_short_help = true)]
    pub frozen_share: Option<String>,
    /// How it is paused: group, signals or ptrace [default: the quicker of group and signals]
    ///
    /// By its control group; by SIGSTOP to each process; or by ptrace, as debuggers pause programs.
    /// That is slower with many threads and refused where somebody else traces one of them, but the
    /// kernel lets all go on at once if Ringfence and its guardian are both killed.
    #[arg(long, value_name = "HOW", help_heading = "Services", hide_short_help = true)]
    pub freeze: Option<String>,
}
