//! A counter that outlives the program, and a crash in the middle of counting: a record in two
//! slots.
//!
//! ```text
//! cargo run -p ringfence-persist --example counter -- /tmp/counter
//! ```

use std::path::Path;

use ringfence_persist::record::Record;
use ringfence_persist::{Durability, Mapped, Memory, Region};

const SLOTS: [usize; 2] = [0, 256];
const SEED: u64 = 0x636f_756e_7465_7221;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a file")?;
    let there = Path::new(&path).exists();
    let region = if there {
        Region::open(&path, Durability::PageCache)?
    } else {
        Region::create(&path, 4096, Durability::PageCache)?
    };
    let memory = Mapped::new(region)?;
    // A crash before the record was made leaves a file of zeros: made again.
    let found = Record::<8>::open(&memory, SLOTS, SEED);
    let (mut record, value) = match found {
        Some(found) => found,
        None => (Record::create(&memory, SLOTS, SEED, &[0; 8]), [0; 8]),
    };
    let count = u64::from_le_bytes(value) + 1;
    record.write(&memory, &count.to_le_bytes());
    memory.health()?;
    println!("run number {count}");
    Ok(())
}
