//! A made fleet of which everything is known: forty hosts of two kinds, on three of which a writer
//! harms more.

use ringfence_analysis::estimate::{Interval, Verdict};
use ringfence_fleet::{Engine, Facts, Figure, LeftOut, OnHost, Read, Spec, State, Task};
use ringfence_report::fleet::{By, Question, compare_facts, compare_fleets, overview, page, text};
use ringfence_report::{Style, html};

const HARMED: [usize; 3] = [4, 17, 30];

// Figures of hosts, by factors that repeat so that nothing is by chance; the trials of each scatter
// by 1 %.
fn figure(value: f64) -> Interval {
    let half = 1.01f64;
    Interval {
        value,
        low: value / half,
        high: value * half,
        level: 0.95,
        trials: 12,
        spread: 0.0157,
        slack: 0.0,
    }
}

fn fleet(update: f64) -> Read {
    let hosts: Vec<Facts> = (0..40)
        .map(|host| Facts {
            node: format!("n{host:02}"),
            cpu: Some("Xeon <b>A</b>".into()),
            kernel: Some(if host % 2 == 0 { "6.1.0-18" } else { "6.12.1" }.into()),
            busy: (host == 7).then(|| "on average 9 tasks wanted to run".into()),
            ..Facts::default()
        })
        .collect();
    let of = |label: &str, figure: &str| Figure {
        experiment: "neighbours-chase".into(),
        arm: "beside".into(),
        label: label.into(),
        figure: figure.into(),
        quantity: "mean".into(),
        unit: "loads".into(),
    };
    let row = |values: &dyn Fn(usize) -> f64| -> Vec<OnHost> {
        (0..40)
            .map(|host| OnHost {
                host,
                figure: if host == 39 {
                    Err("nothing was measured".into())
                } else {
                    Ok(figure(values(host)))
                },
                verdict: None,
            })
            .collect()
    };
    let differ = |host: usize| 1.0 + 0.01 * ((host * 7) % 5) as f64;
    let harm = |host: usize| update * differ(host) * if HARMED.contains(&host) { 2.6 } else { 1.2 };
    let cost =
        |host: usize| 80.0 * differ(host + 2) * if host.is_multiple_of(2) { 1.0 } else { 1.1 };
    Read {
        tasks: (1..=40).collect(),
        hosts,
        figures: vec![
            (of("beside clwb", "slowdown"), row(&harm)),
            (of("beside clwb", "cost"), row(&cost)),
        ],
        not_run: vec![(3, "avx512".into(), "the processor has no AVX-512".into())],
        simulated: None,
        one_machine: false,
        left_out: vec![LeftOut {
            task: 42,
            node: Some("n41".into()),
            reason: "a <file> is damaged".into(),
        }],
    }
}

fn asked(read: &Read, by: &str) -> Question {
    Question::new(vec![by.into()], None, "2x", read).unwrap()
}

fn tasks() -> Vec<Task> {
    let task = |number: u32, state: State, reason: Option<&str>| Task {
        number,
        state,
        reason: reason.map(str::to_owned),
        node: Some(format!("n{:02}", number - 1)),
        started: None,
        ended: None,
        counting: (state == State::Done).then_some(1),
        left_out: false,
        attempts: Vec::new(),
    };
    let mut all: Vec<Task> = (1..=40).map(|number| task(number, State::Done, None)).collect();
    all.push(task(41, State::Failed, Some("Slurm says NODE_FAIL on n40: smoke")));
    all
}

