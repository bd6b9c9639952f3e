//! Connections: which one carries a question, and the answers.

use std::collections::VecDeque;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;

use crate::answer::{Failure, Outcome};
use crate::clock;
use crate::connection::{Connection, Happened, Told};
use crate::frame::End;
use crate::ledger::Id;
use crate::link::{Address, Link};

/// For how long no connection is opened after one failed beside others that live, or a program
/// ended, in ns.
const PAUSE: u64 = 10_000_000;
const RESTART: u64 = 100_000_000;

/// What became of connections.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub open: usize,
    pub most: usize,
    pub closed: u64,
    pub reopened: u64,
    pub surplus: u64,
}

pub struct Pool {
    epoll: rustix::fd::OwnedFd,
    events: Vec<epoll::Event>,
    address: Address,
    request: Vec<u8>,
    end: End,
    /// Most connections, and most questions on each.
    most: usize,
    depth: usize,
    slots: Vec<Option<Connection>>,
    /// Slots without a connection; connections that can take a question, last used last; those
    /// being opened.
    free: Vec<usize>,
    ready: Vec<usize>,
    opening: usize,
    /// No connection is opened before this time.
    not_before: u64,
    /// Connections that were closed and not replaced yet.
    lost: u64,
    pub counts: Counts,
    pub happened: VecDeque<Happened>,
    buffer: Vec<u8>,
}

impl Pool {
    pub fn new(
        address: Address,
        request: Vec<u8>,
        end: End,
        most: usize,
        depth: usize,
    ) -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(64),
            address,
            request,
            end,
            most,
            depth,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            opening: 0,
            not_before: 0,
            lost: 0,
            counts: Counts::default(),
            happened: VecDeque::new(),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Takes over a connection on which questions were answered before.
    pub fn adopt(&mut self, link: Link) -> Result<(), Errno> {
        let slot = self.add(link)?;
        self.opened(slot);
        if let Some(connection) = self.slots[slot].as_mut() {
            connection.answered = true;
        }
        self.listen(slot)
    }

    /// Whether a question could be sent at once.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When connections may be opened again, if that is not now.
    pub fn opens_at(&self, now: u64) -> Option<u64> {
        (self.not_before > now && self.counts.open < self.most).then_some(self.not_before)
    }

    /// Opens as many connections as there are questions that wait, within the limit. A question
    /// goes on whichever connection is ready first.
    pub fn make_room(&mut self, waiting: usize, now: u64) {
        while self.opening < waiting && self.counts.open < self.most && now >= self.not_before {
            let added = self.address.open().and_then(|link| self.add(link));
            match added {
                Ok(slot) => self.settle_interest(slot, now),
                // The queue of a Unix socket is full: the service is there, and busy.
                Err(Errno::AGAIN) => self.not_before = now + PAUSE,
                Err(errno) => return self.not_opened(errno, now),
            }
        }
    }

    fn not_opened(&mut self, errno: Errno, now: u64) {
        if self.counts.open > self.opening {
            self.not_before = now + PAUSE;
        } else {
            self.happened.push_back(Happened::Unreachable(errno));
        }
    }

