//! Services that are not there, go away, stay silent, or answer with something else.

mod support;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_openloop::{Ends, Errno, Failure, Outcome, Probe, ProbeError, Question, now};
use support::*;

const TIME: Duration = Duration::from_millis(400);

fn failed(failure: Failure) -> impl Fn(Outcome) -> bool {
    move |outcome| outcome == Outcome::Failed(failure)
}

// A port on which no process listens.
fn nobody() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn what_is_not_there_is_said_with_its_errno() {
    let error = Probe::open(&of_tcp(nobody(), 10.0)).unwrap_err();
    let ProbeError::Connect { source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.raw_os_error(), Some(Errno::CONNREFUSED.raw_os_error()));
    assert!(error.to_string().contains("is the service running"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let error = Probe::open(&question(&format!("unix:{}", path.display()), "x", 10.0)).unwrap_err();
    let ProbeError::Connect { source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);

    let error = Probe::open(&question("exec:/no/such/program -x", "x", 10.0)).unwrap_err();
    let ProbeError::Start { program, source } = &error else { panic!("{error:?}") };
    assert_eq!(
        (program.as_str(), source.kind()),
        ("/no/such/program", std::io::ErrorKind::NotFound)
    );
}

#[test]
fn a_service_that_starts_late_is_waited_for() {
    let address = nobody();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        serve(TcpListener::bind(address).unwrap(), Arc::new(echo));
    });
    let begin = now();
    Probe::open(&Question { patience: Duration::from_secs(30), ..of_tcp(address, 10.0) }).unwrap();
    assert!(now() - begin >= 300 * MS);
}

#[test]
fn a_service_that_never_answers_is_found_at_the_start() {
    let limit = Duration::from_millis(100);
    let silent = tcp(|_, _| (Vec::new(), true));
    let error = Probe::open(&Question { limit, ..of_tcp(silent, 10.0) }).unwrap_err();
    assert!(matches!(error, ProbeError::Silent { got: 0, .. }), "{error:?}");
    let question =
        Question { limit, ends: Ends::Until(b"END".to_vec()), ..of_tcp(tcp(echo), 10.0) };
    let error = Probe::open(&question).unwrap_err();
    assert!(matches!(error, ProbeError::Silent { got: 6, .. }), "{error:?}");
}

#[test]
fn answers_that_never_come_are_counted_with_the_time_limit_at_least() {
    let silent = Arc::new(AtomicBool::new(false));
    let switch = silent.clone();
    let address =
        tcp(
            move |_, line| {
                if switch.load(Ordering::Relaxed) { (b"PI".to_vec(), true) } else { echo(0, line) }
            },
        );
    let limit = Duration::from_millis(150);
    let mut probe =
        Probe::open(&Question { limit, connections: 8, ..of_tcp(address, 200.0) }).unwrap();
    silent.store(true, Ordering::Relaxed);
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 200.0);
    assert_eq!(count(&answers, |outcome| outcome == Outcome::Unanswered), answers.len());
    assert!(answers.iter().all(|answer| answer.latency_ns >= 150 * MS));
    let spent = probe.spent();
    assert!(spent.most_connections == 8 && spent.reopened > 0 && spent.waited > 0, "{spent:?}");
    // And once it answers again, so does the probe.
    silent.store(false, Ordering::Relaxed);
    let answers = ask_for(&mut probe, TIME);
    assert!(
        count(&answers, |outcome| outcome == Outcome::Answered) > answers.len() / 2,
        "{:?}",
        probe.spent()
    );
}

#[test]
fn a_program_that_is_late_is_passed_over_and_not_confused() {
    // Every answer comes 50 ms after its question, and a question may take 20 ms.
    let script = "exec:sh -c 'read x; echo $x; while read x; do sleep 0.05; echo $x; done'";
    let question = Question { limit: Duration::from_millis(20), ..question(script, "hello", 10.0) };
    // The shell itself has to start within this time.
    let mut probe =
        Probe::open(&Question { patience: Duration::from_secs(30), ..question }).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 10.0);
    assert_eq!(count(&answers, |outcome| outcome == Outcome::Unanswered), answers.len());
}

#[test]
fn connections_that_the_service_closes_are_reopened() {
    // After each answer, as if it had had its share.
    let address = tcp(|_, line| (echo(0, line).0, false));
    let question = Question { ends: Ends::Bytes(6), ..of_tcp(address, 200.0) };
    let mut probe = Probe::open(&question).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 200.0);
    assert_eq!(
        count(&answers, |outcome| outcome == Outcome::Answered),
        answers.len(),
        "{:?}",
        probe.spent()
    );
    // Each connection gives one answer; the last ones may not be seen to close.
    let spent = probe.spent();
    assert!(
        spent.closed + spent.connections as u64 >= spent.answered && spent.reopened > 0,
        "{spent:?}"
    );
}

