//! Asks a service for a while, and prints latencies, the probe's own lag, and what it used of a
//! processor.
//!
//! `cargo run --release -p ringfence-openloop --example ask -- tcp://127.0.0.1:6379 'PING\r\n' 1000
//! 5s`

use std::process::ExitCode;
use std::time::Duration;

use ringfence_openloop::{Answer, Ends, Loop, Outcome, Probe, Question, now, unescape};

const USAGE: &str = "usage: ask TARGET SEND RATE SECONDSs [closed] [answer=END] [spin=US]
  TARGET  tcp://HOST:PORT, unix:/PATH, http://HOST:PORT/PATH or exec:COMMAND
  SEND    what to ask, with \\r, \\n, \\xHH; '' for http://
  END     learned (the default), 'N bytes' or 'until TEXT'
  US      microseconds that the processor is kept busy before a question is due (60)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match question(&args) {
        Err(sentence) => {
            eprintln!("error: {sentence}\n{USAGE}");
            ExitCode::from(2)
        }
        Ok((question, time)) => match ask(&question, time) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn question(args: &[String]) -> Result<(Question, Duration), String> {
    let [target, send, rate, time, more @ ..] = args else {
        return Err("four arguments are needed".into());
    };
    let rate = rate.parse().map_err(|_| format!("'{rate}' is not a rate"))?;
    let seconds = time.strip_suffix('s').unwrap_or(time).parse().ok();
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.ok_or_else(|| format!("'{time}' is not a time: write it like 5s"))?;
    let mut question = Question::new(target.parse()?, unescape(send)?, rate);
    for word in more {
        match word.split_once('=') {
            Some(("answer", ends)) => question.ends = ends.parse::<Ends>()?,
            Some(("spin", us)) => {
                let us =
                    us.parse().map_err(|_| format!("'{us}' is not a number of microseconds"))?;
                question.spin = Duration::from_micros(us);
            }
            None if word == "closed" => question.mode = Loop::Closed,
            _ => return Err(format!("'{word}' is unknown")),
        }
    }
    Ok((question, time))
}

fn ask(question: &Question, time: Duration) -> Result<(), ringfence_openloop::ProbeError> {
    let mut probe = Probe::open(question)?;
    let mut answers: Vec<Answer> = Vec::new();
    let begin = now();
    probe.resume();
    while now() < begin + time.as_nanos() as u64 {
        probe.step(now() + 10_000_000, &mut |answer| answers.push(answer))?;
    }
    probe.pause();
    let wall = now() - begin;
    let spent = probe.spent();
    while probe.oldest_unanswered().is_some() {
        probe.step(now() + 10_000_000, &mut |answer| answers.push(answer))?;
    }
    let end = probe.spent();

    let latencies = answers.iter().filter(|answer| !matches!(answer.outcome, Outcome::Failed(_)));
    line("latency", latencies.map(|answer| answer.latency_ns).collect());
    line("lag", answers.iter().map(|answer| answer.lag_ns).collect());
    println!(
        "asked {}, answered {} ({} timed by the kernel), unanswered {}, failed {}{}",
        end.asked,
        end.answered,
        end.stamped,
        end.unanswered,
        end.failed,
        end.last_failure.map(|failure| format!(" (the last one: {failure})")).unwrap_or_default()
    );
    println!(
        "connections: {} at most, {} closed, {} reopened; {} questions found none free",
        end.most_connections, end.closed, end.reopened, end.waited
    );
    println!("processor: {:.1} % of one", spent.cpu.as_nanos() as f64 / wall as f64 * 100.0);
    Ok(())
}

fn line(name: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return println!("{name}: none") };
    let at = |share: f64| times[(share * last as f64).round() as usize] as f64 / 1000.0;
    println!(
        "{name:8} p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, most {:.1} us",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
