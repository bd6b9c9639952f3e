//! Services to ask, and a loop that asks them.

#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_openloop::{Answer, Outcome, Probe, Question, now};

pub const MS: u64 = 1_000_000;

/// What a service does with a question: a line, without its end. Bytes to send, and whether the
/// connection goes on.
pub type Reply = Arc<dyn Fn(usize, &str) -> (Vec<u8>, bool) + Send + Sync>;

/// A service that answers each line; the number says which connection it came on. A blank line is
/// no question.
pub fn tcp(reply: impl Fn(usize, &str) -> (Vec<u8>, bool) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve(listener, Arc::new(reply));
    address
}

pub fn serve(listener: TcpListener, reply: Reply) {
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (reply, reader) = (reply.clone(), stream.try_clone().unwrap());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || talk(number, reader, stream, &reply));
        }
    });
}

pub fn unix(path: &Path, reply: impl Fn(usize, &str) -> (Vec<u8>, bool) + Send + Sync + 'static) {
    let (listener, reply) = (UnixListener::bind(path).unwrap(), Arc::new(reply) as Reply);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (reply, reader) = (reply.clone(), stream.try_clone().unwrap());
            std::thread::spawn(move || talk(number, reader, stream, &reply));
        }
    });
}

fn talk(number: usize, reader: impl Read, mut writer: impl Write, reply: &Reply) {
    let mut lines = BufReader::new(reader);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        let question = line.trim_end().to_string();
        line.clear();
        if question.is_empty() {
            continue;
        }
        let (bytes, goes_on) = reply(number, &question);
        if writer.write_all(&bytes).is_err() || !goes_on {
            return;
        }
    }
}

/// Answers with what was asked.
pub fn echo(_: usize, question: &str) -> (Vec<u8>, bool) {
    (format!("{question}\r\n").into_bytes(), true)
}

pub fn question(target: &str, send: &str, rate: f64) -> Question {
    Question::new(target.parse().unwrap(), send, rate)
}

pub fn of_tcp(address: SocketAddr, rate: f64) -> Question {
    question(&format!("tcp://{address}"), "PING\r\n", rate)
}

/// Asks for a time, then waits for the answers that are under way.
pub fn ask_for(probe: &mut Probe, time: Duration) -> Vec<Answer> {
    let mut answers = Vec::new();
    let end = now() + time.as_nanos() as u64;
    probe.resume();
    while now() < end {
        probe.step(end.min(now() + 10 * MS), &mut |answer| answers.push(answer)).unwrap();
    }
    probe.pause();
    rest(probe, &mut answers);
    answers.sort_by_key(|answer| answer.due_ns);
    answers
}

/// Waits for the answers that are under way.
pub fn rest(probe: &mut Probe, answers: &mut Vec<Answer>) {
    let end = now() + 60_000 * MS;
    while probe.oldest_unanswered().is_some() {
        assert!(now() < end, "questions stay without an answer: {probe:?}");
        probe.step(now() + 10 * MS, &mut |answer| answers.push(answer)).unwrap();
    }
}

pub fn count(answers: &[Answer], outcome: impl Fn(Outcome) -> bool) -> usize {
    answers.iter().filter(|answer| outcome(answer.outcome)).count()
}

/// What is asked is what was due, and each question has one answer.
pub fn assert_complete(probe: &Probe, answers: &[Answer], rate: f64) {
    let spent = probe.spent();
    assert_eq!(spent.asked as usize, answers.len());
    assert_eq!(spent.asked, spent.answered + spent.unanswered + spent.failed, "{spent:?}");
    for pair in answers.windows(2) {
        let apart = pair[1].due_ns - pair[0].due_ns;
        assert!((apart as f64 - 1e9 / rate).abs() <= 1.0, "{apart} ns apart");
    }
}
