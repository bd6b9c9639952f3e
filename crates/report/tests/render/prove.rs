//! What `prove` says, on a terminal and on its page.

use std::time::Duration;

use ringfence_analysis::estimate::{Estimate, Interval, NotEstimable};
use ringfence_analysis::windows::TooLong;
use ringfence_engine::Used;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Measure, PlacementKind};
use ringfence_report::Style;
use ringfence_report::html;
use ringfence_studies::prove::Candidate;
use ringfence_studies::prove::{
    Confirmation, Control, Price, Proof, Question, Reached, Record, Settles, Tried, Verdict, Worked,
};

use crate::html::{HOSTILE, check, spaced};

pub fn interval(value: f64, low: f64, high: f64) -> Estimate {
    Ok(Interval { value, low, high, level: 0.95, trials: 24, spread: 0.03, slack: 0.0 })
}

fn tried(name: &str, victim: Estimate, price: Price) -> Tried {
    let candidate = serde_json::from_value::<Candidate>(serde_json::json!({
        "lever": "instruction",
        "arm": { "name": name, "active": ["victim", "aggressor"], "baseline": "alone" },
        "keep": format!("run it with {name}"),
        "price_in_cpu_time": false,
    }));
    Tried { candidate: candidate.unwrap(), victim, reached: None, price }
}

pub fn question(victim: &str, aggressor: &str) -> Question {
    Question {
        victim: victim.parse().unwrap(),
        aggressor: aggressor.parse().unwrap(),
        aggressors: 1,
        victim_cpus: None,
        aggressor_cpus: None,
        placement: PlacementKind::Auto,
        budget: Budget::Slowdown(Share(0.05)),
        measure: Measure::default(),
        trials: None,
        seed: 1,
        levers: Vec::new(),
        try_env: Vec::new(),
        other_dir: None,
        system: false,
        time: None,
    }
}

pub fn proof() -> Proof {
    let mut record = Record::new(&question("chase footprint=4MiB", "write instruction=clwb"));
    record.refused = vec![("other placement".into(), HOSTILE.into())];
    let gentle = tried(
        "instruction=nt",
        interval(1.002, 0.996, 1.008),
        Price::Slowdown(interval(0.998, 0.99, 1.006)),
    );
    let paced =
        tried("pace=100MB/s", interval(1.04, 1.02, 1.06), Price::Slowdown(interval(9.1, 9.0, 9.2)));
    let stuck = tried(
        "quota 20 %",
        Err(NotEstimable::Stalled { baseline: 0, arm: 3, of: 24 }),
        Price::Unseen("it shows no progress".into()),
    );
    Proof {
        record,
        unit: "loads".into(),
        cpus: [vec![0], vec![1]],
        beside: interval(11.9, 11.5, 12.3),
        reached: None,
        times: Some(Reached {
            alone: interval(24.3, 23.9, 24.8),
            beside: interval(289.0, 279.0, 299.0),
        }),
        settles: None,
        faster: false,
        latencies: Vec::new(),
        tried: vec![gentle.clone(), paced, stuck],
        confirmations: vec![Confirmation {
            tried: gentle,
            beside: interval(12.0, 11.6, 12.4),
            reached: None,
            met: Some(true),
            against_beside: interval(0.5, 0.45, 0.55),
            helps: Some(true),
        }],
        verdict: Verdict::Met,
        simulated: false,
        too_long: TooLong::default(),
    }
}

