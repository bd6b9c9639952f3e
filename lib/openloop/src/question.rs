//! The request, its rate, and the time limit of an answer.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::ProbeError;
use crate::escape::{escape, unescape};
use crate::target::Target;

/// The request, its rate, and the time limit of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The service.
    pub target: Target,
    /// The bytes of a question, for `tcp:` and `unix:`; one line for programs, `redis:` and
    /// `postgres:`, whose line end is added where it lacks. Empty for `http:`, and for what is
    /// usual at `redis:` and `postgres:`.
    pub send: Vec<u8>,
    /// Where an answer ends.
    pub ends: Ends,
    /// Questions per second: more than 0, at most [`Self::MOST_RATE`].
    pub rate: f64,
    /// Whether a late answer delays the next question.
    pub mode: Loop,
    /// After this time without its whole answer a question counts as unanswered. From 1 ms to an
    /// hour.
    pub limit: Duration,
    /// How many connections there are at most, from 1 to 4096. When all are busy, questions wait,
    /// and their time counts. Programs are started once, whatever this says.
    pub connections: usize,
    /// For how long the processor is kept busy before a question is due, instead of sleeping. Up to
    /// 1 ms.
    pub spin: Duration,
    /// For how long [`Probe::open`](crate::Probe::open) tries again while the service is not there
    /// yet.
    pub patience: Duration,
}

impl Question {
    /// The highest rate, per second.
    pub const MOST_RATE: f64 = 100_000.0;

    /// An open loop at this rate, with what is usual otherwise: an end that is learned (for
    /// programs: a line), 5 s until a question is unanswered, 256 connections, 60 us of spinning,
    /// no patience.
    pub fn new(target: Target, send: impl Into<Vec<u8>>, rate: f64) -> Self {
        Self {
            target,
            send: send.into(),
            ends: Ends::default(),
            rate,
            mode: Loop::Open,
            limit: Duration::from_secs(5),
            connections: 256,
            spin: Duration::from_micros(60),
            patience: Duration::ZERO,
        }
    }

    /// Checks the question; [`Probe::open`](crate::Probe::open) does so too.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Question`]: one sentence on what is out of range or does not fit together.
    pub fn check(&self) -> Result<(), ProbeError> {
        self.wrong().map_or(Ok(()), |sentence| Err(ProbeError::Question(sentence)))
    }

    fn wrong(&self) -> Option<String> {
        self.out_of_range().or_else(|| self.unfit_for_target())
    }

    fn out_of_range(&self) -> Option<String> {
        let hour = Duration::from_secs(3600);
        if !(self.rate > 0.0 && self.rate <= Self::MOST_RATE) {
            let most = Self::MOST_RATE;
            return Some(format!(
                "a rate of {} is out of range: use more than 0 and at most {most} per second",
                self.rate
            ));
        }
        if self.limit < Duration::from_millis(1) || self.limit > hour {
            return Some(format!(
                "a time limit of {:?} is out of range: wait from 1 ms to an hour",
                self.limit
            ));
        }
        if self.rate * self.limit.as_secs_f64() > 10e6 {
            return Some(
                "more than 10,000,000 questions could be without an answer: lower the rate or the \
                 time limit"
                    .into(),
            );
        }
        if !(1..=4096).contains(&self.connections) {
            return Some(format!(
                "{} connections are out of range: use 1 to 4096",
                self.connections
            ));
        }
        if self.spin > Duration::from_millis(1) {
            return Some(format!(
                "spinning for {:?} is out of range: spin for at most 1 ms",
                self.spin
            ));
        }
        if self.patience > hour {
            return Some(format!(
                "a patience of {:?} is out of range: wait at most an hour",
                self.patience
            ));
        }
        None
    }

