//! Answers of HTTP/1, to `GET`.
//!
//! After RFC 9112: section 6.3 says how the length of a body is known, section 7.1 what chunks are,
//! section 9.6 when the connection is closed.

use httparse::Status;

use super::progress::Fed;
use crate::answer::{Failure, Outcome};

/// Bytes of a head, and of a line between chunks.
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_LINE: usize = 4 << 10;
const MOST_HEADERS: usize = 128;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Bytes of the body that are still to come.
    Sized(u64),
    ToClose,
    Size,
    /// Bytes of the chunk that are still to come.
    Chunk(u64),
    AfterChunk,
    Trailer,
}

#[derive(Debug, Default)]
pub struct Http {
    state: State,
    /// A head or a line that is not complete.
    held: Vec<u8>,
    status: u16,
    closes: bool,
}

impl Http {
    pub fn closes(&self) -> bool {
        self.closes
    }

    pub fn ends_with_the_connection(&self) -> bool {
        self.state == State::ToClose
    }

    /// What an answer with this status is.
    pub fn outcome(&self) -> Outcome {
        if self.status >= 400 {
            Outcome::Failed(Failure::Status(self.status))
        } else {
            Outcome::Answered
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let step = match self.state {
                State::Head => self.head(rest),
                State::Sized(left) => Ok(self.skip(rest, left, State::Sized, None)),
                State::Chunk(left) => {
                    Ok(self.skip(rest, left, State::Chunk, Some(State::AfterChunk)))
                }
                State::ToClose => Ok((rest.len(), false)),
                State::Size | State::AfterChunk | State::Trailer => self.line(rest),
            };
            match step {
                Ok((more, done)) => {
                    used += more;
                    if done {
                        self.state = State::Head;
                        return Fed { used, done: Some(self.outcome()) };
                    }
                }
                Err(what) => {
                    self.closes = true;
                    let failure = Outcome::Failed(Failure::Unreadable(what));
                    return Fed { used: bytes.len(), done: Some(failure) };
                }
            }
        }
        Fed { used, done: None }
    }

    // Bytes of a body. How many were used, and whether the answer is complete.
    fn skip(
        &mut self,
        rest: &[u8],
        left: u64,
        this: fn(u64) -> State,
        after: Option<State>,
    ) -> (usize, bool) {
        let used = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
        let left = left - used as u64;
        match after {
            Some(after) if left == 0 => self.state = after,
            _ => self.state = this(left),
        }
        (used, left == 0 && after.is_none())
    }

    fn head(&mut self, rest: &[u8]) -> Result<(usize, bool), &'static str> {
        let before = self.held.len();
        self.held.extend_from_slice(rest);
        let held = std::mem::take(&mut self.held);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(&held) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if held.len() > LONGEST_HEAD => {
                return Err("its head is longer than 64 KiB");
            }
            Ok(Status::Partial) => {
                self.held = held;
                return Ok((rest.len(), false));
            }
            Err(httparse::Error::TooManyHeaders) => return Err("it has more than 128 headers"),
            Err(_) => return Err("status line or headers are malformed"),
        };
        let done = self.body(&response)?;
        Ok((length - before, done))
    }

    // What follows a head. Whether that is nothing.
    fn body(&mut self, response: &httparse::Response) -> Result<bool, &'static str> {
        self.status = response.code.unwrap_or_default();
        let values = |name: &'static str| {
            let named = response
                .headers
                .iter()
                .filter(move |header| header.name.eq_ignore_ascii_case(name));
            named
                .flat_map(|header| header.value.split(|byte| *byte == b','))
                .map(<[u8]>::trim_ascii)
        };
        let says = |name: &'static str, word: &[u8]| {
            values(name).any(|value| value.eq_ignore_ascii_case(word))
        };
        self.closes = says("connection", b"close")
            || (response.version == Some(0) && !says("connection", b"keep-alive"));
        match self.status {
            101 => return Err("it switches to another protocol"),
            // An interim answer: the final one follows.
            100..=199 => return Ok(false),
            204 | 304 => return Ok(true),
            _ => {}
        }
        if let Some(last) = values("transfer-encoding").next_back() {
            self.state =
                if last.eq_ignore_ascii_case(b"chunked") { State::Size } else { State::ToClose };
        } else {
            let mut lengths = values("content-length").map(number);
            self.state = match lengths.next() {
                None => State::ToClose,
                Some(length) if lengths.any(|other| other != length) => {
                    return Err("it has two lengths");
                }
                Some(length) => State::Sized(length.ok_or("its Content-Length is not a number")?),
            };
        }
        self.closes |= self.state == State::ToClose;
        Ok(self.state == State::Sized(0))
    }

    // A line between chunks.
    fn line(&mut self, rest: &[u8]) -> Result<(usize, bool), &'static str> {
        let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(rest.len());
        self.held.extend_from_slice(&rest[..used]);
        if self.held.len() > LONGEST_LINE {
            return Err("a line between chunks is longer than 4 KiB");
        }
        if end.is_none() {
            return Ok((used, false));
        }
        let line = std::mem::take(&mut self.held);
        let empty = line.trim_ascii().is_empty();
        self.state = match self.state {
            State::AfterChunk if empty => State::Size,
            State::AfterChunk => return Err("a chunk is longer than it says"),
            State::Trailer => return Ok((used, empty)),
            _ => match httparse::parse_chunk_size(&line) {
                Ok(Status::Complete((_, 0))) => State::Trailer,
                Ok(Status::Complete((_, size))) => State::Chunk(size),
                _ => return Err("the length of a chunk is not a number"),
            },
        };
        Ok((used, false))
    }
}

fn number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}