#[test]
fn three_of_forty_are_counted_and_stand_out() {
    let read = fleet(1.0);
    let seen = overview(&read, &tasks(), &asked(&read, "processor"));
    let claim = &seen.claims[0];
    assert_eq!(
        (claim.above.as_slice(), claim.undecided.len(), claim.below.len()),
        (&HARMED[..], 0, 36)
    );
    assert_eq!(
        claim.sentence,
        "Of 40 hosts of 'Xeon <b>A</b>', neighbours-chase: beside clwb is slower by 2x or more on \
         3 (n04, n17, n30); 1 host without a figure."
    );
    let outliers: Vec<usize> =
        seen.figures[0].outliers.iter().map(|outlier| outlier.host).collect();
    assert_eq!(outliers, HARMED);
    assert!(seen.figures[1].outliers.is_empty());
    let style = Style { color: false, width: 100, unicode: true, details: false };
    let shown = text(&seen, None, &style);
    for part in [
        "40 of 41 done",
        "Slurm says NODE_FAIL on n40: smoke",
        "n07: on average 9 tasks",
        "the processor has no AVX-512",
        "left out task 42 on n41: a <file> is damaged",
    ] {
        assert!(
            shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(part),
            "{part}:\n{shown}"
        );
    }
}

#[test]
fn a_kernel_that_costs_a_tenth_is_found_and_the_other_figure_is_not_blamed() {
    let read = fleet(1.0);
    let compared = compare_facts(&read, "kernel=6.1:6.12", &asked(&read, "processor")).unwrap();
    assert_eq!((compared.hosts_before, compared.hosts_after, compared.by), (20, 20, By::Group));
    let change = |name: &str| {
        compared.changes.iter().find(|change| change.name.ends_with(name)).unwrap().change
    };
    let cost = change("cost");
    assert_eq!(cost.verdict, Verdict::Slower, "{cost:?}");
    assert!((cost.slowdown.unwrap().value - 1.1).abs() < 0.02, "{cost:?}");
    assert!(!matches!(change("clwb").verdict, Verdict::Slower | Verdict::Faster));
    let refused = compare_facts(&read, "kernel=5:6.1", &asked(&read, "processor")).unwrap_err();
    assert_eq!(refused, "no host has kernel=5; there are 6.1.0-18, 6.12.1");
}

// Two per cent, though hosts differ by more: each is compared with itself.
#[test]
fn an_update_of_the_same_hosts_is_told_host_by_host() {
    let (before, after) = (fleet(1.0), fleet(1.02));
    let compared =
        compare_fleets(("before", &before), ("after", &after), &asked(&after, "processor"))
            .unwrap();
    assert_eq!(compared.by, By::Host);
    let changed = &compared.changes.iter().find(|change| change.name.ends_with("clwb")).unwrap();
    let change = changed.change.slowdown.unwrap();
    assert_eq!((changed.hosts_before, changed.change.verdict), (39, Verdict::Slower));
    assert!((change.value - 1.02).abs() < 1e-3 && change.low > 1.015, "{change:?}");
}

fn spec() -> Spec {
    Spec {
        schema: 1,
        program: "ringfence 1".into(),
        created: "2026-05-09T07:29:33.000Z".into(),
        engine: Engine::Slurm,
        tasks: 41,
        words: vec!["survey".into()],
        folder: "/".into(),
        seed: None,
        minutes: 10,
        nodes: Vec::new(),
        options: Vec::new(),
    }
}

