//! The pages that `report` and other verbs write: one file that a browser opens offline, with all
//! its figures, no error, no request to any network, and nothing in it that a name could turn into
//! markup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_experiment::task::{Flush, Instruction};
use ringfence_studies::fixtures::survey_in;
use serde_json::Value;

use crate::support::{self, Folder, Output, Running, ringfence_in, skip};

const LARGEST: u64 = 2_000_000;
const HOSTILE: &str = "</script><img src=x onerror=document.title=1>";

// Moves over each figure until a hover text shows.
const HOVER: &str = r#"
for (const box of document.querySelectorAll(".chart")) {
  const host = box.querySelector("svg").parentElement;
  const at = host.getBoundingClientRect();
  over: for (let y = 4; y < at.height; y += 4) for (let x = 4; x < at.width; x += 4) {
    const place = { clientX: at.x + x, clientY: at.y + y, bubbles: true };
    host.dispatchEvent(new PointerEvent("pointermove", place));
    host.dispatchEvent(new MouseEvent("mousemove", place));
    if (box.querySelector(".tip")) break over;
  }
}
"#;

fn zen(victim: &str, instruction: Instruction, paced: bool) -> f64 {
    match (victim, instruction) {
        ("chase", Instruction::Flush(Flush::Clwb)) => 12.0,
        ("chase", Instruction::Flush(Flush::Clflush)) if !paced => 1.08,
        _ => 1.0,
    }
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    names
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}

/// What a browser made of a page.
struct Opened {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

fn open(browser: &Path, page: &Path) -> Opened {
    let folder = Folder::new();
    let log = folder.path().join("net.json");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-sync",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--enable-logging=stderr",
    ]);
    // The browser has errands of its own; they go nowhere.
    command.arg("--host-resolver-rules=MAP * ~NOTFOUND");
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg(format!("--log-net-log={}", log.display()));
    command.arg("--dump-dom").arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Output { stdout: dom, stderr, .. } = Running::spawn(command, "a-browser".into()).wait();
    let console =
        stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    Opened { dom, console, requests: requests(&fs::read_to_string(log).unwrap()) }
}

// Requests that the page made; those of the browser itself have no origin.
fn requests(log: &str) -> Vec<String> {
    let log: Value = serde_json::from_str(log).unwrap();
    let start = &log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
    assert!(start.is_u64(), "the log's format has changed");
    let events = log["events"].as_array().unwrap().iter();
    let own = events.filter(|event| {
        event["type"] == *start
            && event["params"]["url"].is_string()
            && event["params"]["initiator"] != "not an origin"
    });
    own.map(|event| event["params"]["url"].as_str().unwrap().to_owned())
        .filter(|url| !url.starts_with("data:") && !url.starts_with("file:"))
        .collect()
}

