use proptest::prelude::*;
use ringfence_persist::Memory;
use ringfence_persist::policy::Prices;

use super::{Lint, Rule, of};
use crate::Check;
use crate::machine::Machine;
use crate::profile::Profile;

// Each instruction stores another value.
fn run(machine: &Machine, program: &str) {
    for (instruction, value) in program.split(';').map(str::trim).zip(1..) {
        let mut words = instruction.split(' ');
        let name = words.next().unwrap();
        let mut number = || words.next().map_or(0, |word| word.parse::<usize>().unwrap());
        let (at, len) = (number(), number().max(8));
        match name {
            "st" => machine.store(at, &vec![value; len]),
            "byte" => machine.store(at, &[value]),
            "nt" => machine.store_nt(at, &vec![value; len]),
            "clwb" => machine.clwb(at),
            "clflush" => machine.clflush(at),
            "sf" => machine.sfence(),
            "mf" => machine.mfence(),
            "lock" => {
                let now = machine.load_u64(at);
                machine.compare_exchange_u64(at, now, value.into()).unwrap();
            }
            "fail" => _ = machine.compare_exchange_u64(at, u64::MAX, 0).unwrap_err(),
            "ack" => machine.acknowledge(1),
            "mark" => machine.mark(1),
            other => panic!("{other}"),
        }
    }
}

fn lints(profile: Profile, program: &str) -> Vec<Lint> {
    let machine = Machine::new(profile, 4096, false);
    run(&machine, program);
    of(profile, &machine.into_events(), &[])
}

fn letter(rule: Rule) -> char {
    match rule {
        Rule::NeverDurable => 'N',
        Rule::AcknowledgedTooEarly => 'A',
        Rule::MissingFence => 'M',
        Rule::RedundantFlush => 'R',
        Rule::CleanFlush => 'C',
        Rule::FlushedTwice => 'T',
        Rule::FlushUnderEadr => 'E',
        Rule::RedundantFence => 'F',
        Rule::PartialBlock => 'P',
        Rule::UncoveredField => 'U',
    }
}

// Program, then what is found under Intel ADR, AMD, AMD before clflushopt, eADR: '=' is as to the
// left.
const TABLE: &[(&str, [&str; 4])] = &[
    // Right.
    ("st 0; clwb 0; sf; ack", ["", "=", "=", "E"]),
    ("st 0; clwb 0; fail; ack", ["", "=", "=", "E"]),
    ("st 0; clflush 0; mf; ack", ["", "=", "=", "E"]),
    ("nt 0; sf; ack", ["", "=", "=", "="]),
    ("st 0; st 8; clwb 0; st 64; clwb 64; sf; ack", ["", "=", "=", "E"]),
    // Never durable.
    ("st 0", ["N", "=", "=", ""]),
    ("st 0; sf", ["NF", "=", "=", ""]),
    ("st 0; clwb 64; sf", ["NC", "=", "=", "E"]),
    ("clwb 0; sf; st 0", ["NC", "=", "=", "E"]),
    ("lock 0", ["N", "=", "=", ""]),
    ("st 0; st 0; clwb 0; sf", ["", "=", "=", "E"]),
    ("st 0; nt 0; sf", ["", "=", "=", "="]),
    ("st 0 16; nt 0; sf", ["N", "=", "=", ""]),
    ("st 0; mark; clwb 0; sf", ["", "=", "=", "E"]),
    // Acknowledged too early: again only for what is stored again.
    ("st 0; ack; clwb 0; sf; ack", ["A", "=", "=", "ME"]),
    ("st 0; ack; ack", ["NA", "=", "=", "M"]),
    ("st 0; mf; ack", ["NA", "=", "=", ""]),
    ("st 0; clwb 0; sf; lock 8; ack; clwb 0; sf", ["A", "=", "=", "E"]),
    // Missing fence.
    ("st 0; clwb 0", ["M", "=", "=", "E"]),
    ("st 0; clwb 0; ack; sf", ["M", "=", "=", "ME"]),
    ("nt 0", ["M", "=", "=", "="]),
    ("nt 0; ack; lock 64; clwb 64; sf", ["M", "=", "=", "ME"]),
    ("st 0; clflush 0; ack; mf", ["M", "=", "=", "ME"]),
    ("st 0; clflush 0; sf; ack", ["", "=", "M", "E"]),
    ("st 0; clflush 0; fail; ack", ["", "M", "=", "E"]),
    ("st 0; clflush 0; fail; sf; ack", ["F", "", "MF", "E"]),
    ("st 0; clflush 0; sf; clwb 0; sf; ack", ["C", "=", "", "EE"]),
    // Flushed again.
    ("st 0; clwb 0; clwb 0; sf", ["R", "=", "=", "E"]),
    ("st 0; clflush 0; clwb 0; mf", ["R", "", "=", "EE"]),
    ("st 0; clwb 0; clflush 0; mf", ["", "R", "=", "EE"]),
    ("st 0; clwb 0; st 64; clwb 64; clwb 0; sf", ["R", "=", "=", "E"]),
    // Clean.
    ("clwb 0; sf", ["C", "=", "=", "E"]),
    ("st 0; clwb 0; sf; clwb 0; sf", ["C", "=", "=", "E"]),
    ("st 0; clwb 0; sf; st 0; clwb 0; sf", ["", "=", "=", "E"]),
    ("nt 0; clwb 0; sf", ["C", "=", "=", "E"]),
    ("nt 0; sf; clwb 0; sf", ["C", "=", "=", "E"]),
    ("st 0; nt 8; clwb 0; sf", ["", "=", "=", "E"]),
    // Twice.
    ("st 0; clwb 0; st 8; clwb 0; sf", ["T", "=", "=", "E"]),
    ("st 0; clwb 0; sf; st 8; clwb 0; sf", ["", "=", "=", "E"]),
    // Redundant fence.
    ("sf", ["F", "=", "=", ""]),
    ("mf; fail; lock 0; clwb 0; mf; mf", ["", "=", "=", "E"]),
    ("nt 0; sf; sf", ["F", "=", "=", ""]),
    ("clwb 0; fail; sf", ["CF", "=", "=", "E"]),
    // Blocks.
    ("nt 0 256; sf", ["", "=", "=", "="]),
    ("nt 256 512; sf", ["", "=", "=", "="]),
    ("nt 0 248; sf", ["", "=", "=", "="]),
    ("nt 64 248; sf", ["", "=", "=", "="]),
    ("nt 64 256; sf", ["P", "=", "=", "="]),
    ("nt 0 264; sf", ["P", "=", "=", "="]),
    ("nt 128 128; nt 0 128; sf; nt 256 8; sf", ["", "=", "=", "="]),
    ("nt 128 136; nt 0 128; sf", ["P", "=", "=", "="]),
    ("nt 64 192; sf; nt 256 192; sf", ["", "=", "=", "="]),
];

