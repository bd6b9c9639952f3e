//! Flags for a victim that is a program: how it shows its progress, and the server for a client.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};

/// How a program shows its progress.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Progress {
    /// Instructions retired, where the kernel counts them
    Instructions,
    /// One line on standard output for each unit of work
    Lines,
    /// One line on standard output for each operation, with its latency, such as 310us or 0.31 ms
    Latencies,
    /// A number in the file named by $RINGFENCE_COUNTER (8 bytes, native byte order)
    Counter,
    /// Finished runs: the program exits after a fixed amount of work, and is restarted
    Runs,
    /// CPU time: how much the program ran, not how fast
    CpuTime,
}

// CPU time would show no slowdown of a victim: the verb refuses it, and help does not list it.
fn of_a_victim() -> impl TypedValueParser<Value = Progress> {
    let word = |progress: &Progress| {
        let word = progress.to_possible_value()?;
        Some(word.hide(matches!(progress, Progress::CpuTime)))
    };
    let words: Vec<PossibleValue> = Progress::value_variants().iter().filter_map(word).collect();
    PossibleValuesParser::new(words).try_map(|name| Progress::from_str(&name, false))
}

/// How a victim that is a program shows its progress.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Shown {
    /// The figure of a run, if not its time: what the first group of this pattern matches in its
    /// output
    ///
    /// Such as 'Requests/sec: +([0-9.]+)', with --better higher. A unit after the number is
    /// understood: ns, us, ms, s, k, M, G.
    #[arg(long, value_name = "REGEX", help_heading = "Programs", hide_short_help = true)]
    pub victim_metric: Option<String>,
    /// Whether a lower figure is better, such as a time, or a higher one, such as a rate [default:
    /// lower]
    #[arg(
        long,
        value_name = "WAY",
        value_parser = ["lower", "higher"],
        requires = "victim_metric",
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub better: Option<String>,
    /// How a victim that is a program shows its progress [default: instructions]
    #[arg(
        long,
        value_parser = of_a_victim(),
        value_name = "HOW",
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub victim_progress: Option<Progress>,
    /// Unit of the values in an HDR histogram log that the victim prints, if the log names none
    /// [default: ns]
    #[arg(
        long,
        value_name = "UNIT",
        value_parser = ["ns", "us", "ms"],
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub victim_log_unit: Option<String>,
}

/// A server that is started for a victim that is its client.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Client {
    /// Start this server first; the victim is its --client
    ///
    /// The server is restarted for each trial, and paused and stopped together with its client. It
    /// must stay in the foreground. It counts as part of the victim, not as an aggressor.
    #[arg(
        long,
        value_name = "COMMAND",
        help_heading = "Services",
        requires_all = ["client", "ready"],
        hide_short_help = true
    )]
    pub server: Option<String>,
    /// A client of that server, whose progress is the victim's
    ///
    /// Its runs are timed, unless --victim-metric or --victim-progress says otherwise.
    #[arg(
        long,
        value_name = "COMMAND",
        help_heading = "Services",
        requires = "server",
        hide_short_help = true
    )]
    #[arg(conflicts_with_all = ["victim", "victim_probe"])]
    pub client: Option<String>,
    /// When the server is ready: port:PORT, tcp://HOST:PORT or line:REGEX
    ///
    /// It is ready when it accepts connections at a port of this machine or of HOST, or when it has
    /// printed a line that REGEX matches.
    #[arg(
        long,
        value_name = "WHAT",
        help_heading = "Services",
        requires = "server",
        hide_short_help = true
    )]
    pub ready: Option<String>,
    /// How long to wait until the server is ready, 100s at most [default: 30s]
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Services",
        requires = "server",
        hide_short_help = true
    )]
    pub ready_within: Option<String>,
    /// The server's CPUs, where no other task is placed [default: those of the client]
    #[arg(
        long,
        value_name = "CPUS",
        help_heading = "Services",
        requires = "server",
        hide_short_help = true
    )]
    pub server_cpus: Option<String>,
}