#[track_caller]
fn sound(browser: &Path, page: &Path) -> String {
    assert!(fs::metadata(page).unwrap().len() < LARGEST);
    let text = fs::read_to_string(page).unwrap();
    let figures = text.matches("<div class=\"chart\"").count();
    assert!(figures > 0);
    let opened = open(browser, page);
    assert!(opened.console.is_empty(), "{:#?}", opened.console);
    assert!(opened.requests.is_empty(), "{:#?}", opened.requests);
    assert!(opened.dom.contains(&format!("data-drawn=\"{figures}\"")));
    let unfolded = opened.dom.matches("<svg").count();
    assert!((1..=figures).contains(&unfolded), "{unfolded} of {figures}");
    // Without its policy it asks for nothing either, also when all is unfolded, and when a hover
    // text stands over each figure.
    let folder = Folder::new();
    let bare = folder.path().join("bare.html");
    let (before, after) = text.split_once("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let after = after.replace("</body>", &format!("<script>{HOVER}</script></body>"));
    let after = after.replace("<details", "<details open");
    fs::write(&bare, format!("{before}<meta name=\"x\"{after}")).unwrap();
    let hovered = open(browser, &bare);
    assert!(hovered.console.is_empty(), "{:#?}", hovered.console);
    assert!(hovered.requests.is_empty(), "{:#?}", hovered.requests);
    assert_eq!(hovered.dom.matches("<svg").count(), figures, "every figure is drawn");
    hovered.dom
}

// What the tests below look for would be seen.
fn broken_pages_are_noticed(browser: &Path, page: &Path) {
    let folder = Folder::new();
    let broken = folder.path().join("broken.html");
    let text = fs::read_to_string(page).unwrap();
    let policy = text.split_once("<meta http-equiv").unwrap().1.split_once('>').unwrap().0;
    let text = text.replace(&format!("<meta http-equiv{policy}>"), "");
    let bad =
        "<img src=\"http://127.0.0.1:9/x\"><script>throw new Error('deliberate')</script></body>";
    fs::write(&broken, text.replace("</body>", bad)).unwrap();
    let opened = open(browser, &broken);
    assert!(opened.console.iter().any(|line| line.contains("deliberate")), "{:#?}", opened.console);
    assert_eq!(opened.requests, ["http://127.0.0.1:9/x"]);
}

#[test]
fn a_survey_opens_in_a_browser() {
    let folder = Folder::new();
    let dir = folder.path().join("survey");
    survey_in(&dir, zen);
    let said = ringfence_in(folder.path(), &["report", "survey"]);
    assert_eq!(said.ok().trim(), "report: survey/report.html");
    let page = dir.join("report.html");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Which flush should I use here"));
    // Three frontiers, three heat maps, two matrices, nine time lines, reloads, two of files.
    assert_eq!(text.matches("<div class=\"chart\"").count(), 20);
    let shown = ringfence_in(folder.path(), &["show", "survey"]);
    assert!(shown.ok().contains("On this machine:"));
    let Some(browser) = browser() else { return skip("there is no Chromium") };
    let dom = sound(&browser, &page);
    assert_eq!(dom.matches("<div class=\"tip\">").count(), 20, "hovering shows numbers");
    broken_pages_are_noticed(&browser, &page);
}

// Measures with a verb that leaves a page, which it names, and which `report` writes again.
fn page_of(folder: &Folder, args: &[&str]) -> PathBuf {
    let args = [args, &["--settle=0ms", "--quiet", "--out=data"]].concat();
    let said = ringfence_in(folder.path(), &args);
    // A proof on a noisy machine may have another verdict, and a page all the same.
    assert!(matches!(said.code(), Some(0 | 3 | 4)), "{}", said.stderr);
    assert!(
        said.stdout.contains("report: data/report.html; open it in a browser"),
        "{}",
        said.stdout
    );
    let page = folder.path().join("data/report.html");
    let left = fs::read(&page).unwrap();
    ringfence_in(folder.path(), &["report", "data"]).ok();
    assert!(left == fs::read(&page).unwrap(), "the same page again");
    page
}

#[test]
fn answers_of_other_verbs_open_in_a_browser() {
    if support::cpus().len() < 2 {
        return skip("tasks beside each other need two CPUs");
    }
    let verbs: [(&[&str], &str); 3] = [
        (
            &[
                "prove",
                "--victim=alu",
                "--aggressor=alu",
                "--budget=100%",
                "--trials=4",
                "--window=5ms",
            ],
            "Does 'alu' slow 'alu' down by more than 100 %?",
        ),
        (
            &[
                "pair",
                "--task=alu",
                "--task=chase footprint=64KiB",
                "--task=alu",
                "--trials=4",
                "--window=2ms",
            ],
            "Which tasks should share a core or a cache?",
        ),
        (
            &[
                "sensitivity",
                "--victim=alu",
                "--polluter=write,chase",
                "--footprint=64KiB,256KiB",
                // Enough that a hiccup of the machine leaves an interval that can be drawn.
                "--trials=8",
                "--window=5ms",
            ],
            "From which footprint on does a polluter slow the victim down",
        ),
    ];
    for (args, question) in verbs {
        let folder = Folder::new();
        let page = page_of(&folder, args);
        let text = fs::read_to_string(&page).unwrap().replace('\u{a0}', " ");
        assert!(text.contains(question), "{args:?}");
        let Some(browser) = browser() else { return skip("there is no Chromium") };
        assert!(sound(&browser, &page).contains("<div class=\"tip\">"), "{args:?}");
    }
}

#[test]
fn a_comparison_opens_in_a_browser() {
    let folder = Folder::new();
    for out in ["one", "two"] {
        let args =
            ["write", "--instruction=clflush,none", "--block=4KiB", "--size=1MiB", "--trials=4"];
        let more = ["--rounds=1", "--probe=0ms", "--window=2ms", "--quiet", "--out", out];
        ringfence_in(folder.path(), &[&args[..], &more].concat()).ok();
    }
    ringfence_in(folder.path(), &["compare", "one", "two", "--html", "page.html"]).ok();
    let page = folder.path().join("page.html");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("before: one · after: two") && text.contains("write clflush"));
    let Some(browser) = browser() else { return skip("there is no Chromium") };
    assert!(sound(&browser, &page).contains("<div class=\"tip\">"));
    // On a machine so noisy that no figure is known, the words that say so can be asked as well.
    let (start, rest) = text.split_once("<script type=\"application/json\">").unwrap();
    let (chart, end) = rest.split_once("</script>").unwrap();
    let mut chart: Value = serde_json::from_str(chart).unwrap();
    for row in chart["rows"].as_array_mut().unwrap() {
        row["figure"] = Value::Null;
    }
    fs::write(&page, format!("{start}<script type=\"application/json\">{chart}</script>{end}"))
        .unwrap();
    assert!(sound(&browser, &page).contains("<div class=\"tip\">"));
}

