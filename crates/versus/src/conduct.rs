//! All of it together: from flags to an answer in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ringfence_dataset::{DatasetError, Date, Recorder, text_file};
use ringfence_experiment::units::{Share, Span};
use ringfence_machine::text::{printable, printable_lines};
use ringfence_sysfs::whole;

use crate::case::{self, Case, cases};
use crate::export::{self, Markup, Unit};
use crate::findings::{About, Findings, findings, groups};
use crate::flags::Flags;
use crate::launch::{self, Output, Ran, What};
use crate::order::Slot;
use crate::parameter::Parameter;
use crate::run::Took;
use crate::same_output;
use crate::session::{self, Bench, Measured, Said, Settings, Trouble};
use crate::shell::{self, Shell};
use crate::table;
use crate::text;

/// What is asked, checked.
#[derive(Debug)]
pub struct Question {
    cases: Vec<Case>,
    outputs: Vec<Output>,
    settings: Settings,
    shell: Shell,
    input: Option<PathBuf>,
    ignored: Ignored,
    same_output: bool,
    label: Option<String>,
    exports: Vec<(PathBuf, Export)>,
    unit: Option<Unit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Export {
    Json,
    Csv,
    Table(Markup),
    Summary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ignored {
    None,
    All,
    These(Vec<i32>),
}

impl Ignored {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        match text {
            None => Ok(Self::None),
            Some("all-non-zero") => Ok(Self::All),
            Some(list) => {
                let codes: Result<Vec<i32>, _> = list.split(',').map(|code| code.trim().parse()).collect();
                codes.map(Self::These).map_err(|_| {
                    format!(
                        "--ignore-failure: '{list}' is not a list of exit codes such as 1,2, nor all-non-zero"
                    )
                })
            }
        }
    }

    fn covers(&self, took: &Took) -> bool {
        took.succeeded()
            || match self {
                Self::None => false,
                Self::All => true,
                Self::These(codes) => took.code.is_some_and(|code| codes.contains(&code)),
            }
    }
}

/// Who wants to know how it goes.
pub trait Watch {
    /// A sentence that is worth a line.
    fn note(&mut self, text: &str);
    /// How far it is, from 0 to 1.
    fn share(&mut self, began: Instant, share: f64);
}

/// An answer.
pub struct Done {
    /// What was found.
    pub findings: Findings,
    /// Why it ended early.
    pub trouble: Option<Trouble>,
}

impl Question {
    /// From flags.
    ///
    /// # Errors
    /// One sentence on what makes no sense.
    pub fn new(flags: &Flags) -> Result<Self, String> {
        let parameters = parameters(flags)?;
        let given = flags.a.iter().chain(&flags.b).chain(&flags.c);
        let commands: Vec<String> =
            if flags.commands.is_empty() { given.cloned().collect() } else { flags.commands.clone() };
        if flags.commands.is_empty() && (flags.a.is_none() || flags.b.is_none()) {
            match (&flags.a, parameters.is_empty()) {
                (None, _) => return Err("--a is missing: give the command to compare with, and --b, or two commands by themselves".into()),
                (Some(_), true) => return Err("--b is missing: give the command that is to be compared with --a".into()),
                (Some(_), false) => {}
            }
        }
        let output = if flags.show_output { vec!["inherit".to_string()] } else { flags.output.clone() };
        let asked = case::Asked {
            commands,
            names: flags.command_name.clone(),
            parameters,
            setup: flags.setup.clone(),
            prepare: flags.prepare.clone(),
            conclude: flags.conclude.clone(),
            cleanup: flags.cleanup.clone(),
            output,
        };
        let cases = cases(&asked)?;
        if let Some(slip) = cases.iter().find_map(|case| case::unfilled(case, &asked.parameters)) {
            return Err(slip);
        }
        let outputs = cases.iter().map(|case| Output::parse(case.around.output.as_deref().unwrap_or("null")));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let shell = if flags.no_shell { "none" } else { &flags.shell };
        let all: Vec<&str> = cases.iter().map(|case| case.command.as_str()).collect();
        let shell = shell::Asked::parse(shell)?.decide(&all);
        for command in &all {
            shell.words(command)?;
        }
        if let Some(input) = flags.input.as_deref().filter(|input| *input != Path::new("null")) {
            fs::File::open(input)
                .map_err(|error| format!("--input: {} cannot be read: {error}", input.display()))?;
        }
        Ok(Self {
            cases,
            outputs,
            settings: settings(flags)?,
            shell,
            input: flags.input.clone().filter(|input| input != Path::new("null")),
            ignored: Ignored::parse(flags.ignore_failure.as_deref())?,
            same_output: flags.same_output,
            label: flags.label.clone(),
            exports: exports(flags),
            unit: flags.time_unit,
        })
    }
}

fn parameters(flags: &Flags) -> Result<Vec<Parameter>, String> {
    let mut all = Vec::new();
    for text in &flags.parameter {
        all.push(Parameter::parse(text).map_err(|why| format!("--parameter: {why}"))?);
    }
    for two in flags.parameter_list.chunks(2) {
        all.push(Parameter::list(&two[0], &two[1]).map_err(|why| format!("--parameter-list: {why}"))?);
    }
    for three in flags.parameter_scan.chunks(3) {
        let step = flags.parameter_step_size.as_deref();
        let scan = Parameter::scan(&three[0], &three[1], &three[2], step);
        all.push(scan.map_err(|why| format!("--parameter-scan: {why}"))?);
    }
    for (place, one) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name == one.name) {
            return Err(format!("the parameter '{}' is given twice: put its values into one list", one.name));
        }
    }
    Ok(all)
}

