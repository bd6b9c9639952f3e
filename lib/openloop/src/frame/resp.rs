//! Answers in Redis's protocol, versions 2 and 3.
//!
//! After the specification "Redis serialization protocol": a first byte names the type, a line
//! follows, and strings and aggregates continue after it.

use super::progress::Fed;
use crate::answer::{Failure, Outcome};

/// Bytes of a line: longer than any length, and than the errors and short strings that end with a
/// line.
const LONGEST_LINE: usize = 64 << 10;

#[derive(Debug)]
pub struct Resp {
    /// Values that are still to come. One where no answer has begun.
    values: u64,
    /// Bytes of a string, with its line end, that are still to come.
    string: u64,
    /// A line that is not complete.
    line: Vec<u8>,
    /// The outcome of the answer, from its first value.
    outcome: Option<Outcome>,
}

impl Default for Resp {
    fn default() -> Self {
        Self { values: 1, string: 0, line: Vec::new(), outcome: None }
    }
}

impl Resp {
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let skipped =
                usize::try_from(self.string).map_or(rest.len(), |left| left.min(rest.len()));
            (used, self.string) = (used + skipped, self.string - skipped as u64);
            if self.values == 0 && self.string == 0 {
                let done = self.outcome;
                *self = Self::default();
                return Fed { used, done };
            }
            let rest = &bytes[used..];
            let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            used += end.unwrap_or(rest.len());
            if end.is_none() && self.line.len() <= LONGEST_LINE {
                return Fed { used, done: None };
            }
            if self.value().is_none() {
                return Fed { used: bytes.len(), done: Some(Outcome::Failed(Failure::NotRedis)) };
            }
        }
    }

    // Reads the line of a value. None where it is none of this protocol.
    fn value(&mut self) -> Option<()> {
        let line = std::mem::take(&mut self.line);
        let (kind, rest) = line.strip_suffix(b"\r\n")?.split_first()?;
        let length =
            || std::str::from_utf8(rest).ok()?.parse::<i64>().ok().filter(|length| *length >= -1);
        let (children, string) = match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (0, 0),
            // -1 is a missing string or array, of which nothing follows.
            b'$' | b'!' | b'=' => {
                (0, length()?.checked_add(2).filter(|bytes| *bytes > 1).unwrap_or(0))
            }
            b'*' | b'~' => (length()?.max(0), 0),
            b'%' => (length()?.max(0).checked_mul(2)?, 0),
            _ => return None,
        };
        self.values = (self.values - 1).checked_add(u64::try_from(children).ok()?)?;
        self.string = u64::try_from(string).ok()?;
        let refused = matches!(kind, b'-' | b'!').then_some(Outcome::Failed(Failure::Refused));
        self.outcome = self.outcome.or(refused).or(Some(Outcome::Answered));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fed in pieces of every size, an answer ends where it ends.
    fn read(answer: &str) -> Outcome {
        let bytes = [answer.as_bytes(), b"+NEXT\r\n"].concat();
        let mut outcomes = Vec::new();
        for size in 1..=bytes.len() {
            let (mut resp, mut used) = (Resp::default(), 0);
            let outcome = loop {
                let fed = resp.feed(&bytes[used..bytes.len().min(used + size)]);
                used += fed.used;
                if let Some(outcome) = fed.done {
                    break outcome;
                }
            };
            if outcome != Outcome::Failed(Failure::NotRedis) {
                assert_eq!(used, answer.len(), "{answer:?} in pieces of {size}");
            }
            outcomes.push(outcome);
        }
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{answer:?}: {outcomes:?}");
        outcomes[0]
    }

    #[test]
    fn every_type_ends_where_it_ends() {
        for answer in [
            "+PONG\r\n",
            ":1000\r\n",
            "$5\r\nhello\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "$4\r\n\r\n\r\n\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "%1\r\n+k\r\n#t\r\n",
            "~1\r\n_\r\n",
            "=5\r\ntxt:a\r\n",
            // An error inside of an array is that of one value.
            "*2\r\n+a\r\n-ERR b\r\n",
        ] {
            assert_eq!(read(answer), Outcome::Answered, "{answer:?}");
        }
    }

    #[test]
    fn errors_are_failures() {
        for answer in ["-NOAUTH Authentication required.\r\n", "!3\r\nbad\r\n"] {
            assert_eq!(read(answer), Outcome::Failed(Failure::Refused), "{answer:?}");
        }
    }

    #[test]
    fn other_protocols_are_failures() {
        for answer in [
            "HTTP/1.1 200 OK\r\n",
            "\r\n",
            "$x\r\n",
            "$-2\r\n",
            "+a\n",
            "*9223372036854775807000\r\n",
        ] {
            assert_eq!(read(answer), Outcome::Failed(Failure::NotRedis), "{answer:?}");
        }
        let endless = Resp::default().feed(&vec![b'+'; LONGEST_LINE + 1]);
        assert_eq!(endless.done, Some(Outcome::Failed(Failure::NotRedis)));
    }
}
