//! A service that stands still for 200 ms of each second. An open loop sees it as its users do; a closed loop does
//! not.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use ringfence_probe::{Answer, Loop, Outcome, Probe, Question, now};
use support::*;

/// Stalls as they were, each with its begin and end, in ns.
type Stalls = Arc<Mutex<Vec<(u64, u64)>>>;

struct Stalling {
    address: std::net::SocketAddr,
    stalls: Stalls,
    goes_on: Arc<AtomicBool>,
}

impl Stalling {
    // Answers only when the lock can be had, which a thread takes away for 200 ms each second.
    fn start() -> Self {
        let (lock, stalls) = (Arc::new(RwLock::new(())), Stalls::default());
        let goes_on = Arc::new(AtomicBool::new(true));
        let reads = lock.clone();
        let address = tcp(move |_, line| {
            let _answering = reads.read().unwrap();
            echo(0, line)
        });
        let (planted, running) = (stalls.clone(), goes_on.clone());
        std::thread::spawn(move || {
            while running.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(800));
                let stall = lock.write().unwrap();
                let begin = now();
                std::thread::sleep(Duration::from_millis(200));
                drop(stall);
                planted.lock().unwrap().push((begin, now()));
            }
        });
        Self { address, stalls, goes_on }
    }

    // What the stalls alone would have each question wait.
    fn expected(&self, answers: &[Answer]) -> Vec<u64> {
        let stalls = self.stalls.lock().unwrap();
        let wait = |due: u64| {
            let stall = stalls.iter().find(|(begin, end)| (*begin..*end).contains(&due));
            stall.map_or(0, |(_, end)| end - due)
        };
        answers.iter().map(|answer| wait(answer.due_ns)).collect()
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
    }
}

fn quantile(times: &[u64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * share).round() as usize] as f64 / MS as f64
}

fn latencies(answers: &[Answer]) -> Vec<u64> {
    answers.iter().map(|answer| answer.latency_ns).collect()
}

#[test]
fn an_open_loop_sees_every_stall() {
    let service = Stalling::start();
    let mut probe = Probe::open(&of_tcp(service.address, 1000.0)).unwrap();
    let answers = ask_for(&mut probe, Duration::from_secs(5));
    assert_complete(&probe, &answers, 1000.0);
    assert_eq!(count(&answers, |outcome| outcome == Outcome::Answered), answers.len());
    // A stall that lasts until after the end is noted by then.
    std::thread::sleep(Duration::from_millis(250));
    let expected = service.expected(&answers);
    let seen = latencies(&answers);
    // 200 ms each second, asked evenly: nine tenths wait less than half of it.
    for (share, planted) in [(0.9, 100.0), (0.99, 190.0)] {
        let (seen, expected) = (quantile(&seen, share), quantile(&expected, share));
        assert!((seen - expected).abs() < 10.0, "quantile {share}: {seen} ms, the stalls say {expected} ms");
        // What was planted, unless the machine held up the service itself.
        assert!((expected - planted).abs() < 40.0, "quantile {share}: the stalls were {expected} ms");
    }
    let fast = quantile(&seen, 0.5);
    assert!(fast < 20.0, "p50 {fast} ms");
    assert!(probe.spent().most_connections >= 50, "several are under way at once: {:?}", probe.spent());
}

#[test]
fn a_closed_loop_misses_what_users_would_have_seen() {
    let service = Stalling::start();
    let question = Question { mode: Loop::Closed, ..of_tcp(service.address, 1000.0) };
    let mut probe = Probe::open(&question).unwrap();
    let answers = ask_for(&mut probe, Duration::from_secs(5));
    let seen = latencies(&answers);
    let (p90, most) = (quantile(&seen, 0.9), quantile(&seen, 1.0));
    assert!(p90 < 30.0 && most > 150.0, "p90 {p90} ms, most {most} ms");
    assert_eq!(probe.spent().most_connections, 1, "one at a time");
    for pair in answers.windows(2) {
        assert!(pair[1].due_ns >= pair[0].due_ns + pair[0].latency_ns, "{pair:?}");
        assert!(pair[1].due_ns >= pair[0].due_ns + MS, "{pair:?}");
    }
}
