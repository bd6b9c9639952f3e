//! What a page says of durable commits to files.

use ringfence_analysis::cheapest::{Cheapest, Compared};
use ringfence_analysis::estimate::NotEstimable;
use ringfence_analysis::frontier::{Against, Amount, DiskPoint, OnDisk, Standing};
use ringfence_analysis::latency::CaseLatencies;
use ringfence_analysis::stalls::{Stall, Stalls};
use ringfence_analysis::verdicts::{Judged, Lower};
use ringfence_dataset::Dataset;
use ringfence_experiment::Decide;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::quantity::{Quantile, Quantity};
use ringfence_report::html::{self, Digest};

use crate::html::{check, digest, measured, spaced};
use crate::latencies::quantiles;
use crate::prove::interval;

const EXPERIMENT: &str = "schema = 2\nname = 'commit'\nquestion = 'What does a durable commit to a \
                          file cost here?'\n\
    metric = 'committer'\n[measure]\nlooks = [6]\nrounds = 1\nwindow = '400ms'\n\
    [[role]]\nname = 'committer'\ntask = \
    { workload = 'commit', sync = ['fdatasync', 'none'], batch = [1, 16], dir = '.' }\n\
    [[arm]]\nname = 'commit'\nactive = ['committer']\n";

// Of four cases: fdatasync and nothing, of 1 and 16 records; the second has too few for p99.
fn commits(folder: &std::path::Path) -> Digest {
    // Units in a window of 1 ms, by case.
    let units = |trial: u32, case: usize| [4, 3, 400, 100][case] * (100 + u64::from(trial));
    let folder = measured(folder, EXPERIMENT, units);
    let mut digest = digest(&Dataset::open(&folder).unwrap());
    let buckets: [&[(u64, u64)]; 4] = [
        &[(196_608, 40_000), (229_376, 20_000), (1 << 22, 900)],
        &[(262_144, 8), (1 << 23, 3)],
        &[(2048, 100_000), (1 << 20, 20)],
        &[(8192, 50_000), (1 << 20, 20)],
    ];
    let of_case = |(case, buckets): (usize, &&[(u64, u64)])| {
        let histogram = Histogram::from(buckets.to_vec());
        CaseLatencies {
            case,
            arm: "commit".into(),
            label: digest.findings.plan.cases[case].label.clone(),
            role: "committer".into(),
            unit: "commits",
            of_loads: false,
            quantiles: quantiles(&histogram),
            histogram,
            misses: None,
            counted_misses: None,
        }
    };
    digest.findings.latencies = buckets.iter().enumerate().map(of_case).collect();
    digest.findings.stalls = stalls();
    digest.findings.on_disk = vec![on_disk()];
    digest
}

fn on_disk() -> OnDisk {
    let (durable, not) = (Standing::Efficient, Standing::Unfenced);
    let points = [
        (0, interval(4000.0, 3800.0, 4200.0), interval(4e6, 3e6, 5e6), durable),
        (1, interval(52_000.0, 50e3, 54e3), interval(9e6, 7e6, 12e6), durable),
        (2, interval(400e3, 390e3, 410e3), interval(1e6, 9e5, 1.1e6), not),
        (3, interval(1e6, 9e5, 1.1e6), Err(NotEstimable::TooFewTrials { trials: 2 }), not),
    ];
    let points = points.map(|(case, per_s, against, standing)| DiskPoint {
        case,
        role: 0,
        durable: standing == durable,
        per_s,
        against,
        standing,
    });
    OnDisk {
        amount: Amount::Records,
        against: Against::P99,
        alone: Some(3e5),
        points: points.into(),
    }
}

// Two windows, of which the second was beside a stall; then one of which nothing is known of the
// disk.
fn stalls() -> Stalls {
    let point = |at_s: f64, case, longest_ns, mib: Option<u64>, busy| Stall {
        at_s,
        length_s: 0.4,
        case,
        longest_ns,
        dirty_bytes: mib.map(|mib| mib << 20),
        writeback_bytes: mib.map(|mib| mib << 18),
        busy,
    };
    let points = vec![
        point(0.0, 0, Some(1 << 18), Some(3), Some(0.25)),
        point(0.5, 1, Some(1 << 30), Some(700), Some(1.0)),
        point(1.0, 1, None, Some(500), Some(0.5)),
        point(1.5, 2, Some(1 << 12), None, None),
    ];
    Stalls { per_point: 1, points, stops_s: vec![0.75] }
}

