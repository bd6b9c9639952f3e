//! Litmus tests: small programs as data, in `litmus/*.txt`, and what a crash may leave of each.

use std::cell::RefCell;
use std::collections::BTreeSet;

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::Memory;

const ORDER: &str = include_str!("litmus/order.txt");
const PUBLISHED: &str = include_str!("litmus/published.txt");

const VARIABLES: [(&str, usize); 4] = [("x0", 0), ("x1", 8), ("y", 64), ("z", 128)];

// Earlier (rows) before later (columns), as in the design.
const CLASSES: [&str; 6] = ["read", "write", "RMW", "SF", "FO", "FL"];
const TABLE: [[&str; 6]; 6] = [
    ["yes", "yes", "yes", "yes", "yes", "yes"],
    ["no", "yes", "yes", "yes", "same line", "yes"],
    ["yes", "yes", "yes", "yes", "yes", "yes"],
    ["no", "yes", "yes", "yes", "yes", "yes"],
    ["no", "no", "yes", "yes", "no", "same line"],
    ["no", "yes", "yes", "yes", "same line", "yes"],
];

type Image = [u64; VARIABLES.len()];

// What some of the variables are, and under which profiles that may be found.
type Outcome = (Vec<(usize, u64)>, [bool; 4]);

#[derive(Debug, Default, Clone)]
struct Litmus {
    name: String,
    cell: String,
    order: String,
    source: String,
    not_observable: String,
    program: String,
    outcomes: Vec<Outcome>,
    nothing_else: bool,
}

fn variable(name: &str) -> usize {
    let name = if name == "x" { "x0" } else { name };
    VARIABLES
        .iter()
        .position(|(other, _)| *other == name)
        .unwrap_or_else(|| panic!("no variable '{name}'"))
}

fn assignment(text: &str) -> (usize, u64) {
    let (name, value) =
        text.split_once('=').unwrap_or_else(|| panic!("'{text}' is not a name=value"));
    (variable(name), value.parse().unwrap_or_else(|_| panic!("'{text}' has no number")))
}

// Tests are apart by empty lines.
fn parse(text: &str) -> Vec<Litmus> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let blocks = lines.split(|line| line.is_empty()).filter(|block| !block.is_empty());
    blocks
        .map(|block| block.iter().fold(Litmus::default(), |litmus, line| litmus.with(line)))
        .collect()
}

impl Litmus {
    fn with(mut self, line: &str) -> Self {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match key {
            "test" => self.name = value.into(),
            "cell" => self.cell = value.into(),
            "order" => self.order = value.into(),
            "source" => self.source = value.into(),
            "not observable" => self.not_observable = value.into(),
            "program" => self.program = value.into(),
            "nothing else" => self.nothing_else = true,
            _ => {
                let (named, verdicts): (Vec<&str>, Vec<&str>) =
                    line.split_whitespace().partition(|word| word.contains('='));
                let verdicts = verdicts.iter().map(|word| match *word {
                    "yes" => true,
                    "no" => false,
                    other => panic!("'{other}' in '{line}'"),
                });
                let verdicts: Vec<bool> = verdicts.collect();
                let four = verdicts.try_into().unwrap_or_else(|_| panic!("four columns: '{line}'"));
                assert!(!named.is_empty(), "no outcome in '{line}'");
                self.outcomes.push((named.into_iter().map(assignment).collect(), four));
            }
        }
        self
    }

    // What the explorer says otherwise.
    fn differences(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (column, profile) in Profile::ALL.into_iter().enumerate() {
            let images = explored(profile, &self.program);
            let fits = |image: &Image, named: &[(usize, u64)]| {
                named.iter().all(|(v, value)| image[*v] == *value)
            };
            for (named, verdicts) in &self.outcomes {
                let found = images.iter().any(|image| fits(image, named));
                if found != verdicts[column] {
                    let verb = if found { "found" } else { "not found" };
                    all.push(format!(
                        "{}, {profile}: {named:?} is {verb} in {images:?}",
                        self.name
                    ));
                }
            }
            let listed = |image: &Image| self.outcomes.iter().any(|(named, _)| fits(image, named));
            if self.nothing_else
                && let Some(image) = images.iter().find(|image| !listed(image))
            {
                all.push(format!("{}, {profile}: {image:?} is not listed", self.name));
            }
        }
        all
    }
}

