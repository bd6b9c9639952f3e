//! Load latency over footprint on one CPU and the caches that it shows, a figure a line for other
//! programs: `cargo run --release -p ringfence-machine --example caches -- [CPU [SECONDS]]`.
//!
//! ```text
//! pages PAGES IN WORDS
//! huge BYTES NS                        the curve in huge pages
//! small BYTES NS                       the curve in 4 KiB pages
//! cache LEVEL AT_LEAST BELOW NS        bytes; 0 where the level, or its end, was not seen
//! memory FROM NS
//! ```

use std::time::Duration;

use ringfence_machine::probe::{self, Pages};
use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = FsRoot::host();
    let topology = Topology::read(&root)?;
    let mut arguments = std::env::args().skip(1);
    let cpu =
        arguments.next().map_or(Ok(topology.usable().first().unwrap_or(0)), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    for (pages, name) in [(Pages::Huge, "huge"), (Pages::Small, "small")] {
        let sizes = probe::footprints(&topology, cpu, &root, pages);
        let curve =
            probe::latency_over_footprint(cpu, &sizes, pages, Duration::from_secs(seconds))?;
        println!("pages {}", curve.pages_in_words());
        for (size, ns) in &curve.points {
            println!("{name} {} {ns:.2}", size.0);
        }
        if pages == Pages::Huge {
            let found = probe::capacities(&curve.points, &probe::levels(&topology, cpu));
            for cache in found.caches {
                let [at_least, below] =
                    [cache.at_least, cache.below].map(|size| size.map_or(0, |size| size.0));
                println!(
                    "cache {} {at_least} {below} {:.2}",
                    cache.level,
                    cache.plateau_ns.unwrap_or(0.0)
                );
            }
            if let Some(memory) = found.memory {
                println!("memory {} {:.2}", memory.from.0, memory.ns);
            }
        }
    }
    Ok(())
}
