//! `crash`: which states that a crash can leave a program's recovery fails on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use ringfence_crash::worker::ImageFile;
use ringfence_crash::{
    Again, Answer, ByOtherRules, Cut, Examination, Examined, Finding, Found, Gap, Killed, Kills,
    Medium, Program, Question, SCHEMA, findings, found,
};
use ringfence_experiment::units::Span;
use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_trace::Profile;
use ringfence_trace::census::dynamic;
use ringfence_trace::events::{self, Ended};
use ringfence_trace::record::{Options, may_mount, of_new_file, record};
use ringfence_trace::recording::{About, Asked, Reader, Writer};

use super::trace::{inside, whole};
use crate::args::{Crash, CrashMedium};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::{host, results};

const TIME: Duration = Duration::from_secs(60);
const SECTOR: usize = 512;
// The recording, in the folder of the result.
const TRACE: &str = "trace";

pub fn run(asked: &Crash) -> Result<(), Failure> {
    let patterns = Patterns::of(asked)?;
    let time = time(asked)?;
    let memory = memory(asked)?;
    if !may_mount() {
        return inside();
    }
    let began = Instant::now();
    let files: Vec<PathBuf> = asked.file.iter().map(|file| whole(file)).collect();
    let has_folder = |file: &PathBuf| file.parent().is_some_and(Path::is_dir);
    if let Some(missing) = files.iter().find(|file| !has_folder(file)) {
        return Err(Failure::usage(format!("the folder of {} is not there", missing.display())));
    }
    let dir = results::new_dir(asked.out.as_deref(), "crash")?;
    let recording = dir.join(TRACE);
    fs::create_dir_all(&dir)
        .map_err(|error| Failure::usage(format!("cannot create {}: {error}", dir.display())))?;
    let ended = recorded(asked, &files, &dir)?;
    let reader = Reader::open(&recording).map_err(Failure::failed_by)?;
    // First, since a program that may not rename the copy of a file may end in an error.
    Program::keeps_names(&reader).map_err(Failure::usage_by)?;
    ended_well(ended)?;
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
    let question = question(asked, patterns, medium, (time, memory), &dir)?;
    let examining = Examining { asked, program: &program, reader: &reader, dir: &dir };
    let answer = examining.answer(&question, images, medium, began)?;
    let _ = fs::remove_dir_all(&question.folder);
    answer.write(&dir).map_err(Failure::failed_by)?;
    if asked.json {
        output::print_json(&json::crash(&answer, &dir))?;
    } else {
        let text = ringfence_report::crash(&answer, &output::style());
        output::print(&format!("{text}\nresult: {}\n", pasteable(&dir)))?;
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

// Records the program on copies of the files. On a thread of its own, which gives up the rights to
// mount: workers still need them.
fn recorded(asked: &Crash, files: &[PathBuf], dir: &Path) -> Result<Ended, Failure> {
    let recording = &dir.join(TRACE);
    let about = About {
        recorder: format!("ringfence {}", env!("CARGO_PKG_VERSION")),
        command: asked.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        loads: false,
        directory: std::env::current_dir().ok(),
        asked: files
            .iter()
            .map(|path| Asked { path: path.clone(), existed: path.exists() })
            .collect(),
    };
    let mut writer = Writer::create(recording, about).map_err(Failure::usage_by)?;
    let options = Options {
        command: asked.command.clone(),
        files: files.to_vec(),
        copies: Some(recording.join("copies")),
        loads: false,
        output: true,
        made_in_memory: true,
    };
    let recorder = std::thread::scope(|scope| {
        scope.spawn(|| record(options, &mut writer)).join().expect("the recorder does not panic")
    });
    let outcome = recorder.map_err(|error| {
        let _ = fs::remove_dir_all(recording);
        Failure::failed_by(error)
    })?;
    writer.finish(outcome.ended.clone()).map_err(Failure::failed_by)?;
    fs::write(dir.join("printed"), &outcome.printed).map_err(Failure::failed_by)?;
    Ok(outcome.ended)
}

fn ended_well(ended: Ended) -> Result<(), Failure> {
    let ended = match ended {
        Ended::Exited(0) => return Ok(()),
        Ended::Exited(code) => format!("the program ended with exit code {code}"),
        Ended::Signal(signal) => format!("the program was ended by signal {signal}"),
        Ended::Stopped(reason) => format!("recording stopped: {reason}"),
    };
    Err(Failure::failed(format!("{ended}, so there is nothing to examine")))
}

fn medium(asked: &Crash, program: &Program) -> Result<Medium, Failure> {
    let pmem = || -> Result<Medium, Failure> {
        let rules = match asked.rules.as_deref() {
            Some(text) => text.parse().map_err(|why| Failure::usage(format!("--rules: {why}")))?,
            None => rules_here(),
        };
        Ok(Medium::of_rules(rules))
    };
    match asked.medium {
        Some(CrashMedium::Pmem) => return pmem(),
        Some(CrashMedium::Pages) => return Ok(Medium::Pages),
        None => {}
    }
    let of_folder = |path: &str| Path::new(path).parent().and_then(of_new_file);
    let media = program.files.iter().map(|file| file.medium.or_else(|| of_folder(&file.path)));
    match media.reduce(|one, other| if one == other { one } else { None }).flatten() {
        Some(events::Medium::Dax) => pmem(),
        Some(events::Medium::PageCache) => Ok(Medium::Pages),
        Some(events::Medium::Memory) => Err(Failure::usage(
            "the files are on a file system in memory, where nothing is durable; say how they will \
             be stored with --medium pmem or --medium pages",
        )),
        None => Err(Failure::usage(
            "how the files are stored is not known, or differs between them; say it with --medium \
             pmem or --medium pages",
        )),
    }
}

// Those of this processor, if its caches are not durable.
fn rules_here() -> Profile {
    let features = Features::detect();
    let is_amd = features.identity.vendor.as_deref() == Some("AuthenticAMD");
    match (is_amd, features.clflushopt) {
        (true, true) => Profile::Amd,
        (true, false) => Profile::OldAmd,
        (false, _) => Profile::IntelAdr,
    }
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
        recover: asked.recover.clone(),
        expect: asked.expect.clone(),
        ok_status: asked.ok_status.clone(),
        ignore: patterns.ignore,
        states: asked.states,
        time,
        directory: std::env::current_dir().map_err(Failure::failed_by)?,
        workers: workers(),
        memory,
        program: std::env::current_exe().map_err(Failure::failed_by)?,
        stop: host::stop_on_signals()?,
        folder: whole.join("workers"),
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
        let (causes, mut other_crashes) = causes.map_err(Failure::failed_by)?;
        let gap = examined.gap.take().map(|(steps, line)| {
            let killed = Killed::of(&examination.crash(steps), self.program);
            Gap { line, killed }
        });
        let again = self.again(&mut examination, question, &images, &examined)?;
        let by_other_rules = self.by_other_rules(&mut examination, medium, &examined)?;
        drop(examination);
        let mut kept = Vec::new();
        for finding in &causes {
            let number = kept.len() + 1;
            let (images, rerun) = self.keep(number, finding, self.program, &images, question)?;
            kept.push(found(finding, self.program, None, (images, rerun)));
        }
        for one in again.iter().flat_map(|again| &again.findings) {
            let number = kept.len() + 1;
            let files = self.keep(number, &one.finding, &one.program, &images, question)?;
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
            recover: self.asked.recover.clone(),
            expect: self.asked.expect.clone(),
            kills: again.map(|Again { kills: (examined, all), .. }| Kills { examined, all }),
            files: self.program.files.iter().map(|file| file.path.clone()).collect(),
            medium,
            points: examined.points,
            complete: examined.complete,
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
        if medium.rules().is_none() || examined.cut.is_some() {
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

    // The files as they are in a state, and a script that runs recovery on them.
    fn keep(
        &self,
        number: usize,
        finding: &Finding,
        program: &Program,
        before: &[ImageFile],
        question: &Question,
    ) -> Result<(PathBuf, PathBuf), Failure> {
        let whole = fs::canonicalize(self.dir).map_err(Failure::failed_by)?;
        let folder = whole.join(number.to_string());
        fs::create_dir_all(&folder).map_err(Failure::failed_by)?;
        let mut mounts = String::new();
        for (file, image) in before.iter().enumerate() {
            let name = image.path.file_name().unwrap_or_default();
            let mut kept = folder.join(name);
            if kept.exists() {
                kept = folder.join(format!("{file}-{}", name.to_string_lossy()));
            }
            let written = finding.image.write(program, file, &image.initial, &kept);
            written.map_err(Failure::failed_by)?;
            mounts += &mount(&kept, &image.path);
        }
        let rerun = folder.join("rerun");
        let text = format!(
            "# Runs recovery on copies of the files in this folder, in place of the files.\n\
             set -e\n\
             exec unshare --mount $(test \"$(id -u)\" = 0 || echo --map-root-user) sh -c '\n\
             set -e\n\
             copies=$(mktemp -d)\n\
             : > \"$copies/undo\"\n\
             trap \"sh $copies/undo\" EXIT\n\
             {}ulimit -d {}\n\
             cd {}\n\
             {}\n'\n",
            escaped(&mounts),
            question.memory >> 10,
            escaped(&pasteable(&question.directory)),
            escaped(&self.asked.recover)
        );
        fs::write(&rerun, text).map_err(Failure::failed_by)?;
        Ok((folder, rerun))
    }
}

// Of the program's own code, but for stores whose loss was found to be a bug.
fn lints(reader: &Reader, medium: Medium, kept: &[Found]) -> Result<Vec<String>, Failure> {
    let Some(rules) = medium.rules() else { return Ok(Vec::new()) };
    let run = dynamic::by_rules(reader, rules).map_err(Failure::failed_by)?;
    let found: Vec<&String> = kept.iter().flat_map(Found::lost_places).collect();
    let is_meant = |one: &&dynamic::Finding| {
        let is_found = one.location.as_ref().is_some_and(|at| found.contains(&&at.name()));
        one.own && !one.makes_pool && !is_found
    };
    Ok(run.findings.iter().filter(is_meant).map(|one| one.text.clone()).collect())
}

// A command that gives a copy of an image the place of a file.
fn mount(image: &Path, path: &Path) -> String {
    let (image, path) = (pasteable(image), pasteable(path));
    format!(
        "copy=\"$copies/$(basename {path})\"\ncp {image} \"$copy\"\n\
         undo=\"umount {path}; rm -f {path}\"\n\
         [ -e {path} ] || {{ : > {path}; echo \"$undo\" >> \"$copies/undo\"; }}\n\
         mount --bind \"$copy\" {path}\n"
    )
}

// Within single quotes of a shell.
fn escaped(text: &str) -> String {
    text.replace('\'', "'\\''")
}
