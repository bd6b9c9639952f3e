//! Pages, without the parts that are the same in all of them: style, script, charting library.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_analysis::latency::CaseLatencies;
use ringfence_dataset::{Dataset, Recorder};
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::{self, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Flush, Instruction};
use ringfence_machine::Machine;
use ringfence_machine::doctor::{Finding, Severity};
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;
use ringfence_report::html::{self, Digest, Page};
use ringfence_studies::fixtures::survey_in;
use ringfence_studies::survey::Survey;

pub const HOSTILE: &str = "</script><img src=x onerror=\"document.title='hit'\">&<!--\u{202e}";

/// A page with ordinary spaces in its figures.
pub fn spaced(page: &Page) -> String {
    html::page(page).replace('\u{a0}', " ")
}

/// Compares with `tests/golden-html/NAME.html`, an element a line; `RINGFENCE_BLESS=1` writes it
/// anew. Hands back the page with ordinary spaces in its figures.
#[track_caller]
pub fn check(name: &str, page: &Page) -> String {
    let text = html::page(page);
    if let Some(folder) = std::env::var_os("RINGFENCE_PAGES") {
        fs::write(Path::new(&folder).join(format!("{name}.html")), &text).unwrap();
    }
    sound(name, &text);
    let (head, rest) = text.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, _) = rest.split_once("<script type=\"text/plain\" id=\"licences\">").unwrap();
    let lines = format!("{head}{body}\n").replace("><", ">\n<").replace("],[", "],\n[");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden-html/{name}.html"));
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(lines == expected, "{} differs; RINGFENCE_BLESS=1 accepts it", path.display());
    spaced(page)
}

/// What holds for every page.
#[track_caller]
fn sound(name: &str, text: &str) {
    assert!(text.len() < 2_000_000, "{name} has {} bytes", text.len());
    assert!(text.starts_with("<!DOCTYPE html>"), "{name}");
    // What is the page's own: the licences name addresses, and the library the names of XML.
    let (head, rest) = text.split_once("<script type=\"text/plain\" id=\"licences\">").unwrap();
    let script = rest.rsplit_once("<script>").unwrap().1;
    for own in [head, script] {
        for address in ["http:", "https:", "src=\"", "url(", "@import", "<link rel=\"stylesheet"] {
            assert!(!own.contains(address), "{name} holds {address}");
        }
        for word in ["NaN", ">inf", "infinity"] {
            assert!(!own.contains(word), "{name} holds {word}");
        }
    }
    // Four scripts of ours (licences, library, page) and one with JSON for each figure.
    let figures = text.matches("<div class=\"chart\"").count();
    assert_eq!(head.matches("<script").count(), figures, "{name}");
    assert_eq!(head.matches("<figure>").count(), figures, "{name}");
    assert_eq!(
        head.matches("<details class=\"numbers\">").count(),
        figures,
        "{name}: each has its table"
    );
    accessible(name, head);
}

// Headings go down one step at a time, tables say what they are, buttons have names, and no line
// ends in a figure.
#[track_caller]
fn accessible(name: &str, head: &str) {
    let levels: Vec<u8> = head
        .match_indices("<h")
        .filter_map(|(at, _)| {
            let level = head.as_bytes()[at + 2];
            (level.is_ascii_digit() && matches!(head.as_bytes()[at + 3], b' ' | b'>'))
                .then_some(level - b'0')
        })
        .collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{name}: {levels:?}");
    assert!(
        levels[0] == 1 && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{name}: {levels:?}"
    );
    assert_eq!(head.matches("<table>").count(), head.matches("<table><caption").count(), "{name}");
    assert_eq!(
        head.matches("<table>").count(),
        head.matches("<div class=\"scroll\" tabindex=\"0\"").count(),
        "{name}"
    );
    for button in head.split("<button").skip(1) {
        let (tag, rest) = button.split_once('>').unwrap();
        assert!(
            tag.contains("aria-label=") || !rest.starts_with("</button>"),
            "{name}: <button{button}"
        );
    }
    for (at, _) in head.match_indices(" %") {
        assert!(
            !head[..at].ends_with(|c: char| c.is_ascii_digit()),
            "{name}: {}",
            &head[at.saturating_sub(40)..at]
        );
    }
}

