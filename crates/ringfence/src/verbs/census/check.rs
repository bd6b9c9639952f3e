//! `census --check`: what other instructions would change, predicted by replaying the trace, and
//! measured by running the program so.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_analysis::estimate::{self, Window};
use ringfence_persist::{Flush, isa};
use ringfence_trace::census::dynamic::checked::{Change, Changed, Checked};
use ringfence_trace::census::dynamic::{self, Executed};
use ringfence_trace::events::Ended;
use ringfence_trace::playback::{Playback, Way};
use ringfence_trace::record::Again;
use ringfence_trace::recording::{Asked, Manifest, Reader};

use super::playback::{self, LEVEL, MAPPINGS, Played};
use crate::failure::Failure;
use crate::progress::Show;
use crate::shared::host;

// Of the time for all of it, what is spent playing.
const PLAYED: f64 = 0.3;
// Runs of the program in each way.
const FEWEST_RUNS: u32 = 5;
const MOST_RUNS: u32 = 1000;
// A share of all flushes that a variable may leave as they are: libpmem's deep flushes heed none.
const STRAYS: f64 = 0.01;

type Variables = &'static [(&'static str, &'static str)];

// What PMDK's libraries heed (libpmem(7), "ENVIRONMENT").
const PMDK: [(Change, Variables); 3] = [
    (Change::By(Flush::Clflushopt), &[("PMEM_NO_CLWB", "1")]),
    (Change::By(Flush::Clflush), &[("PMEM_NO_CLWB", "1"), ("PMEM_NO_CLFLUSHOPT", "1")]),
    (Change::NoFlush, &[("PMEM_NO_FLUSH", "1")]),
];

fn variables(change: Change) -> Variables {
    PMDK.iter().find(|(known, _)| *known == change).map_or(&[], |(_, variables)| variables)
}

fn text(variables: Variables) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn way(change: Change) -> Way {
    match change {
        Change::By(flush) => Way::By(flush),
        Change::NoFlush => Way::NoFlush,
        Change::Needed => Way::Needed,
    }
}

/// Predicts, and checks, within about so much time.
pub fn check(
    folder: &Path,
    trace: &Reader,
    time: Duration,
    quiet: bool,
) -> Result<Checked, Failure> {
    let playback = Playback::of(trace).map_err(Failure::usage_by)?;
    let flushes = playback.flushes();
    if let Some(missing) = flushes.iter().find(|flush| !isa::supports(**flush)) {
        let what = format!("the trace has {missing}, which this processor does not have");
        return Err(Failure::usage(what));
    }
    let mut program = Program::of(folder, trace.manifest())?;
    let mut show = Show::new(quiet);
    let own = flushes.first().copied();
    let others = Flush::GENTLEST_FIRST.into_iter().filter(|flush| isa::supports(*flush));
    let others = others.filter(|flush| flushes.iter().any(|own| own != flush)).map(Change::By);
    let no_flush = own.map(|_| Change::NoFlush);
    let needed = playback.has_needless().then_some(Change::Needed);
    let changes: Vec<Change> = others.chain(no_flush).chain(needed).collect();

    show.begin("replaying the trace");
    let start = Instant::now();
    let mut ways = vec![Way::AsRecorded, Way::Bare];
    ways.extend(changes.iter().map(|change| way(*change)));
    let played =
        Played::new(&playback, &ways, time.mul_f64(PLAYED), |share| show.share(start, share));
    let difference = |more, less| played.as_ref().map_err(Clone::clone)?.difference(more, less);

    // From here on there is something to put away.
    program.begin()?;
    show.begin("recording the program with other instructions");
    show.share(Instant::now(), 0.0);
    let followed: Vec<Result<Variables, String>> = program.follows(&changes)?;
    let able: Vec<Variables> =
        followed.iter().filter_map(|all| all.as_ref().ok()).copied().collect();
    show.begin("running the program");
    let start = Instant::now();
    let left = time.mul_f64(1.0 - PLAYED);
    let runs = program.runs(&able, left, |share| show.share(start, share))?;
    show.end();

    let changed = |(change, followed): (Change, Result<Variables, String>)| {
        let measured = followed.and_then(|variables| {
            let number = able.iter().position(|able| *able == variables);
            let number = number.ok_or_else(|| "it was not run like this".to_owned())?;
            playback::cost(estimate::difference(&runs[number + 1], &runs[0], LEVEL))
        });
        Changed {
            change,
            environment: text(variables(change)),
            predicted: difference(way(change), Way::AsRecorded).into(),
            measured: measured.into(),
        }
    };
    let run = estimate::arithmetic_rate(&runs[0], LEVEL);
    Ok(Checked {
        instruction: own.map(Flush::name),
        durability: difference(Way::AsRecorded, Way::Bare).into(),
        run: playback::cost(run).into(),
        mappings: MAPPINGS,
        runs: runs[0].len() as u32,
        changes: changes.into_iter().zip(followed).map(changed).collect(),
    })
}