fn settings(flags: &Flags) -> Result<Settings, String> {
    let share = |flag: &str, text: &Option<String>, example: &str| -> Result<Option<f64>, String> {
        let Some(text) = text else { return Ok(None) };
        let parsed: Result<Share, _> = text.parse();
        parsed.map(|share| Some(share.0)).map_err(|_| {
            format!(
                "--{flag}: '{text}' is not a share: write a percentage between 0% and 100%, such as {example}"
            )
        })
    };
    let time_s = match &flags.time {
        None => None,
        Some(text) => {
            let parsed: Result<Span, _> = text.parse();
            let span = parsed.map_err(|_| {
                format!("--time: '{text}' is not a duration: write a number with ns, us, ms, s or min, such as 60s")
            })?;
            Some(span.0.as_secs_f64())
        }
    };
    let default = Settings::default();
    let margin = share("margin", &flags.margin, "1%")?.unwrap_or(default.margin);
    let confidence = share("confidence", &flags.confidence, "95%")?.unwrap_or(default.confidence);
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err("--confidence must lie between 0% and 100%, and be neither of them, such as 95%".into());
    }
    if margin <= 0.0 {
        return Err("--margin must be above 0%, such as 1%: no interval can be as narrow as that".into());
    }
    if flags.runs == Some(0) || flags.max_runs == Some(0) {
        return Err("no run at all cannot be measured: give --runs or --max-runs at least 4".into());
    }
    if let (Some(min), Some(max)) = (flags.min_runs, flags.max_runs)
        && min > max
    {
        return Err(format!("--min-runs {min} is more than --max-runs {max}: swap them"));
    }
    Ok(Settings {
        budget: share("budget", &flags.budget, "2%")?,
        margin,
        precision: margin / 2.0,
        confidence,
        time_s,
        runs: flags.runs,
        min_runs: flags.min_runs,
        max_runs: flags.max_runs,
        warm_up: flags.warmup,
        seed: flags.seed,
    })
}

fn exports(flags: &Flags) -> Vec<(PathBuf, Export)> {
    let all = [
        (&flags.export_json, Export::Json),
        (&flags.export_csv, Export::Csv),
        (&flags.export_markdown, Export::Table(Markup::Markdown)),
        (&flags.export_asciidoc, Export::Table(Markup::Asciidoc)),
        (&flags.export_orgmode, Export::Table(Markup::Orgmode)),
        (&flags.export_summary, Export::Summary),
    ];
    all.into_iter().filter_map(|(path, export)| Some((path.clone()?, export))).collect()
}

