//! Programs as tasks: what is run, and what its work is counted in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::figure::Figure;
use super::parameters::Parameters;
use super::server::Server;
use crate::Reason;
use crate::units::Span;

/// The default time that a program runs after its start before it is measured.
pub const DEFAULT_WARM_UP: Span = Span::ms(200);

/// A program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The command line: words as a shell splits them, but no shell runs. It is started again when
    /// it ends.
    pub run: String,
    /// What its work is counted in.
    #[serde(default)]
    pub unit: ProgramUnit,
    /// Environment variables that it gets in addition to those of this process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it runs after its start before it is measured; absent: [`DEFAULT_WARM_UP`]. Runs
    /// that are timed whole have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// A program that must be there too, for command lines that start it through a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The figure that it prints in a run, which replaces the run's time. For whole runs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// What the values of an HDR histogram log are in that it prints, which does not say it;
    /// absent: ns. For latencies alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_unit: Option<LogUnit>,
    /// A server that is started before it, of which it is the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
}

/// What the values of an HDR histogram log are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogUnit {
    /// Nanoseconds, as most programs log.
    #[default]
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
}

impl LogUnit {
    /// How many ns one is.
    pub fn ns(self) -> u64 {
        match self {
            LogUnit::Ns => 1,
            LogUnit::Us => 1000,
            LogUnit::Ms => 1_000_000,
        }
    }
}

/// What a program's work is counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProgramUnit {
    /// Instructions where the kernel counts them, else CPU time.
    #[default]
    Auto,
    /// Instructions retired.
    Instructions,
    /// Nanoseconds of CPU time: how much it ran, not how fast.
    CpuTime,
    /// Lines that it writes to its standard output: one line per unit of work.
    Lines,
    /// Lines that it writes to its standard output, each with the latency of one operation: the
    /// first number with a unit of time in it. Or an HDR histogram log, each line with those of an
    /// interval. The time of a unit is its latency.
    Latencies,
    /// What it counts itself, in the file that the environment variable `RINGFENCE_COUNTER` names:
    /// its first eight bytes are an unsigned number in native byte order that only rises. Meant to
    /// be mapped shared; writing the eight bytes at offset 0 does as well.
    Counter,
    /// Finished runs in a window: for programs that end, with windows much longer than a run.
    Runs,
    /// Runs timed one by one, each from its start to its end: for programs with a fixed amount of
    /// work. A window is as long as a run then. For the metric's role alone.
    WholeRun,
}

impl ProgramUnit {
    /// What a unit is, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            ProgramUnit::Auto => "instructions or ns of CPU time",
            ProgramUnit::Instructions => "instructions",
            ProgramUnit::CpuTime => "ns of CPU time",
            ProgramUnit::Lines => "lines of output",
            ProgramUnit::Latencies => "operations",
            ProgramUnit::Counter => "counts",
            ProgramUnit::Runs | ProgramUnit::WholeRun => "runs",
        }
    }

    /// Whether a program shows it unit by unit.
    pub fn is_shown(self) -> bool {
        matches!(self, ProgramUnit::Lines | ProgramUnit::Latencies | ProgramUnit::Counter)
    }

    /// Whether it says how fast a program works, not only how much it ran.
    pub fn tells_speed(self) -> bool {
        !matches!(self, ProgramUnit::Auto | ProgramUnit::CpuTime)
    }
}

impl Command {
    /// A program with nothing special about it.
    pub fn new(run: impl Into<String>) -> Self {
        Self { run: run.into(), ..Self::default() }
    }

    /// Program and arguments; `None` where a quote is not closed.
    pub fn argv(&self) -> Option<Vec<String>> {
        shlex::split(&self.run)
    }
}

axes!(Command: Commands, "command" {
    run: String,
    unit: ProgramUnit,
    env: BTreeMap<String, String>,
    warm_up: Option<Span>,
    needs: Option<String>,
    figure: Option<Figure>,
    log_unit: Option<LogUnit>,
    server: Option<Server>,
} needs run);

impl Commands {
    /// The units that were given; none where the unit is still to be chosen.
    pub fn units(&self) -> &[ProgramUnit] {
        &self.unit
    }
}

impl Parameters for Command {
    fn unit(&self) -> &'static str {
        self.unit.name()
    }

    fn not_simulated(&self) -> Option<Reason> {
        let why = "programs are not simulated, but for what 'ringfence trace' recorded of them";
        Some(why.into())
    }

    fn counts_latencies(&self) -> bool {
        self.unit == ProgramUnit::Latencies
    }

    fn is_timed_by_latency(&self) -> bool {
        self.unit == ProgramUnit::Latencies
    }

    fn figure(&self) -> Option<&Figure> {
        self.figure.as_ref()
    }

    fn check(&self) -> Result<(), String> {
        match self.argv() {
            None => return Err(format!("run = '{}' has an unclosed quote", self.run)),
            Some(argv) if argv.is_empty() => {
                return Err("run is empty: name the program to run".into());
            }
            Some(_) => {}
        }
        let bad = |key: &&String| key.is_empty() || key.contains(['=', '\0']);
        if let Some(key) = self.env.keys().find(bad) {
            return Err(format!("env: '{key}' cannot be the name of an environment variable"));
        }
        if let Some((key, _)) = self.env.iter().find(|(_, value)| value.contains('\0')) {
            return Err(format!("env: the value of {key} contains a zero byte"));
        }
        if self.warm_up.is_some_and(|span| span > Span::ms(600_000)) {
            return Err("warm_up can be at most 10min".into());
        }
        if self.log_unit.is_some() && self.unit != ProgramUnit::Latencies {
            return Err(
                "log_unit applies to logged latencies: it needs unit = \"latencies\"".into()
            );
        }
        if let Some(server) = &self.server {
            server.check()?;
            if matches!(self.unit, ProgramUnit::Auto | ProgramUnit::CpuTime) {
                return Err(
                    "the client of a server must show its progress: unit = \"whole-run\", \
                     \"latencies\", \"lines\", \"counter\", \"runs\" or \"instructions\""
                        .into(),
                );
            }
        }
        match &self.figure {
            Some(_) if self.unit != ProgramUnit::WholeRun => {
                return Err("a figure belongs to a whole run: it needs unit = \"whole-run\"".into());
            }
            Some(figure) => figure.check()?,
            None => {}
        }
        Ok(())
    }
}