// The program that was recorded, run again.
struct Program {
    again: Again,
    asked: Vec<Asked>,
    // Where traces and copies lie meanwhile.
    folder: PathBuf,
    ended: Option<i32>,
    // Set when the user interrupts.
    stop: Arc<AtomicBool>,
}

impl Program {
    fn of(folder: &Path, manifest: &Manifest) -> Result<Self, Failure> {
        let refuse =
            |why: String| Err(Failure::usage(format!("the command cannot be run again: {why}")));
        let about = &manifest.about;
        if about.command.is_empty() || about.asked.is_empty() {
            return refuse(
                "this trace does not contain all of it: record it with 'ringfence trace'"
                    .to_owned(),
            );
        }
        let appeared = about.asked.iter().find(|asked| !asked.existed && asked.path.exists());
        if let Some(Asked { path, .. }) = appeared {
            let path = path.display();
            return refuse(format!("{path} did not exist when it was recorded: move it away"));
        }
        let gone = about.asked.iter().find(|asked| asked.existed && !asked.path.exists());
        if let Some(Asked { path, .. }) = gone {
            return refuse(format!("{} no longer exists", path.display()));
        }
        let ended = match manifest.ended {
            Some(Ended::Exited(code)) => Some(code),
            Some(Ended::Signal(_) | Ended::Stopped(_)) | None => {
                return refuse("it did not exit by itself when it was recorded".to_owned());
            }
        };
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join("check");
        let again = Again {
            command: about.command.iter().map(OsString::from).collect(),
            directory: about.directory.clone(),
            files: about
                .asked
                .iter()
                .filter(|asked| asked.existed)
                .map(|asked| asked.path.clone())
                .collect(),
            copies: folder.join("copies"),
            environment: Vec::new(),
        };
        Ok(Self { again, asked: about.asked.clone(), folder, ended, stop: Arc::default() })
    }

    // Makes room for traces and copies.
    fn begin(&mut self) -> Result<(), Failure> {
        self.stop = host::stop_on_signals()?;
        // What was left behind where this was killed.
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir(&self.folder).map_err(|error| {
            Failure::usage(format!(
                "{}: no place for copies of the files: {error}",
                self.folder.display()
            ))
        })
    }