// Of programs, with a command that keeps what was confirmed, and with levers that this machine does
// not have.
fn of_programs() -> Proof {
    let mut record = Record::new(&question("./server --bench", "./backup --to /mnt"));
    record.worked = Some(Worked {
        used: Used {
            windows_ns: 4_000_000_000,
            cpu_ns: 3_900_000_000,
            io_bytes: 2_400_000_000,
            disk_bytes: 0,
            restarts: 0,
        },
        units: None,
    });
    record.control = Some(Control {
        unit: "lines".into(),
        whole_runs: false,
        cpus: vec![0],
        running: (4000.0, 1.0e9),
        stopped: (2030.0, 1.0e9),
        runs: None,
        median: None,
    });
    let refused = [
        ("instruction", "the aggressor is not a built-in writer"),
        ("env", "'./backup' is not linked with PMDK"),
        ("pace", "the aggressor is not a built-in writer; a quota slows any program"),
        ("cat", "there is no resctrl: /sys/fs/resctrl is not mounted"),
    ];
    record.refused = refused.map(|(lever, why)| (lever.into(), why.into())).into();
    let cost = |value: f64| Price::Slowdown(interval(value, value * 0.98, value * 1.02));
    let mut quota = tried("quota 25 %", interval(1.021, 1.012, 1.030), cost(3.97));
    let candidate = &mut quota.candidate;
    candidate.keep = "start the aggressor with that quota; without systemd, '2500 10000' in \
                      cpu.max of its cgroup is the same"
        .into();
    candidate.commands = vec![
        "systemd-run --scope -p CPUQuota=25% -p CPUQuotaPeriodSec=10ms ./backup --to /mnt".into(),
    ];
    candidate.caveat = Some("the victim is as slow as before while the aggressor runs".into());
    let mut place =
        tried("placement same LLC, another core (CPUs 3)", interval(1.31, 1.28, 1.34), cost(1.001));
    let mut half = tried("quota 50 %", interval(1.046, 1.031, 1.061), cost(1.98));
    let mut tenth = tried("quota 10 %", interval(1.009, 1.001, 1.017), cost(9.8));
    place.candidate.keep = "start the aggressor on CPUs 3".into();
    half.candidate.keep = quota.candidate.keep.replace("2500", "5000");
    tenth.candidate.keep = quota.candidate.keep.replace("2500", "1000");
    let confirmed = Tried { victim: interval(1.024, 1.017, 1.031), ..quota.clone() };
    Proof {
        record,
        unit: "lines".into(),
        cpus: [vec![0], vec![1]],
        beside: interval(1.36, 1.33, 1.39),
        reached: None,
        times: None,
        settles: None,
        faster: false,
        latencies: Vec::new(),
        tried: vec![place, half, quota, tenth],
        confirmations: vec![Confirmation {
            tried: confirmed,
            beside: interval(1.35, 1.32, 1.38),
            reached: None,
            met: Some(true),
            against_beside: interval(0.5, 0.45, 0.55),
            helps: Some(true),
        }],
        verdict: Verdict::Met,
        simulated: false,
        too_long: TooLong::default(),
    }
}

// As `-v` prints it.
fn detailed(proof: &Proof, style: &Style) -> String {
    ringfence_report::prove(proof, &Style { details: true, ..*style })
}

fn badge(page: &str) -> &str {
    page.split_once("<p class=\"verdict\">").unwrap().1.split_once("</p>").unwrap().0
}

#[test]
fn met_with_a_lever() {
    let proof = proof();
    let page = check("prove", &html::proof(&proof, None, &[]));
    assert!(page.contains("with instruction=nt") && !page.contains("<img"));
    crate::golden::check("prove", |style| ringfence_report::prove(&proof, style));
    crate::golden::check("prove-details", |style| detailed(&proof, style));
    let perhaps = Proof { beside: interval(1.04, 1.01, 1.07), ..proof };
    crate::golden::check("prove-perhaps", |style| ringfence_report::prove(&perhaps, style));
}

// A lever that keeps to the budget as it was kept to without it is not recommended, nor are its
// commands given.
#[test]
fn a_lever_that_is_not_known_to_help_is_not_recommended() {
    let mut proof = Proof { verdict: Verdict::Undecided, ..of_programs() };
    let last = proof.confirmations.last_mut().unwrap();
    last.tried.victim = interval(0.98, 0.95, 1.01);
    (last.beside, last.helps) = (interval(1.02, 0.98, 1.06), None);
    last.against_beside = interval(0.96, 0.91, 1.02);
    let text = ringfence_report::prove(&proof, &Style::plain(400));
    assert!(text.starts_with("UNDECIDED, the harm did not show again. "), "{text}");
    assert!(text.contains("'quota 25 %' is not known to help"), "{text}");
    assert!(text.contains("with it 0.96x [0.91, 1.02] of the time without it"), "{text}");
    assert!(!text.contains("keep it:"), "{text}");
    proof.beside = interval(1.04, 1.01, 1.07);
    let text = ringfence_report::prove(&proof, &Style::plain(400));
    assert!(text.starts_with("UNDECIDED, no harm shown. "), "{text}");
}

