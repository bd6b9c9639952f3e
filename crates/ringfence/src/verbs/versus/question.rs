//! The question that flags ask.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_experiment::units::{Share, Span};
use ringfence_versus::Question;
use ringfence_versus::case::{self, cases};
use ringfence_versus::export::Markup;
use ringfence_versus::launch::Output;
use ringfence_versus::parameter::Parameter;
use ringfence_versus::question::{Export, Ignored};
use ringfence_versus::session::Settings;
use ringfence_versus::shell;

use crate::args::VersusFlags as Flags;

/// The question, checked.
///
/// # Errors
/// One sentence on what makes no sense.
pub fn question(flags: &Flags) -> Result<Question, String> {
    let parameters = parameters(flags)?;
    let commands = given(flags, parameters.is_empty())?;
    let output = if flags.show_output { vec!["inherit".to_string()] } else { flags.output.clone() };
    let asked = case::Asked {
        commands,
        names: flags.reference_name.iter().chain(&flags.command_name).cloned().collect(),
        parameters,
        setup: flags.setup.clone(),
        prepare: flags.prepare.clone(),
        conclude: flags.conclude.clone(),
        cleanup: flags.cleanup.clone(),
        output,
        dir: flags.dir.clone(),
    };
    let cases = cases(&asked)?;
    if let Some(slip) = cases.iter().find_map(|case| case::unfilled(case, &asked.parameters)) {
        return Err(slip);
    }
    for dir in cases.iter().filter_map(|case| case.around.dir.as_deref()) {
        if !Path::new(dir).is_dir() {
            return Err(format!("--dir: {dir} is not a folder: name the folder for the command"));
        }
    }
    if cases.len() == 1 {
        refuse_what_compares(flags)?;
    }
    let outputs =
        cases.iter().map(|case| Output::parse(case.around.output.as_deref().unwrap_or("null")));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let shell = if flags.no_shell { "none" } else { &flags.shell };
    let all: Vec<&str> = cases.iter().map(|case| case.command.as_str()).collect();
    let shell = shell::Asked::parse(shell)?.decide(&all);
    for command in &all {
        shell.words(command)?;
    }
    if let Some(input) = flags.input.as_deref().filter(|input| *input != Path::new("null")) {
        fs::File::open(input).map_err(|error| {
            format!(
                "--input: {} cannot be read: {error}; name a file that can be read",
                input.display()
            )
        })?;
    }
    Ok(Question {
        cases,
        outputs,
        settings: settings(flags)?,
        shell,
        input: flags.input.clone().filter(|input| input != Path::new("null")),
        ignored: ignored(flags.ignore_failure.as_deref())?,
        same_output: flags.same_output,
        label: flags.label.clone(),
        exports: different(exports(flags))?,
        unit: flags.time_unit.map(Into::into),
        sort: flags.sort.into(),
    })
}

fn ignored(text: Option<&str>) -> Result<Ignored, String> {
    match text {
        None => Ok(Ignored::None),
        Some("all-non-zero") => Ok(Ignored::All),
        Some(list) => {
            let codes: Result<Vec<i32>, _> =
                list.split(',').map(|code| code.trim().parse()).collect();
            codes.map(Ignored::These).map_err(|_| {
                format!(
                    "--ignore-failure: '{list}' is not a list of exit codes such as 1,2, nor \
                     all-non-zero"
                )
            })
        }
    }
}

// By their flags, or by their place.
fn given(flags: &Flags, two: bool) -> Result<Vec<String>, String> {
    if !flags.commands.is_empty() {
        return Ok(flags.a.iter().chain(&flags.commands).cloned().collect());
    }
    match (&flags.a, &flags.b) {
        (None, _) => {
            Err("--a is missing: give the command to compare with, and --b, or name commands \
                 without flags"
                .into())
        }
        (Some(_), None) if two => {
            Err("--b is missing: give the command to compare with --a, or name a single command \
                 without --a"
                .into())
        }
        _ => Ok(flags.a.iter().chain(&flags.b).chain(&flags.c).cloned().collect()),
    }
}

fn refuse_what_compares(flags: &Flags) -> Result<(), String> {
    let given = [("--budget", flags.budget.is_some()), ("--same-output", flags.same_output)];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(format!(
            "{flag}: a single command has nothing to compare with: give another command, \
             --parameter with at least two values, or leave {flag} out"
        )),
        None => Ok(()),
    }
}

/// Two commands or more.
pub fn commands(flags: &Flags) -> Result<Vec<String>, String> {
    let commands = given(flags, true)?;
    match commands.len() {
        0 | 1 => Err("a single command has nothing to compare with: give --b as well".into()),
        _ => Ok(commands),
    }
}

fn parameters(flags: &Flags) -> Result<Vec<Parameter>, String> {
    let mut all = Vec::new();
    for text in &flags.parameter {
        all.push(Parameter::parse(text).map_err(|why| format!("--parameter: {why}"))?);
    }
    for two in flags.parameter_list.chunks(2) {
        all.push(
            Parameter::list(&two[0], &two[1]).map_err(|why| format!("--parameter-list: {why}"))?,
        );
    }
    for three in flags.parameter_scan.chunks(3) {
        let step = flags.parameter_step_size.as_deref();
        let scan = Parameter::scan(&three[0], &three[1], &three[2], step);
        all.push(scan.map_err(|why| format!("--parameter-scan: {why}"))?);
    }
    for (place, one) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name == one.name) {
            return Err(format!(
                "the parameter '{}' is given twice: put its values into one list",
                one.name
            ));
        }
    }
    Ok(all)
}

pub fn settings(flags: &Flags) -> Result<Settings, String> {
    let share = |flag: &str, text: &Option<String>, example: &str| -> Result<Option<f64>, String> {
        let Some(text) = text else { return Ok(None) };
        let parsed: Result<Share, _> = text.parse();
        parsed.map(|share| Some(share.0)).map_err(|_| {
            format!(
                "--{flag}: '{text}' is not a share: write a percentage between 0% and 100%, such \
                 as {example}"
            )
        })
    };
    let time_s = match &flags.time {
        None => None,
        Some(text) => {
            let parsed: Result<Span, _> = text.parse();
            let span = parsed.map_err(|_| {
                format!(
                    "--time: '{text}' is not a duration: write a number with ns, us, ms, s, \
                         min or h, such as 60s"
                )
            })?;
            if span.0.is_zero() {
                return Err("--time must be above 0, such as 60s".into());
            }
            Some(span.0.as_secs_f64())
        }
    };
    let default = Settings::default();
    let margin = share("margin", &flags.margin, "1%")?.unwrap_or(default.margin);
    let confidence = share("confidence", &flags.confidence, "95%")?.unwrap_or(default.confidence);
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err("--confidence must be above 0% and below 100%, such as 95%".into());
    }
    if margin <= 0.0 {
        return Err("--margin must be above 0%, such as 1%".into());
    }
    if flags.runs == Some(0) || flags.max_runs == Some(0) {
        return Err("0 runs measure nothing: a figure needs at least 4 runs".into());
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

// Two exports to one file would leave one of them.
fn different(exports: Vec<(PathBuf, Export)>) -> Result<Vec<(PathBuf, Export)>, String> {
    for (place, (path, _)) in exports.iter().enumerate() {
        if exports[..place].iter().any(|(other, _)| other == path) {
            return Err(format!(
                "{} is named for two exports: name a file for each",
                path.display()
            ));
        }
    }
    Ok(exports)
}

pub fn exports(flags: &Flags) -> Vec<(PathBuf, Export)> {
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
