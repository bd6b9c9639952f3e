//! What this crate sees of the machine at hand: `cargo run --release -p ringfence-machine --example
//! look`.

use std::time::Duration;

use ringfence_machine::Machine;
use ringfence_machine::clock::Clock;
use ringfence_machine::probe::{self, Pages};
use ringfence_machine::root::FsRoot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = FsRoot::host();
    let machine = Machine::examine(&root)?;
    let topology = &machine.topology;
    println!("{}", machine.processor.brand.as_deref().unwrap_or("unknown processor"));
    println!("{}", topology.summary());
    println!("{}; {:.4} ns per tick\n", Clock::host().why(), Clock::host().ns_per_tick());

    for target in &machine.targets {
        println!(
            "{:<24} {} ({})",
            target.name,
            if target.usable { "usable" } else { "no" },
            target.why
        );
    }
    println!();
    for finding in &machine.findings {
        println!(
            "{:?}: {} ({})\n    {}",
            finding.severity, finding.title, finding.evidence, finding.remedy
        );
    }
    println!();

    let usable = topology.usable();
    for (place, pairs) in [
        ("one core", topology.pairs_smt(&usable)),
        ("one last-level cache", topology.pairs_llc(&usable)),
        ("one node", topology.pairs_node(&usable)),
        ("two nodes", topology.pairs_remote(&usable)),
    ] {
        match pairs.first().map(|&(a, b)| probe::ping_pong(a, b, Duration::from_millis(20))) {
            None => println!("no two CPUs on {place}"),
            Some(Err(error)) => println!("{place}: {error}"),
            Some(Ok(found)) => {
                println!("{place}: CPUs {:?}, {:.0} ns there and back", found.cpus, found.median_ns)
            }
        }
    }

    let Some(cpu) = usable.first() else { return Ok(()) };
    for pages in [Pages::Huge, Pages::Small] {
        let sizes = probe::footprints(topology, cpu, &root, pages);
        let curve = probe::latency_over_footprint(cpu, &sizes, pages, Duration::from_secs(5))?;
        let words = curve.pages_in_words();
        println!(
            "\nload latency on CPU {cpu} in {words}: the lower quartile of {} passes",
            curve.passes
        );
        for (size, ns) in &curve.points {
            println!("{:>10} {ns:>7.2} ns", size.0);
        }
        if pages == Pages::Small {
            continue;
        }
        let found = probe::capacities(&curve.points, &probe::levels(topology, cpu));
        for cache in found.caches {
            println!("L{} of nominal {}: {}", cache.level, cache.nominal, cache.why);
        }
        match found.memory {
            Some(memory) => println!("memory from {} on: {:.1} ns", memory.from, memory.ns),
            None => println!("memory: no plateau"),
        }
    }
    Ok(())
}