#[test]
fn a_victim_that_is_clearly_faster_says_that_something_else_changed() {
    let none = Proof { tried: Vec::new(), confirmations: Vec::new(), ..of_programs() };
    let faster = Proof { beside: interval(0.31, 0.28, 0.34), faster: true, ..none };
    let proof = Proof { verdict: Verdict::Undecided, ..faster.clone() };
    let text = ringfence_report::prove(&proof, &Style::plain(400));
    let said = "UNDECIDED, something else changed. The victim is faster with the aggressor running \
                than alone (-69 %";
    assert!(text.starts_with(said) && text.contains("and measure again."), "{text}");
    assert!(!text.contains("no lever needed"), "{text}");
    // A time is kept to all the same, and a lever's figure too.
    let proof = Proof { verdict: Verdict::NothingNeeded, ..faster };
    let page = html::proof(&proof, None, &[]);
    assert!(
        badge(&spaced(&page)).contains("but something else changed"),
        "{}",
        badge(&spaced(&page))
    );
    let mut met = of_programs();
    met.confirmations[0].tried.victim = interval(0.8, 0.78, 0.82);
    let text = ringfence_report::prove(&met, &Style::plain(400));
    assert!(text.contains("MET, with a lever, but something else changed"), "{text}");
}

// The answer has the latencies themselves, with their intervals.
#[test]
fn latencies_stand_in_the_answer() {
    let mut latencies = crate::latencies::made_up();
    latencies.truncate(2);
    (latencies[0].arm, latencies[1].arm, latencies[1].label) =
        ("alone".into(), "beside".into(), String::new());
    latencies[1].role = latencies[0].role.clone();
    let proof = Proof { latencies, ..proof() };
    crate::golden::check("prove-latencies", |style| ringfence_report::prove(&proof, style));
    let text = detailed(&proof, &Style::plain(200));
    assert!(text.contains("Latency of reads:"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("alone") && line.contains("1.05 ms")),
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with("beside ")), "{text}");
}

// Nothing that was simulated says met, or how a lever is kept.
#[test]
fn what_was_simulated_is_never_met_and_keeps_nothing() {
    let proof = Proof { verdict: Verdict::SimulatedOnly, simulated: true, ..of_programs() };
    let page = html::page(&html::proof(&proof, None, &[]));
    let text = ringfence_report::prove(&proof, &ringfence_report::Style::plain(100));
    assert!(text.starts_with("simulated: nothing here was measured"), "{text}");
    assert!(
        text.contains("\nSIMULATED ONLY, within the budget on a described machine. ")
            && text.contains("proves nothing about real hardware"),
        "{text}"
    );
    assert!(!text.contains("keep it:") && !text.contains("MET"), "{text}");
    assert!(badge(&page).contains("SIMULATED ONLY"), "{}", badge(&page));
    assert!(page.contains("<main class=\"simulated\">"));
    for told in [&page, &text] {
        assert!(!told.contains("systemd-run") && !told.contains("cpu.max"), "{told}");
    }
    let nothing = Proof { confirmations: Vec::new(), tried: Vec::new(), ..proof };
    let text = ringfence_report::prove(&nothing, &ringfence_report::Style::plain(100));
    assert!(
        text.contains("\nSIMULATED ONLY") && text.contains("within the budget of 5 %"),
        "{text}"
    );
}