#[test]
fn long_names_of_hosts_are_wrapped_and_not_cut() {
    let folder = Folder::new();
    let write = [
        "write",
        "--instruction=nt",
        "--block=4KiB",
        "--size=1MiB",
        "--trials=4",
        "--machine=laptop",
    ];
    let submit = ["fleet", "submit", "fleet", "--local", "2", "--"];
    ringfence_in(folder.path(), &[&submit[..], &write].concat()).ok();
    let names = [1, 2].map(|number| {
        let part = "a-long-name-that-goes-on-and-on-";
        format!("node-{number}.{}.example.org", part.repeat(4).trim_end_matches('-'))
    });
    for (number, name) in (1..).zip(&names) {
        let path = folder.path().join(format!("fleet/tasks/{number:04}/attempt-1/host.json"));
        let mut facts: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        facts["node"] = name.as_str().into();
        fs::write(&path, facts.to_string()).unwrap();
    }
    ringfence_in(folder.path(), &["fleet", "report", "fleet", "--html", "page.html"]).ok();
    let Some(browser) = browser() else { return skip("there is no Chromium") };
    let dom = sound(&browser, &folder.path().join("page.html"));
    let drawn = dom.split_once("<svg").unwrap().1.split_once("</svg>").unwrap().0;
    let texts = drawn.split("<text").skip(1).map(|text| {
        let text = text.split_once('>').unwrap().1;
        text.split_once("</text>").unwrap().0.trim()
    });
    let lines: Vec<&str> = texts.collect();
    let joined = lines.concat();
    assert!(names.iter().all(|name| joined.contains(name)), "{lines:?}");
    assert!(!joined.contains('…') && !lines.iter().any(|line| names.contains(&(*line).to_owned())));
}

#[test]
fn hostile_names_of_a_real_run_are_inert() {
    let folder = Folder::new();
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let experiment = format!(
        "schema = 2\nname = 'hostile'\nquestion = {quoted}\nmetric = {quoted}\n\
        [measure]\nlooks = [2]\nrounds = 1\nwindow = '2ms'\nsettle = '1ms'\n\
        [[role]]\nname = {quoted}\ntask = {{ workload = 'chase', footprint = '64KiB', histogram = \
        true }}\n\
        [[role]]\nname = 'aggressor'\n[[role.task]]\nworkload = 'command'\n\
        run = \"sh -c 'while :; do :; done' '{HOSTILE}'\"\n\
        [[role.task]]\nworkload = 'write'\ninstruction = 'none'\nsize = '1MiB'\n\
        [[arm]]\nname = {quoted}\nactive = [{quoted}]\n\
        [[arm]]\nname = 'beside'\nactive = [{quoted}, 'aggressor']\nbaseline = {quoted}\n"
    );
    fs::write(folder.path().join("hostile.toml"), experiment).unwrap();
    ringfence_in(folder.path(), &["run", "hostile.toml", "--out", "data", "--quiet"]).ok();
    if support::cpus().len() > 1 {
        assert!(folder.path().join("data/latencies.parquet").exists());
    }
    ringfence_in(folder.path(), &["report", "data", "--out", "page.html"]).ok();
    let page = folder.path().join("page.html");
    let own = fs::read_to_string(&page).unwrap();
    assert!(!own.contains("<img") && own.contains("&lt;img"));
    let Some(browser) = browser() else { return skip("there is no Chromium") };
    if support::cpus().len() < 2 {
        return skip("there is one CPU: nothing is measured, and no figure drawn");
    }
    let dom = sound(&browser, &page);
    assert!(
        dom.contains("<div class=\"tip\">")
            && !dom.contains("<img")
            && dom.contains("<title>hostile · Ringfence</title>")
    );
}

