//! Runs that are kept are read as they were.

use std::fs;

use ringfence_versus::Files;
use ringfence_versus::case::{Asked, Case, cases};
use ringfence_versus::findings::{About, Findings, findings};
use ringfence_versus::order::Slot;
use ringfence_versus::parameter::Parameter;
use ringfence_versus::run::{Run, Took};
use ringfence_versus::session::{Measured, Settings};
use ringfence_versus::stretch::stretches;
use ringfence_versus::table;

fn commands() -> Vec<Case> {
    let parameter = Parameter { name: "size".into(), values: vec!["1".into(), "2".into()] };
    let commands = vec!["one {size}".into(), "two {size}".into()];
    cases(&Asked { commands, parameters: vec![parameter], ..Asked::default() }).unwrap()
}

fn runs() -> Vec<Run> {
    let slots = [Slot::Shell, Slot::Case(3), Slot::Case(0), Slot::Case(1), Slot::Case(2)];
    let each =
        (1..=6u32).flat_map(|round| slots.into_iter().enumerate().map(move |at| (round, at)));
    let run = |(round, (place, slot)): (u32, (usize, Slot))| {
        let number = u64::from(round) * 10 + place as u64;
        let killed = number == 23;
        Run {
            slot,
            round,
            place: place as u32,
            warm_up: round == 1,
            began_unix_ns: 1_800_000_000_000_000_000 + number,
            took: Took {
                wall_ns: 1_000 + number,
                user_ns: 2_000 + number,
                system_ns: 3_000 + number,
                peak_memory: 4_000 + number,
                memory_floor: 5_000 + number,
                minor_faults: 6_000 + number,
                major_faults: 7_000 + number,
                voluntary_switches: 8_000 + number,
                involuntary_switches: 9_000 + number,
                instructions: (number != 12).then_some(10_000 + number),
                cycles: (number == 31).then_some(11_000 + number),
                code: (!killed).then_some(0),
                signal: killed.then_some(9),
                left_behind: Vec::new(),
            },
        }
    };
    each.map(run).collect()
}

fn answer(runs: &[Run]) -> Findings {
    let measured = Measured {
        runs: runs.to_vec(),
        warmed: None,
        announced: None,
        levels: vec![0.95; 2],
        trouble: None,
        seconds: 1.0,
    };
    findings(&commands(), &Settings::default(), About::default(), &measured)
}

#[test]
fn every_run_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (runs, path) = (runs(), dir.path().join(Files::RUNS));
    let found = answer(&runs);
    table::write(&path, &found, &commands(), &runs).unwrap();
    assert_eq!(Files::runs(dir.path(), &found).unwrap(), runs);
    // An answer without one of the commands is another one.
    let mut other = found.clone();
    other.commands.pop();
    let refused = Files::runs(dir.path(), &other).unwrap_err();
    assert!(
        refused.text().contains("row 2 belongs to no command of the answer: restore the original"),
        "{refused}"
    );
}

#[test]
fn what_is_damaged_or_gone_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(Files::RUNS);
    let found = answer(&runs());
    let gone = Files::runs(dir.path(), &found).unwrap_err();
    assert!(gone.text().starts_with(&format!("{}: No such file", path.display())), "{gone}");
    table::write(&path, &found, &commands(), &runs()).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(Files::runs(dir.path(), &found).unwrap_err().text().contains("restore the original"));
}

#[test]
fn runs_in_a_row_are_one_stretch_where_there_are_many() {
    let runs = runs();
    let each = stretches(&runs, 100);
    assert_eq!(each.len(), 24);
    assert!(each.iter().all(|one| one.runs == 1 && one.ns[0] == one.ns[2]), "{each:?}");
    assert_eq!(each.iter().map(|one| one.failed).sum::<u32>(), 1);
    // The shell takes 1020 to 1060 ns, so the start that is subtracted lies between.
    let ns =
        |case, round| each.iter().find(|one| (one.case, one.round) == (case, round)).unwrap().ns[0];
    assert!(ns(0, 6) < 1_062 - 1_020 && ns(0, 6) - ns(0, 5) == 10, "{each:?}");
    assert_eq!(ns(0, 1), 0);
    // Three rounds in one, and the first of them, which is warm-up, stays by itself.
    let few = stretches(&runs, 10);
    let of_first: Vec<_> = few.iter().filter(|one| one.case == 0).collect();
    assert_eq!(
        of_first.iter().map(|one| (one.round, one.runs)).collect::<Vec<_>>(),
        [(1, 1), (2, 2), (4, 3)]
    );
    let [median, least, greatest] = of_first[2].ns;
    assert!(least < median && median < greatest, "{of_first:?}");
}