#[test]
fn the_page_has_every_host_and_no_markup_of_others() {
    let read = fleet(1.0);
    let asked = asked(&read, "kernel");
    let spec = spec();
    let compared = compare_facts(&read, "kernel=6.1:6.12", &asked).unwrap();
    let seen = overview(&read, &tasks(), &asked);
    assert_eq!(seen.groups.len(), 2);
    let shown = html::page(&page(&spec, &seen, Some(&compared)));
    for host in &read.hosts {
        assert!(shown.contains(&format!(">{}<", host.node)), "{}", host.node);
    }
    assert!(
        !shown.contains("Xeon <b>")
            && shown.contains("Xeon &lt;b&gt;")
            && shown.contains("NODE_FAIL")
    );
    assert!(shown.contains("Left out: task 42 on n41: a &lt;file&gt; is damaged."));
    for (by, figure, at_least, part) in [
        ("model number", None, "2x", "no fact"),
        ("processor", Some("none"), "2x", "no figure"),
        ("processor", None, "twice", "is not a slowdown"),
    ] {
        let refused =
            Question::new(vec![by.into()], figure.map(str::to_owned), at_least, &read).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn of_many_busy_hosts_a_few_are_named_and_the_rest_counted() {
    let mut read = fleet(1.0);
    for host in &mut read.hosts[20..] {
        host.busy = Some("on average 4 tasks wanted to run".into());
    }
    let seen = overview(&read, &tasks(), &asked(&read, "processor"));
    let shown =
        text(&seen, None, &Style { color: false, width: 100, unicode: true, details: false });
    assert_eq!(shown.matches("tasks wanted to run").count(), 4, "{shown}");
    assert!(shown.contains("n22: on average 4") && shown.contains("17 more hosts"), "{shown}");
}

#[test]
fn why_nothing_is_said_of_the_next_host_stands_where_it_would() {
    let mut read = fleet(1.0);
    let shown = |read: &Read| {
        let seen = overview(read, &tasks(), &asked(read, "processor"));
        let text =
            text(&seen, None, &Style { color: false, width: 100, unicode: true, details: false });
        let words: Vec<&str> = text.split_whitespace().collect();
        [words.join(" "), html::page(&page(&spec(), &seen, None))]
    };
    assert!(
        shown(&read)
            .iter()
            .all(|shown| !shown.contains("othing is said") && !shown.contains("say nothing"))
    );
    for one in &mut read.figures[0].1[3..] {
        one.figure = Err("nothing was measured".into());
    }
    for shown in shown(&read) {
        let why = "Nothing is said of the next host where fewer than 4 have the figure: 1 figure.";
        assert!(shown.contains(why), "{shown}");
    }
    read.hosts.truncate(3);
    read.tasks.truncate(3);
    read.not_run.clear();
    read.figures.iter_mut().for_each(|(_, hosts)| hosts.truncate(3));
    for shown in shown(&read) {
        let why = "3 hosts say nothing of the next host, nor which host differs from the others: \
                   that takes 4.";
        assert!(shown.contains(why), "{shown}");
    }
}

#[test]
fn few_hosts_stand_beside_each_other_with_the_figures_that_they_have() {
    let mut read = fleet(1.0);
    read.hosts.truncate(3);
    read.tasks.truncate(3);
    read.not_run.clear();
    read.figures.iter_mut().for_each(|(_, hosts)| hosts.truncate(3));
    for (number, (figure, _)) in read.figures.clone().into_iter().cycle().take(30).enumerate() {
        let lacks = number < 4;
        let why = "too few trials: 3, and a figure takes at least 4";
        let one = |host: usize| {
            if lacks { Err(why.to_owned()) } else { Ok(self::figure(2.0 + host as f64)) }
        };
        let hosts = (0..3).map(|host| OnHost { host, figure: one(host), verdict: None }).collect();
        read.figures.push((Figure { label: format!("case {number}"), ..figure }, hosts));
    }
    let shown = |read: &Read| {
        let seen = overview(read, &tasks(), &asked(read, "processor"));
        text(&seen, None, &Style { color: false, width: 120, unicode: true, details: false })
    };
    let few = shown(&read);
    let head = few.lines().find(|line| line.contains("figure ")).unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["figure", "n00", "n01", "n02"],
        "{few}"
    );
    assert!(
        !few.contains("middle") && !few.contains("between") && !few.contains("case 3"),
        "{few}"
    );
    // 28 of 32 figures are known, and 24 have room.
    assert!(few.contains("case 4") && few.contains("4 figures more: --figure"), "{few}");
    let why = "No figure, 12 times: too few trials: 3, and a figure takes at least 4.";
    assert_eq!(few.matches(why).count(), 1, "{few}");
    // Where none is known the reason stands alone.
    for (_, hosts) in &mut read.figures {
        hosts.iter_mut().for_each(|one| one.figure = Err("nothing was measured".into()));
    }
    let none = shown(&read);
    assert!(
        none.contains("No figure, 96 times: nothing was measured.") && !none.contains("n00"),
        "{none}"
    );
    read.hosts.truncate(1);
    read.tasks.truncate(1);
    read.figures.iter_mut().for_each(|(_, hosts)| hosts.truncate(1));
    assert!(shown(&read).contains("1 host says nothing of the next host"), "{}", shown(&read));
}
