//! The memory that the supervisor shares with its workers: one slot a worker, atomics only.
//!
//! What the worker writes often (its reports) and what it reads often (its orders) lie on lines of
//! their own, so that neither side disturbs the other's measurement.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use ringfence_experiment::histogram::BUCKETS;

/// Orders from the supervisor.
pub mod order {
    /// Pause.
    pub const PAUSE: u32 = 0;
    /// Pause, and leave what is under way as it is: no file is synced before the next order.
    pub const HOLD: u32 = 1;
    /// `RUN + v`: run variant `v`.
    pub const RUN: u32 = 2;
}

/// The states that a worker reports.
pub mod state {
    /// Not ready yet.
    pub const STARTING: u32 = 0;
    /// Ready or paused.
    pub const PAUSED: u32 = 1;
    /// Paused, with what it has left under way.
    pub const HELD: u32 = 3;
    /// It failed; the slot's message says why.
    pub const FAILED: u32 = 2;
    /// `RUNNING + v`: variant `v` runs.
    pub const RUNNING: u32 = 16;
}

#[repr(C, align(64))]
#[derive(Default)]
struct OwnLine<T>(T);

/// What a worker has done since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Units of work.
    pub units: u64,
    /// The clock when they were done, ticks.
    pub ticks: u64,
    /// Ticks spent in preparations that do not count as work.
    pub untimed: u64,
}

#[derive(Default)]
struct ReportCell {
    units: AtomicU64,
    ticks: AtomicU64,
    untimed: AtomicU64,
}

impl ReportCell {
    #[inline(always)]
    fn store(&self, report: Report) {
        self.units.store(report.units, Ordering::Relaxed);
        self.ticks.store(report.ticks, Ordering::Relaxed);
        self.untimed.store(report.untimed, Ordering::Relaxed);
    }

    fn load(&self) -> Report {
        Report {
            units: self.units.load(Ordering::Relaxed),
            ticks: self.ticks.load(Ordering::Relaxed),
            untimed: self.untimed.load(Ordering::Relaxed),
        }
    }
}

/// A report with the latencies of its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The report.
    pub report: Report,
    /// The latencies of all units until then, by bucket.
    pub latencies: Box<[u64]>,
    /// The time that they took, each counted whole, ns.
    pub sum_ns: u64,
}

const REPORTS: usize = 4;
const MESSAGE: usize = 2048;

/// One worker's slot.
#[repr(C)]
pub struct Slot {
    order: OwnLine<AtomicU32>,
    /// Rises with every order and every question; what an idle worker waits on.
    bell: OwnLine<AtomicU32>,
    question: OwnLine<AtomicU32>,
    answer: OwnLine<AtomicU32>,
    state: OwnLine<AtomicU32>,
    settle_units: OwnLine<AtomicU64>,
    published: OwnLine<AtomicU64>,
    reports: [OwnLine<ReportCell>; REPORTS],
    message_len: OwnLine<AtomicU32>,
    message: [AtomicU8; MESSAGE],
    restarts: OwnLine<AtomicU64>,
    spent: OwnLine<AtomicU32>,
    marked: OwnLine<ReportCell>,
    sum_ns: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
}

