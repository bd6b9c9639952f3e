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

// Answers six bytes with seven, and nobody while `held`.
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

// What is due while the service stands still is in the window in which it was due, and not in that in which it was answered.
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
    assert!(stalled > 10, "they waited for what was left of the window, and the stall beyond it: {stalled}");
    assert_eq!(prober.held.len() as u64 + told as u64, prober.answered, "nothing is lost");
    assert!(prober.held.iter().all(|answer| answer.due_ns > prober.cut.unwrap().at));
    // Whoever was told goes on with what came meanwhile.
    let late = prober.held.len();
    assert!(late > 10);
    prober.work(1, &counted);
    assert!(counted.0.borrow().len() >= told + late && prober.cut.is_none());
    prober.paused();
    let said = prober.told().unwrap();
    assert!(said.starts_with("The probe asked ") && said.contains("of a CPU"), "{said}");
}

#[test]
fn what_makes_no_sense_or_is_not_there_is_said() {
    let refused = |task: Task| Prober::new(&task).err().unwrap().to_string();
    assert!(refused(Task { ask: "gopher://x".into(), ..Task::default() }).contains("gopher"));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refused(Task { ask: format!("tcp://{nobody}"), send: "x".into(), ..Task::default() });
    assert!(said.contains("refused") && said.contains(&nobody.to_string()), "{said}");
    let bytes = Task { ask: "tcp://localhost:1".into(), send: r"\q".into(), ..Task::default() };
    assert!(question(&bytes).unwrap_err().contains(r"\q"));
    let short = Task { ask: "http://localhost/".into(), timeout: Span::ms(50), ..Task::default() };
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
    // Silent for a moment, and asked by nobody for a longer one.
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
    assert!(said.starts_with(&format!("{} has answered nothing since ", task.ask)), "{said}");
    let (_, rest) = said.split_once("since ").unwrap();
    let (time, rest) = rest.split_once(" UTC, for 0.").unwrap();
    assert!(time.len() == 8 && time.matches(':').count() == 2, "{said}");
    assert!(rest.starts_with(['6', '7', '8', '9']), "{said}");
    held.store(false, Ordering::Release);
}
