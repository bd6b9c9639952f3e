//! The parameters of a prober, which asks a running service at a fixed rate and times the answers.

use serde::{Deserialize, Serialize};

use super::Attached;
use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;
use crate::units::Span;

/// Asks a service at a fixed rate. In the open loop a late answer delays no question, and the time
/// of an answer counts from when its question was due. A unit is an answered question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// What it asks: `tcp://HOST:PORT`, `http://HOST:PORT/PATH`, `unix:PATH`, `exec:COMMAND`.
    pub ask: String,
    /// The bytes of a question, with `\r`, `\n`, `\xHH`; for `http:` and where a protocol needs
    /// none it is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub send: String,
    /// Questions a second, 1 to 100000.
    pub rate: u32,
    /// A closed loop in place of an open one: the next question is asked when the answer is there.
    /// For comparing: it hides what a stall does to requests that would have been sent meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// A question that is not answered after this counts as one that took as long, and is reported.
    pub timeout: Span,
    /// The service that answers, as `pid:N` or the like; absent: not known, and nothing is reported
    /// about the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            ask: String::new(),
            send: String::new(),
            rate: 1000,
            closed: false,
            timeout: Span::ms(5000),
            of: None,
        }
    }
}

impl Probe {
    /// Answers that a window should hold, so that a few late ones do not leave it empty: at 100 a
    /// second it fits into a pause of running processes.
    const LEAST_ANSWERS: u64 = 8;

    /// The service that answers, where it was named.
    pub fn service(&self) -> Option<Attached> {
        Attached::of_target(self.of.as_deref()?).ok()
    }
}

axes!(Probe: Probes, "probe" {
    ask: String,
    send: String,
    rate: u32,
    closed: bool,
    timeout: Span,
    of: Option<String>,
});

impl Parameters for Probe {
    fn unit(&self) -> &'static str {
        "answers"
    }

    fn not_simulated(&self) -> Option<Reason> {
        Some("services that run are not simulated".into())
    }

    fn is_timed_by_latency(&self) -> bool {
        true
    }

    fn counts_latencies(&self) -> bool {
        true
    }

    fn least_window(&self) -> Option<Span> {
        Some(Span::ms((Self::LEAST_ANSWERS * 1000).div_ceil(u64::from(self.rate.max(1)))))
    }

    fn check(&self) -> Result<(), String> {
        if self.ask.is_empty() {
            return Err("a probe needs a service to query: give ask=tcp://HOST:PORT, \
                        ask=http://HOST:PORT/PATH, ask=unix:PATH or ask=exec:COMMAND"
                .into());
        }
        if !(1..=100_000).contains(&self.rate) {
            return Err(format!(
                "rate = {} is not between 1 and 100000 requests per second",
                self.rate
            ));
        }
        if self.timeout < Span::ms(1) || self.timeout > Span::ms(60_000) {
            return Err(format!("timeout = {} is not between 1ms and 1min", self.timeout));
        }
        self.of.as_deref().map_or(Ok(()), |of| Attached::of_target(of).map(drop))
    }
}