impl Slot {
    /// Makes a slot fresh for another worker.
    pub fn reset(&self) {
        self.order.0.store(order::PAUSE, Ordering::Relaxed);
        self.state.0.store(state::STARTING, Ordering::Relaxed);
        self.settle_units.0.store(0, Ordering::Relaxed);
        self.restarts.0.store(0, Ordering::Relaxed);
        self.spent.0.store(0, Ordering::Relaxed);
        self.message_len.0.store(0, Ordering::Relaxed);
        self.answer.0.store(self.question.0.load(Ordering::Relaxed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Supervisor: gives an order.
    pub fn give(&self, order: u32) {
        self.order.0.store(order, Ordering::Release);
        self.ring();
    }

    /// Worker: the present order. One load of a line that changes only with the order.
    #[inline(always)]
    pub fn order(&self) -> u32 {
        self.order.0.load(Ordering::Acquire)
    }

    /// Wakes the worker if it waits.
    pub fn ring(&self) {
        self.bell.0.fetch_add(1, Ordering::Release);
        wake(&self.bell.0);
    }

    /// Worker: the bell's count, to be read before looking at what it announces.
    pub fn bell(&self) -> u32 {
        self.bell.0.load(Ordering::Acquire)
    }

    /// Worker: sleeps until the bell has rung since it was `seen`.
    pub fn wait_bell(&self, seen: u32, limit: Option<Duration>) {
        wait(&self.bell.0, seen, limit);
    }

    /// Supervisor: asks a worker that reports on demand only.
    pub fn ask(&self) -> u32 {
        let number = self.question.0.fetch_add(1, Ordering::AcqRel) + 1;
        self.ring();
        number
    }

    /// Supervisor: whether question `number` has been answered by a report.
    pub fn wait_answer(&self, number: u32, limit: Duration) -> bool {
        wait_until(&self.answer.0, limit, |value| value == number)
    }

    /// Worker: whether there is a question that it has not answered.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.question.0.load(Ordering::Acquire) != self.answer.0.load(Ordering::Relaxed)
    }

    /// Worker: answers if there is a question; `report` publishes.
    pub fn answer_if_asked(&self, report: impl FnOnce()) {
        let asked = self.question.0.load(Ordering::Acquire);
        if asked != self.answer.0.load(Ordering::Relaxed) {
            report();
            self.answer.0.store(asked, Ordering::Release);
            wake(&self.answer.0);
        }
    }

    /// Worker: says what it does now.
    pub fn set_state(&self, state: u32) {
        self.state.0.store(state, Ordering::Release);
        wake(&self.state.0);
    }

    /// What the worker does.
    pub fn state(&self) -> u32 {
        self.state.0.load(Ordering::Acquire)
    }

    /// Supervisor: waits for a state, or for failure; whether it came.
    pub fn wait_state(&self, wanted: u32, limit: Duration) -> bool {
        wait_until(&self.state.0, limit, |value| value == wanted || value == state::FAILED)
            && self.state() == wanted
    }

    /// Worker: units in one round over what it touches; 0 where there is nothing to settle.
    pub fn set_settle_units(&self, units: u64) {
        self.settle_units.0.store(units, Ordering::Relaxed);
    }

    /// Units in one round over what the worker touches.
    pub fn settle_units(&self) -> u64 {
        self.settle_units.0.load(Ordering::Relaxed)
    }

    /// Worker: its program had ended and was started again.
    pub fn note_restart(&self) {
        self.restarts.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the worker's program was started again.
    pub fn restarts(&self) -> u64 {
        self.restarts.0.load(Ordering::Relaxed)
    }

    /// Worker: whether its task has reached its limit and does nothing until its next order.
    pub fn set_spent(&self, spent: bool) {
        self.spent.0.store(spent.into(), Ordering::Release);
    }

    /// Whether the worker's task has reached its limit.
    pub fn spent(&self) -> bool {
        self.spent.0.load(Ordering::Acquire) != 0
    }

    /// Worker: publishes report number `number`, counting from 1 without gaps.
    #[inline(always)]
    pub fn publish(&self, number: u64, report: Report) {
        self.reports[number as usize % REPORTS].0.store(report);
        self.published.0.store(number, Ordering::Release);
    }

    /// The latest report and its number. Never blocks on the worker, which may have lost its CPU at
    /// any instruction: a report is read from the cell of the last number published, and read again
    /// only if the worker has come round to that cell meanwhile.
    pub fn latest(&self) -> (u64, Report) {
        loop {
            let number = self.published.0.load(Ordering::Acquire);
            let report = self.reports[number as usize % REPORTS].0.load();
            fence(Ordering::Acquire);
            let now = self.published.0.load(Ordering::Relaxed);
            if now - number < REPORTS as u64 - 1 {
                return (number, report);
            }
        }
    }

    /// Worker: why it failed.
    pub fn fail(&self, message: &str) {
        self.say(message);
        self.set_state(state::FAILED);
    }

    /// Worker: puts down a message in the place of the one before; the next state announces it.
    pub fn say(&self, message: &str) {
        let bytes = &message.as_bytes()[..message.len().min(MESSAGE)];
        for (cell, byte) in self.message.iter().zip(bytes) {
            cell.store(*byte, Ordering::Relaxed);
        }
        self.message_len.0.store(bytes.len() as u32, Ordering::Release);
    }

    /// The worker's last message, such as why it failed; empty if there is none.
    pub fn message(&self) -> String {
        let len = (self.message_len.0.load(Ordering::Acquire) as usize).min(MESSAGE);
        let bytes: Vec<u8> =
            self.message[..len].iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Worker: puts down a report, the latencies counted until then by bucket, and the time that
    /// they took in ns, for the supervisor to read once its question has been answered or the
    /// report was published.
    pub fn mark(&self, report: Report, latencies: impl IntoIterator<Item = u64>, sum_ns: u64) {
        self.marked.0.store(report);
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        for (bucket, count) in self.histogram.iter().zip(latencies) {
            // Lines of buckets that nothing was counted in since stay shared between both sides'
            // caches.
            if bucket.load(Ordering::Relaxed) != count {
                bucket.store(count, Ordering::Relaxed);
            }
        }
    }

    /// Supervisor: what was put down before the last answer or report. These order the two.
    pub fn marked(&self) -> Marked {
        Marked {
            report: self.marked.0.load(),
            latencies: self.histogram.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

impl Slot {
    /// For a worker's threads: the slot lies in shared memory that a worker keeps mapped to its
    /// end.
    pub fn lasting(&self) -> &'static Slot {
        // SAFETY: as said; a slot consists of atomics.
        unsafe { &*std::ptr::from_ref(self) }
    }
}

/// The shared memory: an array of slots.
pub struct Shared {
    slots: *const Slot,
    count: usize,
    file: File,
}

// SAFETY: the memory holds atomics only and stays mapped as long as the value trials.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes memory for `count` workers. The descriptor is inherited by child processes.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn create(count: usize) -> io::Result<Self> {
        // SAFETY: a constant name; no flag, so that children inherit the descriptor.
        let fd = unsafe { libc::memfd_create(c"ringfence".as_ptr(), 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len((count * size_of::<Slot>()) as u64)?;
        Self::map(file, count)
    }

    /// Maps the memory behind an inherited descriptor, which is closed on exec from then on.
    ///
    /// # Errors
    /// What the kernel reports, or a file too small for a slot.
    pub fn inherit(fd: RawFd) -> io::Result<Self> {
        // SAFETY: sets a flag of a descriptor; fails if there is none.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the parent passed the descriptor to this process for this purpose alone.
        let file = unsafe { File::from_raw_fd(fd) };
        let count = file.metadata()?.len() as usize / size_of::<Slot>();
        Self::map(file, count)
    }

    fn map(file: File, count: usize) -> io::Result<Self> {
        let len = count * size_of::<Slot>();
        if len == 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of the whole file.
        let raw = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { slots: raw.cast::<Slot>(), count, file })
    }

    /// The descriptor, for children.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// A slot.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.count, "slot {index} of {}", self.count);
        // SAFETY: inside the mapping; a slot is atomics for which every bit pattern is valid.
        unsafe { &*self.slots.add(index) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped, once.
        unsafe { libc::munmap(self.slots.cast_mut().cast(), self.count * size_of::<Slot>()) };
    }
}

fn wait_until(word: &AtomicU32, limit: Duration, done: impl Fn(u32) -> bool) -> bool {
    let start = std::time::Instant::now();
    loop {
        let value = word.load(Ordering::Acquire);
        if done(value) {
            return true;
        }
        let Some(left) = limit.checked_sub(start.elapsed()) else { return false };
        wait(word, value, Some(left));
    }
}

fn wait(word: &AtomicU32, seen: u32, limit: Option<Duration>) {
    let timeout = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as _,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the timeout outlive the call. Any return, spurious ones included, makes
    // the caller look at the word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, timeout) };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word is mapped; waking changes nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_never_torn() {
        let shared = Shared::create(2).unwrap();
        let slot = shared.slot(1);
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..300_000 {
                    slot.publish(n, Report { units: n * 3, ticks: n * 5, untimed: n * 7 });
                }
                done.store(1, Ordering::Release);
            });
            let mut last = 0;
            while done.load(Ordering::Acquire) == 0 {
                let (n, report) = slot.latest();
                assert_eq!(report, Report { units: n * 3, ticks: n * 5, untimed: n * 7 });
                assert!(n >= last);
                last = n;
            }
        });
    }

