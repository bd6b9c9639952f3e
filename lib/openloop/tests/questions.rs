//! Services that do what they should, of every kind.

mod support;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_openloop::{Ends, Outcome, Probe, Question, now};
use support::*;

const TIME: Duration = Duration::from_millis(500);

fn all_answered(question: &Question) -> ringfence_openloop::Spent {
    let mut probe = Probe::open(question).unwrap();
    let begin = now();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, question.rate);
    assert_eq!(
        count(&answers, |outcome| outcome == Outcome::Answered),
        answers.len(),
        "{:?}",
        probe.spent()
    );
    // Everything that was due in this time, to the last question.
    let due = TIME.as_secs_f64() * question.rate;
    assert!(answers.len() as f64 >= due.floor(), "{} of {due}", answers.len());
    assert!(
        answers
            .iter()
            .all(|answer| answer.due_ns >= begin && answer.due_ns + answer.latency_ns <= now())
    );
    assert!(answers.iter().all(|answer| answer.latency_ns > 0));
    let spent = probe.spent();
    assert!(spent.cpu > Duration::ZERO && spent.most_connections > 0, "{spent:?}");
    spent
}

#[test]
fn a_tcp_port() {
    let spent = all_answered(&of_tcp(tcp(echo), 1000.0));
    assert!(spent.stamped <= spent.answered, "{spent:?}");
}

#[test]
fn a_tcp_port_by_terminator_and_by_length() {
    // Answers whose lengths differ.
    let asked = AtomicUsize::new(0);
    let address = tcp(move |_, _| {
        (
            format!("{}\r\n", 10_usize.pow(asked.fetch_add(1, Ordering::Relaxed) as u32 % 9))
                .into(),
            true,
        )
    });
    let until = Ends::Until(b"\r\n".to_vec());
    all_answered(&Question { ends: until, ..of_tcp(address, 500.0) });
    all_answered(&Question { ends: Ends::Bytes(6), ..of_tcp(tcp(echo), 500.0) });
}

#[test]
fn a_redis_is_asked_as_it_is() {
    // Answers whose lengths differ, and of which no length could be learned.
    let asked = AtomicUsize::new(0);
    let address = tcp(move |_, line| {
        let value = "v".repeat(asked.fetch_add(1, Ordering::Relaxed) % 9);
        match line {
            "PING" => (b"+PONG\r\n".to_vec(), true),
            "GET k" => (format!("${}\r\n{value}\r\n", value.len()).into(), true),
            _ => (b"-ERR unknown command\r\n".to_vec(), true),
        }
    });
    all_answered(&question(&format!("redis://{address}"), "", 500.0));
    all_answered(&question(&format!("redis://{address}"), "GET k", 500.0));
    let error =
        Probe::open(&question(&format!("redis://{address}"), "NO", 500.0)).unwrap_err().to_string();
    assert!(
        error.contains("answered with an error") && error.contains("-ERR unknown command"),
        "{error}"
    );
}

#[test]
fn a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    unix(&path, echo);
    let spent = all_answered(&question(&format!("unix:{}", path.display()), "PING\r\n", 1000.0));
    assert_eq!(spent.stamped, 0, "the kernel gives no times for these");
}

#[test]
fn a_large_answer_that_comes_in_pieces() {
    let address = tcp(|_, _| (vec![b'x'; 300_000], true));
    all_answered(&of_tcp(address, 100.0));
}

#[test]
fn a_program_that_answers_each_line() {
    all_answered(&question("exec:cat", "hello", 1000.0));
}

#[test]
fn a_program_whose_answers_end_with_a_marker() {
    let script = r#"exec:sh -c 'while read line; do echo "$line"; echo done; echo; echo .; done'"#;
    let marker = Ends::Until(b".".to_vec());
    all_answered(&Question { ends: marker, ..question(script, "done", 200.0) });
    let error = Probe::open(&question(script, "done", 200.0)).unwrap_err().to_string();
    assert!(error.contains("the answer has more than one line"), "{error}");
}

// Answers of all kinds, in turn.
fn page(number: usize) -> (Vec<u8>, bool) {
    let ok = "HTTP/1.1 200 OK\r\n";
    match number % 4 {
        0 => (format!("{ok}Content-Length: 5\r\n\r\nhello").into(), true),
        1 => (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
                .into(),
            true,
        ),
        2 => (format!("{ok}Connection: close\r\nContent-Length: 5\r\n\r\nhello").into(), false),
        _ => (format!("{ok}\r\nhello").into(), false),
    }
}

