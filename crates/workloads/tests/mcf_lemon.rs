//! The network simplex against LEMON's, an independent implementation.
//!
//! LEMON's optima are in `data/lemon-optima.csv`, so that no one needs LEMON for them; where
//! its `dimacs-solver` is there (Debian has it in `liblemon-utils`), it also solves instances
//! that are not in the file. The `mcmf` crate, which would bring LEMON along, is not used
//! because it compiles C++, and this project is to build with nothing but a C compiler.
//!
//! `RINGFENCE_REGENERATE=1` writes the file anew. `RINGFENCE_REQUIRE_ALL=1` makes a missing
//! `dimacs-solver` a failure instead of a reason to skip.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_workloads::mcf::{Instance, RandomShape, Solver, State, random, timetable, verify};

const HEADER: &str =
    "kind,nodes_or_trips,arcs,max_capacity,min_cost,max_cost,uncapped_one_in,feasible,seed,optimum";

/// How an instance is made.
#[derive(Debug, Clone, Copy)]
enum Case {
    Random(RandomShape, u64),
    Timetable(u32, u64),
}

impl Case {
    fn instance(self) -> Instance {
        match self {
            Self::Random(shape, seed) => random(shape, seed),
            Self::Timetable(trips, seed) => timetable(trips, seed),
        }
    }

    fn to_row(self) -> String {
        match self {
            Self::Timetable(trips, seed) => format!("timetable,{trips},,,,,,,{seed}"),
            Self::Random(s, seed) => format!(
                "random,{},{},{},{},{},{},{},{seed}",
                s.nodes,
                s.arcs,
                s.max_capacity,
                s.min_cost,
                s.max_cost,
                s.uncapped_one_in,
                s.feasible
            ),
        }
    }

    /// The case and what follows it in a row.
    fn from_row(row: &str) -> (Self, &str) {
        fn read<T: std::str::FromStr>(text: &str) -> T {
            text.parse().unwrap_or_else(|_| panic!("'{text}' in the file of optima"))
        }
        let fields: Vec<&str> = row.split(',').collect();
        let [
            kind,
            nodes,
            arcs,
            max_capacity,
            min_cost,
            max_cost,
            uncapped,
            feasible,
            seed,
            optimum,
        ] = fields[..]
        else {
            panic!("'{row}' in the file of optima");
        };
        if kind == "timetable" {
            return (Self::Timetable(read(nodes), read(seed)), optimum);
        }
        assert_eq!(kind, "random");
        let shape = RandomShape {
            nodes: read(nodes),
            arcs: read(arcs),
            max_capacity: read(max_capacity),
            min_cost: read(min_cost),
            max_cost: read(max_cost),
            uncapped_one_in: read(uncapped),
            feasible: read(feasible),
        };
        (Self::Random(shape, read(seed)), optimum)
    }
}

/// Cases of all kinds, sparse to dense and tiny to sizeable, from a range of seeds.
fn cases(seeds: std::ops::Range<u64>) -> Vec<Case> {
    let case = |seed: u64| {
        let i = seed as usize;
        if i % 10 == 9 {
            let trips = [1, 2, 5, 12, 30, 75, 150, 300, 600, 1200][i / 10 % 10] + seed as u32 % 7;
            return Case::Timetable(trips, seed);
        }
        let nodes = [2, 5, 10, 20, 40, 80, 160][i % 7];
        let (min_cost, max_cost) =
            [(0, 10), (-10, 10), (0, 1_000_000), (-1_000_000, 1_000_000), (1, 1)][i / 7 % 5];
        let shape = RandomShape {
            nodes,
            arcs: nodes * [1, 2, 4, 8, 16][i / 2 % 5],
            max_capacity: [1, 5, 100, 1_000_000][i / 3 % 4],
            min_cost,
            max_cost,
            // With negative costs there would be no optimum, which dimacs-solver does not say.
            uncapped_one_in: if min_cost < 0 { 0 } else { [0, 3, 10][i / 5 % 3] },
            feasible: !i.is_multiple_of(4),
        };
        Case::Random(shape, seed)
    };
    seeds.map(case).collect()
}

/// What this project's solver finds: the optimum, proved, or `infeasible`.
fn our_optimum(instance: &Instance) -> String {
    let mut solver = Solver::new(instance).expect("small numbers");
    while solver.run(1 << 20).state == State::Running {}
    match solver.run(0).state {
        State::Optimal => {
            assert_eq!(verify(instance, &solver.flows(), &solver.potentials()), Ok(solver.cost()));
            solver.cost().to_string()
        }
        State::Infeasible => "infeasible".to_string(),
        state => panic!("{state:?}"),
    }
}

/// What LEMON finds; nothing where it is not installed.
fn lemon_optimum(instance: &Instance) -> Option<String> {
    let mut command = Command::new("dimacs-solver");
    command.arg("-long").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        child => child.expect("dimacs-solver starts"),
    };
    // Dropped at the end of the statement, which closes it. The report is far too short to
    // fill its pipe meanwhile.
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(instance.to_dimacs().as_bytes())
        .expect("it is read");
    let output = child.wait_with_output().expect("dimacs-solver ends");
    let report = String::from_utf8_lossy(&output.stderr);
    let said = |label| {
        report.lines().find_map(|line| line.strip_prefix(label)).map(|rest| rest.trim().to_string())
    };
    match (said("Feasible flow:").as_deref(), said("Min flow cost:")) {
        (Some("found"), Some(cost)) => Some(cost),
        (Some("not found"), _) => Some("infeasible".to_string()),
        _ => panic!("dimacs-solver said:\n{report}"),
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

#[test]
fn optima_are_those_lemon_found() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lemon-optima.csv");
    if is_set("RINGFENCE_REGENERATE") {
        let mut text = format!("{HEADER}\n");
        for case in cases(0..600) {
            let optimum =
                lemon_optimum(&case.instance()).expect("dimacs-solver is needed to regenerate");
            writeln!(text, "{},{optimum}", case.to_row()).expect("writing to a string");
        }
        std::fs::write(&path, text).expect("the file of optima can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the file of optima is there");
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some(HEADER));
    let (mut randoms, mut timetables, mut infeasible) = (0, 0, 0);
    for row in rows {
        let (case, optimum) = Case::from_row(row);
        assert_eq!(our_optimum(&case.instance()), optimum, "{case:?}");
        match case {
            Case::Random(..) => randoms += 1,
            Case::Timetable(..) => timetables += 1,
        }
        infeasible += usize::from(optimum == "infeasible");
    }
    assert!(
        randoms >= 500 && timetables >= 50 && infeasible >= 50,
        "{randoms} {timetables} {infeasible}"
    );
}

#[test]
fn lemon_agrees_on_fresh_instances() {
    for case in cases(1000..1100) {
        let instance = case.instance();
        let Some(optimum) = lemon_optimum(&instance) else {
            return ringfence_testbed::skip(
                "fresh instances",
                "dimacs-solver is not installed (Debian: liblemon-utils)",
            );
        };
        assert_eq!(our_optimum(&instance), optimum, "{case:?}");
    }
}