    fn add(&mut self, link: Link) -> Result<usize, Errno> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let connection = Connection::new(link, self.end.clone());
        let data = epoll::EventData::new_u64(slot as u64);
        let link = &connection.link;
        let registered = if link.is_socket() {
            epoll::add(&self.epoll, link.reader(), data, connection.interest())
        } else {
            epoll::add(&self.epoll, link.reader(), data, epoll::EventFlags::IN)
                .and_then(|()| epoll::add(&self.epoll, link.writer(), data, connection.interest()))
        };
        if let Err(errno) = registered {
            self.free.push(slot);
            return Err(errno);
        }
        self.slots[slot] = Some(connection);
        self.opening += 1;
        self.counts.open += 1;
        self.counts.most = self.counts.most.max(self.counts.open);
        if self.lost > 0 {
            self.lost -= 1;
            self.counts.reopened += 1;
        }
        Ok(slot)
    }

    fn opened(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.open) {
            connection.open = true;
            self.opening -= 1;
            self.ready.push(slot);
        }
    }

    // Listens for what the connection waits for.
    fn listen(&mut self, slot: usize) -> Result<(), Errno> {
        let Some(connection) = self.slots[slot].as_mut() else { return Ok(()) };
        let interest = connection.interest();
        if connection.listening != interest {
            connection.listening = interest;
            let data = epoll::EventData::new_u64(slot as u64);
            epoll::modify(&self.epoll, connection.link.writer(), data, interest)?;
        }
        Ok(())
    }

    fn settle_interest(&mut self, slot: usize, now: u64) {
        if let Err(errno) = self.listen(slot) {
            self.close(slot, Outcome::Failed(Failure::Io(errno)), now);
        }
    }

    /// Sends a question on the connection that was used last; [`Self::is_ready`] says whether there
    /// is one.
    pub fn send(&mut self, id: Id, now: u64) {
        let Some(slot) = self.ready.pop() else { return };
        let Some(connection) = self.slots[slot].as_mut() else { return };
        let sent = connection.send(id, &self.request, now);
        if connection.flight.len() < self.depth {
            self.ready.push(slot);
        }
        match sent {
            Ok(()) => self.settle_interest(slot, now),
            Err(errno) => self.close(slot, Outcome::Failed(Failure::Io(errno)), now),
        }
    }

    /// A question will not be waited for any longer. Its connection is closed, as the answer may
    /// still come; but not a program, which is passed over.
    pub fn abandon(&mut self, id: Id, now: u64) {
        if self.depth > 1 {
            return;
        }
        let on =
            |slot: &Option<Connection>| slot.as_ref().is_some_and(|slot| slot.flight.contains(&id));
        if let Some(slot) = self.slots.iter().position(on) {
            self.close(slot, Outcome::Unanswered, now);
        } else if self.opening > 0 {
            // Connecting takes longer than a question may: try anew.
            let stuck = |slot: &Option<Connection>| slot.as_ref().is_some_and(|slot| !slot.open);
            if let Some(slot) = self.slots.iter().position(stuck) {
                self.close(slot, Outcome::Unanswered, now);
            }
        }
    }

    /// Waits until something comes, for at most this many ns, and reads it. Whether anything came.
    pub fn wait(&mut self, ns: u64) -> Result<bool, Errno> {
        if ns > 0 {
            // epoll_wait counts in ms, and epoll_pwait2 came with Linux 5.11.
            let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut set, Some(&clock::timespec(ns))) {
                Ok(0) | Err(Errno::INTR) => return Ok(false),
                Ok(_) => {}
                Err(errno) => return Err(errno),
            }
        }
        let mut events = std::mem::take(&mut self.events);
        let result =
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&clock::timespec(0)));
        let came = !events.is_empty();
        let ahead = if came { clock::real_ahead() } else { 0 };
        for event in events.drain(..) {
            self.handle(event.data.u64() as usize, event.flags, ahead);
        }
        self.events = events;
        match result {
            Err(errno) if errno != Errno::INTR => Err(errno),
            _ => Ok(came),
        }
    }

    // While a batch of events is handled, slots are emptied and none is filled: an event is not for
    // another connection.
    fn handle(&mut self, slot: usize, flags: epoll::EventFlags, ahead: i64) {
        let Some(connection) = self.slots[slot].as_mut() else { return };
        if !connection.open {
            if !flags.intersects(
                epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP,
            ) {
                return;
            }
            if let Err(errno) = connection.link.connected() {
                let now = clock::now();
                self.close(slot, Outcome::Failed(Failure::Io(errno)), now);
                return self.not_opened(errno, now);
            }
            self.opened(slot);
            return self.settle_interest(slot, clock::now());
        }
        let was_full = connection.flight.len() >= self.depth;
        let told = connection.serve(flags, &mut self.buffer, ahead, &mut self.happened);
        match told {
            Told::Open => {
                if was_full && connection.flight.len() < self.depth {
                    self.ready.push(slot);
                }
                self.settle_interest(slot, clock::now());
            }
            Told::Surplus(outcome) => {
                self.counts.surplus += 1;
                self.close(slot, outcome, clock::now());
            }
            Told::Closed(outcome) => self.close(slot, outcome, clock::now()),
        }
    }

    fn close(&mut self, slot: usize, outcome: Outcome, now: u64) {
        let Some(connection) = self.slots[slot].take() else { return };
        if !connection.open {
            self.opening -= 1;
        }
        self.ready.retain(|other| *other != slot);
        self.free.push(slot);
        self.counts.open -= 1;
        self.lost += u64::from(connection.open);
        self.counts.closed += u64::from(connection.open);
        if !connection.link.is_socket() {
            self.not_before = now + RESTART;
        }
        let unheard = connection.is_unheard();
        for id in &connection.flight {
            self.happened.push_back(if unheard && outcome != Outcome::Unanswered {
                Happened::Unheard(*id, outcome)
            } else {
                Happened::Answer { id: *id, time: now, stamped: false, outcome }
            });
        }
    }
}