#[test]
fn each_rule_finds_its_own_and_nothing_else() {
    for (program, wanted) in TABLE {
        let mut expected = "";
        for (profile, cell) in Profile::ALL.into_iter().zip(wanted) {
            expected = if *cell == "=" { expected } else { cell };
            let found: String =
                lints(profile, program).iter().map(|lint| letter(lint.rule)).collect();
            assert_eq!(found, expected, "{profile}: {program}");
        }
    }
}

#[test]
fn a_finding_counts_what_happened_at_its_place() {
    let counts = |program| -> Vec<_> {
        let lints = lints(Profile::IntelAdr, program);
        lints.into_iter().map(|lint| (letter(lint.rule), lint.count, lint.bytes)).collect()
    };
    // A long store is one, whatever it is made of.
    assert_eq!(counts("st 4 200"), [('N', 1, 4..204)]);
    assert_eq!(counts("byte 7; mf; byte 71"), [('N', 2, 7..8)]);
    // A flush is as many as it has lines.
    assert_eq!(counts("clwb 0; clwb 64; mf"), [('C', 2, 0..64)]);
    assert_eq!(counts("sf; sf"), [('F', 2, 0..0)]);
    // What was stored over is the later store's.
    assert_eq!(counts("st 0; mf; st 0; ack; st 0"), [('N', 1, 0..8), ('A', 1, 0..8)]);
}

#[test]
fn a_sentence_names_the_place_the_matter_and_the_remedy() {
    let cases = [
        ("byte 9", "never durable: the byte stored at 9 is never flushed"),
        ("st 8; ack; clwb 0; sf", "the 8 bytes stored at 8 are not flushed when lib/"),
        ("st 8; clwb 0", "flushed, but there is no fence until the end: put an sfence"),
        ("nt 8; ack; sf", "non-temporal stores, with no fence before the acknowledgement at lib/"),
        ("st 0; clwb 0; clwb 0; sf", "the line at 0 is flushed again"),
        ("clwb 64; sf", "the line at 64 is flushed though nothing was stored"),
        ("nt 64; clwb 64; sf", "only non-temporal stores wrote it"),
        ("st 0; clwb 0; st 0; clwb 0; sf", "store everything first"),
        ("sf", "since the beginning: leave it out"),
        ("sf; sf", "(2 times)"),
        ("nt 8 256; sf", "the 256 bytes stored from 8 on begin or end inside a block of 256 bytes"),
    ];
    for (program, part) in cases {
        let found = lints(Profile::IntelAdr, program);
        let [lint] = &found[..] else { panic!("{program}: {found:?}") };
        let text = lint.to_string();
        assert!(text.contains(part) && text.contains("src/lint/tests.rs:"), "{program}: {text}");
    }
    for (profile, remedy) in [(Profile::Amd, "sfence or mfence"), (Profile::OldAmd, "an mfence")] {
        let text = lints(profile, "st 0; clflush 0; fail; ack")[0].to_string();
        assert!(text.contains("which the fence at") && text.contains(remedy), "{text}");
    }
    assert!(lints(Profile::Eadr, "st 0; ack")[0].to_string().contains("store buffer"));
    assert!(lints(Profile::Eadr, "st 0; clwb 0")[0].to_string().contains("keep the fences"));
}