/// Measures, and keeps what was measured in a folder.
///
/// # Errors
/// Where nothing was measured, or it cannot be kept.
pub fn conduct(
    question: &Question,
    dir: &Path,
    stop: &Arc<AtomicBool>,
    watch: &mut dyn Watch,
) -> Result<Done, Trouble> {
    check_writable(question, dir)?;
    let began = SystemTime::now();
    let mut host = Host { question, stop, watch, began: Instant::now(), not_counted: None };
    let set_up = host.set_up().and_then(|()| host.same_output());
    let measured = set_up.map(|()| {
        host.began = Instant::now();
        let shell = question.shell != Shell::None;
        session::measure(&groups(&question.cases), shell, &question.settings, &mut host)
    });
    let cleaned = host.clean_up();
    let not_counted = host.not_counted.take();
    let mut measured = measured?;
    measured.trouble = measured.trouble.or(cleaned.err());
    if let (true, Some(trouble)) = (measured.runs.is_empty(), &measured.trouble) {
        return Err(trouble.clone());
    }
    let about = About {
        label: question.label.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        began: Date::new(began).rfc3339(),
        shell: question.shell.name(),
        not_counted,
    };
    let findings = findings(&question.cases, &question.settings, about, &measured);
    keep(question, dir, &findings, &measured)?;
    Ok(Done { findings, trouble: measured.trouble })
}

// Before anything is measured.
fn check_writable(question: &Question, dir: &Path) -> Result<(), Trouble> {
    if dir.is_file() {
        return Err(Trouble::Usage(format!(
            "{} is a file: --out takes a folder that is empty or does not exist yet",
            dir.display()
        )));
    }
    Recorder::check(dir).map_err(trouble)?;
    for (path, _) in &question.exports {
        let folder = whole::folder_of(path);
        let probe = tempfile_in(folder);
        let refused = match probe {
            Err(error) => Some(error.to_string()),
            Ok(()) if path.is_dir() => Some("it is a folder".into()),
            Ok(()) => None,
        };
        if let Some(why) = refused {
            return Err(Trouble::Usage(format!(
                "{} cannot be written: {why}; name a file in a folder that can be written to",
                path.display()
            )));
        }
    }
    Ok(())
}

// Whether a file can be made there.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".ringfence-{}.tmp", std::process::id()));
    fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(path)
}

fn trouble(error: DatasetError) -> Trouble {
    match error.is_usage() {
        true => Trouble::Usage(error.to_string()),
        false => Trouble::Failed(error.to_string()),
    }
}

/// The files of an answer.
pub struct Files;

impl Files {
    /// What was found.
    pub const FINDINGS: &str = "versus.json";
    /// Every run.
    pub const RUNS: &str = "runs.parquet";

    /// Whether a folder is one.
    pub fn are_in(dir: &Path) -> bool {
        dir.join(Self::FINDINGS).is_file()
    }

    /// What was found.
    ///
    /// # Errors
    /// One sentence where it cannot be read.
    pub fn read(dir: &Path) -> Result<Findings, String> {
        let path = dir.join(Self::FINDINGS);
        let text = text_file::read(&path, text_file::LONGEST)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{}: {error}: restore it as it was written", path.display()))
    }
}