#[test]
fn a_fresh_connection_that_is_closed_without_an_answer_is_a_failure() {
    let silent = Arc::new(AtomicBool::new(false));
    let (switch, asked) = (silent.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    let address = tcp(move |_, line| {
        if !switch.load(Ordering::Relaxed) {
            return echo(0, line);
        }
        counted.fetch_add(1, Ordering::Relaxed);
        (Vec::new(), false)
    });
    let mut probe = Probe::open(&of_tcp(address, 100.0)).unwrap();
    silent.store(true, Ordering::Relaxed);
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 100.0);
    assert_eq!(count(&answers, |outcome| matches!(outcome, Outcome::Failed(_))), answers.len());
    assert_eq!(asked.load(Ordering::Relaxed) as u64, probe.spent().asked + probe.spent().again);
    assert_eq!(probe.spent().again, 1, "only the first connection had answered before");
}

#[test]
fn a_service_that_goes_away_is_refused_from_then_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Serves one connection, and is gone with it.
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut buffer = [0; 64];
        for _ in 0..10 {
            let length = stream.read(&mut buffer).unwrap();
            stream.write_all(&buffer[..length]).unwrap();
        }
    });
    let question = Question { connections: 1, ..of_tcp(address, 100.0) };
    let mut probe = Probe::open(&question).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 100.0);
    // Three were asked to learn the length.
    assert_eq!(count(&answers, |outcome| outcome == Outcome::Answered), 7, "{:?}", probe.spent());
    let refused = count(&answers, failed(Failure::Io(Errno::CONNREFUSED)));
    assert_eq!(refused, answers.len() - 7, "{:?}", probe.spent());
}

#[test]
fn a_program_that_ends_is_started_again() {
    let script = "exec:sh -c 'for i in 1 2 3 4 5; do read x; echo $x; done'";
    let mut probe = Probe::open(&question(script, "hello", 100.0)).unwrap();
    let answers = ask_for(&mut probe, Duration::from_secs(1));
    assert_complete(&probe, &answers, 100.0);
    let spent = probe.spent();
    assert!(spent.reopened >= 1 && spent.answered >= 5, "{spent:?}");
}

#[test]
fn lengths_that_differ_are_an_error_that_says_what_to_do() {
    let asked = AtomicUsize::new(8);
    let address =
        tcp(move |_, _| (format!(":{}\r\n", asked.fetch_add(1, Ordering::Relaxed)).into(), true));
    let error = Probe::open(&of_tcp(address, 10.0)).unwrap_err();
    assert!(matches!(error, ProbeError::End { .. }), "{error:?}");
    assert!(error.to_string().contains(r#"all of them end with "\r\n""#), "{error}");
}

#[test]
fn a_question_without_its_line_end_is_named() {
    // This service reads lines. It answers nothing until one has ended.
    let address = tcp(|_, _| (b"+PONG\r\n".to_vec(), true));
    let asked = Question {
        limit: Duration::from_secs(600),
        ..question(&format!("tcp://{address}"), "PING", 10.0)
    };
    let error = Probe::open(&asked).unwrap_err();
    assert!(matches!(error, ProbeError::NoLineEnd { .. }), "{error:?}");
    assert!(error.to_string().contains(r"send 'PING\r\n'"), "{error}");
}

#[test]
fn an_error_in_place_of_an_answer_is_no_latency() {
    let asked = AtomicUsize::new(0);
    let address = tcp(move |_, _| match asked.fetch_add(1, Ordering::Relaxed) % 8 {
        5 => (b"-ERR max number of clients reached\r\n".to_vec(), true),
        6 => (b"+PONG\r\n+PONG\r\n".to_vec(), true),
        _ => (b"+PONG\r\n".to_vec(), true),
    });
    let mut probe = Probe::open(&of_tcp(address, 200.0)).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 200.0);
    assert!(count(&answers, failed(Failure::Unlike)) >= answers.len() / 8, "{:?}", probe.spent());
    assert!(count(&answers, failed(Failure::TooLong)) > 0, "{:?}", probe.spent());
    assert!(probe.spent().surplus > 0);
}

#[test]
fn when_all_connections_are_busy_time_still_counts_from_when_a_question_was_due() {
    // 20 ms for each, on two connections: 100 a second. 200 are asked for.
    let address = tcp(|_, line| {
        std::thread::sleep(Duration::from_millis(20));
        echo(0, line)
    });
    let mut probe = Probe::open(&Question { connections: 2, ..of_tcp(address, 200.0) }).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 200.0);
    assert_eq!(count(&answers, |outcome| outcome == Outcome::Answered), answers.len());
    assert_eq!(probe.spent().most_connections, 2);
    let (first, last) = (answers[0], answers[answers.len() - 1]);
    // 80 questions take 800 ms at least, and the last one was due after 400.
    assert!(first.latency_ns >= 20 * MS && last.latency_ns >= 350 * MS, "{first:?} {last:?}");
    assert!(probe.spent().waited as usize > answers.len() / 2, "{:?}", probe.spent());
    assert!(
        last.lag_ns < last.latency_ns / 2,
        "waiting for a connection is not the probe's lag: {last:?}"
    );
}
