//! A service that stands still for 200 ms of each second. An open loop sees it as its users do; a
//! closed loop does not.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use ringfence_openloop::{Answer, Loop, Outcome, Probe, Question, now};
use support::*;

struct Stalling {
    address: std::net::SocketAddr,
    /// Stalls as they were, each with its begin and end, in ns.
    stalls: Arc<Mutex<Vec<(u64, u64)>>>,
    /// When each answer was about to be written.
    answered: Arc<Mutex<Vec<u64>>>,
    goes_on: Arc<AtomicBool>,
}

impl Stalling {
    // Answers only when the lock can be had, which a thread takes away for 200 ms each second.
    fn start() -> Self {
        let lock = Arc::new(RwLock::new(()));
        let (stalls, answered) = (Arc::default(), Arc::default());
        let goes_on = Arc::new(AtomicBool::new(true));
        let (reads, noted): (_, Arc<Mutex<Vec<u64>>>) = (lock.clone(), Arc::clone(&answered));
        let address = tcp(move |_, line| {
            drop(reads.read().unwrap());
            noted.lock().unwrap().push(now());
            echo(0, line)
        });
        let planted: Arc<Mutex<Vec<(u64, u64)>>> = Arc::clone(&stalls);
        let running = goes_on.clone();
        std::thread::spawn(move || {
            while running.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(800));
                // Those that read wait for one that waits to write.
                let begin = now();
                let stall = lock.write().unwrap();
                std::thread::sleep(Duration::from_millis(200));
                drop(stall);
                planted.lock().unwrap().push((begin, now()));
            }
        });
        Self { address, stalls, answered, goes_on }
    }

    // What each question waits at least, by the stalls alone; and at most, by when the service had
    // answered all that was due, as a busy machine holds it up besides. On a quiet one, both are
    // the same to a fraction of a ms.
    fn expected(&self, answers: &[Answer]) -> (Vec<u64>, Vec<u64>) {
        let stalls = self.stalls.lock().unwrap();
        let wait = |due: u64| {
            let stall = stalls.iter().find(|(begin, end)| (*begin..*end).contains(&due));
            stall.map_or(0, |(_, end)| end - due)
        };
        let least = answers.iter().map(|answer| wait(answer.due_ns)).collect();

        let mut answered = self.answered.lock().unwrap().clone();
        answered.sort_unstable();
        // The first three were asked to learn the length.
        answered.drain(..answered.len() - answers.len());
        let mut most = vec![0; answers.len()];
        let mut caught_up = u64::MAX;
        for (index, answer) in answers.iter().enumerate().rev() {
            if answers.get(index + 1).is_none_or(|next| answered[index] <= next.due_ns) {
                caught_up = answered[index];
            }
            most[index] = caught_up.saturating_sub(answer.due_ns);
        }
        (least, most)
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
    let (least, most) = service.expected(&answers);
    let seen = latencies(&answers);
    // 200 ms each second, asked evenly: 100 and 190 ms, where the machine does not hold up the
    // service besides.
    for share in [0.5, 0.9, 0.99] {
        let [seen, least, most] = [&seen, &least, &most].map(|times| quantile(times, share));
        let fits = (least - 10.0..most + 10.0).contains(&seen);
        assert!(fits, "quantile {share}: {seen} ms, the stalls say {least} to {most} ms");
    }
    assert!(quantile(&least, 0.99) > 100.0, "there were no stalls");
    assert!(
        probe.spent().most_connections >= 50,
        "several are under way at once: {:?}",
        probe.spent()
    );
}

#[test]
fn a_closed_loop_misses_what_users_would_have_seen() {
    let service = Stalling::start();
    let question = Question { mode: Loop::Closed, ..of_tcp(service.address, 1000.0) };
    let mut probe = Probe::open(&question).unwrap();
    let answers = ask_for(&mut probe, Duration::from_secs(5));
    let seen = latencies(&answers);
    let (p90, most) = (quantile(&seen, 0.9), quantile(&seen, 1.0));
    assert!(p90 < 100.0 && most > 150.0, "p90 {p90} ms, most {most} ms");
    assert_eq!(probe.spent().most_connections, 1, "one at a time");
    for pair in answers.windows(2) {
        assert!(pair[1].due_ns >= pair[0].due_ns + pair[0].latency_ns, "{pair:?}");
        assert!(pair[1].due_ns >= pair[0].due_ns + MS, "{pair:?}");
    }
}
