//! `crash`: which states that a crash can leave a program's recovery fails on.

mod keep;
mod recording;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use ringfence_crash::worker::ImageFile;
use ringfence_crash::{
    Again, Answer, ByOtherRules, Cut, Examination, Examined, Found, Gap, Killed, Kills, Medium,
    Program, Question, SCHEMA, findings, found,
};
use ringfence_experiment::units::Span;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_trace::Profile;
use ringfence_trace::census::dynamic;
use ringfence_trace::record::may_mount;
use ringfence_trace::recording::Reader;
use serde::{Deserialize, Serialize};

use super::trace::{inside, whole};
use keep::keep;
use recording::{TRACE, WORKERS, can_recover_here, ended_well, medium, recorded};

use crate::args::{Crash, Verb, parse_words};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::{command, pasteable};
use crate::shared::{host, results};

const TIME: Duration = Duration::from_secs(60);
const SECTOR: usize = 512;

pub fn run(asked: &Crash) -> Result<(), Failure> {
    Patterns::of(asked)?;
    time(asked)?;
    memory(asked)?;
    if !may_mount() {
        return inside("run it as root, or allow user namespaces");
    }
    let began = Instant::now();
    if let Some(dir) = &asked.resume {
        return resume(dir, asked, began);
    }
    let files: Vec<PathBuf> = asked.file.iter().map(|file| whole(file)).collect();
    let has_folder = |file: &PathBuf| file.parent().is_some_and(Path::is_dir);
    if let Some(missing) = files.iter().find(|file| !has_folder(file)) {
        return Err(Failure::usage(format!("the folder of {} is not there", missing.display())));
    }
    let dir = results::new_dir(asked.out.as_deref(), "crash")?;
    fs::create_dir_all(&dir)
        .map_err(|error| Failure::usage(format!("cannot create {}: {error}", dir.display())))?;
    can_recover_here(&dir)?;
    Resumable::write(&dir)?;
    recorded(asked, &files, &dir)?;
    examine(asked, &dir, began)
}

// What it takes to continue.
#[derive(Serialize, Deserialize)]
struct Resumable {
    // The command line, without the program's name.
    words: Vec<String>,
    directory: PathBuf,
}

impl Resumable {
    const FILE: &str = "asked.json";

    // A command line that is no text cannot be continued.
    fn write(dir: &Path) -> Result<(), Failure> {
        let words = std::env::args_os().skip(1).map(|word| word.into_string().ok());
        let Some(words) = words.collect() else { return Ok(()) };
        let directory = std::env::current_dir().map_err(Failure::failed_by)?;
        let text = serde_json::to_vec(&Self { words, directory }).map_err(Failure::failed_by)?;
        fs::write(dir.join(Self::FILE), text).map_err(Failure::failed_by)
    }
}

// Goes on with an examination in a folder.
fn resume(dir: &Path, now: &Crash, began: Instant) -> Result<(), Failure> {
    let not =
        |why: String| Failure::usage(format!("{}: cannot be continued: {why}", pasteable(dir)));
    let path = dir.join(Resumable::FILE);
    let text = fs::read(&path).map_err(|error| not(format!("{}: {error}", path.display())))?;
    let before: Resumable = serde_json::from_slice(&text)
        .map_err(|error| not(format!("{}: {error}", path.display())))?;
    let dir = fs::canonicalize(dir).map_err(Failure::failed_by)?;
    std::env::set_current_dir(&before.directory)
        .map_err(|error| not(format!("{}: {error}", before.directory.display())))?;
    let Verb::Crash(mut asked) = parse_words(&before.words).map_err(not)?.verb else {
        return Err(not("it has another command line".into()));
    };
    (asked.time, asked.states) = (now.time.clone(), now.states);
    (asked.json, asked.quiet) = (now.json, now.quiet);
    // What is left of it after a kill.
    let _ = fs::remove_dir_all(dir.join(WORKERS));
    examine(&asked, &dir, began)
}

