//! What there is: caches, bandwidth, groups, what each may use and uses, and whether regions can be
//! locked.
//!
//! `cargo run -p ringfence-resctrl --example list [ROOT]`; with ROOT, a folder that stands in for
//! `/`.

use std::process::ExitCode;

use ringfence_resctrl::pseudo::{Support, support};
use ringfence_resctrl::{Error, Mode, Resctrl};
use ringfence_system::root::FsRoot;

fn main() -> ExitCode {
    let root = std::env::args().nth(1).map_or_else(FsRoot::host, FsRoot::at);
    match support(&root) {
        Support::Can(processor) => println!("regions can be locked into the caches of {processor}"),
        Support::Cannot(why) => println!("{why}"),
    }
    match Resctrl::find(&root).map_err(Error::from).and_then(|fs| list(&fs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(if why.is_usage() { 2 } else { 1 })
        }
    }
}

fn list(fs: &Resctrl) -> Result<(), Error> {
    let info = fs.info()?;
    for (name, cache) in &info.caches {
        let (ways, groups) = (cache.cbm_mask.count(), cache.num_closids);
        println!(
            "{name}: {ways} ways, {groups} groups, shared with devices: {}",
            cache.shareable_bits
        );
        for (domain, usage) in &cache.bit_usage {
            println!(
                "  cache {domain}: {} (exclusive {}, unused {})",
                usage.0,
                usage.ways("E"),
                usage.ways("0")
            );
        }
    }
    for (name, bandwidth) in &info.bandwidths {
        println!("{name}: {}, {} groups", bandwidth.choice(), bandwidth.num_closids);
    }
    if let Some(monitoring) = &info.monitoring {
        println!(
            "monitoring: {} for {} groups",
            monitoring.mon_features.join(", "),
            monitoring.num_rmids
        );
    }
    for group in fs.groups()? {
        let mode = group.mode()?.map_or("monitor group", Mode::word);
        println!("{}: {mode}", group.id());
        for line in group.schemata()?.to_string().lines() {
            println!("  may use {line}");
        }
        for reading in group.monitored()? {
            let value = reading
                .value
                .bytes()
                .map_or_else(|| format!("{:?}", reading.value), |bytes| bytes.to_string());
            println!("  {} {}: {} {value}", reading.resource, reading.domain, reading.event);
        }
    }
    Ok(())
}
