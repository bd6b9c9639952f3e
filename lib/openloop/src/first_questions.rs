//! The first questions: whether the service answers at all, and where its answers end.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::answer::{Failure, Outcome};
use crate::clock;
use crate::error::ProbeError;
use crate::escape::escape;
use crate::frame::{End, Reader};
use crate::learn;
use crate::link::{Address, Link};
use crate::question::{Ends, Question};
use crate::target::{Target, host_and_port};

/// An answer has ended when nothing came for this long, while its length is being learned.
const QUIET: Duration = Duration::from_millis(100);

/// A text without a line end that is not answered for this long is sent again with one.
const LINE_END_WAIT: Duration = Duration::from_secs(1);

/// Bytes of an answer from which a length is learned.
const LONGEST: usize = 64 << 20;

/// What the first questions showed.
pub struct First {
    pub address: Address,
    pub end: End,
    /// The connection, if it can be used further.
    pub link: Option<Link>,
}

/// The bytes that are sent.
pub fn request(question: &Question) -> Vec<u8> {
    match &question.target {
        Target::Http { host, port, path } => format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: ringfence-probe\r\nAccept: */*\r\n\r\n",
            host_and_port(host, *port)
        )
        .into_bytes(),
        Target::Redis { .. } if question.send.is_empty() => b"PING\r\n".to_vec(),
        Target::Redis { .. } => [question.send.trim_ascii_end(), b"\r\n"].concat(),
        Target::Postgres(_) if question.send.is_empty() => b"SELECT 1;\n".to_vec(),
        Target::Postgres(_) | Target::Exec(_) if !question.send.ends_with(b"\n") => {
            [&question.send[..], b"\n"].concat()
        }
        _ => question.send.clone(),
    }
}

/// Connects and asks, again for as long as the question's patience lasts.
pub fn ask(question: &Question) -> Result<First, ProbeError> {
    let until = clock::now() + question.patience.as_nanos() as u64;
    loop {
        match attempt(question) {
            Err(error) if is_passing(&error) && clock::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

// Whether a service that starts may do better soon.
fn is_passing(error: &ProbeError) -> bool {
    match error {
        ProbeError::Connect { .. } | ProbeError::Silent { .. } => true,
        ProbeError::First { failure, .. } => {
            matches!(failure, Failure::Closed | Failure::Io(_) | Failure::Status(500..))
        }
        _ => false,
    }
}

fn attempt(question: &Question) -> Result<First, ProbeError> {
    let (address, link) = connect(question)?;
    let mut talk = Talk { question, request: request(question), link, came: Vec::new() };
    let lines = |marker: Option<&[u8]>| End::Line(marker.map(<[u8]>::to_vec));
    let (end, closes) = match (&question.target, &question.ends) {
        (Target::Http { .. }, _) => talk.one(End::Http)?,
        (Target::Redis { .. }, _) => talk.one(End::Resp)?,
        (Target::Exec(_) | Target::Postgres(_), Ends::Until(marker)) => {
            talk.one(lines(Some(marker)))?
        }
        (Target::Exec(_) | Target::Postgres(_), _) => talk.one(lines(None))?,
        (_, Ends::Learned) => (talk.learn()?, false),
        (_, Ends::Bytes(bytes)) => talk.one(End::Length(*bytes, None))?,
        (_, Ends::Until(marker)) => talk.one(End::Until(marker.clone()))?,
    };
    let link = if closes { None } else { Some(talk.link) };
    Ok(First { address, end, link })
}

fn connect(question: &Question) -> Result<(Address, Link), ProbeError> {
    let mut last = Errno::ADDRNOTAVAIL;
    for address in Address::all(&question.target)? {
        let connected = address.open().and_then(|link| {
            wait(&link, PollFlags::OUT, question.limit)?;
            link.connected()?;
            Ok(link)
        });
        match connected {
            Ok(link) => return Ok((address, link)),
            Err(errno) => last = errno,
        }
    }
    match question.target.program() {
        Some(words) => {
            let program = words.map(|words| words[0].clone()).unwrap_or_default();
            Err(ProbeError::Start { program, source: last.into() })
        }
        None => {
            Err(ProbeError::Connect { target: question.target.to_string(), source: last.into() })
        }
    }
}

struct Talk<'a> {
    question: &'a Question,
    request: Vec<u8>,
    link: Link,
    /// The bytes of the answer so far.
    came: Vec<u8>,
}

impl Talk<'_> {
    // Asks once, and sees that the answer ends where it should.
    fn one(&mut self, end: End) -> Result<(End, bool), ProbeError> {
        let mut reader = Reader::new(end.clone());
        self.send()?;
        let deadline = clock::now() + self.question.limit.as_nanos() as u64;
        let outcome = loop {
            let before = self.came.len();
            let closed =
                match self.more(Duration::from_nanos(deadline.saturating_sub(clock::now()))) {
                    Ok(length) => length == 0,
                    Err(Errno::TIMEDOUT) => return Err(self.silent()),
                    Err(errno) => return Err(self.failed(Failure::Io(errno))),
                };
            if closed {
                break reader.closed();
            }
            let fed = reader.feed(&self.came[before..]);
            if let Some(outcome) = fed.done {
                if before + fed.used < self.came.len() {
                    return Err(self.surplus());
                }
                break outcome;
            }
        };
        if let Outcome::Failed(failure) = outcome {
            return Err(self.failed(failure));
        }
        if !reader.closes() && self.more(QUIET).is_ok_and(|length| length > 0) {
            return Err(self.surplus());
        }
        Ok((end, reader.closes()))
    }

    // Asks a few times, and takes as an answer what comes until it is quiet.
    fn learn(&mut self) -> Result<End, ProbeError> {
        let mut answers = Vec::new();
        for _ in 0..learn::ANSWERS {
            self.send()?;
            let mut patience = self.question.limit;
            if answers.is_empty() && self.is_text_without_end() && patience > LINE_END_WAIT {
                if self.comes_within(LINE_END_WAIT)? {
                    patience = QUIET;
                } else if self.ended_line_is_answered() {
                    return Err(ProbeError::NoLineEnd {
                        target: self.question.target.to_string(),
                        sent: escape(&self.request),
                    });
                } else {
                    patience -= LINE_END_WAIT;
                }
            }
            loop {
                match self.more(patience) {
                    Ok(0) => return Err(self.failed(Failure::Closed)),
                    Ok(_) if self.came.len() > LONGEST => {
                        return Err(self.end(
                            "an answer is longer than 64 MiB: use a question with a shorter \
                                 answer"
                                .into(),
                        ));
                    }
                    Ok(_) => patience = QUIET,
                    Err(Errno::TIMEDOUT) if self.came.is_empty() => return Err(self.silent()),
                    Err(Errno::TIMEDOUT) => break,
                    Err(errno) => return Err(self.failed(Failure::Io(errno))),
                }
            }
            answers.push(std::mem::take(&mut self.came));
        }
        learn::learn(&answers).map_err(|what| self.end(what))
    }

    fn is_text_without_end(&self) -> bool {
        self.request.iter().all(|byte| matches!(byte, b' '..=b'~'))
    }

    // Whether some of an answer comes in this time.
    fn comes_within(&mut self, limit: Duration) -> Result<bool, ProbeError> {
        match self.more(limit) {
            Ok(0) => Err(self.failed(Failure::Closed)),
            Ok(_) => Ok(true),
            Err(Errno::TIMEDOUT) => Ok(false),
            Err(errno) => Err(self.failed(Failure::Io(errno))),
        }
    }

    // Whether the same text with a line end is answered, on a connection of its own.
    fn ended_line_is_answered(&self) -> bool {
        let ended = Question { limit: LINE_END_WAIT, ..self.question.clone() };
        let request = [&self.request[..], b"\r\n"].concat();
        let Ok((_, link)) = connect(&ended) else { return false };
        let mut talk = Talk { question: &ended, request, link, came: Vec::new() };
        talk.send().is_ok() && matches!(talk.comes_within(LINE_END_WAIT), Ok(true))
    }

    fn send(&mut self) -> Result<(), ProbeError> {
        let mut rest = &self.request[..];
        while !rest.is_empty() {
            let written = wait(&self.link, PollFlags::OUT, self.question.limit)
                .and_then(|()| self.link.write(rest));
            match written {
                Ok(written) => rest = &rest[written..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => return Err(self.silent()),
                Err(errno) => return Err(self.failed(Failure::Io(errno))),
            }
        }
        Ok(())
    }

    // Waits for more bytes. 0 where the service has closed the connection.
    fn more(&mut self, limit: Duration) -> Result<usize, Errno> {
        let mut buffer = [0; 16 << 10];
        loop {
            wait(&self.link, PollFlags::IN, limit)?;
            match self.link.read(&mut buffer) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
                Ok((length, _)) => {
                    self.came.extend_from_slice(&buffer[..length]);
                    return Ok(length);
                }
            }
        }
    }

    fn silent(&self) -> ProbeError {
        let target = self.question.target.to_string();
        ProbeError::Silent { target, limit: self.question.limit, got: self.came.len() }
    }

    fn failed(&self, failure: Failure) -> ProbeError {
        let came = escape(&self.came[..self.came.len().min(80)]);
        ProbeError::First { target: self.question.target.to_string(), failure, came }
    }

    fn surplus(&self) -> ProbeError {
        let what = match &self.question.target {
            Target::Exec(_) | Target::Postgres(_) => {
                "the answer has more than one line: end the question with a command that prints a \
                 final line, and give that line after `until`"
            }
            Target::Http { .. } => "bytes arrived after the end of the page",
            _ => "bytes arrived after the given end of the answer: check how an answer ends",
        };
        self.end(what.into())
    }

    fn end(&self, what: String) -> ProbeError {
        ProbeError::End { target: self.question.target.to_string(), what }
    }
}

// Waits until a link can be read or written, or has failed.
fn wait(link: &Link, flags: PollFlags, limit: Duration) -> Result<(), Errno> {
    let until = clock::now() + limit.as_nanos() as u64;
    loop {
        let left = until.saturating_sub(clock::now());
        let fd = if flags == PollFlags::IN { link.reader() } else { link.writer() };
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&clock::timespec(left))) {
            Ok(0) if left == 0 => return Err(Errno::TIMEDOUT),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
}