    // What the command has made anew goes, so that it finds things as before; an interrupt ends it
    // all.
    fn tidy(&self) -> Result<(), Failure> {
        for Asked { path, .. } in self.asked.iter().filter(|asked| !asked.existed) {
            let _ = match fs::symlink_metadata(path) {
                Ok(about) if about.is_dir() => fs::remove_dir_all(path),
                Ok(_) => fs::remove_file(path),
                Err(_) => Ok(()),
            };
        }
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::failed("interrupted")),
            false => Ok(()),
        }
    }

    // What has it execute each change, or why nothing has: what it executes then is recorded.
    fn follows(&mut self, changes: &[Change]) -> Result<Vec<Result<Variables, String>>, Failure> {
        let as_it_is = self.executed(&[])?;
        if as_it_is.flushes() == 0 && !changes.is_empty() {
            let what = "the command no longer flushes anything: run it in the environment of the \
                        recording, such as PMEM_IS_PMEM_FORCE=1";
            return Err(Failure::usage(what.to_owned()));
        }
        let mut all = Vec::new();
        for change in changes {
            let variables = variables(*change);
            if variables.is_empty() {
                let why = match change {
                    Change::Needed => "no variable removes unnecessary flushes",
                    _ => "no PMDK variable selects it",
                };
                all.push(Err(why.to_owned()));
                continue;
            }
            let executed = self.executed(variables)?;
            let other = match change {
                Change::By(flush) => executed.flushes() - executed.flushes_by(*flush),
                _ => executed.flushes(),
            };
            let few = (as_it_is.flushes() as f64 * STRAYS) as u64;
            let is_flushed = *change == Change::NoFlush || executed.flushes() > few;
            all.push(match other <= few && is_flushed {
                true => Ok(variables),
                false => Err(format!(
                    "the program ignores {}: {other} flushes continue",
                    text(variables)
                )),
            });
        }
        Ok(all)
    }

    // What it executes with these variables.
    fn executed(&self, variables: Variables) -> Result<Executed, Failure> {
        let out = self.folder.join("trace");
        let this = std::env::current_exe().map_err(Failure::failed_by)?;
        let mut recorder = Command::new(this);
        recorder.arg("trace").arg("--out").arg(&out);
        for asked in &self.asked {
            recorder.arg("--file").arg(&asked.path);
        }
        recorder.arg("--").args(&self.again.command).envs(variables.iter().copied());
        recorder.current_dir(self.again.directory.as_deref().unwrap_or(Path::new(".")));
        let recorded = recorder.stdin(Stdio::null()).stdout(Stdio::null()).output();
        let recorded =
            recorded.map_err(|error| Failure::failed(format!("the recorder: {error}")))?;
        self.tidy()?;
        if recorded.status.code() != self.ended {
            let said = String::from_utf8_lossy(&recorded.stderr);
            let said = said.lines().last().unwrap_or_default().to_owned();
            return Err(self.otherwise(variables, &said));
        }
        let run = Reader::open(&out).and_then(|trace| dynamic::of(&trace));
        let _ = fs::remove_dir_all(&out);
        Ok(run.map_err(Failure::failed_by)?.total)
    }

    // Why it did not end as it was recorded. An interrupt from a keyboard reaches the command as
    // well, and perhaps first.
    fn otherwise(&self, variables: Variables, how: &str) -> Failure {
        std::thread::sleep(Duration::from_millis(200));
        let what = format!("with '{}' the command ends differently: {how}", text(variables));
        self.tidy().err().unwrap_or(Failure::failed(what))
    }

    // Runs it as it is and with each of these, in turn, and gives the processor time of each run.
    fn runs(
        &mut self,
        ways: &[Variables],
        time: Duration,
        mut tell: impl FnMut(f64),
    ) -> Result<Vec<Vec<(u32, Window)>>, Failure> {
        let none: Variables = &[];
        let ways: Vec<Variables> = std::iter::once(none).chain(ways.iter().copied()).collect();
        let mut times = vec![Vec::new(); ways.len()];
        let start = Instant::now();
        for round in 0..MOST_RUNS {
            let spent = start.elapsed();
            if round >= FEWEST_RUNS && spent + spent / round > time {
                break;
            }
            for turn in 0..ways.len() {
                let way = (turn + round as usize) % ways.len();
                let variables =
                    ways[way].iter().map(|(name, value)| (name.to_string(), value.to_string()));
                self.again.environment = variables.collect();
                let ran = self.again.run();
                self.tidy()?;
                let ran = ran.map_err(Failure::usage_by)?;
                if ran.status.code() != self.ended {
                    return Err(self.otherwise(ways[way], &ran.status.to_string()));
                }
                times[way].push((round, Window { units: 1.0, ns: ran.cpu.as_nanos() as f64 }));
            }
            tell((start.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0));
        }
        Ok(times)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_as_a_shell_takes_them() {
        assert_eq!(
            text(variables(Change::By(Flush::Clflush))),
            "PMEM_NO_CLWB=1 PMEM_NO_CLFLUSHOPT=1"
        );
        assert_eq!(text(variables(Change::By(Flush::Clwb))), "");
        assert_eq!(text(variables(Change::Needed)), "");
    }
}