fn zen(victim: &str, instruction: Instruction, paced: bool) -> f64 {
    match (victim, instruction) {
        ("chase", Instruction::Flush(Flush::Clwb)) => 12.0,
        ("chase", Instruction::Flush(Flush::Clflush)) if !paced => 1.08,
        _ => 1.0,
    }
}

pub fn digest(dataset: &Dataset) -> Digest {
    let mut digest = Digest::new(dataset);
    fixed(&mut digest);
    digest
}

// What differs from run to run, and more points than a person compares.
fn fixed(digest: &mut Digest) {
    digest.folder = format!("folder-of-{}", digest.findings.plan.experiment.name);
    digest.manifest.created = "2026-01-02T03:04:05Z".into();
    digest.manifest.version = "0.0.0".into();
    digest.findings.timeline.points.truncate(3);
    if let Some(machine) = &mut digest.machine {
        machine.findings = findings();
    }
}

fn findings() -> Vec<Finding> {
    vec![Finding {
        id: "made-up".into(),
        severity: Severity::Serious,
        title: "Something is wrong".into(),
        cause: "a cause".into(),
        consequence: "a consequence".into(),
        remedy: String::new(),
        evidence: "some file".into(),
    }]
}

fn zen_survey(dir: &Path) -> (Survey, Vec<Digest>) {
    survey_in(dir, zen);
    let mut digests = Vec::new();
    let mut survey = Survey::open(dir, |dataset| digests.push(digest(dataset))).unwrap();
    survey.machine.findings = findings();
    (survey, digests)
}

fn says(text: &str, part: &str) -> bool {
    text.contains(part)
}

#[test]
fn a_survey() {
    let dir = tempfile::tempdir().unwrap();
    let (mut survey, digests) = zen_survey(dir.path());
    survey.not_run = vec!["made up, because this machine has none".into()];
    let text = check("survey", &html::survey(&survey, &digests));
    assert!(says(&text, "Which flush should I use here"));
    // The frontier of the victim that is harmed comes first.
    assert!(text.find("slowdown of chase").unwrap() < text.find("slowdown of mcf").unwrap());
}

#[test]
fn a_survey_without_anything() {
    let dir = tempfile::tempdir().unwrap();
    let (mut survey, _) = zen_survey(dir.path());
    survey.cost.clear();
    survey.parts.clear();
    survey.neighbours.clear();
    survey.files.clear();
    survey.probes.round_trips.clear();
    survey.probes.caches.clear();
    survey.probes.reloads = Default::default();
    survey.ended_early = Some("interrupted".into());
    survey.conclude();
    let text = check("survey-empty", &html::survey(&survey, &[]));
    assert!(says(&text, "The survey ended early: interrupted"));
}

#[test]
fn datasets_one_by_one_and_together() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut digests) = zen_survey(dir.path());
    digests[1].findings.latencies = crate::latencies::made_up();
    digests[1].findings.scale = Some(crate::latencies::SCALE);
    let text = check("dataset-costs", &html::datasets(&digests[..1]));
    assert!(says(&text, "There is no frontier here"));
    let text = check("dataset-neighbours", &html::datasets(&digests[1..2]));
    assert!(says(&text, "The victim is slower next to 2 of 9"));
    let text = html::page(&html::datasets(&digests[..2]));
    sound("two", &text);
    for folder in ["folder-of-cost", "folder-of-neighbours-chase"] {
        assert!(says(&text, &format!("{folder}</h2>")));
    }
}