// What one wants first comes first: the verdict, the answer in a sentence, how to keep it; then
// figures, and what was not offered folded away at the end.
#[test]
fn the_verdict_comes_first_and_what_was_not_offered_last() {
    let proof = of_programs();
    let page = check("prove-programs", &html::proof(&proof, None, &[]));
    assert_eq!(
        badge(&page),
        "<strong class=\"badge\" data-color=\"good\">MET</strong> <span>with a lever</span>"
    );
    let order = [
        "class=\"verdict\"",
        "<h1>",
        "class=\"keep\"",
        "<pre>systemd-run",
        "class=\"cards\"",
        "<figure>",
        "<details class=\"folded\">",
    ];
    let places: Vec<usize> =
        order.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains(
        "<h1>'quota 25 %' keeps the victim within the budget of 5 %: its \
                           slowdown is +2.4 % [+1.7, +3.1].</h1>"
    ));
    assert!(page.contains("<summary>Not offered here: 4 levers, and why</summary>"));
    let text = ringfence_report::prove(&proof, &Style::plain(120));
    assert!(text.starts_with("MET, with a lever. 'quota 25 %' keeps the victim"), "{text}");
    assert!(text.contains("\n    systemd-run --scope"), "{text}");
    assert!(text.contains("\nNot possible here: 4 levers (-v lists them)\n"), "{text}");
    // Commands are as wide as they are.
    let mut proof = proof;
    proof.confirmations[0].tried.candidate.commands = vec!["systemd-run ./backup".into()];
    crate::golden::check("prove-programs", |style| ringfence_report::prove(&proof, style));
    crate::golden::check("prove-programs-details", |style| detailed(&proof, style));
}

// A command stays on one line and whole, in a narrow terminal too, and can be copied from the page.
#[test]
fn a_command_is_whole() {
    let line =
        format!("taskset -c 1 env 'A=x y' ./backup {}", "'my folder' ".repeat(30).trim_end());
    let mut kept = proof();
    kept.confirmations[0].tried.candidate.commands = vec![line.clone()];
    let text = ringfence_report::prove(&kept, &Style::plain(40));
    assert!(text.lines().any(|printed| printed.trim_start() == line), "{text}");
    let page = html::page(&html::proof(&kept, None, &[]));
    let copied = format!("<pre>{line}</pre><button type=\"button\" class=\"copy\"");
    assert!(page.contains(&copied), "{copied}");
}

#[test]
fn every_verdict_has_its_word() {
    let met = proof();
    let open = interval(1.04, 1.01, 1.07);
    let none = Proof { tried: Vec::new(), confirmations: Vec::new(), ..met.clone() };
    let mut over = met.clone();
    over.tried[0].victim = interval(1.09, 1.07, 1.11);
    let mut again = met.clone();
    again.confirmations[0].tried.victim = open;
    again.confirmations[0].met = None;
    for (name, proof, color, word, how) in [
        (
            "prove-missed",
            Proof { confirmations: Vec::new(), verdict: Verdict::Missed, ..over },
            "bad",
            "NOT MET",
            "",
        ),
        (
            "prove-undecided",
            Proof {
                verdict: Verdict::Undecided,
                settles: Some(Settles {
                    trials: Some(130),
                    time: Some(Duration::from_secs(213)),
                    limit: Some(1.07),
                }),
                ..again
            },
            "caution",
            "UNDECIDED",
            "",
        ),
        (
            "prove-nothing-needed",
            Proof { beside: interval(1.01, 0.99, 1.03), verdict: Verdict::NothingNeeded, ..none },
            "good",
            "MET",
            "no lever needed",
        ),
    ] {
        let text = ringfence_report::prove(&proof, &Style::plain(80));
        let page = check(name, &html::proof(&proof, None, &[]));
        let how_page = if how.is_empty() { String::new() } else { format!(" <span>{how}</span>") };
        assert_eq!(
            badge(&page),
            format!("<strong class=\"badge\" data-color=\"{color}\">{word}</strong>{how_page}")
        );
        let how_text = if how.is_empty() { String::new() } else { format!(", {how}") };
        assert!(text.starts_with(&format!("{word}{how_text}. ")), "{text}");
        assert!(text.lines().count() <= 20, "{text}");
        crate::golden::check(name, |style| ringfence_report::prove(&proof, style));
    }
}