#[test]
fn a_price_is_told_where_it_was_measured_and_nowhere_else() {
    let some = Prices { clean_flush_ns: Some(12.5), fence_ns: Some(4.0), ..Prices::default() };
    let text = |prices: Prices, program: &str| {
        let report =
            Check::new(Profile::IntelAdr, 4096).prices(prices).run(|m| run(m, program), |_| Ok(()));
        let [lint] = &report.lints[..] else { panic!("{program}: {:?}", report.lints) };
        lint.to_string()
    };
    assert!(text(some, "clwb 0; sf").ends_with("(about 12.5 ns on this machine)"));
    assert!(text(some, "sf; sf").ends_with("(2 times, about 4 ns each on this machine)"));
    for (prices, program) in [
        (Prices::default(), "clwb 0; sf"),
        (some, "st 0; clwb 0; st 0; clwb 0; sf"),
        (some, "st 0"),
        (some, "nt 8 256; sf"),
    ] {
        assert!(!text(prices, program).contains(" ns"), "{program}");
    }
}

fn instruction() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "st", "byte", "nt", "clwb", "clflush", "sf", "mf", "lock", "fail", "ack", "mark",
    ]);
    (names, 0..40usize, 1..40usize)
        .prop_map(|(name, at, len)| format!("{name} {} {}", at * 8, len * 8))
}

fn instruction_of_few_lines() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "st", "byte", "nt", "clwb", "clflush", "sf", "mf", "lock", "fail",
    ]);
    (names, 0..20usize, 1..4usize)
        .prop_map(|(name, at, len)| format!("{name} {} {}", at * 8, len * 8))
}

fn is_of_durability(lint: &Lint) -> bool {
    matches!(lint.rule, Rule::NeverDurable | Rule::AcknowledgedTooEarly | Rule::MissingFence)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_run_has_findings_in_order_each_once(
        program in prop::collection::vec(instruction(), 0..30),
    ) {
        for profile in Profile::ALL {
            let found = if program.is_empty() {
                Vec::new()
            } else {
                lints(profile, &program.join(";"))
            };
            prop_assert!(found.is_sorted_by_key(|lint| (lint.rule, lint.at)));
            let places: std::collections::HashSet<_> =
                found.iter().map(|lint| (lint.rule, lint.at)).collect();
            prop_assert_eq!(places.len(), found.len());
            prop_assert!(found.iter().all(|lint| lint.count > 0 && !lint.to_string().is_empty()));
        }
    }

    // By another way to the same answer: the explorer's.
    #[test]
    fn an_acknowledgement_is_too_early_exactly_where_a_crash_after_it_loses_something(
        program in prop::collection::vec(instruction_of_few_lines(), 1..12)
    ) {
        let program = program.join(";");
        for profile in Profile::ALL {
            let durable = Machine::new(profile, 192, false);
            run(&durable, &program);
            let mut wanted = [0; 192];
            durable.load(0, &mut wanted);
            let report = Check::new(profile, 192).unfenced().run(
                |machine| {
                    run(machine, &program);
                    machine.acknowledge(1);
                },
                |machine| {
                    let mut found = [0; 192];
                    if !machine.marks().is_empty() {
                        machine.load(0, &mut found);
                    }
                    if machine.marks().is_empty() || found == wanted {
                        Ok(())
                    } else {
                        Err("lost".into())
                    }
                },
            );
            prop_assert!(!report.bounded);
            let found = report.lints.iter().any(|lint| {
                lint.rule == Rule::AcknowledgedTooEarly || lint.rule == Rule::MissingFence
            });
            prop_assert_eq!(found, report.violation.is_some(), "{}: {}: \
                {:?}", profile, program, report.lints);
        }
    }

    #[test]
    fn what_is_flushed_and_fenced_at_once_is_durable(
        stores in prop::collection::vec((any::<bool>(), 0..40usize, 1..40usize, 0..3usize), 1..12)
    ) {
        for profile in Profile::ALL {
            let machine = Machine::new(profile, 4096, profile != Profile::IntelAdr);
            for (streamed, at, words, fence) in &stores {
                let (at, len) = (at * 8, words * 8);
                if *streamed {
                    machine.store_nt(at, &vec![1; len]);
                } else {
                    machine.store(at, &vec![1; len]);
                    machine.flush(at..at + len);
                }
                // Every fence that is enough here.
                match (profile, fence) {
                    (Profile::OldAmd, _) | (_, 0) => machine.mfence(),
                    (Profile::IntelAdr | Profile::Eadr, 1) => {
                        machine.compare_exchange_u64(4088, 1, 1).unwrap_err();
                    }
                    _ => machine.sfence(),
                }
                machine.acknowledge(1);
            }
            let found = of(profile, &machine.into_events(), &[]);
            prop_assert!(!found.iter().any(is_of_durability), "{}: {:?}", profile, found);
        }
    }
}
