//! The probe: asks what is due, takes what comes.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::answer::{Answer, Failure, Outcome};
use crate::clock;
use crate::connection::Happened;
use crate::error::ProbeError;
use crate::first_questions::{self, First};
use crate::ledger::{Id, Ledger};
use crate::pool::Pool;
use crate::question::{Loop, Question};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::usage::Spent;

/// Questions that are sent, and answers that are given, before a step looks at its deadline again.
const BATCH: usize = 256;

/// Questions on their way to one program.
const DEPTH: usize = 1 << 16;

/// Queries a running service at a fixed rate, and times every answer from the moment at which its
/// question was due.
///
/// It belongs to one thread, which calls [`Self::step`] repeatedly; questions that are due between
/// two calls are sent late, with a lag. The first step sets this thread's timer slack to 1 ns, for
/// good.
pub struct Probe {
    limit: u64,
    spin: u64,
    closed: bool,
    schedule: Schedule,
    ledger: Ledger,
    pool: Pool,
    spent: Spent,
    /// Whether the thread's timers are exact.
    exact: bool,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe")
            .field("schedule", &self.schedule)
            .field("spent", &self.spent())
            .finish()
    }
}

impl Probe {
    /// Connects, sends one or a few questions, and learns where an answer ends if the question does
    /// not say. Takes a round trip and 0.1 s, or three of each; at most the question's patience and
    /// time limit. The probe is paused then.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] if the question is invalid, or if the service cannot be reached, does not
    /// answer, or sends an answer without an end.
    pub fn open(question: &Question) -> Result<Self, ProbeError> {
        question.check()?;
        let First { address, end, link } = first_questions::ask(question)?;
        let (most, depth) = match question.target {
            Target::Exec(_) | Target::Postgres(_) => (1, DEPTH),
            _ => (question.connections, 1),
        };
        let failed =
            |errno: Errno| ProbeError::Kernel { what: "watch connections", source: errno.into() };
        let mut pool = Pool::new(address, first_questions::request(question), end, most, depth)
            .map_err(failed)?;
        if let Some(link) = link {
            pool.adopt(link).map_err(failed)?;
        }
        Ok(Self {
            limit: question.limit.as_nanos() as u64,
            spin: question.spin.as_nanos() as u64,
            closed: question.mode == Loop::Closed,
            schedule: Schedule::paused(question.rate),
            ledger: Ledger::default(),
            pool,
            spent: Spent::default(),
            exact: false,
        })
    }

    /// Questions are due from now on, the first one at once.
    pub fn resume(&mut self) {
        self.schedule.resume(clock::now());
    }

    /// Pauses: no question is due from now on. [`Self::step`] still sends earlier questions and
    /// accepts their answers.
    pub fn pause(&mut self) {
        self.schedule.pause(clock::now());
    }

    /// The due time of the oldest question without an answer, whether it was sent or not; on
    /// [`now`](crate::now)'s clock. All earlier answers have been returned: a window that ends
    /// before this is complete.
    pub fn oldest_unanswered(&self) -> Option<u64> {
        let due = || self.next_due().filter(|due| *due <= clock::now());
        self.ledger.oldest().map(|(_, due)| due).or_else(due)
    }

    /// How many questions have no answer yet, whether they were sent or not.
    pub fn unanswered(&self) -> usize {
        self.ledger.len()
    }

    /// What was done and used so far.
    pub fn spent(&self) -> Spent {
        let counts = self.pool.counts;
        Spent {
            closed: counts.closed,
            reopened: counts.reopened,
            surplus: counts.surplus,
            connections: counts.open,
            most_connections: counts.most,
            ..self.spent
        }
    }

    /// Sends what is due and gives out the answers that come, until a time on [`now`](crate::now)'s
    /// clock. Returns at this time, shortly after it, or before it once a few hundred answers were
    /// given. Sleeps for most of the time, and keeps the processor busy shortly before a question
    /// is due.
    ///
    /// # Errors
    ///
    /// Only where the kernel refuses to wait for connections. What goes wrong with single questions
    /// is their outcome.
    pub fn step(&mut self, deadline: u64, give: &mut impl FnMut(Answer)) -> Result<(), ProbeError> {
        if !std::mem::replace(&mut self.exact, true) {
            // Without it, sleeping ends up to 50 us later: the lag shows that.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
        }
        let before = clock::thread_cpu();
        let result = self.turn(deadline, give);
        self.spent.cpu += Duration::from_nanos(clock::thread_cpu().saturating_sub(before));
        result
            .map_err(|errno| ProbeError::Kernel { what: "wait for answers", source: errno.into() })
    }

