//! Asks a running service at a fixed rate, and counts how long each answer took since its question
//! was due.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_experiment::histogram::{BUCKETS, Histogram, bucket_of};
use ringfence_experiment::task::Probe as Task;
use ringfence_experiment::warning::WARNING;
use ringfence_machine::clock::Clock;
use ringfence_openloop::{Answer, Loop, Outcome, Probe, Question, Spent, now};

use crate::{Latencies, SetupError, Work, Workload};

// How often the caller may ask for a report, or give another order.
const STEP: Duration = Duration::from_millis(1);
// A service that fails more often than this does something else than what is measured.
const FAILURES: u64 = 10;
const FAILED_SHARE: f64 = 0.01;
// A service that answers nothing for so long has ended, or hangs. Less than the engine waits for a
// report.
const GONE: Duration = Duration::from_secs(10);

// A queue: so many requests are open at the end of a turn, and those of its second half have waited
// for so many times as long as those of its first half, or most were given up.
const QUEUED: usize = 8;
const GROWTH: f64 = 2.0;
const LEAST_TURNS: u32 = 2;
// Response times of a turn that are kept.
const MOST_TIMES: usize = 100_000;

/// A load generator, which asks the service.
pub struct Prober {
    probe: Probe,
    /// What it asks.
    ask: String,
    clock: &'static Clock,
    /// When an answer came last, and when the first question was due that was given up since.
    heard_at: u64,
    unheard_since: Option<u64>,
    gone: Duration,
    paused_at: u64,
    /// What was due until this time is counted next, and nothing later.
    cut: Option<Cut>,
    /// Answers to what was due after the cut.
    held: VecDeque<Answer>,
    answered: u64,
    failed: u64,
    lags: Box<[u64]>,
    failure: Option<String>,
    running_ns: u64,
    resumed_at: Option<u64>,
    rate: u32,
    queue: Queue,
}

/// Whether requests queue at the service: if it answers fewer than it is sent, response times grow
/// for as long as it is asked.
#[derive(Default)]
struct Queue {
    /// Response times of this turn, ns, in the order of the responses.
    times: Vec<u64>,
    /// How many of them were given up.
    unanswered: usize,
    turns: u32,
    grew: u32,
}

impl Queue {
    fn note(&mut self, latency_ns: u64, outcome: &Outcome) {
        if self.times.len() < MOST_TIMES {
            self.times.push(latency_ns);
            self.unanswered += usize::from(matches!(outcome, Outcome::Unanswered));
        }
    }

    /// Ends a turn after which so many requests were open.
    fn end_turn(&mut self, open: usize) {
        let (first, second) = self.times.split_at(self.times.len() / 2);
        let mean = |of: &[u64]| of.iter().sum::<u64>() as f64 / of.len().max(1) as f64;
        let grew = mean(second) > mean(first) * GROWTH;
        let given_up = self.unanswered * 2 > self.times.len();
        self.turns += 1;
        self.grew += u32::from(open >= QUEUED && (grew || given_up));
        self.unanswered = 0;
        self.times.clear();
    }

    /// One disturbed turn says nothing.
    fn grows(&self) -> bool {
        self.turns >= LEAST_TURNS && self.grew * 2 > self.turns
    }
}

#[derive(Clone, Copy)]
struct Cut {
    at: u64,
    /// Whether all that was due by then has been asked.
    asked: bool,
}

/// What a task asks.
///
/// # Errors
/// One sentence for a target or bytes that make no sense.
pub fn question(task: &Task) -> Result<Question, String> {
    let target = task.ask.parse()?;
    let send = ringfence_openloop::unescape(&task.send)?;
    let mut question = Question::new(target, send, f64::from(task.rate));
    question.mode = if task.closed { Loop::Closed } else { Loop::Open };
    question.limit = task.timeout.0;
    question.check().map_err(|error| error.to_string())?;
    Ok(question)
}