// Examines what was recorded into a folder, or the rest of it.
fn examine(asked: &Crash, dir: &Path, began: Instant) -> Result<(), Failure> {
    let (patterns, time) = (Patterns::of(asked)?, time(asked)?);
    let reader = Reader::open(&dir.join(TRACE)).map_err(Failure::failed_by)?;
    // First, since a program that may not rename the copy of a file may end in an error.
    Program::keeps_names(&reader).map_err(Failure::usage_by)?;
    ended_well(reader.manifest().ended.as_ref())?;
    let program = Program::of(&reader, patterns.acknowledge.as_ref()).map_err(Failure::usage_by)?;
    if !program.instructions().any(|kind| kind.write().is_some()) {
        return Err(Failure::usage(
            "the program has stored nothing to the files through a shared mapping, so there is \
             nothing to examine",
        ));
    }
    let medium = medium(asked, &program)?;
    let before = dir.join("before");
    fs::create_dir_all(&before).map_err(Failure::failed_by)?;
    let images = program.write_before(&before).map_err(Failure::failed_by)?;
    let question = question(asked, patterns, medium, (time, memory(asked)?), dir)?;
    let examining = Examining { asked, program: &program, reader: &reader, dir };
    let answer = examining.answer(&question, images, medium, began)?;
    let _ = fs::remove_dir_all(&question.folder);
    answer.write(dir).map_err(Failure::failed_by)?;
    if asked.json {
        output::print_json(&json::crash(&answer, dir))?;
    } else {
        let text = ringfence_report::crash(&answer, &output::style());
        let mut text = format!("{text}\nresult: {}\n", pasteable(dir));
        if answer.cut.is_some() {
            text += &format!("continue: {}\n", command(&["crash", "--resume"], dir));
        }
        output::print(&text)?;
    }
    code(&answer)
}

// What it comes to. Its own sentences were printed with the answer.
fn code(answer: &Answer) -> Result<(), Failure> {
    match () {
        () if answer.cut == Some(Cut::Interrupted) => Err(Failure::failed("interrupted")),
        () if !answer.findings.is_empty() => Err(Failure::Command(3)),
        () if !answer.is_complete() || answer.checkable == 0 => Err(Failure::Command(4)),
        () => Ok(()),
    }
}

struct Patterns {
    acknowledge: Option<Regex>,
    ignore: Vec<Regex>,
}

impl Patterns {
    fn of(asked: &Crash) -> Result<Self, Failure> {
        let one = |flag: &str, text: &str| {
            Regex::new(text).map_err(|error| Failure::usage(format!("--{flag} '{text}': {error}")))
        };
        let ignore =
            asked.ignore.iter().map(|text| one("ignore", text)).collect::<Result<_, _>>()?;
        let acknowledge = asked.acknowledge.as_deref().map(|text| one("acknowledge", text));
        Ok(Self { acknowledge: acknowledge.transpose()?, ignore })
    }
}

fn time(asked: &Crash) -> Result<Duration, Failure> {
    let Some(text) = &asked.time else { return Ok(TIME) };
    let span: Span = text.parse().map_err(|error| Failure::usage(format!("--time: {error}")))?;
    Ok(span.0)
}

// Of each process of recovery; all workers together have half of the machine's.
fn memory(asked: &Crash) -> Result<u64, Failure> {
    if let Some(text) = &asked.memory {
        let size: Bytes =
            text.parse().map_err(|error| Failure::usage(format!("--memory: {error}")))?;
        return Ok(size.0);
    }
    let info = rustix::system::sysinfo();
    Ok(info.totalram as u64 * u64::from(info.mem_unit) / 2 / workers() as u64)
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn question(
    asked: &Crash,
    patterns: Patterns,
    medium: Medium,
    (time, memory): (Duration, u64),
    dir: &Path,
) -> Result<Question, Failure> {
    let whole = fs::canonicalize(dir).map_err(Failure::failed_by)?;
    Ok(Question {
        written_back: medium.written_back(SECTOR),
        recover: asked.recover.clone().unwrap_or_default(),
        expect: asked.expect.clone(),
        ok_status: asked.ok_status.clone(),
        checksum: asked.checksum.clone(),
        ignore: patterns.ignore,
        states: asked.states,
        time,
        directory: std::env::current_dir().map_err(Failure::failed_by)?,
        workers: workers(),
        memory,
        program: std::env::current_exe().map_err(Failure::failed_by)?,
        stop: host::stop_on_signals()?,
        journal: Some(whole.join("runs")),
        folder: whole.join(WORKERS),
    })
}

struct Examining<'a> {
    asked: &'a Crash,
    program: &'a Program,
    reader: &'a Reader,
    dir: &'a Path,
}

