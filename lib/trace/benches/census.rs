//! How fast code is read, and objdump beside it, in turn: the largest libraries that are installed,
//! and a folder of 100 MB of code where there is one.
//!
//!     cargo bench -p ringfence-trace [-- FILE...]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_trace::census;

const ROUNDS: usize = 5;

fn main() {
    let named: Vec<PathBuf> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).map(Into::into).collect();
    let files = if named.is_empty() { largest() } else { named };
    for file in &files {
        let Ok(found) = census::of(std::slice::from_ref(file)) else { continue };
        let bytes: u64 = found.files.iter().map(|file| file.code_bytes).sum();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(timed(|| drop(census::of(std::slice::from_ref(file)))));
            theirs.push(timed(|| {
                let _ = Command::new("objdump").arg("-d").arg(file).stdout(Stdio::null()).status();
            }));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{}: {:.1} MB of code: {:.3} s, {:.0} MB/s; objdump -d {:.2} s, {:.0} times as long",
            file.display(),
            bytes as f64 / 1e6,
            ours.as_secs_f64(),
            bytes as f64 / 1e6 / ours.as_secs_f64(),
            theirs.as_secs_f64(),
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
}

fn largest() -> Vec<PathBuf> {
    let entries = fs::read_dir("/usr/lib/x86_64-linux-gnu").into_iter().flatten().flatten();
    let mut files: Vec<(u64, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()))
        .map(|path| (fs::metadata(&path).map_or(0, |metadata| metadata.len()), path))
        .collect();
    files.sort();
    files.into_iter().rev().take(5).map(|(_, path)| path).collect()
}

fn timed(what: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    what();
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
