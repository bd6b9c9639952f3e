//! Where an answer ends, in a stream of bytes that comes in pieces of any size.

mod http;
mod progress;
mod resp;
#[cfg(test)]
mod tests;

use crate::answer::{Failure, Outcome};

use http::Http;
pub use progress::Fed;
use resp::Resp;

/// How an answer ends, once that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// After this many bytes; the first one is always the given one, if known.
    Length(usize, Option<u8>),
    /// With these bytes.
    Until(Vec<u8>),
    /// With a line: any, or the first that is this one.
    Line(Option<Vec<u8>>),
    /// As HTTP/1 says.
    Http,
    /// As Redis's protocol says.
    Resp,
}

/// Reads one answer after the other.
#[derive(Debug)]
pub struct Reader {
    end: End,
    /// Bytes of the answer so far.
    got: usize,
    /// The end of what was read, as far as it may be the beginning of what ends the answer.
    tail: Vec<u8>,
    http: Http,
    resp: Resp,
}

impl Reader {
    pub fn new(end: End) -> Self {
        Self { end, got: 0, tail: Vec::new(), http: Http::default(), resp: Resp::default() }
    }

    /// Whether some of an answer has come, and not all of it.
    pub fn is_amid(&self) -> bool {
        self.got > 0
    }

    /// Whether the service announced that it closes the connection after the last answer.
    pub fn closes(&self) -> bool {
        self.http.closes()
    }

    /// Reads on, to the end of the answer at most.
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        let fed = match &self.end {
            End::Length(length, first) => {
                if self.got == 0
                    && let (Some(first), Some(came)) = (first, bytes.first())
                    && first != came
                {
                    Fed { used: bytes.len(), done: Some(Outcome::Failed(Failure::Unlike)) }
                } else {
                    let used = bytes.len().min(length - self.got);
                    Fed { used, done: (self.got + used == *length).then_some(Outcome::Answered) }
                }
            }
            End::Until(marker) => until(&mut self.tail, marker, bytes),
            End::Line(marker) => line(&mut self.tail, marker.as_deref(), bytes),
            End::Http => self.http.feed(bytes),
            End::Resp => self.resp.feed(bytes),
        };
        self.got += fed.used;
        if fed.done.is_some() {
            self.got = 0;
            self.tail.clear();
        }
        fed
    }

    /// The outcome of the pending answer when the service closes the connection.
    pub fn closed(&self) -> Outcome {
        if self.got > 0 && self.http.ends_with_the_connection() {
            self.http.outcome()
        } else {
            Outcome::Failed(Failure::Closed)
        }
    }
}

fn until(tail: &mut Vec<u8>, marker: &[u8], bytes: &[u8]) -> Fed {
    let before = tail.len();
    tail.extend_from_slice(bytes);
    if let Some(at) = tail.windows(marker.len()).position(|window| window == marker) {
        return Fed { used: at + marker.len() - before, done: Some(Outcome::Answered) };
    }
    tail.drain(..tail.len().saturating_sub(marker.len() - 1));
    Fed { used: bytes.len(), done: None }
}

fn line(tail: &mut Vec<u8>, marker: Option<&[u8]>, bytes: &[u8]) -> Fed {
    let mut used = 0;
    while let Some(at) = bytes[used..].iter().position(|byte| *byte == b'\n') {
        tail.extend_from_slice(&bytes[used..used + at]);
        used += at + 1;
        let line = tail.strip_suffix(b"\r").unwrap_or(tail);
        if marker.is_none_or(|marker| marker == line) {
            return Fed { used, done: Some(Outcome::Answered) };
        }
        tail.clear();
    }
    // A longer line than the marker is not the marker, whatever else comes.
    let most = marker.map_or(0, |marker| marker.len() + 2);
    let rest = &bytes[used..];
    tail.extend_from_slice(&rest[..rest.len().min(most.saturating_sub(tail.len()))]);
    Fed { used: bytes.len(), done: None }
}