#[test]
fn the_longest_commits_stand_over_what_the_disk_did() {
    let dir = tempfile::tempdir().unwrap();
    let mut digest = commits(dir.path());
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    for said in [
        "The longest commits over time",
        "Dashed lines: there the writers stopped.",
        // Case 1: the longest of its stretches, the most bytes, the mean of the disk's time.
        ">1.07 s</td><td class=\"number\">700MiB</td><td class=\"number\">175MiB</td><td \
         class=\"number\">75 %</td>",
        // What is not known of case 2 is not nothing.
        ">4.10 us</td><td class=\"number\">-</td><td class=\"number\">-</td><td \
         class=\"number\">-</td>",
        "[1.5,0.4,2.0,4096.0,-1.0,-1.0,-1.0]",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // As earlier versions recorded it.
    for point in &mut digest.findings.stalls.points {
        (point.dirty_bytes, point.writeback_bytes, point.busy) = (None, None, None);
    }
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    assert!(
        page.contains("What the disk did was not recorded: this dataset is of an earlier version.")
    );
    digest.findings.stalls = Stalls::default();
    assert!(!spaced(&html::datasets(&[digest])).contains("id=\"stalls\""));
}

#[test]
fn what_is_committed_stands_against_p99() {
    let dir = tempfile::tempdir().unwrap();
    let mut digest = commits(dir.path());
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    for said in [
        "Records committed a second against the p99 of committer",
        "Not drawn, because a figure is missing: 1 of 4.",
        "The line is where it is alone.",
        ">52 000 [50 000, 54 000]</td>",
        "too few trials: 2, and a figure takes at least 4",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // One way alone is no frontier.
    digest.findings.on_disk[0].points.truncate(1);
    assert!(!spaced(&html::datasets(&[digest])).contains("id=\"on-disk\""));
}

#[test]
fn each_way_has_its_quantiles_and_what_is_too_few_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let digest = commits(dir.path());
    let page = check("dataset-commits", &html::datasets(std::slice::from_ref(&digest)));
    for said in [
        "\"columns\":[\"p50\",\"p90\",\"p99\",\"p99.9\",\"max\"]",
        "\"rows\":[\"fdatasync batch 1\",\"fdatasync batch 16\",\"none batch 1 (not \
         durable)\",\"none batch 16 (not durable)\"]",
        "\"text\":\"too few\"",
        "8.39 ms or more",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // What bears no quantile has no colour either.
    let uncoloured = page.matches("\"value\":null,\"text\":\"too few\",\"faint\":true").count();
    let few = |one: &CaseLatencies| one.quantiles.iter().filter(|of| of.ns.is_err()).count();
    assert_eq!(uncoloured, digest.findings.latencies.iter().map(few).sum::<usize>());
    assert!(uncoloured >= 2, "{uncoloured}");
}

#[test]
fn the_first_sentence_names_a_way_its_batch_and_its_cost() {
    let dir = tempfile::tempdir().unwrap();
    let mut digest = commits(dir.path());
    let headline = |digest: &Digest| {
        let page = spaced(&html::datasets(std::slice::from_ref(digest)));
        page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_owned()
    };
    // 1 ms for about 3.1 commits of 16 records beats 1 ms for about 4.1 of one; what is not durable
    // is no way.
    let said = headline(&digest);
    assert!(said.starts_with("Use fdatasync, appending, 16 records a commit: "), "{said}");
    assert!(said.contains("per record of 4KiB."), "{said}");
    // With one batch it is the commit that costs.
    digest.findings.results.retain(|result| result.label.contains("batch=1"));
    digest.findings.results.truncate(1);
    let said = headline(&digest);
    assert!(said.starts_with("Fdatasync, appending: "), "{said}");
    assert!(said.contains("per commit of 4KiB."), "{said}");
    // Nothing durable has a figure.
    digest.findings.results[0].ns_per_unit = Err(NotEstimable::TooFewTrials { trials: 2 });
    let why = "No method is recommended, because the only durable one has no figure: too few \
               trials: 2, and a figure takes at least 4.";
    assert_eq!(headline(&digest), why);
}

// Means that a few stalls decide do not make all ways equal: in each trial one way is twice as
// quick.
#[test]
fn ways_are_compared_within_trials() {
    let dir = tempfile::tempdir().unwrap();
    let level = [1, 9, 2, 14, 3, 20];
    let text =
        EXPERIMENT.replace("['fdatasync', 'none'], batch = [1, 16]", "['fdatasync', 'fsync']");
    let units = |trial: u32, case: usize| [2000, 1000][case] * level[trial as usize % 6];
    let folder = measured(dir.path(), &text, units);
    let mut digest = digest(&Dataset::open(&folder).unwrap());
    let text = |digest: &Digest| {
        let style = ringfence_report::Style { details: true, ..ringfence_report::Style::plain(80) };
        let text = ringfence_report::experiment(&digest.findings, &style);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = text(&digest);
    let told_apart = "No other durable method that was measured is as cheap";
    assert!(said.contains("Use fdatasync, ") && said.contains(told_apart), "{said}");
    // By their intervals alone they would be.
    let cheapest = digest.findings.cheapest.take().unwrap();
    assert!(text(&digest).contains("1 other may be as cheap"), "{}", text(&digest));
    digest.findings.cheapest = Some(Cheapest {
        others: cheapest
            .others
            .iter()
            .map(|other| Compared { by_median: true, ..*other })
            .collect(),
        ..cheapest
    });
    assert!(text(&digest).contains("medians of the same trials decide"), "{}", text(&digest));
}

// The page and the text have one sentence for it.
#[test]
fn where_intervals_are_too_wide_it_says_why_no_way_is_advised_and_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let mut digest = commits(dir.path());
    let too_wide = |needed| Err(NotEstimable::TooWide { trials: 6, needed });
    digest.findings.results[0].ns_per_unit = too_wide(Some(9));
    let text = |digest: &Digest| {
        let style = ringfence_report::Style { details: true, ..ringfence_report::Style::plain(80) };
        let text = ringfence_report::experiment(&digest.findings, &style);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let only = "No method is recommended, because only one of the 2 durable ones has a figure: the \
                6 trials differ so much that the \
                interval reaches beyond a factor of 10 to either side; about 9 trials would narrow \
                it to that.";
    assert!(text(&digest).contains(only), "{}", text(&digest));
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    assert!(text(&digest).contains("sync=none makes nothing durable, and is there to compare"));
    assert!(page.contains(&format!("<h1>{only}</h1>")), "{page}");
    // The one that takes more trials is what it takes.
    digest.findings.results[1].ns_per_unit = too_wide(Some(40));
    let none = "because none of the 2 durable ones has a figure: the 6 trials differ so much that \
                the interval reaches beyond a \
                factor of 10 to either side; about 40 trials";
    assert!(text(&digest).contains(none), "{}", text(&digest));
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    assert!(
        page.contains("<h1>No method is recommended, because none")
            && page.matches(none).count() == 1,
        "{page}"
    );
}

#[test]
fn beside_a_neighbour_the_first_sentence_says_what_to_expect() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = 2\nname = 'n'\nmetric = 'victim'\n[measure]\nlooks = [6]\nrounds = \
                1\nwindow = '400ms'\n\
        [[role]]\nname = 'victim'\ntask = { workload = 'commit', layout = 'written', batch = 16 }\n\
        [[role]]\nname = 'aggressor'\ntask = { workload = 'dirty', io = ['direct', 'dontcache'] }\n\
        [[arm]]\nname = 'alone'\nactive = ['victim']\n\
        [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n";
    // Twice as long beside O_DIRECT, ten times beside the other.
    let units = |trial: u32, case: usize| [1000, 500, 100][case] + u64::from(trial);
    let folder = measured(dir.path(), text, units);
    let mut digest = digest(&Dataset::open(&folder).unwrap());
    let page = spaced(&html::datasets(std::slice::from_ref(&digest)));
    let h1 =
        |page: &str| page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_owned();
    let first =
        "The victim is slower next to all of 2 neighbours; most next to a DONTCACHE writer: 9.";
    assert!(h1(&page).starts_with(first), "{}", h1(&page));
    // Where none is known to, nothing is to be expected.
    digest.findings.results.iter_mut().for_each(|result| {
        result.effect.as_mut().unwrap().finding.verdict =
            ringfence_analysis::estimate::Verdict::NoChangeLargerThanMargin;
    });
    let page = spaced(&html::datasets(&[digest]));
    assert!(h1(&page).starts_with("No change of the victim above 1 %"), "{}", h1(&page));
}

#[test]
fn a_proof_says_in_one_sentence_what_to_expect_what_helps_and_what_it_costs() {
    use ringfence_studies::prove::{Price, Verdict};

    let mut proof = crate::prove::proof();
    proof.record.question =
        crate::prove::question("commit dir=. layout=written batch=16", "dirty dir=. io=dontcache");
    proof.record.question.budget =
        ringfence_experiment::budget::Budget::Slowdown(ringfence_experiment::units::Share(0.5));
    proof.unit = "commits".into();
    proof.beside = interval(945.0, 800.0, 1100.0);
    let last = proof.confirmations.last_mut().unwrap();
    last.tried.candidate.arm.name = "pace=50MB/s".into();
    last.tried.victim = interval(1.2, 1.1, 1.3);
    last.tried.price = Price::Slowdown(interval(9.1, 9.0, 9.2));
    let page = |proof: &ringfence_studies::prove::Proof| spaced(&html::proof(proof, None, &[]));
    let headline = "<h1>fdatasync on a file written before; batch 16; beside a DONTCACHE writer \
                    expect 945x [800, 1100]; \
                    'pace=50MB/s' keeps it at ";
    let text = page(&proof);
    assert!(text.contains(headline), "{text}");
    assert!(
        text.contains(" and costs the writer 9.10x [9.00, 9.20] time per unit of its work.</h1>"),
        "{text}"
    );
    // What was said before still is.
    assert!(text.contains("keeps the victim within the budget of 50 %"), "{text}");
    // A writer that writes more under a limit, or as much, has no visible cost.
    for price in [interval(0.3, 0.2, 0.4), interval(1.0, 0.9, 1.1)] {
        proof.confirmations.last_mut().unwrap().tried.price = Price::Slowdown(price);
        assert!(page(&proof).contains(" and no cost to the writer was seen.</h1>"));
    }
    proof.confirmations.last_mut().unwrap().tried.price =
        Price::Unseen("it shows no progress".into());
    assert!(page(&proof).contains(" and what it costs the writer cannot be seen.</h1>"));
    (proof.verdict, proof.confirmations) = (Verdict::Missed, Vec::new());
    assert!(page(&proof).contains(
        "expect 945x [800, 1100]; no lever that was tried keeps it within the budget of 50 %.</h1>"
    ));
    // Where nothing is decided, the sentence is not made.
    proof.verdict = Verdict::Undecided;
    assert!(!page(&proof).contains("<h1>fdatasync"));
}

#[test]
fn a_budget_that_a_lower_quantile_exceeds_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut digest = commits(dir.path());
    let found = &mut digest.findings;
    let limit: Budget = "p99<1ms".parse().unwrap();
    found.plan.experiment.measure.quantity = Quantity::Quantile(Quantile::P99);
    found.plan.experiment.measure.decide = Some(Decide::of("commit", limit));
    found.judged = vec![Judged {
        case: 0,
        figure: Err(NotEstimable::NothingMeasured),
        within: Some(false),
        lower: Some(Lower {
            quantile: Quantile::P90,
            figure: interval(2e6, 1.9e6, 2.1e6).unwrap(),
        }),
    }];
    let style = ringfence_report::Style::plain(200);
    let text = ringfence_report::experiment(found, &style);
    assert!(text.starts_with("Missed: p99<1ms. "), "{text}");
    assert!(text.contains("p90 is already 2000 us [1900, 2100]; p99 "), "{text}");
}