fn keep(question: &Question, dir: &Path, findings: &Findings, measured: &Measured) -> Result<(), Trouble> {
    fs::create_dir_all(dir).map_err(|error| trouble(DatasetError::io("make", dir)(error)))?;
    let kept = table::write(&dir.join(Files::RUNS), findings, &question.cases, &measured.runs);
    let text = serde_json::to_string_pretty(findings).map_err(|error| Trouble::Failed(error.to_string()))?;
    let path = dir.join(Files::FINDINGS);
    let kept = kept.and_then(|()| {
        whole::write(&path, (text + "\n").as_bytes())
            .map_err(|error| DatasetError::io("write", &path)(error.into_source()))
    });
    // What was measured is told even where it cannot be kept.
    let mut failed = kept.map_err(trouble).err();
    for (path, export) in &question.exports {
        let text = match export {
            Export::Json => export::json(findings, &measured.runs),
            Export::Csv => export::csv(findings),
            Export::Table(markup) => export::table(findings, question.unit, *markup),
            Export::Summary => text::summary(findings, question.unit),
        };
        let written = whole::write(path, text.as_bytes());
        failed = failed
            .or(written.err().map(|error| trouble(DatasetError::io("write", path)(error.into_source()))));
    }
    failed.map_or(Ok(()), |trouble| match trouble {
        Trouble::Failed(why) | Trouble::Usage(why) => {
            let said = text::versus(findings, &ringfence_text::Style::plain(100));
            Err(Trouble::Failed(format!("{why}; it was not kept:\n{said}")))
        }
        Trouble::Interrupted => Err(Trouble::Interrupted),
    })
}

struct Host<'a> {
    question: &'a Question,
    stop: &'a Arc<AtomicBool>,
    watch: &'a mut dyn Watch,
    began: Instant,
    not_counted: Option<String>,
}

impl Host<'_> {
    fn set_up(&self) -> Result<(), Trouble> {
        self.once("setup", |case| case.around.setup.as_ref())
    }

    // Also after an interruption, which is over then: what was set up is to be taken away.
    fn clean_up(&self) -> Result<(), Trouble> {
        let calm = Arc::new(AtomicBool::new(false));
        let mut done: Vec<&String> = Vec::new();
        let mut result = Ok(());
        for case in &self.question.cases {
            let Some(command) = case.around.cleanup.as_ref().filter(|command| !done.contains(command)) else {
                continue;
            };
            done.push(command);
            result = result.and(self.around("cleanup", command, case, 0, &calm));
        }
        result
    }

    // The same command line is not run twice.
    fn once(&self, what: &str, get: impl Fn(&Case) -> Option<&String>) -> Result<(), Trouble> {
        let mut done: Vec<&String> = Vec::new();
        for case in &self.question.cases {
            let Some(command) = get(case).filter(|command| !done.contains(command)) else { continue };
            done.push(command);
            self.around(what, command, case, 0, self.stop)?;
        }
        Ok(())
    }

    fn around(
        &self,
        what: &str,
        command: &str,
        case: &Case,
        number: u32,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Trouble> {
        let shell = match &self.question.shell {
            Shell::None => shell::default(),
            shell => shell.clone(),
        };
        let place = self.question.cases.iter().position(|one| one == case).unwrap_or(0);
        let output = match &self.question.outputs[place] {
            Output::Inherit => Output::Inherit,
            _ => Output::Null,
        };
        let run = What {
            words: shell.words(command).map_err(Trouble::Usage)?,
            input: None,
            output: &output,
            environment: iteration(number),
        };
        let ran = launch::around(&run, stop)?;
        match ran.took.succeeded() {
            true => Ok(()),
            false => Err(failed(
                &format!("--{what} '{command}'"),
                &ran,
                &format!("; if that does not matter: '{command} || true'"),
            )),
        }
    }

    // Each command once more, before anything is timed. Two runs of the first tell whether it always prints the same.
    fn same_output(&self) -> Result<(), Trouble> {
        if !self.question.same_output {
            return Ok(());
        }
        let io = |error: std::io::Error| Trouble::Failed(format!("comparing outputs: {error}"));
        let folder = Scratch::new().map_err(io)?;
        for group in groups(&self.question.cases) {
            let first = folder.0.join("first");
            self.printed(group[0], &first)?;
            for other in &group[1..] {
                let second = folder.0.join("second");
                self.printed(*other, &second)?;
                let Some(found) = same_output::difference(&first, &second).map_err(io)? else { continue };
                let [a, b] = [group[0], *other].map(|case| &self.question.cases[case].role);
                self.printed(group[0], &second)?;
                let itself = same_output::difference(&first, &second).map_err(io)?;
                let text = match itself {
                    Some(found) => format!(
                        "{a} prints something else each time, so that outputs cannot be compared: {}; leave --same-output out",
                        found.told("the first run", "the second run")
                    ),
                    None => format!("{a} and {b} do not print the same: {}", found.told(a, b)),
                };
                return Err(Trouble::Failed(text));
            }
        }
        Ok(())
    }

    fn printed(&self, case: usize, file: &Path) -> Result<(), Trouble> {
        self.case(case, 0, 0, &Output::File(file.into())).map(drop)
    }

    fn case(
        &self,
        number: usize,
        iteration_of: u32,
        offset: usize,
        output: &Output,
    ) -> Result<(u64, Ran), Trouble> {
        let case = &self.question.cases[number];
        if let Some(prepare) = &case.around.prepare {
            self.around("prepare", prepare, case, iteration_of, self.stop)?;
        }
        let began = unix_ns();
        let ran = self.timed(&case.command, iteration_of, offset, output)?;
        if !self.question.ignored.covers(&ran.took) {
            return Err(self.refused(case, &ran));
        }
        if let Some(conclude) = &case.around.conclude {
            self.around("conclude", conclude, case, iteration_of, self.stop)?;
        }
        Ok((began, ran))
    }

    fn refused(&self, case: &Case, ran: &Ran) -> Trouble {
        let shown = format!("{}, '{}'", case.role, printable(&case.command));
        let by_shell = self.question.shell != Shell::None;
        match ran.took.code {
            // sh(1): not found, and found but not executable.
            Some(127) if by_shell && ran.said.contains("not found") => {
                Trouble::Usage(format!("{shown}: {}", tail(&ran.said)))
            }
            _ => failed(&shown, ran, "; if that is as it should be: --ignore-failure"),
        }
    }

    fn timed(&self, command: &str, number: u32, offset: usize, output: &Output) -> Result<Ran, Trouble> {
        let mut environment = iteration(number);
        environment.push(("RINGFENCE_ENVIRONMENT_OFFSET".into(), "x".repeat(offset)));
        let run = What {
            words: self.question.shell.words(command).map_err(Trouble::Usage)?,
            input: self.question.input.as_deref(),
            output,
            environment,
        };
        launch::timed(&run, self.stop)
    }
}

