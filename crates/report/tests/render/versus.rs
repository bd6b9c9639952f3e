//! Pages of commands that were run whole, on made series.

use ringfence_experiment::Error;
use ringfence_report::versus::versus;
use ringfence_report::{Style, html};
use ringfence_versus::case::{Asked, cases};
use ringfence_versus::findings::{About, Findings, findings};
use ringfence_versus::order::Slot;
use ringfence_versus::parameter::Parameter;
use ringfence_versus::run::{Run, Took};
use ringfence_versus::session::{Announced, Measured, Settings, Warmed, interrupted};

use crate::golden;
use crate::html::{HOSTILE, check, spaced};

const WARM_UP: u32 = 3;

/// Commands of which each takes so many times 20 ms, and is up to 1 % off from round to round; the
/// first rounds are warm-up.
struct Series<'a> {
    asked: Asked,
    rounds: u32,
    settings: Settings,
    shell: bool,
    trouble: Option<Error>,
    factor: &'a dyn Fn(usize, u32) -> f64,
}

impl Series<'_> {
    fn of(commands: &[&str], factor: &'static dyn Fn(usize, u32) -> f64) -> Self {
        let commands = commands.iter().map(|text| text.to_string()).collect();
        let asked = Asked { commands, ..Asked::default() };
        Self {
            asked,
            rounds: 24,
            settings: Settings::default(),
            shell: false,
            trouble: None,
            factor,
        }
    }

    fn found(self) -> (Findings, Vec<Run>) {
        let cases = cases(&self.asked).unwrap();
        let shell = self.shell.then_some(Slot::Shell);
        let slots: Vec<Slot> = (0..cases.len()).map(Slot::Case).chain(shell).collect();
        let mut runs = Vec::new();
        for round in 1..=self.rounds {
            for (place, slot) in slots.iter().enumerate() {
                let (number, factor) = match slot {
                    Slot::Case(number) => (*number, (self.factor)(*number, round)),
                    Slot::Shell => (slots.len(), 0.05),
                };
                let off = mixed(u64::from(round) << 8 | number as u64) % 201;
                let cold = if round <= WARM_UP { 1.3 } else { 1.0 };
                let wall = 20e6 * cold * factor * (0.99 + off as f64 / 10_000.0);
                runs.push(Run {
                    slot: *slot,
                    round,
                    place: place as u32,
                    warm_up: round <= WARM_UP,
                    began_unix_ns: 0,
                    took: Took {
                        wall_ns: wall as u64,
                        user_ns: (wall * 0.8) as u64,
                        system_ns: (wall * 0.1) as u64,
                        peak_memory: (24 << 20) + off * 4096 + ((number as u64) << 20),
                        memory_floor: 3 << 20,
                        minor_faults: 1000 + off,
                        voluntary_switches: 3,
                        instructions: (!self.shell).then_some((wall * 3.0) as u64),
                        code: Some(i32::from(self.shell && number == 1 && round == 9)),
                        ..Took::default()
                    },
                });
            }
        }
        let comparisons = cases.len() - cases.iter().map(|case| case.group).max().unwrap() - 1;
        let measured = Measured {
            runs,
            warmed: Some(Warmed {
                dropped: WARM_UP,
                measured: true,
                still_falling: false,
                unknown: false,
            }),
            announced: None::<Announced>,
            levels: vec![0.95; comparisons],
            trouble: self.trouble,
            seconds: f64::from(self.rounds) * 0.05,
        };
        let about = About {
            label: Some("c0ffee".into()),
            host: "ci-7".into(),
            began: "2026-01-02T03:04:05Z".into(),
            shell: if self.shell { "sh" } else { "none" }.into(),
            not_counted: self.shell.then(|| "the kernel offers no counters here".into()),
        };
        (findings(&cases, &self.settings, about, &measured), measured.runs)
    }
}

// The finalizer of splitmix64: what looks random, and is the same each time.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

fn budget(share: f64) -> Settings {
    Settings { budget: Some(share), ..Settings::default() }
}

