//! Machine files from synthetic measurements with a known answer.

use ringfence_experiment::Experiment;
use ringfence_experiment::plan::Plan;
use ringfence_machine::{Machine, fixtures};
use ringfence_simulator::{Description, catalogue};
use ringfence_studies::describe::cells::errors;
use ringfence_studies::describe::{Measured, fit, host, predict, sensitivity};

// Small, so that a machine is simulated in a moment.
const COSTS: &str = r#"schema = 2
name = "costs"
metric = "writer"
[[role]]
name = "writer"
[[role.task]]
workload = "write"
instruction = ["clflush", "clwb", "nt"]
block = ["64B", "1KiB"]
size = "256KiB"
[[arm]]
name = "write"
active = ["writer"]
"#;

fn laptop() -> Description {
    catalogue::all().into_iter().find(|known| known.name == "laptop").unwrap()
}

// What a machine would measure if it were as described.
fn measured_on(description: &Description) -> Measured {
    let plan = Plan::new(&Experiment::parse(COSTS).unwrap(), &description.machine().topology, None)
        .unwrap();
    let mut cells = Measured::planned(&plan);
    let all: Vec<usize> = (0..cells.cells.len()).collect();
    let figures = cells.simulate(description, &all).unwrap();
    for (cell, figure) in cells.cells.iter_mut().zip(figures) {
        cell.value = figure.unwrap();
        cell.bounds = (cell.value * 0.99, cell.value * 1.01);
    }
    cells
}

fn places(cells: &Measured, text: &str) -> Vec<usize> {
    cells.named(&[text.to_owned()]).unwrap()
}

#[test]
fn a_cell_does_not_depend_on_what_else_is_simulated() {
    let (one, cells) = (laptop(), measured_on(&laptop()));
    for (place, cell) in cells.cells.iter().enumerate() {
        assert_eq!(cells.simulate(&one, &[place]).unwrap(), [Some(cell.value)], "{}", cell.label);
    }
    let found = predict(&one, &cells, &[0]).unwrap();
    assert_eq!((found.used.len(), found.left_out.len()), (1, cells.cells.len() - 1));
    assert_eq!(errors(&found.left_out), Some((0.0, 0.0)));
}

#[test]
fn a_planted_value_is_found_again_and_the_cells_left_out_follow() {
    let planted = laptop().changed("uncore.flush_ns", "80.0").unwrap();
    let cells = measured_on(&planted);
    let used = places(&cells, "64B");
    let keys = ["uncore.flush_ns".to_owned()];
    let run = || fit(&laptop(), &cells, &used, &keys, "what was planted", &mut |_| {}).unwrap();
    let found = run();
    let value =
        |fit: &ringfence_studies::describe::Fit| -> f64 { fit.changes[0].after.parse().unwrap() };
    assert!((value(&found) - 80.0).abs() < 8.0, "{:?}", found.changes);
    let error = |outcomes| errors(outcomes).unwrap().1;
    assert!(error(&found.after.left_out) < error(&found.before.left_out) / 3.0);
    assert!(error(&found.after.used) < 0.05);
    // The file says so, and parses; and it all repeats.
    let values = Description::parse(&found.description.text).unwrap().values();
    let own = values.into_iter().find(|value| value.path == "uncore.flush_ns").unwrap();
    assert!(own.source.starts_with("fitted to what was planted, from "), "{}", own.source);
    assert_eq!(run().description, found.description);
}