#[test]
fn a_report_replaces_reports_alone() {
    let folder = Folder::new();
    let refused = |args: &[&str], part: &str| {
        let said = ringfence_in(folder.path(), args);
        assert_eq!(said.code(), Some(2), "{args:?}: {}", said.stderr);
        assert!(
            said.stderr.contains(part) && said.stderr.trim().lines().count() == 1,
            "{}",
            said.stderr
        );
    };
    refused(&["report", "absent"], "name the folder of a dataset");
    refused(&["report", "."], "no dataset here");
    survey_in(&folder.path().join("survey"), zen);
    let page = folder.path().join("survey/report.html");
    for _ in 0..2 {
        ringfence_in(folder.path(), &["report", "survey"]).ok();
    }
    fs::write(&page, "my own notes").unwrap();
    refused(&["report", "survey"], "not a report of Ringfence");
    assert_eq!(fs::read_to_string(&page).unwrap(), "my own notes");
    refused(&["report", "survey", "--out", "survey"], "not an ordinary file");
    refused(&["report", "survey", "--out", "absent/page.html"], "cannot be written");
    // One dataset of it, and several that are not a survey.
    ringfence_in(folder.path(), &["report", "survey/cost", "--out", "one.html"]).ok();
    fs::remove_file(folder.path().join("survey/survey.json")).unwrap();
    ringfence_in(folder.path(), &["report", "survey", "--out", "all.html"]).ok();
    let all = fs::read_to_string(folder.path().join("all.html")).unwrap();
    assert!(all.contains("9 datasets") && all.contains("neighbours-mcf-paced</h2>"));
    // What is damaged is bad input, and leaves the old page.
    fs::write(folder.path().join("survey/cost/experiment.toml"), "nonsense").unwrap();
    let before = fs::read(folder.path().join("one.html")).unwrap();
    let said = ringfence_in(folder.path(), &["report", "survey/cost", "--out", "one.html"]);
    assert_eq!(said.code(), Some(2), "{}", said.stderr);
    assert_eq!(fs::read(folder.path().join("one.html")).unwrap(), before);
    let left: Vec<String> =
        folder.entries().into_iter().filter(|name| name.contains("tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

// A page is much longer than the figures, so that a limit on files' lengths hits it alone.
#[test]
fn a_page_that_cannot_be_written_does_not_hide_the_answer() {
    use std::os::unix::process::CommandExt;
    if support::cpus().len() < 2 {
        return skip("tasks beside each other need two CPUs");
    }
    let folder = Folder::new();
    let args = [
        "sensitivity",
        "--victim=alu",
        "--footprint=64KiB",
        "--trials=4",
        "--window=2ms",
        "--out=data",
    ];
    let (mut command, mark) = support::command(folder.path(), &args);
    // SAFETY: `signal` and `setrlimit` are bare system calls; the limit lives on the closure's
    // stack.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 300 << 10, rlim_max: 300 << 10 };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = support::Running::spawn(command, mark).wait();
    assert!(output.ok().contains("dataset: data"), "{}", output.stdout);
    assert!(
        output
            .stderr
            .contains("ringfence: no report was written: data/report.html cannot be written"),
        "{}",
        output.stderr
    );
    assert!(!folder.path().join("data/report.html").exists());
}
