//! How fast events are written, read and counted: stores of eight bytes at random places, alone, or
//! each with a flush and every fourth with a fence.
//!
//! ```text
//! cargo bench -p ringfence-trace --bench recording [MILLIONS]
//! ```

use std::time::Instant;

use ringfence_persist::Flush;
use ringfence_trace::census::dynamic;
use ringfence_trace::events::{Action, Ended, Event, Place, TracedFile};
use ringfence_trace::recording::{About, Reader, Writer};

fn main() {
    let millions: u64 = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(20);
    let count = millions * 1_000_000;
    for (name, store_only) in [("stores of 8 bytes", true), ("stores, flushes and fences", false)] {
        let folder = tempfile::tempdir().expect("a folder for what is written");
        let began = Instant::now();
        write(folder.path(), count, store_only);
        let wrote = began.elapsed();
        let bytes: u64 = folder
            .path()
            .read_dir()
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        let began = Instant::now();
        let reader = Reader::open(folder.path()).unwrap();
        let read = reader.events().inspect(|event| assert!(event.is_ok())).count();
        let took = began.elapsed();
        assert_eq!(read as u64, count);
        let began = Instant::now();
        let run = dynamic::of(&reader).unwrap();
        let counted = began.elapsed();
        assert_eq!(run.events, count);
        let rate = |took: std::time::Duration| count as f64 / took.as_secs_f64() / 1e6;
        println!(
            "{name}: written {:.1} M/s, read {:.1} M/s, counted {:.1} M/s, {:.1} bytes each",
            rate(wrote),
            rate(took),
            rate(counted),
            bytes as f64 / count as f64
        );
    }
}

fn write(folder: &std::path::Path, count: u64, store_only: bool) {
    let mut writer = Writer::create(folder, About::default()).unwrap();
    writer
        .file(TracedFile { id: 1, path: "/mnt/pmem/file".into(), size: 1 << 30, medium: None })
        .unwrap();
    let (mut state, mut at) = (1u64, Place { file: 1, offset: 0 });
    for sequence in 0..count {
        let action = match sequence % 9 {
            8 if !store_only => Action::Sfence,
            1 | 3 | 5 | 7 if !store_only => Action::Flush { flush: Flush::Clwb, at },
            _ => {
                // Knuth's generator for MMIX: places and values that do not compress by themselves.
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                at.offset = (state >> 40) & !7;
                Action::Store { at, bytes: state.to_le_bytes().to_vec() }
            }
        };
        let (thread, site) = (1, 1 + (sequence % 9) as u32);
        writer.push(&Event { sequence, thread, site, callers: 1, action }).unwrap();
    }
    writer.finish(Ended::Exited(0)).unwrap();
}
