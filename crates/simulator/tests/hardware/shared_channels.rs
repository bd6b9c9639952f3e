//! DIMMs of two kinds on one channel have one bus.

use crate::support::{core, machine, rounds};
use ringfence_simulator::hardware::machine::{Device, Ingress, Machine};
use ringfence_simulator::hardware::{Op, Ps, Run, Setup};

const DRAM: usize = 0;
const OPTANE: usize = 1;

fn shared() -> Machine {
    let mut machine = machine();
    machine.nodes[OPTANE].shares_channels_with = Some("dram".into());
    machine
}

// Threads that read DRAM in order, as many as the bus of 12.8 GB/s needs, and one that writes to
// the DIMM if that is wanted.
fn readers(machine: &Machine, readers: u32, write: bool) -> Run {
    let mut setup = Setup::new(machine, 1).unwrap();
    for number in 0..readers {
        let region = setup.region(DRAM, 1 << 20).unwrap();
        let program = rounds(move |at| {
            vec![
                Op::Load { line: region.line(at % region.lines()), dependent: false },
                Op::Units(1),
            ]
        });
        setup.program(core(number), 0, program).unwrap();
    }
    if write {
        let region = setup.region(OPTANE, 1 << 20).unwrap();
        let program = rounds(move |at| {
            vec![Op::NtStore { line: region.line(at % region.lines()), bytes: 64 }, Op::Units(1)]
        });
        setup.program(core(3), 0, program).unwrap();
    }
    setup.start()
}

// GB/s of DRAM and of the DIMM.
fn rates(run: &mut Run) -> (f64, f64) {
    let bytes = |run: &mut Run| [DRAM, OPTANE].map(|node| run.channel_counters(node)[0].bytes());
    run.until(Ps::from_ns(200_000));
    let before = bytes(run);
    run.until(Ps::from_ns(1_200_000));
    let after = bytes(run);
    let of = |node: usize| (after[node] - before[node]) as f64 / 1e6;
    (of(DRAM), of(OPTANE))
}

fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} instead of {expected}");
}

#[test]
fn what_a_dimm_is_written_dram_does_without_on_a_bus_of_both() {
    let (dram, optane) = rates(&mut readers(&machine(), 3, true));
    near(dram, 12.8, 0.001);
    near(optane, 2.56, 0.01);
    let (dram, optane) = rates(&mut readers(&shared(), 3, true));
    // The media, and not the bus, is what the writer waits for: reads let the writes of a queue
    // that is nearly full go first.
    near(optane, 2.56, 0.01);
    near(dram + optane, 12.8, 0.001);
}

#[test]
fn a_bus_of_both_turns_around_between_them_and_without_a_writer_nothing_changes() {
    let alone = rates(&mut readers(&machine(), 3, false));
    assert_eq!(rates(&mut readers(&shared(), 3, false)), alone);
    let mut turning = shared();
    turning.nodes.iter_mut().for_each(|node| node.turnaround_ns = 5.0);
    let (dram, optane) = rates(&mut readers(&turning, 3, true));
    near(optane, 2.56, 0.01);
    // A line takes 5 ns. Writes go two at a time at most, and each time the bus turns around twice.
    let written = optane / 12.8;
    let turns = 1.0 - written - dram / 12.8;
    assert!((written - 0.01..=2.0 * written + 0.01).contains(&turns), "{turns} of {written}");
}

// ns of a dependent read of DRAM, next to threads on other cores.
fn latency(machine: &Machine, start_others: impl FnOnce(&mut Setup)) -> f64 {
    let mut setup = Setup::new(machine, 1).unwrap();
    let region = setup.region(DRAM, 1 << 20).unwrap();
    let program = rounds(move |at| {
        vec![Op::Load { line: region.line(at % region.lines()), dependent: true }, Op::Units(1)]
    });
    let reader = setup.program(core(0), 0, program).unwrap();
    start_others(&mut setup);
    let mut run = setup.start();
    run.until(Ps::from_ns(500_000));
    let before = run.units(reader);
    run.until(Ps::from_ns(4_500_000));
    4e6 / (run.units(reader) - before) as f64
}

#[test]
fn a_chain_of_loads_waits_for_the_dimms_lines_on_the_bus() {
    let next_to_a_writer = |machine: &Machine| {
        latency(machine, |setup| {
            let region = setup.region(OPTANE, 1 << 20).unwrap();
            let program = rounds(move |at| {
                vec![Op::NtStore { line: region.line(at % region.lines()), bytes: 64 }]
            });
            setup.program(core(3), 0, program).unwrap();
        })
    };
    // 26.3 ns for each line written, so that they do not keep step with reads of 100 ns.
    let out_of_step = |mut machine: Machine| {
        if let Device::Optane(optane) = &mut machine.nodes[OPTANE].device {
            optane.media_write_gb_per_s = 2.43;
        }
        machine
    };
    let alone = latency(&out_of_step(machine()), |_| ());
    near(next_to_a_writer(&out_of_step(machine())), alone, 1e-9);
    // A fifth of the time one of its lines is on the bus; at most two of 5 ns each go first.
    let found = next_to_a_writer(&out_of_step(shared()));
    assert!((alone + 0.2..=alone + 10.0).contains(&found), "{found} instead of {alone} alone");
}

#[test]
fn reads_of_dram_wait_behind_a_full_ingress() {
    let with = |lines| {
        let mut machine = shared();
        machine.nodes[OPTANE].ingress = Some(Ingress { lines, channels: 1 });
        if let Device::Optane(optane) = &mut machine.nodes[OPTANE].device {
            optane.media_read_gb_per_s = 1.6;
        }
        latency(&machine, |setup| {
            for number in 1..4 {
                let region = setup.region(OPTANE, 16 << 20).unwrap();
                let program = rounds(move |at| {
                    vec![Op::Load { line: region.line(at % region.lines()), dependent: false }]
                });
                setup.program(core(number), 0, program).unwrap();
            }
        })
    };
    let [few, more, many] = [2, 6, 1000].map(with);
    // A line takes the media 40 ns.
    near(few - more, 160.0, 0.1);
    assert!(more > many + 40.0, "{few}, {more}, {many}");
}

#[test]
fn a_bank_of_dram_answers_one_request_at_a_time() {
    let with = |banks, bank_ns| {
        let mut machine = machine();
        if let Device::Dram(dram) = &mut machine.nodes[DRAM].device {
            (dram.banks, dram.bank_ns) = (banks, bank_ns);
        }
        rates(&mut readers(&machine, 3, false)).0
    };
    near(with(1, 50.0), 64.0 / 50.0, 0.01);
    let [two, many] = [2, 64].map(|banks| with(banks, 50.0));
    assert!(two > 1.3 * 64.0 / 50.0 && two <= 2.0 * 64.0 / 50.0, "{two}");
    near(many, with(1, 0.0), 0.05);
}