// The part of a page that says something of its own.
fn own(page: &str) -> &str {
    page.split_once("id=\"licences\"").unwrap().0
}

#[test]
fn two_commands_and_a_budget() {
    let commands = ["./old input", "./new input"];
    let factor = &|case, _| if case == 1 { 1.05 } else { 1.0 };
    let series =
        |share| Series { settings: budget(share), ..Series::of(&commands, factor) }.found();
    let (found, runs) = series(0.02);
    golden::check_both("versus", |style| versus(&found, style));
    let page = check("versus", &html::versus(&found, &runs));
    // The answer, with figure, interval and budget.
    let ratio = found.comparisons[0].ratio.estimate().unwrap();
    let figure = ringfence_report::numbers::slowdown_figure(&ratio);
    let share = figure.value.trim_start_matches('+');
    let answer = format!(
        "<h1>b (./new input) takes {share} longer than a (./old input) {}: over the \
         budget of 2 %.</h1>",
        figure.interval
    );
    assert!(page.contains(&answer), "{answer}");
    assert!(page.contains("OVER BUDGET") && page.contains("\"mark\":[1.02,\"budget\"]"));
    // A point for each run, and none for a run that was not.
    let points = page.split_once("\"points\":[[").unwrap().1.split_once("]]").unwrap().0;
    assert_eq!(points.matches("],[").count() + 1, runs.len());
    for told in ["peak memory", "instructions", "minor page faults", "3 rounds dropped as warm-up"]
    {
        assert!(page.contains(told), "{told}");
    }
    // Instructions grow with the time here; what is alike is not among what differs.
    let differs = page.split_once("Ratios whose interval excludes 1").unwrap().1;
    let differs = differs.split_once("</table>").unwrap().0;
    assert!(differs.contains("instructions") && !differs.contains("voluntary"), "{differs}");
    let (found, runs) = series(0.1);
    assert!(spaced(&html::versus(&found, &runs)).contains("]: within the budget of 10 %.</h1>"));
}

#[test]
fn a_dozen_long_commands_in_a_shell() {
    let long = |n: usize| {
        format!(
            "./target/release/server \
             --config=/srv/one/very/long/path/without/a/space/{n}/config.toml --requests 100000 \
             --connections {n} | sort | uniq -c {HOSTILE}"
        )
    };
    let commands: Vec<String> = (0..12).map(long).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let factor = &|case: usize, round: u32| match (case, round) {
        (11, _) => 1.3,
        (4, 12) => 6.0,
        (case, _) => 1.0 + case as f64 / 1000.0,
    };
    let series = Series { shell: true, settings: budget(0.05), ..Series::of(&commands, factor) };
    let (found, runs) = series.found();
    golden::check_both("versus-many", |style| versus(&found, style));
    let page = check("versus-many", &html::versus(&found, &runs));
    assert!(page.contains(
        "Of 11 comparisons 10 are within the budget of 5 % and 1 is \
                           over it; the largest ratio: l takes"
    ));
    assert!(page.contains("b: 1 of 21 runs failed: exit code other than 0, or a signal."));
    assert!(
        page.contains("The shell, sh, takes")
            && page.contains("because the kernel offers no counters")
    );
    // Text from outside stays text, and stands in the page whole.
    let own = own(&page);
    assert!(!own.contains("<img") && !own.contains("<!--") && !own.contains('\u{202e}'));
    for whole in
        ["&lt;/script&gt;&lt;img src=x onerror", "\\u003c/script\\u003e\\u003cimg src=x onerror"]
    {
        assert!(own.contains(&format!("--connections 11 | sort | uniq -c {whole}")), "{whole}");
    }
    // Each command has a look of its own.
    let looks = own.split_once("\"cases\":").unwrap().1.split_once("]],").unwrap().0;
    let looks: std::collections::BTreeSet<&str> =
        looks.split("[\"").skip(1).map(|one| one.split_once(',').unwrap().1).collect();
    assert_eq!(looks.len(), 12, "{looks:?}");
}