#[test]
fn a_fit_that_makes_cells_worse_says_so() {
    // Cells of blocks of 64 bytes are as on another machine, all others as on this one: what is
    // fitted to the former makes the latter worse.
    let (own, other) =
        (measured_on(&laptop()), laptop().changed("uncore.flush_ns", "80.0").unwrap());
    let mut cells = measured_on(&other);
    let used = places(&cells, "64B");
    for place in (0..cells.cells.len()).filter(|place| !used.contains(place)) {
        cells.cells[place] = own.cells[place].clone();
    }
    let keys = ["uncore.flush_ns".to_owned()];
    let found = fit(&laptop(), &cells, &used, &keys, "what was planted", &mut |_| {}).unwrap();
    let [worse] = &found.worse()[..] else { panic!("{:?}", found.worse()) };
    assert!(!worse.used && worse.before == (0.0, 0.0) && worse.after.1 > 0.01, "{worse:?}");
    let text =
        ringfence_report::describe::fitted(&found, &ringfence_report::print::Style::plain(80));
    let told = text.replace('\n', " ");
    assert!(
        told.contains("WORSE: the 3 cells that were left out come out worse than before"),
        "{text}"
    );
    // Where all were planted alike, there is nothing to say; with no cell left out, that is said.
    let cells = measured_on(&other);
    let good = fit(&laptop(), &cells, &used, &keys, "what was planted", &mut |_| {}).unwrap();
    assert!(good.worse().is_empty(), "{:?}", good.worse());
    let all: Vec<usize> = (0..cells.cells.len()).collect();
    let good = fit(&laptop(), &cells, &all, &keys, "what was planted", &mut |_| {}).unwrap();
    let text =
        ringfence_report::describe::fitted(&good, &ringfence_report::print::Style::plain(80));
    assert!(text.contains("No cell was left out") && !text.contains("WORSE"), "{text}");
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let cells = measured_on(&laptop());
    let refused =
        |key: &str| fit(&laptop(), &cells, &[0], &[key.to_owned()], "x", &mut |_| {}).unwrap_err();
    assert!(refused("core.nothing").text().contains("has no value core.nothing"));
    assert!(refused("l1.replacement").text().contains("is not a number"));
    assert!(
        cells
            .named(&["movsb".to_owned()])
            .unwrap_err()
            .text()
            .contains("no cell label contains 'movsb'")
    );
}

#[test]
fn what_a_figure_waits_for_moves_it() {
    let cells = {
        let mut cells = measured_on(&laptop());
        cells.cells.truncate(1);
        cells
    };
    let found = sensitivity::sensitivity(&laptop(), &cells, &mut |_| {}).unwrap();
    let change =
        |path: &str| found.rows.iter().find(|row| row.path == path).unwrap().changes[0].unwrap();
    // A fenced flush of each line waits for the way to memory, and not for arithmetic.
    assert!(change("uncore.to_memory_ns") > 0.01, "{}", change("uncore.to_memory_ns"));
    assert_eq!(change("processor.multiply_ns"), 0.0);
    let all = found.rows.len() + found.left_out.len();
    let numbers =
        laptop().values().into_iter().filter(|value| value.value.parse::<f64>().is_ok()).count();
    assert!(all > 30 && all <= numbers, "{all} of {numbers}");
}

#[test]
fn every_known_machine_gets_a_file_that_parses_and_names_each_source() {
    for tree in [fixtures::vm_2cpu(), fixtures::xeon_2s64t(), fixtures::zen_multi_llc()] {
        let machine = Machine::examine(&tree.root()).unwrap();
        let written = match host(&machine, None, &mut |_| {}) {
            Ok(written) => written,
            Err(error) => panic!("{}: {error}", machine.topology.summary()),
        };
        let parts = &written.description.parts.topology;
        let cores = parts.sockets * parts.llcs_per_socket * parts.cores_per_llc;
        assert_eq!(cores as usize, machine.topology.cores.len());
        let values = written.description.values();
        assert!(values.iter().all(|value| !value.source.is_empty()));
        let kind =
            |start: &str| values.iter().filter(|value| value.source.starts_with(start)).count();
        assert!(kind("probed: ") > 5 && kind("assumed: ") > 20, "{}", written.description.text);
        assert_eq!(kind("measured "), 0, "nothing was measured");
        // It simulates.
        let cells = measured_on(&written.description);
        assert!(cells.cells.iter().all(|cell| cell.value > 0.0));
    }
    let mut machine = Machine::examine(&fixtures::zen_multi_llc().root()).unwrap();
    let store_buffer = |machine: &Machine| {
        host(machine, None, &mut |_| {}).unwrap().description.parts.core.store_buffer
    };
    (machine.processor.vendor, machine.processor.family) = (Some("AuthenticAMD".into()), Some(25));
    assert_eq!(store_buffer(&machine), 64);
    machine.processor.family = Some(26);
    assert_eq!(store_buffer(&machine), 104);
    let described = laptop().machine();
    assert!(host(&described, None, &mut |_| {}).unwrap_err().text().contains("this was simulated"));
}

#[test]
fn the_file_of_a_surveyed_guest_parses_and_says_what_was_fitted() {
    // Fitted by `calibrate` to a survey of 25 November 2026; crates/simulator/VALIDATION.md
    // has what it predicted before that was measured.
    let description = Description::parse(include_str!("host/zen5-guest.toml")).unwrap();
    let values = description.values();
    let fitted =
        values.iter().filter(|value| value.source.starts_with("fitted to 11 of 59 cells")).count();
    assert_eq!(fitted, 7);
    let cells = measured_on(&description);
    assert!(cells.cells.iter().all(|cell| cell.value > 0.0));
}
