//! Descriptions: read from text, and refused in a sentence.

use crate::support::machine;
use ringfence_simulator::hardware::machine::{Device, Ingress};
use ringfence_simulator::hardware::{HardwareThread, Machine, Op, Setup, SetupError};

#[test]
fn a_file_can_hold_a_machine() {
    let text = toml::to_string(&machine()).unwrap();
    assert_eq!(toml::from_str::<Machine>(&text).unwrap(), machine());
    assert!(text.contains("[nodes.device.optane]"), "{text}");
    // Unknown keys are not ignored.
    for (known, unknown) in [
        ("store_buffer =", "store_bufer ="),
        ("latency_ns =", "latency ="),
        ("inclusion =", "inclusive ="),
    ] {
        let wrong = text.replacen(known, unknown, 1);
        assert!(toml::from_str::<Machine>(&wrong).is_err(), "{unknown}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    type Change = fn(&mut Machine);
    let cases: [(Change, &str); 15] = [
        (|m| m.topology.sockets = 0, "topology.sockets is 0, but must be from 1 to 16"),
        (|m| m.core.fill_buffers = 33, "core.fill_buffers is 33, but must be from 1 to 32"),
        (|m| m.core.rfo_window = 57, "core.rfo_window is 57, but must be from 1 to 56"),
        (
            |m| m.core.issue.load_ns = 0.0,
            "core.issue.load_ns is 0, but an operation takes at least 0.001 ns",
        ),
        (|m| m.llc.ways = 33, "llc.ways is 33, but must be from 1 to 32"),
        (|m| m.l1.ways = 3, "l1 has 4 KiB, which 3 ways cannot divide into whole sets of lines"),
        (
            |m| m.l2.size_kib = 2,
            "l1 has 4 KiB and l2 has 2, but the second level contains the first",
        ),
        (
            |m| m.uncore.remote_ns = f64::NAN,
            "uncore.remote_ns is NaN, but must be a time from 0 to a second, in nanoseconds",
        ),
        (
            |m| m.nodes[1].shares_channels_with = Some("dax:/mnt/pmem0".into()),
            "nodes[1].shares_channels_with is \"dax:/mnt/pmem0\", but must be the target of \
             another node of socket 0 that has channels of its own",
        ),
        (
            |m| m.nodes[0].shares_channels_with = Some("dram".into()),
            "nodes[0].shares_channels_with is \"dram\", but must be the target of another node of \
             socket 0 that has channels of its own",
        ),
        (
            |m| m.nodes[1].ingress = Some(Ingress { lines: 8, channels: 1 }),
            "nodes[1].ingress is for memory that shares its channels (shares_channels_with)",
        ),
        (
            |m| {
                if let Device::Dram(dram) = &mut m.nodes[0].device {
                    dram.banks = 12;
                }
            },
            "nodes[0].device.dram.banks is 12, but must be a power of two and at least 1",
        ),
        (|m| m.nodes[1].socket = 2, "nodes[1].socket is 2, but sockets are counted from 0 to 1"),
        (
            |m| m.nodes[1].interleave_bytes = 64,
            "nodes[1].interleave_bytes is 64, but must be a power of two and at least 256",
        ),
        (
            |m| {
                if let Device::Optane(optane) = &mut m.nodes[1].device {
                    optane.write_buffer_blocks = 48;
                }
            },
            "nodes[1].device.optane.write_buffer_blocks is 48, but must be write_buffer_ways (4) \
             times a power of two",
        ),
    ];
    for (change, sentence) in cases {
        let mut wrong = machine();
        change(&mut wrong);
        assert_eq!(Setup::new(&wrong, 0).err().unwrap().to_string(), sentence);
    }
    machine().check().unwrap();
}

#[test]
fn what_a_machine_does_not_have_is_refused() {
    let mut setup = Setup::new(&machine(), 0).unwrap();
    assert_eq!(setup.region(2, 64), Err(SetupError::NoNode { node: 2, last: 1 }));
    assert!(matches!(setup.region(0, 0), Err(SetupError::NoRoom { .. })));
    assert!(matches!(setup.region(0, 1 << 40), Err(SetupError::NoRoom { .. })));
    let end = |_| Op::End;
    let there = HardwareThread { core: 7, sibling: 1 };
    setup.program(there, 0, end).unwrap();
    let twice = setup.program(there, 0, end).err().unwrap();
    assert_eq!(twice.to_string(), "thread 1 of core 7 has a program already");
    let absent = setup.program(HardwareThread { core: 8, sibling: 0 }, 0, end).err().unwrap();
    assert_eq!(
        absent.to_string(),
        "there is no thread 0 of core 8: the machine has 8 cores of 2 threads"
    );
    assert_eq!(
        setup.program(HardwareThread { core: 0, sibling: 0 }, 16, end),
        Err(SetupError::NoClass { class: 16 })
    );
}

#[test]
#[should_panic(expected = "line 2 of a region of 2 lines")]
fn a_region_has_no_other_lines() {
    Setup::new(&machine(), 0).unwrap().region(0, 100).unwrap().line(2);
}
