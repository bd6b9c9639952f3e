use super::*;

const GOOD: &str = r#"
schema = 2
name = "chase-beside-clwb"
metric = "victim"

[measure]
looks = [10, 20]
time = "60s"

[placement]
kind = "llc"

[[role]]
name = "victim"
task = { workload = "chase", footprint = "4MiB" }

[[role]]
name = "aggressor"
count = [1, 2]
cpus = "1-2"
task = [{ workload = "write", instruction = ["clwb", "nt"] }, { workload = "alu" }]

[[arm]]
name = "alone"
active = ["victim"]

[[arm]]
name = "beside"
active = ["victim", "aggressor"]
baseline = "alone"
"#;

#[test]
fn what_is_written_reads_back_the_same() {
    let experiment = Experiment::parse(GOOD).unwrap();
    assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
    assert_eq!(experiment.measure.looks, [10, 20]);
    assert_eq!(experiment.measure.rounds, Measure::default().rounds);
}

#[test]
fn one_arm_is_held_against_a_limit_or_several() {
    let decide = |arms: &str| {
        let line = format!("time = \"60s\"\ndecide = {{ arm = {arms}, slowdown = \"5%\" }}");
        let other = "\n[[arm]]\nname = \"again\"\nactive = [\"victim\"]\nbaseline = \"alone\"\n";
        Experiment::parse(&(GOOD.replace("time = \"60s\"", &line) + other))
    };
    let limit = crate::budget::Budget::Slowdown(crate::units::Share(0.05));
    let of = |arms: &[&str]| {
        Decide::of_each(&arms.iter().map(|arm| (*arm).into()).collect::<Vec<_>>(), limit)
    };
    for (arms, read) in [
        ("'beside'", Decide::of("beside", limit)),
        ("'beside'", of(&["beside"])),
        ("['beside', 'again']", of(&["beside", "again"])),
    ] {
        let experiment = decide(arms).unwrap();
        assert_eq!(experiment.measure.decide, Some(read));
        assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
    }
    for (arms, said) in
        [("['beside', 'alone']", "'alone' is not an arm with a baseline"), ("[]", "arm is empty")]
    {
        let refused = decide(arms).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_time_is_compared_with_arms_that_have_no_baseline() {
    let experiment = Experiment::parse(GOOD).unwrap();
    let of = |arm: &str, budget: &str| {
        let mut experiment = experiment.clone();
        experiment.measure.decide = Some(Decide::of(arm, budget.parse().unwrap()));
        experiment.check().map_err(|error| error.to_string())
    };
    assert_eq!(of("alone", "mean<5ms"), Ok(()));
    assert!(of("alone", "5%").unwrap_err().contains("'alone' is not an arm with a baseline"));
    assert!(of("none", "mean<5ms").unwrap_err().contains("'none' is not an arm; "));
}

#[test]
fn what_was_once_called_a_budget_is_still_read() {
    let experiment = Experiment::parse(GOOD).unwrap();
    assert_eq!(experiment.measure.time, Some(Span::ms(60_000)));
    assert_eq!(Experiment::parse(&GOOD.replace("time = ", "budget = ")).unwrap(), experiment);
    assert!(!experiment.to_toml().contains("budget"));
    let ended: crate::ended::Ended = serde_json::from_str(r#"{"why":"budget"}"#).unwrap();
    assert_eq!(ended, crate::ended::Ended::Time);
}

#[test]
fn files_of_version_1_are_still_read() {
    let keys = "rounds = 3\nisolation_settle = \"2s\"\ntime = ";
    let now = Experiment::parse(&GOOD.replace("time = ", keys)).unwrap();
    assert_eq!((now.measure.rounds, now.measure.isolation_settle), (3, Span::ms(2000)));
    let keys = "blocks = 3\nfence_settle = \"2s\"\nbudget = ";
    let before = GOOD.replace("schema = 2", "schema = 1").replace("time = ", keys);
    assert_eq!(Experiment::parse(&before).unwrap(), now);
    assert!(now.to_toml().starts_with("schema = 2") && !now.to_toml().contains("blocks"));
}

#[test]
fn every_mistake_gets_one_sentence() {
    let cases = [
        ("schema = 2", "schema = 9", "schema = 9 is not known"),
        ("schema = 2", "schema = 'x'", "line 2"),
        ("name = \"chase-beside-clwb\"", "name = \"a/b\"", "folder's name"),
        ("metric = \"victim\"", "metric = \"vctim\"", "did you mean 'victim'"),
        ("metric = \"victim\"", "metrik = \"victim\"", "did you mean 'metric'"),
        ("[measure]", "[mesure]", "did you mean 'measure'"),
        ("looks = [10, 20]", "looks = []", "looks is empty"),
        ("looks = [10, 20]", "looks = [20, 10]", "larger than the one before"),
        ("looks = [10, 20]", "looks = [10, 20]\nrounds = 0", "0 rounds"),
        ("time = \"60s\"", "time = \"soon\"", "'soon' is not a duration"),
        ("time = \"60s\"", "time = \"60s\"\nbudget = \"60s\"", "leave `budget` out"),
        ("time = \"60s\"", "rounds = 2\nblocks = 2", "leave `blocks` out"),
        (
            "time = \"60s\"",
            "isolation_settle = \"1s\"\nfence_settle = \"1s\"",
            "leave `fence_settle` out",
        ),
        ("time = \"60s\"", "time = \"60s\"\ntime = \"60s\"", "duplicate key"),
        ("time = \"60s\"", "budget = \"2%\"", "'2%' is not a duration"),
        ("time = \"60s\"", "window = \"0ms\"", "between 1ms"),
        (
            "time = \"60s\"",
            "decide = { arm = \"alone\", slowdown = \"5%\" }",
            "not an arm with a baseline",
        ),
        ("time = \"60s\"", "decide = { arm = \"beside\" }", "give one limit"),
        (
            "time = \"60s\"",
            "decide = { arm = \"beside\", slowdown = \"5%\", at_most = \"5ms\" }",
            "give one limit",
        ),
        ("time = \"60s\"", "decide = { arm = \"beside\", at_most = \"0s\" }", "more than 0"),
        ("time = \"60s\"", "confidence = \"100%\"", "below 100%"),
        ("time = \"60s\"", "margin = \"0%\"", "margin of 0%"),
        ("kind = \"llc\"", "kind = \"lcc\"", "did you mean 'llc'"),
        ("cpus = \"1-2\"", "cpus = \"1-\"", "is not a CPU list"),
        ("count = [1, 2]", "placement = \"remote\"", "exclude each other"),
        ("count = [1, 2]", "placement = \"remot\"", "did you mean 'remote'"),
        ("name = \"victim\"", "name = \"victim\"\nplacement = \"llc\"", "which is this one"),
        ("count = [1, 2]", "count = [0]", "count must be at least 1"),
        ("count = [1, 2]", "count = []", "count must be at least 1"),
        ("name = \"aggressor\"", "name = \"victim\"", "duplicate role"),
        ("name = \"beside\"", "name = \"alone\"", "duplicate arm"),
        ("baseline = \"alone\"", "baseline = \"alon\"", "did you mean 'alone'"),
        ("baseline = \"alone\"", "baseline = \"beside\"", "its own baseline"),
        ("active = [\"victim\"]", "active = []", "whose rate is the figure"),
        ("active = [\"victim\"]", "active = [\"vic\"]", "is not a role"),
        ("baseline = \"alone\"", "only = { aggressor = 3 }", "task 3 of 'aggressor', which has 2"),
        ("baseline = \"alone\"", "only = { aggressor = [1, 0] }", "count from 1"),
        (
            "active = [\"victim\"]",
            "active = [\"victim\"]\nonly = { aggressor = 1 }",
            "which it does not run",
        ),
        ("[[arm]]", "[[arms]]", "did you mean 'arm'"),
        ("schema = 2", "schema == 2", "line 2"),
    ];
    for (from, to, part) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = Experiment::parse(&GOOD.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(part), "{to}: {error}");
        assert!(!error.contains('\n'), "one sentence: {error}");
    }
}

#[test]
fn a_quantity_is_named_and_refused_where_nobody_counts() {
    let with = |quantity: &str, victim: &str| {
        let measure = format!("[measure]\nquantity = \"{quantity}\"\nwindow = \"1s\"\n");
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n{measure}[[role]]\nname = 'victim'\ntask = \
             {{ workload = '{victim}' }}\n\
            [[arm]]\nname = 'alone'\nactive = ['victim']\n"
        );
        let experiment = Experiment::parse(&text)?;
        assert_eq!(Experiment::parse(&experiment.to_toml())?, experiment);
        let topology = ringfence_machine::topology::Topology::read(
            &ringfence_machine::fixtures::vm_2cpu().root(),
        );
        crate::plan::Plan::new(&experiment, &topology.unwrap(), None)
    };
    let plan = with("p99.9", "commit").unwrap();
    assert_eq!(plan.experiment.measure.quantity.name(), "p99.9");
    // The mean is what older programs take, too, so they are not told of it.
    assert!(!with("mean", "alu").unwrap().experiment.to_toml().contains("quantity"));
    for (quantity, victim, said) in [
        ("p99", "alu", "the latencies of alu are not counted: take probe, commit"),
        ("p99", "chase", "give it histogram=true"),
        ("p98", "commit", "'p98' is not a quantity"),
    ] {
        let refused = with(quantity, victim).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_study_of_means_has_no_quantile() {
    let text = "schema = 2\nname = 'cost'\nmetric = 'v'\nmeasure = \
                { quantity = 'p99' }\n[[role]]\nname = 'v'\n\
        task = { workload = 'commit' }\n[[arm]]\nname = 'a'\nactive = ['v']\n";
    let experiment = Experiment::parse(text).unwrap();
    let refused =
        Experiment { kind: Some(Kind::SurveyCost), ..experiment.clone() }.check().unwrap_err();
    assert!(refused.to_string().contains("leave quantity or kind out"), "{refused}");
    assert!(Experiment { kind: Some(Kind::ProveBaseline), ..experiment }.check().is_ok());
}
