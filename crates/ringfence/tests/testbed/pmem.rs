//! Persistent memory as a real kernel has it: the testbed's guest, whose NVDIMMs are emulated.

use ringfence_testbed::{Program, Testbed, or_skip};
use serde_json::Value;

/// NVDIMMs as the tests want them: a file system with DAX, a device, a file system on a disk that
/// cannot do it, and one that does it for files that ask.
const PREPARE: &str = "fsdax 0 /mnt/dax && echo mine > /mnt/dax/file && devdax 1 && mkdir /mnt/raw \
                       && \
    /usr/bin/mke2fs -q -t ext4 -b 4096 /dev/pmem2 && mount -t ext4 /dev/pmem2 /mnt/raw && \
    fsdax 3 /mnt/inode && umount /mnt/inode && mount -t ext4 -o dax=inode /dev/pmem3 /mnt/inode";

fn machine(testbed: &Testbed, program: &Program) -> Testbed {
    testbed.pmem(64).pmem(64).pmem(64).pmem(64).copy(program.path())
}

/// What `explain` says of each path, in one boot: JSON, and the same as text.
fn explain(testbed: &Testbed, paths: &[&str]) -> Vec<(Value, String)> {
    let each = "for path in $PATHS; do echo @@; ./ringfence explain --json $path && ./ringfence \
                explain -v $path || exit; done";
    let output = testbed.run(&format!("{PREPARE} && PATHS='{}' && {each}", paths.join(" ")));
    assert_eq!(output.code, 0, "{output}");
    let parts = output.stdout.split("@@\n").skip(1).map(|said| {
        let mut values = serde_json::Deserializer::from_str(said).into_iter();
        let json = values.next().unwrap().unwrap();
        let text = said[values.byte_offset()..].split_whitespace().collect::<Vec<_>>().join(" ");
        (json, text)
    });
    let said: Vec<_> = parts.collect();
    assert_eq!(said.len(), paths.len(), "{output}");
    said
}

fn explained(test: &str, domain: &str, durability: &str, elides: bool, why: &str) {
    let Some(testbed) = or_skip(test) else { return };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let paths = ["/mnt/dax", "/mnt/dax/file", "/dev/dax1.0", "/mnt/raw", "/mnt/inode", "/tmp"];
    let said = explain(&machine(&testbed, &program).pmem_domain(domain), &paths);
    let [folder, file, device, raw, inode, memory] = &said[..] else { unreachable!() };
    for (json, text) in [folder, file, device] {
        assert_eq!(
            (json["durability"].as_str(), json["elides_flushes"].as_bool()),
            (Some(durability), Some(elides)),
            "{text}"
        );
        assert!(json["reasons"][0].as_str().unwrap().contains(why), "{text}");
        // Where it is no more than the hypervisor's word, that is said.
        assert_eq!(
            text.contains("hypervisor's word"),
            durability.starts_with("persistent"),
            "{text}"
        );
    }
    for (_, text) in [folder, file] {
        assert!(text.contains("accepted MAP_SYNC") && text.contains("dax=always"), "{text}");
    }
    assert!(device.1.contains("it is a device-DAX device"), "{}", device.1);
    for ((json, text), part) in [
        (raw, "ndctl create-namespace --force --reconfig namespace2.0 --mode fsdax"),
        (inode, "mounted with dax=inode and the file does not have the DAX attribute"),
    ] {
        assert_eq!(json["durability"], "page-cache", "{text}");
        assert!(
            text.contains("MAP_SYNC was refused with EOPNOTSUPP") && text.contains(part),
            "{text}"
        );
    }
    assert_eq!(memory.0["durability"], "volatile", "{}", memory.1);
}

// A test for each domain, so that their guests run side by side.
#[test]
fn explain_knows_adr() {
    let why = "persistence_domain is memory_controller (ADR)";
    explained("explain_knows_adr", "adr", "persistent-adr", false, why);
}

#[test]
fn explain_knows_eadr() {
    let why = "persistence_domain is cpu_cache (eADR)";
    explained("explain_knows_eadr", "eadr", "persistent-eadr", true, why);
}

#[test]
fn explain_knows_a_domain_that_nobody_vouches_for() {
    let test = "explain_knows_a_domain_that_nobody_vouches_for";
    explained(test, "none", "unproven-medium", false, "persistence_domain is not there");
}

#[test]
fn writers_write_to_a_dax_file_and_to_a_device() {
    let Some(testbed) = or_skip("writers_write_to_a_dax_file_and_to_a_device") else { return };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    // What they cost there means nothing.
    let output = testbed.pmem(64).pmem(64).copy(program.path()).run(
        "fsdax 0 /mnt && devdax 1 && echo mine > /mnt/mine && ./ringfence write -t \
         dax:/mnt,devdax:/dev/dax1.0 -b 4KiB -i clwb,nt \
         --size 8MiB --trials 2 --rounds 2 --window 10ms --probe 0ms --json -q && ls /mnt",
    );
    assert_eq!(output.code, 0, "{output}");
    let (json, files) = output.stdout.rsplit_once("}\n").unwrap();
    // The file is gone, and what was there is not.
    assert_eq!(files, "lost+found\nmine\n", "{output}");
    for target in ["dax:/mnt", "devdax:/dev/dax1.0"] {
        assert!(json.contains(target), "{output}");
    }
}