fn pages(page: impl Fn(usize) -> (Vec<u8>, bool) + Send + Sync + 'static) -> Question {
    let asked = AtomicUsize::new(0);
    let address = tcp(move |_, line| match line.split(' ').next() {
        // The other lines of the request need no answer.
        Some("GET") => page(asked.fetch_add(1, Ordering::Relaxed)),
        _ => (Vec::new(), true),
    });
    question(&format!("http://{address}/a"), "", 200.0)
}

#[test]
fn pages_of_every_kind() {
    // A service that closes has not read the rest of the request: the kernel resets the connection
    // then, and what was sent can be lost. So it closes later.
    let question = pages(|number| {
        let (bytes, _) = page(number % 3);
        (bytes, true)
    });
    let spent = all_answered(&question);
    assert!(spent.reopened > 0, "{spent:?}");
}

#[test]
fn a_page_that_ends_with_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve(
        listener,
        Arc::new(
            |_, line: &str| if line.starts_with("Accept:") { page(3) } else { (Vec::new(), true) },
        ),
    );
    // The blank line after the headers may stay unread, which resets the connection: those are
    // failures.
    let mut probe = Probe::open(&Question {
        patience: Duration::from_secs(20),
        ..question(&format!("http://{address}/"), "", 100.0)
    })
    .unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, 100.0);
    assert!(count(&answers, |outcome| outcome == Outcome::Answered) > 0, "{:?}", probe.spent());
    assert!(probe.spent().reopened > 0);
}

#[test]
fn pages_that_are_errors_are_counted_and_no_latencies() {
    let question = pages(|number| match number % 4 {
        3 => (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy".to_vec(), true),
        _ => page(0),
    });
    let mut probe = Probe::open(&question).unwrap();
    let answers = ask_for(&mut probe, TIME);
    assert_complete(&probe, &answers, question.rate);
    let busy = Outcome::Failed(ringfence_openloop::Failure::Status(503));
    assert_eq!(
        count(&answers, |outcome| outcome == busy),
        answers.len() / 4,
        "{:?}",
        probe.spent()
    );
    assert_eq!(probe.spent().reopened, 0, "the connection goes on after an error");
}

#[test]
fn nothing_is_due_while_paused_and_what_is_under_way_is_received() {
    let address = tcp(|_, line| {
        std::thread::sleep(Duration::from_millis(50));
        echo(0, line)
    });
    let mut probe = Probe::open(&of_tcp(address, 1000.0)).unwrap();
    let mut answers = Vec::new();
    let mut step = |probe: &mut Probe, ms: u64| {
        let end = now() + ms * MS;
        while now() < end {
            probe.step(end, &mut |answer| answers.push(answer)).unwrap();
        }
    };
    step(&mut probe, 30);
    assert_eq!((probe.spent().asked, probe.oldest_unanswered()), (0, None));
    let resumed = now();
    probe.resume();
    step(&mut probe, 30);
    assert!(probe.oldest_unanswered().is_some_and(|due| due >= resumed));
    // Due in this pause of the caller's, and asked late.
    std::thread::sleep(Duration::from_millis(20));
    probe.pause();
    let paused = now();
    while probe.oldest_unanswered().is_some() {
        step(&mut probe, 10);
    }
    step(&mut probe, 50);
    let asked = probe.spent().asked;
    probe.resume();
    step(&mut probe, 20);
    probe.pause();
    rest(&mut probe, &mut answers);
    answers.sort_by_key(|answer| answer.due_ns);
    let first: Vec<_> = answers.iter().take(asked as usize).collect();
    assert!(asked >= 50, "{asked}");
    assert!(first.iter().all(|answer| (resumed..paused).contains(&answer.due_ns)));
    assert!(first.iter().any(|answer| answer.lag_ns > 15 * MS), "the caller's pause is lag");
    assert!(first.iter().all(|answer| answer.latency_ns >= 50 * MS));
    assert!(answers[asked as usize..].iter().all(|answer| answer.due_ns > paused + 50 * MS));
}
