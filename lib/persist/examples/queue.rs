//! A queue between two runs of a program, or two programs at the same time:
//!
//! ```text
//! cargo run -p ringfence-persist --example queue -- /tmp/queue push "first" "second"
//! cargo run -p ringfence-persist --example queue -- /tmp/queue pop
//! cargo run -p ringfence-persist --example queue -- /tmp/queue
//! ```
//!
//! On an ordinary file system each push is made durable by msync, on persistent memory by one
//! fence.

use std::ops::ControlFlow;
use std::path::Path;

use ringfence_persist::{Durability, Ring};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((path, command)) = arguments.split_first() else {
        return Err("name a file, then 'push WORDS...', 'pop', or nothing to look".into());
    };
    // The page cache is durable enough here; plain memory, as under /dev/shm, is not.
    let ring = if Path::new(path).exists() {
        Ring::open(path, Durability::PageCache)?
    } else {
        Ring::create(path, 1 << 20, Durability::PageCache)?
    };
    println!("{}", ring.region().explain().verdict());
    if let Some(found) = ring.recovery() {
        println!("{} entries, tail {:?}, epoch {}", found.entries, found.tail, found.epoch);
    }
    match command.split_first() {
        Some((verb, words)) if verb == "push" => {
            let mut producer = ring.producer()?;
            for word in words {
                producer.try_push(word.as_bytes())?;
                println!("pushed: {word}");
            }
        }
        Some((verb, [])) if verb == "pop" => {
            let mut consumer = ring.consumer()?;
            match consumer.try_read()? {
                Some(entry) => {
                    println!("popped: {}", String::from_utf8_lossy(&entry));
                    entry.pop_durably()?;
                }
                None => println!("nothing there"),
            }
        }
        None => ring.consumer()?.scan(|entry| {
            println!("- {}", String::from_utf8_lossy(entry));
            ControlFlow::Continue(())
        })?,
        _ => return Err("after the file: 'push WORDS...', 'pop', or nothing to look".into()),
    }
    Ok(())
}
