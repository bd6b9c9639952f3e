//! `explain` on persistent memory, on a real kernel: the testbed's guest, whose NVDIMMs are emulated.

use ringfence_testbed::{Output, Program, Testbed, or_skip};
use serde_json::Value;

/// What `explain` says of each path, in one boot: exit code, JSON, and text with single spaces.
fn explain(testbed: &Testbed, prepare: &str, paths: &[&str]) -> Vec<(i32, Value, String)> {
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let each = "for path in $PATHS; do echo \"@@\"; ./ringfence explain --json $path; echo \"@ $?\"; ./ringfence explain $path; done";
    let output: Output = testbed
        .copy(program.path())
        .run(&format!("set -e; {prepare}; set +e; PATHS='{}'; {each}", paths.join(" ")));
    assert_eq!(output.code, 0, "{output}");
    let said: Vec<_> = output
        .stdout
        .split("@@\n")
        .skip(1)
        .map(|said| {
            let (json, rest) = said.split_once("@ ").unwrap_or_else(|| panic!("{output}"));
            let (code, text) = rest.split_once('\n').unwrap();
            let json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {output}"));
            (code.parse().unwrap(), json, text.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_eq!(said.len(), paths.len(), "{output}");
    said
}

#[test]
fn persistent_memory_is_known_for_what_it_is() {
    let Some(testbed) = or_skip("persistent_memory_is_known_for_what_it_is") else { return };
    let testbed = testbed.pmem(64).pmem(64).pmem(64).pmem(64);
    let prepare = "fsdax 0 /mnt/dax; echo mine > /mnt/dax/file; devdax 1; \
        mkdir -p /mnt/plain /mnt/inode; /usr/bin/mke2fs -q -t ext4 -b 4096 /dev/pmem2; mount -t ext4 /dev/pmem2 /mnt/plain; \
        fsdax 3 /mnt/inode; umount /mnt/inode; mount -t ext4 -o dax=inode /dev/pmem3 /mnt/inode";
    for domain in ["adr", "eadr", "none"] {
        println!(
            "{:#?}",
            explain(
                &testbed.pmem_domain(domain),
                prepare,
                &["/mnt/dax", "/mnt/dax/file", "/dev/dax1.0", "/mnt/plain", "/mnt/inode", "/tmp"]
            )
        );
    }
}