impl Examining<'_> {
    fn answer(
        &self,
        question: &Question,
        images: Vec<ImageFile>,
        medium: Medium,
        began: Instant,
    ) -> Result<Answer, Failure> {
        let mut examination = Examination::begin(self.program, question, images.clone())
            .map_err(Failure::usage_by)?;
        let mut show = Show::new(self.asked.quiet);
        show.begin("crash");
        let started = Instant::now();
        let examined = examination.run(|share| show.share(started, share));
        show.end();
        let mut examined = examined.map_err(Failure::failed_by)?;
        let causes = findings(&mut examination, &examined.failures);
        let (causes, mut other_crashes) = causes.map_err(Failure::usage_by)?;
        let gap = examined.gap.take().map(|(steps, line)| {
            let killed = Killed::of(&examination.crash(steps), self.program);
            Gap { line, killed }
        });
        let first_left =
            examined.first_left.map(|steps| Killed::of(&examination.crash(steps), self.program));
        let again = self.again(&mut examination, question, &images, &examined)?;
        let by_other_rules = self.by_other_rules(&mut examination, medium, &examined)?;
        drop(examination);
        let mut kept = Vec::new();
        for finding in &causes {
            let number = kept.len() + 1;
            let (images, rerun) = keep(self.dir, number, finding, self.program, &images, question)?;
            kept.push(found(finding, self.program, None, (images, rerun)));
        }
        for one in again.iter().flat_map(|again| &again.findings) {
            let number = kept.len() + 1;
            let files = keep(self.dir, number, &one.finding, &one.program, &images, question)?;
            kept.push(found(&one.finding, &one.program, Some(&one.killed), files));
        }
        if let Some(again) = &again {
            examined.add(&again.examined);
            other_crashes += again.other_crashes;
        }
        Ok(Answer {
            schema: SCHEMA,
            kind: "crash".into(),
            command: self.reader.manifest().about.command.clone(),
            recover: question.recover.clone(),
            expect: self.asked.expect.clone(),
            checksum: self.asked.checksum.clone(),
            kills: again.map(|Again { kills: (examined, all), .. }| Kills { examined, all }),
            files: self.program.files.iter().map(|file| file.path.clone()).collect(),
            medium,
            points: examined.points,
            complete: examined.complete,
            unseen: examined.unseen,
            first_left,
            bounded: examined.bounded,
            states: examined.states,
            merged: examined.merged,
            undecided: examined.undecided,
            gaps: examined.gaps,
            gap,
            passing: examined.passing.take(),
            kills_left: examined.kills_left,
            acknowledged: self.program.acknowledged.len() as u64,
            checkable: examined.checkable,
            batches: self.program.batches as u64,
            threads: self.program.threads as u64,
            cut: examined.cut,
            by_other_rules,
            lints: lints(self.reader, medium, &kept)?,
            findings: kept,
            other_crashes,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    // Crashes recovery, too, if that was asked for and nothing has ended the examination.
    fn again(
        &self,
        examination: &mut Examination<'_>,
        question: &Question,
        images: &[ImageFile],
        examined: &Examined,
    ) -> Result<Option<Again>, Failure> {
        if self.asked.crashes < 2 {
            return Ok(None);
        }
        if examined.cut.is_some() {
            let all = examination.points.len() as u64;
            return Ok(Some(Again { kills: (0, all), ..Again::default() }));
        }
        let mut show = Show::new(self.asked.quiet);
        show.begin("crashes of recovery");
        let started = Instant::now();
        let tell = |share| show.share(started, share);
        let again = ringfence_crash::again(examination, question, images, tell);
        show.end();
        again.map(Some).map_err(Failure::failed_by)
    }

    fn by_other_rules(
        &self,
        examination: &mut Examination<'_>,
        medium: Medium,
        examined: &Examined,
    ) -> Result<Vec<ByOtherRules>, Failure> {
        let mut all = Vec::new();
        // Crashes of recovery were examined by one set of rules only.
        if medium.rules().is_none() || examined.cut.is_some() || self.asked.crashes > 1 {
            return Ok(all);
        }
        let mut show = Show::new(self.asked.quiet);
        show.begin("rules of other processors");
        let started = Instant::now();
        for other in Profile::ALL.map(Medium::of_rules).into_iter().filter(|one| *one != medium) {
            let found = examination.run_by(other.written_back(SECTOR));
            let found = found.map_err(Failure::failed_by)?;
            all.push(ByOtherRules {
                medium: other,
                fails: !found.failures.is_empty(),
                is_complete: found.cut.is_none() && found.complete == found.points,
            });
            show.share(started, all.len() as f64 / 3.0);
        }
        show.end();
        Ok(all)
    }
}

// Of the program's own code, but for stores whose loss was found to be a bug.
fn lints(reader: &Reader, medium: Medium, kept: &[Found]) -> Result<Vec<String>, Failure> {
    let Some(rules) = medium.rules() else { return Ok(Vec::new()) };
    let run = dynamic::by_rules(reader, rules).map_err(Failure::failed_by)?;
    let found: Vec<&String> = kept.iter().flat_map(Found::lost_places).collect();
    let is_meant = |one: &&dynamic::Finding| {
        let is_found = one.location.as_ref().is_some_and(|at| found.contains(&&at.name()));
        one.own && !one.makes_pool && one.endangers_data() && !is_found
    };
    Ok(run.findings.iter().filter(is_meant).map(|one| one.text.clone()).collect())
}