fn step(memory: &Machine, instruction: &str) {
    let (verb, rest) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let place = |name: &str| VARIABLES[variable(name)].1;
    let target = |text: &str| {
        let (variable, value) = assignment(text);
        (VARIABLES[variable].1, value)
    };
    match verb {
        "clwb" | "clflushopt" => memory.clwb(place(rest)),
        "clflush" => memory.clflush(place(rest)),
        "sfence" => memory.sfence(),
        "mfence" => memory.mfence(),
        "nt" => {
            let (at, value) = target(rest);
            memory.store_nt(at, &value.to_le_bytes());
        }
        "lock" => {
            let (at, value) = target(rest);
            memory.compare_exchange_u64(at, memory.load_u64(at), value).unwrap();
        }
        _ => {
            let (at, value) = target(verb);
            memory.store_u64(at, value);
        }
    }
}

// Everything that a crash at any point can leave.
fn explored(profile: Profile, program: &str) -> BTreeSet<Image> {
    let images = RefCell::new(BTreeSet::new());
    let report = Check::new(profile, 192).run(
        |memory| program.split(';').for_each(|instruction| step(memory, instruction.trim())),
        |memory| {
            images.borrow_mut().insert(VARIABLES.map(|(_, at)| memory.load_u64(at)));
            Ok(())
        },
    );
    assert!(!report.bounded && report.violation.is_none());
    images.into_inner()
}

fn programs() -> Vec<Litmus> {
    let all = [parse(ORDER), parse(PUBLISHED)].concat();
    all.into_iter().filter(|litmus| litmus.not_observable.is_empty()).collect()
}

#[test]
fn every_outcome_is_found_exactly_where_it_may_be() {
    let programs = programs();
    let differences: Vec<String> = programs.iter().flat_map(Litmus::differences).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{} programs, {} profiles", programs.len(), Profile::ALL.len());
}

#[test]
fn each_wrong_verdict_would_be_noticed() {
    for litmus in programs() {
        for outcome in 0..litmus.outcomes.len() {
            for column in 0..4 {
                let mut wrong = litmus.clone();
                let verdict = &mut wrong.outcomes[outcome].1[column];
                *verdict = !*verdict;
                assert_eq!(wrong.differences().len(), 1, "{}", litmus.name);
            }
        }
        if litmus.nothing_else {
            let mut wrong = litmus.clone();
            wrong.outcomes.pop();
            assert!(!wrong.differences().is_empty(), "{}", litmus.name);
        }
    }
}

#[test]
fn every_cell_of_the_order_table_has_a_test_or_a_reason() {
    let all = parse(ORDER);
    for (row, earlier) in TABLE.iter().zip(CLASSES) {
        for (order, later) in row.iter().zip(CLASSES) {
            let cell = format!("{earlier} -> {later}");
            let here: Vec<_> = all.iter().filter(|litmus| litmus.cell == cell).collect();
            assert!(!here.is_empty(), "{cell} has no test");
            assert!(here.iter().all(|litmus| litmus.order == *order), "{cell} is '{order}'");
            // Only what another thread must look at has no program.
            let reads = earlier == "read" || later == "read";
            assert!(here.iter().all(|litmus| reads != litmus.not_observable.is_empty()), "{cell}");
        }
    }
    let known = |litmus: &Litmus| {
        litmus
            .cell
            .split_once(" -> ")
            .is_some_and(|(one, other)| CLASSES.contains(&one) && CLASSES.contains(&other))
    };
    assert!(all.iter().all(known));
}

#[test]
fn every_program_has_a_name_of_its_own_outcomes_and_where_it_is_from() {
    let mut names = BTreeSet::new();
    for litmus in programs() {
        assert!(!litmus.program.is_empty() && !litmus.outcomes.is_empty(), "{litmus:?}");
        assert!(litmus.source.is_empty() != litmus.cell.is_empty(), "{litmus:?}");
        assert!(!litmus.name.is_empty() && names.insert(litmus.name.clone()), "{litmus:?}");
    }
}