impl Bench for Host<'_> {
    fn run(&mut self, slot: Slot, number: u32, offset: usize) -> Result<(u64, Took), Trouble> {
        let (began, ran) = match slot {
            Slot::Case(case) => self.case(case, number, offset, &self.question.outputs[case])?,
            Slot::Shell => {
                let began = unix_ns();
                let ran = self.timed("", number, offset, &Output::Null)?;
                if !ran.took.succeeded() {
                    return Err(failed(
                        &format!("the shell '{}' with nothing to do", self.question.shell.name()),
                        &ran,
                        "",
                    ));
                }
                (began, ran)
            }
        };
        self.not_counted = ran.not_counted;
        Ok((began, ran.took))
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn say(&mut self, said: Said) {
        match said {
            Said::WarmedUp(warmed) => self.watch.note(&text::warmed(&warmed)),
            Said::Announced(announced) => {
                self.watch.note(&text::announcement(&announced, &self.question.settings))
            }
            Said::Round(_, share) => self.watch.share(self.began, share),
        }
    }
}

// As hyperfine calls it, which scripts rely on.
fn iteration(number: u32) -> Vec<(String, String)> {
    vec![("HYPERFINE_ITERATION".into(), number.to_string())]
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn failed(what: &str, ran: &Ran, remedy: &str) -> Trouble {
    let how = match (ran.took.code, ran.took.signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended, nobody knows how".into(),
    };
    let said = tail(&ran.said);
    let said = if said.is_empty() { String::new() } else { format!("; the last it said:\n{said}") };
    Trouble::Failed(format!("{what} {how}{remedy}{said}"))
}

// The last lines.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    printable_lines(&last).into_owned()
}

// A folder that goes again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("ringfence-versus-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
