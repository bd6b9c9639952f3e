//! The machine in a few lines: what it says of itself beside what was probed.

use ringfence_machine::Machine;
use ringfence_machine::probe::{Capacity, Footprints, PingPong};
use ringfence_machine::units::Bytes;
use ringfence_studies::survey::Survey;

use crate::numbers;
use crate::style::{Paint, Style};
use crate::text::{hanging, heading};

/// The processor, the kernel and the shape of the machine in one line.
pub fn machine_line(machine: &Machine, style: &Style) -> String {
    let mut out = String::new();
    hanging(&mut out, "", None, &describe(machine), style);
    out
}

/// The same without wrapping.
pub(crate) fn describe(machine: &Machine) -> String {
    let processor = machine.processor.brand.clone().or_else(|| machine.processor.vendor.clone());
    let processor = processor.unwrap_or_else(|| "unknown processor".into());
    let kernel =
        machine.kernel.as_ref().map_or(String::new(), |kernel| format!(", Linux {kernel}"));
    let hypervisor = machine.features.as_ref().and_then(|features| features.hypervisor.clone());
    let hypervisor = hypervisor.map_or(String::new(), |name| format!(", virtual machine ({name})"));
    format!("{processor}: {}{kernel}{hypervisor}", machine.topology.summary())
}

pub(crate) fn section(out: &mut String, survey: &Survey, style: &Style) {
    let machine = &survey.machine;
    hanging(out, "machine      ", Some(Paint::Strong), &describe(machine), style);
    let probes = &survey.probes;
    let mut caches: Vec<String> = probes.caches.iter().map(cache).collect();
    caches.extend(
        probes
            .memory
            .map(|memory| format!("memory from {} on: {}", memory.from, numbers::ns(memory.ns))),
    );
    if !caches.is_empty() {
        let pages = probes
            .latency
            .as_ref()
            .map_or(String::new(), |curve| format!(", {}", curve.pages_in_words()));
        let text = format!("CPU {}{pages}: {}", probes.cpu, caches.join("; "));
        hanging(out, "caches       ", Some(Paint::Strong), &text, style);
    }
    if let (Some(huge), Some(small)) = (&probes.latency, &probes.latency_small_pages)
        && let Some(text) = page_walks(huge, small)
    {
        hanging(out, "page walks   ", Some(Paint::Strong), &text, style);
    }
    let trips: Vec<String> =
        survey.probes.round_trips.iter().map(|trip| round_trip(trip, machine)).collect();
    let trips = match (trips.is_empty(), machine.topology.usable().len()) {
        (true, 0 | 1) => "there is one CPU only".into(),
        (true, _) => "could not be measured, see below".into(),
        _ => trips.join("; "),
    };
    hanging(out, "round trips  ", Some(Paint::Strong), &trips, style);
    out.push('\n');
    let brief = crate::doctor_brief(&machine.findings, style);
    if !brief.is_empty() {
        heading(out, "Sources of noise here ('ringfence doctor' says more)", style);
        out.push_str(&brief);
        out.push('\n');
    }
}

fn cache(cache: &Capacity) -> String {
    format!("L{} nominal {}, {}", cache.level, cache.nominal, holds(cache))
}

/// What a cache was found to hold, such as `holds 9.2MiB (8.3MiB to 10.3MiB) at 35 ns`.
pub(crate) fn holds(cache: &Capacity) -> String {
    let at = cache.plateau_ns.map_or(String::new(), |ns| format!(" at {}", numbers::ns(ns)));
    match (cache.measured, cache.at_least, cache.below) {
        (Some(size), Some(from), Some(to)) => format!("holds {size} ({from} to {to}){at}"),
        (Some(size), ..) => format!("holds {size}{at}"),
        (None, Some(from), _) => format!("holds at least {from}{at}"),
        _ => "not seen: no plateau".into(),
    }
}

/// What 4 KiB pages cost against huge ones, at some footprints.
fn page_walks(huge: &Footprints, small: &Footprints) -> Option<String> {
    let add = |size: Bytes| {
        let (in_huge, in_small) = (huge.at(size)?, small.at(size)?);
        Some(format!("{} against {} at {size}", numbers::ns(in_small), numbers::ns(in_huge)))
    };
    let largest = small.points.last()?.0.min(huge.points.last()?.0);
    let some: Vec<String> =
        [Bytes::mib(1), Bytes::mib(16), largest].into_iter().filter_map(add).collect();
    (!some.is_empty()).then(|| format!("a load in {}: {}", small.pages_in_words(), some.join("; ")))
}

/// A round trip and what the kernel says of the two CPUs.
pub(crate) fn round_trip(trip: &PingPong, machine: &Machine) -> String {
    let (a, b) = trip.cpus;
    let topology = &machine.topology;
    let nominal = match (topology.same_core(a, b), topology.shares_llc(a, b)) {
        (Some(true), _) => "SMT siblings",
        (_, Some(true)) => "nominally one last-level cache",
        (_, Some(false)) => "different last-level caches",
        (Some(false), None) => "caches unknown",
        (None, None) => "cores and caches unknown",
    };
    let doubtful =
        if topology.doubtful(a, b) { ", by a map of CPUs that contradicts itself" } else { "" };
    if trip.round_trips == 0 {
        return format!(
            "CPUs {a} and {b} {} as described, {nominal}{doubtful}",
            numbers::ns(trip.median_ns)
        );
    }
    format!(
        "CPUs {a} and {b} {} [p10 {}, p90 {}], {nominal}{doubtful}",
        numbers::ns(trip.median_ns),
        numbers::ns(trip.p10_ns),
        numbers::ns(trip.p90_ns)
    )
}
