//! A server that is started for a program, which then is its client: only the client's progress
//! counts.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use regex_lite::{Regex, RegexBuilder};
use ringfence_machine::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

use super::figure::regex;
use crate::units::{Span, serde_as_text};

/// The default time that a server may take to become ready.
pub const DEFAULT_READY_WITHIN: Span = Span::ms(30_000);
const LONGEST_READY_WITHIN: Span = Span::ms(100_000);

/// A server of a client's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its command line, as a program's. It must stay in the foreground, and not end.
    pub run: String,
    /// How it is known that the client may begin.
    pub ready: Ready,
    /// How long that may take at most; absent: [`DEFAULT_READY_WITHIN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// The CPUs that it runs on, where no other role is placed; absent: those of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Environment variables that it gets in addition to those of this process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// What a server does when it is ready; reads and prints `port:6379`, `tcp://HOST:PORT`,
/// `line:REGEX`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Ready {
    /// It accepts connections at this port of this machine.
    Port(u16),
    /// It accepts connections there.
    Tcp(String, u16),
    /// It has printed a line in which this regular expression is found, to its standard output or
    /// its standard error.
    Line(String),
}

impl Ready {
    /// What finds the line, where it is one.
    ///
    /// # Errors
    /// One sentence for a pattern that is no regular expression.
    pub fn line(&self) -> Result<Option<LineFound>, String> {
        let Self::Line(pattern) = self else { return Ok(None) };
        Ok(Some(LineFound(regex(&RegexBuilder::new(pattern), pattern)?)))
    }
}

/// A line that a server prints.
#[derive(Debug)]
pub struct LineFound(Regex);

impl LineFound {
    /// Whether it is this one.
    pub fn is_in(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port:{port}"),
            Self::Tcp(host, port) => write!(f, "tcp://{host}:{port}"),
            Self::Line(pattern) => write!(f, "line:{pattern}"),
        }
    }
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{text}' is not a condition for a ready server: write port:PORT, tcp://HOST:PORT \
                 or line:REGEX"
            )
        };
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(bad);
        let ready = if let Some(number) = text.strip_prefix("port:") {
            Self::Port(port(number.trim())?)
        } else if let Some(place) = text.strip_prefix("tcp://") {
            let (host, number) =
                place.rsplit_once(':').filter(|(host, _)| !host.is_empty()).ok_or_else(bad)?;
            Self::Tcp(host.into(), port(number)?)
        } else if let Some(pattern) =
            text.strip_prefix("line:").filter(|pattern| !pattern.is_empty())
        {
            Self::Line(pattern.into())
        } else {
            return Err(bad());
        };
        ready.line().map(|_| ready)
    }
}

serde_as_text!(Ready);

impl Server {
    /// Program and arguments; `None` where a quote is not closed.
    pub fn argv(&self) -> Option<Vec<String>> {
        shlex::split(&self.run)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self.argv() {
            None => return Err(format!("server: run = '{}' has an unclosed quote", self.run)),
            Some(argv) if argv.is_empty() => {
                return Err("server: run is empty: name the program to run".into());
            }
            Some(_) => {}
        }
        if self.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            return Err("server: cpus names no CPU: name some, or leave it out".into());
        }
        match self.within {
            Some(within) if within.0.is_zero() || within > LONGEST_READY_WITHIN => Err(format!(
                "server: within = {within} must be more than 0 and at most {LONGEST_READY_WITHIN}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_server_is_ready_is_read_as_it_is_written() {
        for text in [
            "port:6379",
            "tcp://localhost:80",
            "tcp://::1:80",
            "line:Ready to accept .*connections",
        ] {
            assert_eq!(text.parse::<Ready>().unwrap().to_string(), text);
        }
        let pattern =
            "line:^listening on [0-9]+$".parse::<Ready>().unwrap().line().unwrap().unwrap();
        assert!(pattern.is_in("listening on 80") && !pattern.is_in("not listening on 80"));
        for (text, said) in [
            ("6379", "write port:PORT"),
            ("port:0", "write port:PORT"),
            ("port:70000", "write port:PORT"),
            ("tcp://:80", "tcp://HOST:PORT"),
            ("tcp://localhost", "tcp://HOST:PORT"),
            ("line:", "line:REGEX"),
            ("line:(", "'(' is not a regular expression"),
        ] {
            let refused = text.parse::<Ready>().unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
