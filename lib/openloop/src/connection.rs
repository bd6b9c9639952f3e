//! One connection, the questions on it, and where the answer is that is being read.

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::answer::{Failure, Outcome};
use crate::clock;
use crate::frame::{End, Reader};
use crate::ledger::Id;
use crate::link::Link;

/// What became of questions and connections.
#[derive(Debug)]
pub enum Happened {
    /// The answer to a question came, or will not.
    Answer { id: Id, time: u64, stamped: bool, outcome: Outcome },
    /// The connection of a question was closed before a byte of the answer came: it was closed
    /// while it was idle.
    Unheard(Id, Outcome),
    /// No connection could be opened, and there is no other.
    Unreachable(Errno),
}

/// The result of reading from the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    Open,
    /// It has ended, and what that means for the questions on it.
    Closed(Outcome),
    /// More bytes came than were requested.
    Surplus(Outcome),
}

pub struct Connection {
    pub link: Link,
    pub open: bool,
    /// Whether a question was answered on it.
    pub answered: bool,
    /// The events that the kernel reports.
    pub listening: EventFlags,
    /// Questions without an answer, and when each was sent.
    pub flight: VecDeque<Id>,
    sent: VecDeque<u64>,
    unsent: Vec<u8>,
    reader: Reader,
}

impl Connection {
    pub fn new(link: Link, end: End) -> Self {
        let mut connection = Self {
            link,
            open: false,
            answered: false,
            listening: EventFlags::empty(),
            flight: VecDeque::new(),
            sent: VecDeque::new(),
            unsent: Vec::new(),
            reader: Reader::new(end),
        };
        connection.listening = connection.interest();
        connection
    }

    /// What the writing side waits for; the reading side is the same for sockets.
    pub fn interest(&self) -> EventFlags {
        let reads = if self.link.is_socket() { EventFlags::IN } else { EventFlags::empty() };
        if self.open && self.unsent.is_empty() { reads } else { reads | EventFlags::OUT }
    }

    /// Whether the question on it can be sent again on another connection: the service had answered
    /// on this connection, and closed it before it sent a byte of this answer. Services close
    /// connections that are idle or that have served enough requests.
    pub fn is_unheard(&self) -> bool {
        self.answered && self.link.is_socket() && !self.reader.is_amid()
    }

    pub fn send(&mut self, id: Id, request: &[u8], now: u64) -> Result<(), Errno> {
        self.flight.push_back(id);
        self.sent.push_back(now);
        if self.unsent.is_empty() {
            let written = or_nothing(self.link.write(request))?;
            self.unsent.extend_from_slice(&request[written..]);
        } else {
            self.unsent.extend_from_slice(request);
        }
        Ok(())
    }

    /// Does what an event says can be done.
    pub fn serve(
        &mut self,
        flags: EventFlags,
        buffer: &mut [u8],
        ahead: i64,
        happened: &mut VecDeque<Happened>,
    ) -> Told {
        // An answer that came counts even if nothing more can be sent.
        let flushed = if flags.contains(EventFlags::OUT) { self.flush() } else { Ok(()) };
        let told =
            if flags == EventFlags::OUT { Told::Open } else { self.read(buffer, ahead, happened) };
        match (told, flushed) {
            (Told::Open, Err(errno)) => Told::Closed(Outcome::Failed(Failure::Io(errno))),
            // A program that reads no more: the kernel would tell it again and again.
            (Told::Open, _) if flags.contains(EventFlags::ERR) => {
                Told::Closed(Outcome::Failed(Failure::Closed))
            }
            (told, _) => told,
        }
    }

    /// Sends what did not fit before.
    fn flush(&mut self) -> Result<(), Errno> {
        if !self.unsent.is_empty() {
            let written = or_nothing(self.link.write(&self.unsent))?;
            self.unsent.drain(..written);
        }
        Ok(())
    }

    /// Reads what is there. `ahead` is what the real-time clock is ahead of the monotonic one by.
    fn read(&mut self, buffer: &mut [u8], ahead: i64, happened: &mut VecDeque<Happened>) -> Told {
        let (length, stamp) = match self.link.read(buffer) {
            Ok((0, _)) => return self.ended(happened),
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Told::Open,
            Err(errno) => return Told::Closed(Outcome::Failed(Failure::Io(errno))),
        };
        let now = clock::now();
        let mut bytes = &buffer[..length];
        while !bytes.is_empty() {
            let Some(&sent) = self.sent.front() else {
                return Told::Surplus(Outcome::Failed(Failure::TooLong));
            };
            let fed = self.reader.feed(bytes);
            bytes = &bytes[fed.used..];
            let Some(mut outcome) = fed.done else { continue };
            let alone = self.flight.len() == 1;
            if alone && !bytes.is_empty() {
                outcome = Outcome::Failed(Failure::TooLong);
            }
            self.done(outcome, sent, now, stamp.map(|stamp| stamp - ahead), happened);
            match outcome {
                Outcome::Failed(Failure::TooLong) => return Told::Surplus(outcome),
                Outcome::Failed(Failure::Unlike | Failure::NotRedis | Failure::Unreadable(_)) => {
                    return Told::Closed(outcome);
                }
                _ if self.reader.closes() => return Told::Closed(Outcome::Failed(Failure::Closed)),
                _ => self.answered = true,
            }
        }
        Told::Open
    }

    // A time of the kernel counts if it lies between sending and now; it would not if the clock was
    // set.
    fn done(
        &mut self,
        outcome: Outcome,
        sent: u64,
        now: u64,
        stamp: Option<i64>,
        happened: &mut VecDeque<Happened>,
    ) {
        const SLACK: u64 = 2_000;
        let stamp = stamp.and_then(|stamp| u64::try_from(stamp).ok());
        let stamp = stamp.filter(|stamp| (sent..=now + SLACK).contains(stamp));
        self.sent.pop_front();
        if let Some(id) = self.flight.pop_front() {
            let time = stamp.map_or(now, |stamp| stamp.min(now));
            happened.push_back(Happened::Answer { id, time, stamped: stamp.is_some(), outcome });
        }
    }

    fn ended(&mut self, happened: &mut VecDeque<Happened>) -> Told {
        let outcome = self.reader.closed();
        if outcome != Outcome::Failed(Failure::Closed)
            && let Some(&sent) = self.sent.front()
        {
            self.done(outcome, sent, clock::now(), None, happened);
        }
        Told::Closed(Outcome::Failed(Failure::Closed))
    }
}

fn or_nothing(written: Result<usize, Errno>) -> Result<usize, Errno> {
    match written {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        written => written,
    }
}