/// An experiment whose every trial is one pair, measured as told by `units`.
pub fn measured(dir: &Path, text: &str, units: impl Fn(u32, usize) -> u64) -> PathBuf {
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let mut plan = Plan::new(&Experiment::parse(text).unwrap(), &topology, None).unwrap();
    plan.not_run.clear();
    let machine =
        serde_json::to_value(Machine::examine(&fixtures::vm_2cpu().root()).unwrap()).unwrap();
    let folder = dir.join("made");
    let mut recorder = Recorder::create(&folder, &plan, &machine).unwrap();
    let mut start_ns = 0;
    for trial in 0..*plan.experiment.measure.looks.last().unwrap() {
        for (round, steps) in plan::trial(&plan, trial).rounds.into_iter().enumerate() {
            for (step, planned) in steps.iter().enumerate() {
                let mut samples = Vec::new();
                for (position, &case) in planned.windows.iter().enumerate() {
                    start_ns += 10_000_000;
                    let active = plan.cases[case].active.iter();
                    samples.extend(active.map(|active| Sample {
                        trial,
                        round: round as u32,
                        step: step as u32,
                        position: position as u32,
                        step_case: planned.case as u32,
                        case: case as u32,
                        role: plan.experiment.roles[active.role].name.as_str().into(),
                        cpu: active.role as u32,
                        start_ns,
                        length_ns: 1_000_000,
                        busy_ns: 1_000_000,
                        units: units(trial, case),
                        ..Sample::default()
                    }));
                }
                recorder.append(&samples).unwrap();
            }
        }
    }
    recorder.finish(&Ended::Complete).unwrap();
    folder
}

#[test]
fn an_aa_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = 2\nname = 'aa'\nmetric = 'victim'\naa = 5\n[measure]\nlooks = \
                [10]\nrounds = 1\n\
        [[role]]\nname = 'victim'\ntask = { workload = 'alu' }\n\
        [[arm]]\nname = 'first'\nactive = ['victim']\n[[arm]]\nname = 'again'\nactive = \
        ['victim']\nbaseline = 'first'\n";
    let folder = measured(dir.path(), text, |trial, case| {
        1000 + (u64::from(trial) * 7 + case as u64 * 3) % 5
    });
    let page = check("dataset-aa", &html::datasets(&[digest(&Dataset::open(&folder).unwrap())]));
    assert!(says(&page, "A/A: the same task in both arms"));
}

#[test]
fn names_from_files_are_text() {
    let dir = tempfile::tempdir().unwrap();
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let text = format!(
        "schema = 2\nname = \"hostile\"\nquestion = {quoted}\nmetric = {quoted}\n[measure]\nlooks \
         = [3]\nrounds = 1\n\
        [[role]]\nname = {quoted}\ntask = {{ workload = 'alu' }}\n\
        [[role]]\nname = 'aggressor'\n[[role.task]]\nworkload = 'command'\nrun = \
        [{run}]\n[[role.task]]\nworkload = 'write'\ninstruction = 'nt'\n\
        [[arm]]\nname = {quoted}\nactive = [{quoted}]\n[[arm]]\nname = 'beside'\nactive = \
        [{quoted}, 'aggressor']\nbaseline = {quoted}\n",
        run = serde_json::to_string(&format!("echo '{}'", HOSTILE.replace(['\'', '"', '\\'], "")))
            .unwrap(),
    );
    let folder =
        measured(dir.path(), &text, |trial, case| 1000 + u64::from(trial) + 10 * case as u64);
    let mut digest = digest(&Dataset::open(&folder).unwrap());
    digest.folder = HOSTILE.into();
    let one = crate::latencies::made_up().remove(0);
    digest.findings.latencies = vec![CaseLatencies {
        arm: HOSTILE.into(),
        label: HOSTILE.into(),
        role: HOSTILE.into(),
        ..one
    }];
    digest.machine.as_mut().unwrap().findings[0].title = HOSTILE.into();
    let page = check("dataset-hostile", &html::datasets(&[digest.clone()]));
    let several = html::page(&html::datasets(&[digest.clone(), digest]));
    for page in [page, several] {
        let own = page.split_once("id=\"licences\"").unwrap().0;
        assert!(!own.contains("<img") && !own.contains("<!--"));
        // The experiment's file alone is as it was.
        let (before, after) = own.split_once("<pre>").unwrap();
        let (file, after) = after.split_once("</pre>").unwrap();
        assert!(!before.contains('\u{202e}') && file.contains('\u{202e}'));
        assert!(
            !after.split_once("<pre>").map_or(after, |(between, _)| between).contains('\u{202e}')
        );
    }
}
