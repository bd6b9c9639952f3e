//! The machine in a few lines: what it says of itself beside what was probed.

use ringfence_lab::survey::Survey;
use ringfence_machine::Machine;
use ringfence_machine::probe::{Knee, PingPong};

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
    let kernel = machine.kernel.as_ref().map_or(String::new(), |kernel| format!(", Linux {kernel}"));
    let hypervisor = machine.features.as_ref().and_then(|features| features.hypervisor.clone());
    let hypervisor = hypervisor.map_or(String::new(), |name| format!(", virtual machine ({name})"));
    format!("{processor}: {}{kernel}{hypervisor}", machine.topology.summary())
}

pub(super) fn section(out: &mut String, survey: &Survey, style: &Style) {
    let machine = &survey.machine;
    hanging(out, "machine      ", Some(Paint::Strong), &describe(machine), style);
    let caches: Vec<String> = survey.probes.caches.iter().map(cache).collect();
    if !caches.is_empty() {
        let text = format!("CPU {}: {}", survey.probes.cpu, caches.join("; "));
        hanging(out, "caches       ", Some(Paint::Strong), &text, style);
    }
    let trips: Vec<String> = survey.probes.round_trips.iter().map(|trip| round_trip(trip, machine)).collect();
    let trips = match (trips.is_empty(), machine.topology.usable().len()) {
        (true, 0 | 1) => "there is one CPU only".into(),
        (true, _) => "could not be measured, see below".into(),
        _ => trips.join("; "),
    };
    hanging(out, "round trips  ", Some(Paint::Strong), &trips, style);
    out.push('\n');
    let brief = crate::doctor_brief(&machine.findings, style);
    if !brief.is_empty() {
        heading(out, "What spoils measurements here ('ringfence doctor' says more)", style);
        out.push_str(&brief);
        out.push('\n');
    }
}

fn cache(knee: &Knee) -> String {
    let measured = match (knee.measured, knee.plateau_ns) {
        (Some(size), Some(ns)) => format!("measured {size} at {}", numbers::ns(ns)),
        (Some(size), None) => format!("measured {size}"),
        _ => "measured: no clear edge".into(),
    };
    format!("L{} nominal {}, {measured}", knee.level, knee.nominal)
}

/// A round trip and what the kernel says of the two CPUs.
pub(crate) fn round_trip(trip: &PingPong, machine: &Machine) -> String {
    let (a, b) = trip.cpus;
    let topology = &machine.topology;
    let nominal = if !topology.different_cores(a, b) {
        "SMT siblings"
    } else {
        match topology.shares_llc(a, b) {
            Some(true) => "nominally one last-level cache",
            Some(false) => "different last-level caches",
            None => "caches unknown",
        }
    };
    format!(
        "CPUs {a} and {b} {} [p10 {}, p90 {}], {nominal}",
        numbers::ns(trip.median_ns),
        numbers::ns(trip.p10_ns),
        numbers::ns(trip.p90_ns)
    )
}