impl Prober {
    /// Connects, and learns what an answer looks like.
    ///
    /// # Errors
    /// Where there is no service, or it answers nothing that could be timed.
    pub fn new(task: &Task) -> Result<Self, SetupError> {
        let probe = Probe::open(&question(task).map_err(SetupError::Other)?)
            .map_err(|error| SetupError::Other(error.to_string()))?;
        Ok(Self {
            probe,
            ask: task.ask.clone(),
            clock: Clock::host(),
            heard_at: now(),
            unheard_since: None,
            gone: GONE,
            paused_at: now(),
            cut: None,
            held: VecDeque::new(),
            answered: 0,
            failed: 0,
            lags: vec![0; BUCKETS].into(),
            failure: None,
            running_ns: 0,
            resumed_at: None,
            rate: task.rate,
            queue: Queue::default(),
        })
    }

    fn take(&mut self, answer: Answer, latencies: &dyn Latencies) -> u64 {
        latencies.count((answer.latency_ns as f64 / self.clock.ns_per_tick()) as u64);
        self.lags[bucket_of(answer.lag_ns)] += 1;
        1
    }

    fn is_reached(&self, cut: Cut) -> bool {
        cut.asked && self.probe.oldest_unanswered().is_none_or(|due| due > cut.at)
    }

    // Steps until a time, and counts what came.
    fn step(&mut self, until: u64, latencies: &dyn Latencies) -> u64 {
        let mut came = Vec::new();
        if let Err(error) = self.probe.step(until, &mut |answer| came.push(answer)) {
            self.failure = Some(error.to_string());
        }
        if let Some(cut) = &mut self.cut {
            cut.asked = true;
        }
        let mut units = 0;
        for answer in came {
            match answer.outcome {
                Outcome::Answered => (self.heard_at, self.unheard_since) = (now(), None),
                Outcome::Unanswered => {
                    self.unheard_since = self.unheard_since.or(Some(answer.due_ns))
                }
                Outcome::Failed(failure) => {
                    self.note_failed(&failure.to_string());
                    continue;
                }
            }
            self.answered += 1;
            self.queue.note(answer.latency_ns, &answer.outcome);
            match self.cut {
                Some(cut) if answer.due_ns > cut.at => self.held.push_back(answer),
                _ => units += self.take(answer, latencies),
            }
        }
        self.note_silence();
        units
    }

    fn note_failed(&mut self, why: &str) {
        self.failed += 1;
        let all = self.failed + self.answered;
        if self.failed > FAILURES && self.failed as f64 / all as f64 > FAILED_SHARE {
            self.failure = Some(format!(
                "{} of {all} requests to {} failed, the last because {why}; the last response came \
                 at {}",
                self.failed,
                self.ask,
                time_of_day(self.heard_at)
            ));
        }
    }

    fn note_silence(&mut self) {
        let Some(since) = self.unheard_since.or_else(|| self.probe.oldest_unanswered()) else {
            return;
        };
        let since = since.max(self.heard_at);
        let silent = Duration::from_nanos(now().saturating_sub(since));
        if silent > self.gone && self.failure.is_none() {
            self.failure = Some(format!(
                "{} has not responded since {}, for {:.1} s: restart the service, or see what it \
                 waits for",
                self.ask,
                time_of_day(since),
                silent.as_secs_f64()
            ));
        }
    }
}

impl Workload for Prober {
    fn work(&mut self, _: u64, latencies: &dyn Latencies) -> Work {
        let mut units = 0;
        if self.cut.is_some_and(|cut| self.is_reached(cut)) {
            // It was told of: what came meanwhile is of what follows.
            self.cut = None;
            for answer in std::mem::take(&mut self.held) {
                units += self.take(answer, latencies);
            }
        }
        units += self.step(now() + STEP.as_nanos() as u64, latencies);
        Work { units, untimed: 0 }
    }

