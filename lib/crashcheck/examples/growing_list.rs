//! A list of numbers in persistent memory, with a bug: `cargo run -p ringfence-crashcheck --example
//! growing_list`

use ringfence_crashcheck::{Check, Profile};
use ringfence_persist::Memory;

/// How many numbers there are: at 0. The numbers: from 64 on.
fn push(memory: &impl Memory, number: u64) {
    let count = memory.load_u64(0);
    let slot = 64 + 8 * count as usize;
    memory.store_u64(slot, number);
    memory.flush(slot..slot + 8);
    memory.store_u64(0, count + 1);
    memory.flush(0..8);
    memory.sfence();
}

fn numbers(memory: &impl Memory) -> Vec<u64> {
    (0..memory.load_u64(0) as usize).map(|slot| memory.load_u64(64 + 8 * slot)).collect()
}

fn main() {
    for profile in Profile::ALL {
        let report = Check::new(profile, 4096)
            .name(0..8, "count")
            .array(64, 8, 8, "number", &[(0..8, "")])
            .run(
                |memory| {
                    for number in [70, 71, 72] {
                        push(memory, number);
                        memory.acknowledge(number);
                    }
                },
                |memory| {
                    let (acknowledged, found) = (memory.marks(), numbers(memory));
                    // One more than was acknowledged may be there.
                    let right =
                        found.starts_with(&acknowledged) && [70, 71, 72].starts_with(&found);
                    if right {
                        Ok(())
                    } else {
                        Err(format!("acknowledged {acknowledged:?}, found {found:?}"))
                    }
                },
            );
        println!("{report}");
    }
}