    // What does not fit together: the target, what to send, and where an answer ends.
    fn unfit_for_target(&self) -> Option<String> {
        let target = &self.target;
        let line = self.send.strip_suffix(b"\n").unwrap_or(&self.send);
        match (target, &self.ends) {
            (Target::Http { .. }, _) if !self.send.is_empty() => Some(format!(
                "{target} is queried by GET, so there is nothing else to send: leave that out, or \
                 send a whole request to tcp://"
            )),
            (Target::Http { .. }, ends) if *ends != Ends::Learned => {
                Some("HTTP defines where an answer ends: leave that out".into())
            }
            (Target::Http { .. }, _) => None,
            (Target::Redis { .. }, ends) if *ends != Ends::Learned => {
                Some("Redis defines where an answer ends: leave that out".into())
            }
            (Target::Redis { .. } | Target::Postgres(_), _) if line.contains(&b'\n') => {
                Some(format!("a question to {target} must be one line"))
            }
            (Target::Redis { .. }, _) => None,
            (Target::Exec(_) | Target::Postgres(_), Ends::Bytes(_)) => Some(
                "a program answers with lines: leave out the end of an answer, or give the line \
                 after `until`"
                    .into(),
            ),
            (Target::Exec(_), _) if line.contains(&b'\n') => {
                Some("a question to a program must be one line".into())
            }
            (Target::Exec(_) | Target::Postgres(_), _) => target.program()?.err(),
            (_, _) if self.send.is_empty() => {
                let usual = target.usual_question().unwrap_or(r"PING\r\n");
                Some(format!("{target} needs something to send, such as '{usual}'"))
            }
            (_, Ends::Bytes(0)) => Some("an answer has at least 1 byte".into()),
            (_, Ends::Until(marker)) if marker.is_empty() => Some(
                "an answer that ends with \
                nothing never ends"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// Whether a late answer delays the next question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loop {
    /// Questions are due at a fixed rate, whatever became of the ones before.
    #[default]
    Open,
    /// The next question is sent when the last one was answered, and at least one period after it
    /// was sent. This omits the questions that users would have sent in the meantime; it is a
    /// control.
    Closed,
}

/// Where an answer ends.
///
/// As text: `learned`, `7 bytes`, `until END\r\n`.
///
/// ```
/// use ringfence_openloop::Ends;
/// assert_eq!(r"until \r\n".parse(), Ok(Ends::Until(b"\r\n".to_vec())));
/// assert_eq!("7 bytes".parse(), Ok(Ends::Bytes(7)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ends {
    /// As long as the first answers were, which all must have the same length. For programs: a
    /// line.
    #[default]
    Learned,
    /// After this many bytes.
    Bytes(usize),
    /// With these bytes. For programs: with a line that is this text.
    Until(Vec<u8>),
}

impl FromStr for Ends {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(marker) = text.strip_prefix("until ") {
            return unescape(marker).map(Self::Until);
        }
        let bytes = text.strip_suffix("bytes").or_else(|| text.strip_suffix("byte"));
        match (text, bytes.and_then(|number| number.trim().parse().ok())) {
            ("learned", _) => Ok(Self::Learned),
            (_, Some(bytes)) => Ok(Self::Bytes(bytes)),
            _ => Err(format!(
                "'{text}' does not define the end of an answer: write learned, N bytes, or until \
                 TEXT"
            )),
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Learned => f.write_str("learned"),
            Self::Bytes(1) => f.write_str("1 byte"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Until(marker) => write!(f, "until {}", escape(marker)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(target: &str, send: &str) -> Question {
        Question::new(target.parse().unwrap(), send, 1000.0)
    }

    #[test]
    fn ends_are_written_as_they_are_read() {
        for text in ["learned", "1 byte", "7 bytes", r"until END\r\n", "until done"] {
            assert_eq!(text.parse::<Ends>().unwrap().to_string(), text);
        }
        for text in ["", "7", "-1 bytes", r"until \q", "until"] {
            text.parse::<Ends>().unwrap_err();
        }
    }

    #[test]
    fn what_can_be_asked_is_accepted() {
        for (target, send) in [
            ("tcp://h:1", "a"),
            ("unix:/a", "a\nb\n"),
            ("http://h/", ""),
            ("exec:cat", "a\n"),
            ("exec:cat", ""),
            ("redis://h", ""),
            ("redis://h", "GET k\r\n"),
            ("postgres://h", ""),
        ] {
            question(target, send).check().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_asked_is_one_sentence() {
        let tcp = || question("tcp://h:1", "a");
        let until = |text: &str| Ends::Until(text.into());
        for (question, part) in [
            (Question { rate: 0.0, ..tcp() }, "a rate of 0"),
            (Question { rate: f64::NAN, ..tcp() }, "a rate of NaN"),
            (Question { rate: 1e9, ..tcp() }, "100000 per second"),
            (Question { limit: Duration::ZERO, ..tcp() }, "time limit"),
            (Question { rate: 1e5, limit: Duration::from_secs(3600), ..tcp() }, "10,000,000"),
            (Question { connections: 0, ..tcp() }, "0 connections"),
            (Question { spin: Duration::from_secs(1), ..tcp() }, "spinning"),
            (Question { patience: Duration::MAX, ..tcp() }, "patience"),
            (Question { ends: Ends::Bytes(0), ..tcp() }, "at least 1 byte"),
            (Question { ends: until(""), ..tcp() }, "never ends"),
            (question("tcp://h:1", ""), "tcp://h:1 needs something to send"),
            (question("http://h/", "x"), "by GET"),
            (question("redis://h", "PING\nPING"), "one line"),
            (Question { ends: until("x"), ..question("redis://h", "") }, "Redis defines"),
            (question("postgres://h", "a\nb"), "one line"),
            (Question { ends: until("x"), ..question("http://h/", "") }, "HTTP defines"),
            (question("exec:cat", "a\nb"), "one line"),
            (Question { ends: Ends::Bytes(3), ..question("exec:cat", "a") }, "with lines"),
        ] {
            let error = question.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