    #[test]
    fn questions_are_answered_once_and_orders_wake() {
        let shared = Shared::create(1).unwrap();
        let slot = shared.slot(0);
        slot.reset();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let seen = slot.bell();
                    slot.answer_if_asked(|| {
                        let report = Report { units: 9, ..Report::default() };
                        slot.publish(1, report);
                        slot.mark(
                            report,
                            (0..BUCKETS).map(|bucket| if bucket == 17 { 9 } else { 0 }),
                            9,
                        );
                    });
                    if slot.order() == order::RUN {
                        slot.set_state(state::RUNNING);
                        return;
                    }
                    slot.wait_bell(seen, None);
                }
            });
            let number = slot.ask();
            assert!(slot.wait_answer(number, Duration::from_secs(10)));
            assert_eq!(slot.latest().1.units, 9);
            let Marked { report, latencies, sum_ns } = slot.marked();
            assert_eq!(
                (report.units, latencies[17], latencies.iter().sum::<u64>(), sum_ns),
                (9, 9, 9, 9)
            );
            slot.give(order::RUN);
            assert!(slot.wait_state(state::RUNNING, Duration::from_secs(10)));
        });
        assert!(!slot.wait_state(state::PAUSED, Duration::from_millis(1)));
        slot.fail("because");
        assert_eq!(slot.message(), "because");
    }
}