    fn turn(&mut self, deadline: u64, give: &mut impl FnMut(Answer)) -> Result<(), Errno> {
        let mut given = 0;
        loop {
            self.take_up();
            given += self.settle(give);
            let now = clock::now();
            if now >= deadline || given >= BATCH {
                return Ok(());
            }
            let due = self.next_due().unwrap_or(u64::MAX);
            if due <= now {
                self.pool.wait(0)?;
                continue;
            }
            let expires = self.ledger.oldest().map_or(u64::MAX, |(_, due)| due + self.limit);
            let opens = if self.ledger.waiting() > 0 { self.pool.opens_at(now) } else { None };
            let until = deadline.min(expires).min(opens.unwrap_or(u64::MAX));
            let spin = if due <= until { self.spin } else { 0 };
            let sleep = due.min(until).saturating_sub(spin).saturating_sub(now);
            // Asleep, or looking again and again without sleeping.
            self.pool.wait(sleep)?;
        }
    }

    // In a closed loop, nothing is due while a question is under way.
    fn next_due(&self) -> Option<u64> {
        if self.closed && !self.ledger.is_empty() { None } else { self.schedule.next_due() }
    }

    fn take_up(&mut self) {
        for _ in 0..BATCH {
            let now = clock::now();
            let Some(due) = self.next_due().and_then(|_| self.schedule.take(now)) else { break };
            self.ledger.ask(due, now);
            self.spent.asked += 1;
            self.spent.waited += u64::from(!self.pool.is_ready());
            self.dispatch(now);
        }
        self.dispatch(clock::now());
    }

    fn dispatch(&mut self, now: u64) {
        while self.pool.is_ready()
            && let Some(id) = self.ledger.next_waiting()
        {
            self.pool.send(id, now);
        }
        let waiting = self.ledger.waiting();
        if waiting > 0 {
            self.pool.make_room(waiting, now);
        }
    }

    // Gives out what is known by now. How many that were.
    fn settle(&mut self, give: &mut impl FnMut(Answer)) -> usize {
        let mut given = 0;
        while let Some(happened) = self.pool.happened.pop_front() {
            match happened {
                Happened::Answer { id, time, stamped, outcome } => {
                    given += self.done(id, time, outcome, stamped, give);
                }
                Happened::Unheard(id, outcome) => {
                    if self.ledger.again(id) {
                        self.spent.again += 1;
                    } else {
                        given += self.done(id, clock::now(), outcome, false, give);
                    }
                }
                Happened::Unreachable(errno) => {
                    while let Some(id) = self.ledger.next_waiting() {
                        given += self.done(
                            id,
                            clock::now(),
                            Outcome::Failed(Failure::Io(errno)),
                            false,
                            give,
                        );
                    }
                }
            }
        }
        let now = clock::now();
        while let Some((id, due)) = self.ledger.oldest()
            && due + self.limit <= now
        {
            self.pool.abandon(id, now);
            given += self.done(id, now, Outcome::Unanswered, false, give);
        }
        given
    }

    fn done(
        &mut self,
        id: Id,
        time: u64,
        outcome: Outcome,
        stamped: bool,
        give: &mut impl FnMut(Answer),
    ) -> usize {
        // The answer to a question that was given up is none.
        let Some(answer) = self.ledger.settle(id, time, outcome) else { return 0 };
        match outcome {
            Outcome::Answered => self.spent.answered += 1,
            Outcome::Unanswered => self.spent.unanswered += 1,
            Outcome::Failed(failure) => {
                self.spent.failed += 1;
                self.spent.last_failure = Some(failure);
            }
        }
        self.spent.stamped += u64::from(stamped && outcome == Outcome::Answered);
        if self.closed {
            self.schedule.not_before(clock::now());
        }
        give(answer);
        1
    }
}