    fn resumed(&mut self) {
        self.resumed_at = Some(now());
        // A service cannot answer while it is not asked.
        let nobody_asked = now().saturating_sub(self.paused_at);
        self.heard_at += nobody_asked;
        self.unheard_since = self.unheard_since.map(|since| since + nobody_asked);
        self.probe.resume();
    }

    fn paused(&mut self) {
        self.probe.pause();
        let open = self.probe.unanswered();
        if let Some(since) = self.resumed_at.take() {
            self.running_ns += now().saturating_sub(since);
        }
        // These answers are not reported: they belong to no window.
        while self.probe.oldest_unanswered().is_some() && self.failure.is_none() {
            self.step(now() + STEP.as_nanos() as u64, &Unheard);
        }
        self.queue.end_turn(open);
        (self.cut, self.held) = (None, VecDeque::new());
        self.paused_at = now();
    }

    fn cut(&mut self, _: u64) {
        self.cut = Some(Cut { at: now(), asked: false });
    }

    fn is_cut(&self) -> bool {
        self.cut.is_none_or(|cut| self.is_reached(cut))
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn told(&self) -> Option<String> {
        let lags = Histogram::of_buckets(self.lags.iter().copied());
        let mut lines = said(&self.probe.spent(), &lags, self.running_ns);
        if self.queue.grows() {
            lines += &format!("\n{}", queueing(&self.ask, self.rate));
        }
        Some(lines)
    }
}

struct Unheard;

impl Latencies for Unheard {
    fn count(&self, _: u64) {}
}

// The time of day, UTC, of a moment on the probe's clock.
fn time_of_day(at: u64) -> String {
    let ago = Duration::from_nanos(now().saturating_sub(at));
    let then = SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH);
    let seconds = then.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Whether this is the report of a probe that received every answer in time, which needs no
/// attention.
pub fn is_routine(report: &str) -> bool {
    // The stages of a study stand before it.
    let is_report = |before: &str| before.is_empty() || before.ends_with(": ");
    report.split_once("The probe sent ").is_some_and(|(before, _)| is_report(before))
        && report.ends_with(" of a CPU.")
}

// That response times are those of a queue.
fn queueing(ask: &str, rate: u32) -> String {
    format!(
        "{WARNING}{ask} answers fewer than the {rate} requests per second that are sent to it, so \
         they queue and response times grow with the length of a window: lower the rate \
         (rate= of the probe)."
    )
}

// How the probe itself did.
fn said(spent: &Spent, lags: &Histogram, running_ns: u64) -> String {
    let us = |share| lags.quantile(share).unwrap_or(0) as f64 / 1e3;
    let busy = spent.cpu.as_secs_f64() / (running_ns as f64 / 1e9).max(1e-9);
    let mut text = format!(
        "The probe sent {} requests, {:.1} us after they were due in the median and {:.0} us at \
         p99, and used {:.0} % of a CPU.",
        spent.asked,
        us(0.5),
        us(0.99),
        busy * 100.0
    );
    let counts = [
        (spent.unanswered, "were not answered in time and count with the timeout"),
        (spent.failed, "failed and are in no figure"),
        (spent.reopened, "times a connection was reopened"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(" {count} {what}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use ringfence_experiment::units::Span;

    use super::*;

    #[derive(Default)]
    struct Counted(RefCell<Vec<u64>>);

    impl Latencies for Counted {
        fn count(&self, ticks: u64) {
            self.0.borrow_mut().push(Clock::host().ns(ticks) as u64);
        }
    }

    // Answers six bytes with seven, and answers nothing while `held`.
    fn service(held: Arc<AtomicBool>) -> Task {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ask = format!("tcp://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let held = held.clone();
                std::thread::spawn(move || {
                    let mut question = [0; 6];
                    while stream.read_exact(&mut question).is_ok() {
                        while held.load(Ordering::Acquire) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        if stream.write_all(b"+PONG\r\n").is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Task { ask, send: r"PING\r\n".into(), rate: 500, ..Task::default() }
    }

    // A turn of the load generator at this rate, against a service that takes so long for each
    // request, one at a time.
    fn turns(rate: u32, takes: Duration, turns: u32) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ask = format!("tcp://{}", listener.local_addr().unwrap());
        let one = Arc::new(std::sync::Mutex::new(()));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let one = one.clone();
                std::thread::spawn(move || {
                    let mut question = [0; 6];
                    while stream.read_exact(&mut question).is_ok() {
                        let busy = one.lock().unwrap();
                        std::thread::sleep(takes);
                        drop(busy);
                        if stream.write_all(b"+PONG\r\n").is_err() {
                            break;
                        }
                    }
                });
            }
        });
        let task = Task { ask, send: r"PING\r\n".into(), rate, ..Task::default() };
        let mut prober = Prober::new(&task).unwrap();
        for _ in 0..turns {
            prober.resumed();
            let until = now() + 60_000_000;
            while now() < until {
                prober.work(1, &Unheard);
            }
            prober.paused();
            assert_eq!(prober.probe.unanswered(), 0);
        }
        prober.told().unwrap()
    }

    #[test]
    fn a_service_that_is_sent_more_than_it_answers_is_told_of() {
        let said = turns(1000, Duration::from_millis(10), 4);
        let (report, warning) = said.split_once('\n').expect("a warning follows");
        assert!(report.starts_with("The probe sent "), "{said}");
        assert!(warning.starts_with(WARNING) && warning.contains("rate="), "{said}");
        assert!(warning.contains("the 1000 requests per second"), "{said}");
        let said = turns(20, Duration::from_millis(1), 4);
        assert!(!said.contains(WARNING), "{said}");
    }

    #[test]
    fn slow_responses_without_a_queue_are_no_warning() {
        let turn = |queue: &mut Queue, times: &[u64], open| {
            times.iter().for_each(|ns| queue.note(*ns, &Outcome::Answered));
            queue.end_turn(open);
        };
        let (steady, growing) = ([50; 40], Vec::from_iter((0..40).map(|number| number * 10)));
        let mut queue = Queue::default();
        // As slow at the end as at the start, with many requests under way; growing and few.
        (0..8).for_each(|_| turn(&mut queue, &steady, 50));
        (0..8).for_each(|_| turn(&mut queue, &growing, 3));
        assert!(!queue.grows());
        // Half of the turns may be those with the aggressor.
        (0..16).for_each(|_| turn(&mut queue, &growing, 50));
        assert!(!queue.grows());
        turn(&mut queue, &growing, 50);
        assert!(queue.grows());
        // Where the queue is longer than the timeout, all are as slow.
        let mut queue = Queue::default();
        for _ in 0..2 {
            steady.iter().for_each(|ns| queue.note(*ns, &Outcome::Unanswered));
            queue.end_turn(50);
        }
        assert!(queue.grows());
        assert!(is_routine("baseline: The probe sent 5 requests, and used 1 % of a CPU."));
        assert!(!is_routine(&queueing("tcp://x", 5)));
    }

    // A question that is due while the service stalls counts in the window in which it was due, and
    // not in that in which it was answered.
    #[test]
    fn a_question_counts_when_it_was_due() {
        let held = Arc::new(AtomicBool::new(false));
        let mut prober = Prober::new(&service(held.clone())).unwrap();
        let counted = Counted::default();
        prober.resumed();
        let mut units = 0;
        let mut run = |prober: &mut Prober, ms: u64| {
            let until = now() + ms * 1_000_000;
            while now() < until {
                units += prober.work(1, &counted).units;
            }
        };
        run(&mut prober, 40);
        held.store(true, Ordering::Release);
        run(&mut prober, 60);
        // The window ends here, in the middle of the stall.
        prober.cut(0);
        assert!(!prober.is_cut(), "some are not answered");
        run(&mut prober, 60);
        let before = counted.0.borrow().len();
        held.store(false, Ordering::Release);
        while !prober.is_cut() {
            prober.work(1, &counted);
        }
        let told = counted.0.borrow().len();
        assert!(told > before, "those that were due before the cut");
        let stalled = counted.0.borrow().iter().filter(|ns| **ns > 60_000_000).count();
        assert!(
            stalled > 10,
            "they waited for what was left of the window, and the stall beyond it: {stalled}"
        );
        assert_eq!(prober.held.len() as u64 + told as u64, prober.answered, "nothing is lost");
        assert!(prober.held.iter().all(|answer| answer.due_ns > prober.cut.unwrap().at));
        // After the report, the answers that came meanwhile are counted.
        let late = prober.held.len();
        assert!(late > 10);
        prober.work(1, &counted);
        assert!(counted.0.borrow().len() >= told + late && prober.cut.is_none());
        prober.paused();
        let said = prober.told().unwrap();
        assert!(is_routine(&said), "{said}");
        let mut spent = Spent::default();
        spent.unanswered = 1;
        let late = super::said(&spent, &Histogram::default(), 1);
        assert!(!is_routine(&late) && late.contains("1 were not answered in time"), "{late}");
    }

    #[test]
    fn what_makes_no_sense_or_is_not_there_is_said() {
        let refused = |task: Task| Prober::new(&task).err().unwrap().to_string();
        assert!(refused(Task { ask: "gopher://x".into(), ..Task::default() }).contains("gopher"));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let said =
            refused(Task { ask: format!("tcp://{nobody}"), send: "x".into(), ..Task::default() });
        assert!(said.contains("refused") && said.contains(&nobody.to_string()), "{said}");
        let bytes = Task { ask: "tcp://localhost:1".into(), send: r"\q".into(), ..Task::default() };
        assert!(question(&bytes).unwrap_err().contains(r"\q"));
        let short =
            Task { ask: "http://localhost/".into(), timeout: Span::ms(50), ..Task::default() };
        assert_eq!(question(&short).unwrap().limit, Duration::from_millis(50));
    }

    #[test]
    fn a_service_that_answers_nothing_any_more_is_told_with_its_address() {
        let held = Arc::new(AtomicBool::new(false));
        let task = Task { timeout: Span::ms(20), ..service(held.clone()) };
        let mut prober = Prober::new(&task).unwrap();
        prober.gone = Duration::from_millis(600);
        let counted = Counted::default();
        prober.resumed();
        while prober.answered == 0 {
            prober.work(1, &counted);
        }
        held.store(true, Ordering::Release);
        // Silent for a moment, and not asked for a longer one.
        let until = now() + 100_000_000;
        while now() < until || prober.probe.spent().unanswered < 5 {
            prober.work(1, &counted);
        }
        prober.paused();
        std::thread::sleep(prober.gone);
        held.store(false, Ordering::Release);
        prober.resumed();
        let before = prober.answered;
        while prober.probe.spent().answered == 0 || prober.answered < before + 5 {
            prober.work(1, &counted);
        }
        assert_eq!(prober.failure(), None, "nobody asked meanwhile");
        held.store(true, Ordering::Release);
        while prober.failure().is_none() {
            prober.work(1, &counted);
        }
        let said = prober.failure().unwrap();
        assert!(said.starts_with(&format!("{} has not responded since ", task.ask)), "{said}");
        let (_, rest) = said.split_once("since ").unwrap();
        let (time, rest) = rest.split_once(" UTC, for ").unwrap();
        assert!(time.len() == 8 && time.matches(':').count() == 2, "{said}");
        // At least as long as it may be silent; longer where the machine is busy.
        let silent: f64 = rest.split_once(' ').unwrap().0.parse().unwrap();
        assert!((0.6..60.0).contains(&silent), "{said}");
        held.store(false, Ordering::Release);
    }
}
