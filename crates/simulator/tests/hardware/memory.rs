//! How much memory a large machine takes to simulate. In a process of its own, whose peak other
//! tests do not raise.

#![cfg(target_os = "linux")]

use crate::support::{core, machine, mix, optane, rounds};
use ringfence_persist::Flush;
use ringfence_simulator::hardware::{Op, Ps, Setup};

/// The most that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[test]
fn thirty_two_cores_and_a_terabyte_and_a_half_take_less_than_a_gigabyte() {
    const ALONE: &str = "RINGFENCE_MEMORY_ALONE";
    let name = "memory::thirty_two_cores_and_a_terabyte_and_a_half_take_less_than_a_gigabyte";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let mut machine = machine();
    machine.topology.sockets = 1;
    machine.topology.cores_per_llc = 32;
    (machine.l1.size_kib, machine.l1.ways) = (48, 12);
    (machine.l2.size_kib, machine.l2.ways) = (2048, 16);
    (machine.llc.size_kib, machine.llc.ways) = (40 << 10, 20);
    machine.nodes = vec![optane()];
    (machine.nodes[0].channels, machine.nodes[0].gib) = (6, 1536);
    let mut setup = Setup::new(&machine, 1).unwrap();
    // All that a run can number, and everywhere in it.
    let region = setup.region(0, (128 << 30) - 4096).unwrap();
    for number in 0..32 {
        let program = rounds(move |round| {
            let chance = mix(u64::from(number) << 32 | u64::from(round));
            let line = region.line((chance % u64::from(region.lines())) as u32);
            match round % 4 {
                0 => vec![Op::NtStore { line, bytes: 64 }, Op::Sfence],
                1 => vec![Op::Load { line, dependent: false }],
                _ => vec![Op::Store(line), Op::Flush { kind: Flush::Clwb, line }, Op::Units(1)],
            }
        });
        setup.program(core(number), 0, program).unwrap();
    }
    let mut run = setup.start();
    run.until(Ps::from_ns(2_000_000));
    assert!(run.channel_counters(0).iter().all(|channel| channel.lines_read > 10_000));
    let peak = peak();
    println!("{} MB at most", peak / 1_000_000);
    assert!(peak < 1_000_000_000, "{} MB", peak / 1_000_000);
}
