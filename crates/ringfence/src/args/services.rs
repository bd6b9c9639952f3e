//! Flags for running processes: services as victims, and running processes as aggressors.

use clap::Args as ClapArgs;

// A word that is not a number is probably a service's name.
fn pid(text: &str, unit: &str) -> Result<u32, String> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| match numeric || text.starts_with(['-', '+']) {
        true => "a process ID is a number, as 'pgrep' prints it".into(),
        false => format!("a process ID is a number; for a service: {unit} {text}"),
    })
}

/// A running process as victim or aggressor.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Services {
    /// Query a running service, and time its responses
    ///
    /// The victim is the service that responds: http://HOST:PORT/PATH, redis://HOST:PORT,
    /// postgres://HOST/DATABASE (through psql), tcp://HOST:PORT and unix:PATH with the bytes of
    /// --probe-send, or exec:COMMAND, a program that answers lines with lines. Requests are sent at
    /// a fixed rate, whether or not the last one was answered. A response time counts from the
    /// moment at which its request was due.
    #[arg(long, value_name = "SERVICE", help_heading = "Services", conflicts_with = "victim")]
    pub victim_probe: Option<String>,
    /// What to send to tcp: and unix:, as 'PING\r\n'
    ///
    /// The bytes of a request, with \r, \n and \xHH. The default of redis: is PING, and that of
    /// postgres: is SELECT 1;
    #[arg(long, value_name = "BYTES", help_heading = "Services", requires = "victim_probe")]
    pub probe_send: Option<String>,
    /// Requests per second [default: 1000]
    ///
    /// The rate is part of the question: at another rate, response times differ.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Services",
        requires = "victim_probe",
        hide_short_help = true
    )]
    pub probe_rate: Option<u32>,
    /// The process that responds, to identify the victim
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
    /// A running process, and all that it started
    ///
    /// It is the aggressor. It is paused for windows of a tenth of a second, for a fifth of its
    /// time at most, and resumed whatever happens.
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