#[test]
fn nothing_happened_is_not_a_verdict() {
    let proof = proof();
    for (name, record) in nothing_happened(&proof.record) {
        let refused = match &record.control {
            Some(_) => Proof::new(&record, &[]),
            None => Proof { verdict: Verdict::NothingHappened, record, ..proof.clone() },
        };
        crate::golden::check(name, |style| ringfence_report::prove(&refused, style));
        let page = spaced(&html::proof(&refused, None, &[]));
        assert!(
            badge(&page).contains(">NO VERDICT</strong> <span>nothing happened</span>"),
            "{name}"
        );
        // Where nothing was measured nothing is drawn.
        assert_eq!(page.contains("<figure>"), refused.beside.is_ok(), "{name}");
    }
}

// A victim that ends by the clock, one whose runs are too short to tell, and an aggressor that is
// started again and again.
fn nothing_happened(record: &Record) -> [(&'static str, Record); 3] {
    let control = Control {
        unit: "runs".into(),
        whole_runs: true,
        cpus: vec![1],
        running: (1.0, 1.0e9),
        stopped: (1.0, 1.03e9),
        runs: None,
        median: None,
    };
    let short = Control { running: (8.0, 44.0e6), stopped: (8.0, 37.0e6), ..control.clone() };
    let used = Used {
        windows_ns: 4_000_000_000,
        cpu_ns: 900_000_000,
        io_bytes: 0,
        disk_bytes: 0,
        restarts: 1300,
    };
    let worked = Some(Worked { used, units: None });
    [
        ("prove-by-the-clock", Record { control: Some(control), ..record.clone() }),
        ("prove-too-short", Record { control: Some(short), ..record.clone() }),
        ("prove-nothing-happened", Record { worked, ..record.clone() }),
    ]
}

#[test]
fn warnings_stand_apart_from_what_else_should_be_known() {
    let said = [
        "redis was paused 3 times.".to_string(),
        "WARNING: redis was paused for 463 ms.".to_string(),
    ];
    let style = Style::plain(80);
    assert_eq!(
        ringfence_report::warnings(&said, &style),
        "WARNING: redis was paused for 463 ms.\n\n"
    );
    assert_eq!(ringfence_report::left(&said, &style), "redis was paused 3 times.\n");
    assert_eq!(ringfence_report::warnings(&said[..1], &style), "");
}

#[test]
fn harm_without_a_lever_that_was_tried_says_so() {
    let mut proof = Proof {
        tried: Vec::new(),
        confirmations: Vec::new(),
        verdict: Verdict::Undecided,
        ..proof()
    };
    proof.record.candidates = Some(Vec::new());
    proof.beside = interval(1.5, 1.4, 1.6);
    let told = |proof: &Proof| {
        let text = ringfence_report::prove(proof, &Style::plain(80));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let offered = told(&proof);
    let start = "UNDECIDED, harm shown, no lever tried. With the aggressor running, the victim's \
                 slowdown is +50 % [+40, +60], over the budget of 5 %.";
    assert!(offered.starts_with(start) && offered.contains("none is offered here"), "{offered}");
    assert!(offered.contains("UNDECIDED") && !offered.contains("NOT MET"), "{offered}");
    proof.record.refused = vec![("any lever".into(), "3.0 s of the time remain".into())];
    assert!(told(&proof).contains("the time was over before"), "{}", told(&proof));
    assert!(told(&proof).contains("Not tried: any lever, because 3.0 s of the time remain"));
}

#[test]
fn harm_is_the_headline_where_no_lever_has_a_figure() {
    let mut proof = proof();
    proof.tried.retain(|tried| tried.victim.is_err());
    proof.confirmations.clear();
    proof.verdict = Verdict::Undecided;
    let told = |proof: &Proof| {
        let text = ringfence_report::prove(proof, &Style::plain(80));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let harmed = told(&proof);
    assert!(harmed.starts_with("UNDECIDED, harm shown, no lever has a figure. "), "{harmed}");
    assert!(
        harmed.contains("over the budget of 5 %. Which lever helps is not known: "),
        "{harmed}"
    );
    proof.beside = interval(1.05, 0.9, 1.2);
    assert!(!told(&proof).contains("harm shown, no lever"), "{}", told(&proof));
}

// Levers that one flag would allow are named, all others are counted.
#[test]
fn levers_that_a_flag_allows_are_named() {
    let mut proof = proof();
    let reasons = [
        ("other-dir", "no other folder is named; name one with --other-dir"),
        ("scheduler", "it changes the whole system; --system allows it"),
        ("queue-requests", "it changes the whole system; --system allows it"),
        ("cat", "there is no resctrl: /sys/fs/resctrl is not mounted"),
        ("mba", "there is no resctrl: /sys/fs/resctrl is not mounted"),
    ];
    proof.record.refused = reasons.map(|(lever, why)| (lever.into(), why.into())).into();
    let said = "Not possible here: 2 levers (-v lists them); --other-dir allows other-dir; \
                --system allows scheduler and queue-requests\n";
    let text = ringfence_report::prove(&proof, &Style::plain(200));
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("resctrl"), "{text}");
    assert!(detailed(&proof, &Style::plain(200)).contains("not offered: cat, because there is no"));
}

#[test]
fn windows_that_lasted_too_long_are_told() {
    let too_long = TooLong { steps: 3, of: 48 };
    let proof = Proof {
        beside: Err(NotEstimable::TooLong { steps: 3, of: 48 }),
        tried: Vec::new(),
        confirmations: Vec::new(),
        verdict: Verdict::Undecided,
        too_long,
        ..proof()
    };
    let page = spaced(&html::proof(&proof, None, &[]));
    let text = ringfence_report::prove(&proof, &Style::plain(80))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for told in [text, page] {
        assert!(
            told.contains("Left out: 3 of 48 steps hold a window of more than 3 times the length"),
            "{told}"
        );
        assert!(
            told.contains("the victim's slowdown is not known: this program was kept from running"),
            "{told}"
        );
    }
}

#[test]
fn a_lever_that_there_was_no_time_to_measure_again_says_so() {
    let mut proof = Proof { confirmations: Vec::new(), verdict: Verdict::Undecided, ..proof() };
    let lever = proof.tried[0].candidate.arm.name.clone();
    let why = "3.1 s of the time remain for it, and 12 trials take at least 8.4 s; --time 80s \
               would be enough";
    let told = |proof: &Proof| {
        let text = ringfence_report::prove(proof, &Style::plain(80));
        [
            text.split_whitespace().collect::<Vec<_>>().join(" "),
            spaced(&html::proof(proof, None, &[])),
        ]
    };
    proof.settles = Some(Settles {
        trials: Some(130),
        time: Some(Duration::from_secs(213)),
        limit: Some(1.134),
    });
    let more = "About 130 trials would settle it (--trials 130). These trials are enough for a \
                budget of 14 % or more.";
    assert!(told(&proof).iter().all(|told| told.contains(more)), "{:?}", told(&proof));
    proof.record.question.time = Some(Span::ms(60_000));
    let more = "About 3 min 40 s in all would settle it (--time 220s).";
    assert!(told(&proof).iter().all(|told| told.contains(more)), "{:?}", told(&proof));
    proof.settles = Some(Settles { trials: None, time: None, limit: None });
    let more = "Neither the time that would settle it is known, nor a budget that these trials";
    assert!(told(&proof).iter().all(|told| told.contains(more)), "{:?}", told(&proof));
    proof.record.unconfirmed = Some((lever.clone(), why.into()));
    for told in told(&proof) {
        assert!(
            told.contains(&format!("'{lever}' was not measured again, because {why}.")),
            "{told}"
        );
        assert!(!told.contains("would settle it"), "{told}");
    }
}

#[test]
fn a_page_of_a_proof_that_was_cut_short_says_so() {
    let proof = Proof { verdict: Verdict::Undecided, ..proof() };
    let page = |cut_short| spaced(&html::proof(&proof, cut_short, &[]));
    let cut = page(Some("it was cut short; continue with: ringfence prove --resume <a>"));
    let said = "Incomplete: it was cut short; continue with: ringfence prove \
                --resume &lt;a&gt;.";
    assert!(cut.contains(said), "{cut}");
    assert!(!page(None).contains("Incomplete:"));
}

#[test]
fn a_quantile_is_named_wherever_its_figures_are() {
    let mut proof = proof();
    proof.record.question = question("commit dir=. layout=written", "dirty dir=.");
    proof.record.question.measure.quantity = "p99".parse().unwrap();
    proof.record.question.budget = Budget::Slowdown(Share(0.5));
    proof.unit = "commits".into();
    proof.beside = interval(3.1, 2.4, 4.0);
    let text = detailed(&proof, &Style::plain(200)).replace('\u{a0}', " ");
    for said in [
        "p99 of a victim's commit may be longer by 50 %",
        "With the aggressor running: p99 of a commit 3.1x [2.4, 4.0], 95 % interval over 24 \
         trials: over the budget",
        "its p99 slowdown is",
        "the victim's as p99 of latencies, the aggressor's as time per unit of work",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    proof.verdict = Verdict::Undecided;
    let few = NotEstimable::TooFewLatencies {
        quantile: Quantile::P99,
        counted: 212,
        needed: 6000,
        trials: Some(680),
    };
    (proof.beside, proof.confirmations, proof.tried) = (Err(few), Vec::new(), Vec::new());
    let text = ringfence_report::prove(&proof, &Style::plain(400)).replace('\u{a0}', " ");
    let said = "the victim's p99 slowdown is not known: too few latencies: p99 takes about 6000 on \
                each side, and there are 212; \
                about 680 trials, or longer windows, would give them.";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_time_is_told_with_what_the_quantity_is_alone_and_beside() {
    let mut proof = proof();
    let ms = |value: f64, low: f64, high: f64| interval(value * 1e6, low * 1e6, high * 1e6);
    proof.record.question = question("probe ask=tcp://127.0.0.1:7777 send=PING", "./backup");
    proof.record.question.measure.quantity = "p99".parse().unwrap();
    proof.record.question.budget = "p99<5ms".parse().unwrap();
    proof.unit = "answers".into();
    let reached = Reached { alone: ms(1.2, 1.1, 1.3), beside: ms(14.3, 13.9, 14.8) };
    proof.reached = Some(reached.clone());
    proof.tried.iter_mut().zip([ms(3.1, 2.9, 3.3), ms(5.1, 4.9, 5.3)]).for_each(
        |(tried, figure)| {
            tried.reached = Some(figure);
        },
    );
    proof.confirmations[0].tried.reached = Some(ms(3.2, 3.0, 3.4));
    proof.confirmations[0].reached = Some(reached);
    let text = |proof: &Proof| {
        let text = detailed(proof, &Style::plain(200)).replace('\u{a0}', " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (met, page) = (text(&proof), spaced(&html::proof(&proof, None, &[])));
    for said in [
        "p99 of a victim's answer may be 5ms at most",
        "With the aggressor running: p99 of an answer 14.3 ms [13.9, 14.8], 95 % interval over \
         24 trials: over the budget",
        "alone: 1200 us [1100, 1300]: within the budget; with it 11.9x [11.5, 12.3] time",
        "unclear",
        "'instruction=nt' keeps the victim within the budget of p99<5ms: its p99 is 3200 us [3000, \
         3400]",
    ] {
        assert!(met.contains(said), "{said}: {met}");
    }
    for said in [
        "Is the p99 of 'probe ask=tcp://127.0.0.1:7777 send=PING' beside './backup' 5ms at most?",
        "victim alone",
        "14.3 ms",
        "P99 of the victim against its budget of p99&lt;5ms",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }

    // It is over the budget by itself.
    proof.reached = Some(Reached { alone: ms(6.0, 5.8, 6.2), beside: ms(14.3, 13.9, 14.8) });
    (proof.confirmations, proof.tried, proof.verdict) = (Vec::new(), Vec::new(), Verdict::Missed);
    let missed = text(&proof);
    let said = "The victim is over the budget of p99<5ms by itself: its p99 alone is 6000 us \
                [5800, 6200]. No lever on the aggressor \
                can help: none was tried.";
    assert!(missed.contains(said) && missed.contains("NOT MET"), "{missed}");
}