#[test]
fn settings_of_several_commands() {
    let parameter = |name: &str, values: &[&str]| Parameter {
        name: name.into(),
        values: values.iter().map(|value| value.to_string()).collect(),
    };
    let factor = &|case, _| [1.0, 0.8, 2.0, 4.4][case];
    let mut series = Series::of(&["./old {size}", "./new {size}"], factor);
    series.asked.names = vec!["old".into(), "new".into()];
    series.asked.parameters = vec![parameter("size", &["1", "2"])];
    let (found, runs) = series.found();
    golden::check_both("versus-settings", |style| versus(&found, style));
    let page = check("versus-settings", &html::versus(&found, &runs));
    assert!(
        page.contains(
            "1 is faster and 1 is slower; the largest ratio: b (new, size=2) takes 2.199x ["
        ),
        "{}",
        own(&page)
    );
    assert!(page.contains("Time by round, size=1") && page.contains("Time by round, size=2"));
    // Verdicts that differ are none together.
    assert!(!own(&page).contains("class=\"badge\""));
    // One command is told apart by its settings.
    let mut one =
        Series::of(&["./sort -j {threads} input"], &|case, _| if case == 0 { 1.0 } else { 0.5 });
    one.asked.parameters = vec![parameter("threads", &["1", "2"])];
    let (found, runs) = one.found();
    let page = spaced(&html::versus(&found, &runs));
    assert!(page.contains(" % less time than a (threads=1) [-"), "{}", own(&page));
    // Noise of which nothing follows: what would settle it is told at once of a few, and else
    // folded away.
    let noise = &|case: usize, round: u32| {
        1.0 + mixed(u64::from(round * 31) + case as u64) as f64 / u64::MAX as f64
    };
    for (commands, folded) in
        [(vec!["one", "two", "three"], 0), (vec!["one", "two", "three", "four", "five"], 4)]
    {
        let (found, runs) = Series::of(&commands, noise).found();
        let page = spaced(&html::versus(&found, &runs));
        let told = page
            .split_once("<details class=\"folded\">")
            .map_or("", |(_, rest)| rest.split_once("</details>").unwrap().0);
        assert_eq!(told.matches("<li>").count(), folded, "{}", own(&page));
        assert_eq!(own(&page).matches("would settle it, 9").count(), commands.len() - 1);
    }
}

#[test]
fn too_few_rounds_that_ended_early() {
    let factor = &|_, _| 1.0;
    let trouble = Some(interrupted());
    let (found, runs) = Series {
        rounds: 5,
        trouble,
        settings: budget(0.02),
        ..Series::of(&["true", "false"], factor)
    }
    .found();
    golden::check_both("versus-cut", |style| versus(&found, style));
    let page = check("versus-cut", &html::versus(&found, &runs));
    assert!(page.contains("Ended early: interrupted."));
    // Without a figure there is none to be drawn, but the runs there are.
    assert!(!page.contains("\"kind\":\"ranges\"") && page.contains("\"kind\":\"runs\""));
    assert!(page.contains("b against a has no figure: too few rounds: 2"), "{}", own(&page));
}

#[test]
fn commands_without_a_budget_have_the_shortest_answer() {
    let slow = &|case: usize, round: u32| match (case, round) {
        (1, 9) => 7.0,
        (1, _) => 1.1,
        _ => 1.0,
    };
    let (found, _) = Series::of(&["sort input", "sort -n input"], slow).found();
    golden::check_both("versus-plain", |style| versus(&found, style));
    let text = versus(&found, &Style::plain(80));
    assert!(text.lines().count() <= 8, "{text}");
    let (alone, _) = Series::of(&["sleep 0.02"], &|_, _| 1.0).found();
    golden::check_both("versus-alone", |style| versus(&alone, style));
    assert!(versus(&alone, &Style::plain(80)).lines().count() <= 6);
}

#[test]
fn very_many_runs_have_room() {
    let (found, runs) =
        Series { rounds: 20_000, ..Series::of(&["one", "two"], &|_, _| 1.0) }.found();
    let page = html::page(&html::versus(&found, &runs));
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert!(page.contains("the median of up to 7 runs in a row"));
}
