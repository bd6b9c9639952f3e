//! The machine file of a host, from its probes and its survey.
//!
//! What the kernel tells (topology, caches, features) and what the survey measured (plateaus of
//! load latency, round trips, what a flush leaves) goes into the file as it is. What a core has
//! inside shows in no probe: that is taken from a file that comes with the program, of the same
//! maker, and says so. At last a few values are fitted to the cells of the survey's write table
//! that [`USED`] names; all other cells are left for [`crate::describe::predict`] to be judged by.

use crate::survey::{Reloads, Survey};
use ringfence_experiment::Error;
use ringfence_experiment::task::{FenceAt, Instruction, LineState, Task, Write};
use ringfence_machine::Machine;
use ringfence_machine::probe::{Capacity, Plateau};
use ringfence_machine::topology::CacheKind;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, Width};
use ringfence_simulator::{Description, catalogue};
use toml::{Table, Value};

use crate::describe::cells::Measured;
use crate::describe::fit::{self, Fit};

/// What of a survey's write table a machine file rests on, in words.
pub const USED: &str = "stores to cached lines; streams of stores and of non-temporal stores (1 \
                        MiB blocks, no fence); and one flush of \
                        each kind, and one non-temporal line, with a fence (64 B blocks)";

/// The values that are fitted to these cells. `core.fence_ns` is not among them: each of these
/// fences waits for a flush or a non-temporal line, whose own time it would only be exchanged for;
/// nor is `core.rfo_window`, because one stream of stores cannot tell it from what is fetched
/// ahead.
pub const FITTED: [&str; 8] = [
    "core.issue.store_ns",
    "uncore.flush_ns",
    "uncore.clwb_ns",
    "uncore.nt_ns",
    "core.nt_gap_ns",
    "core.fill_buffers",
    "prefetcher.lines",
    "prefetcher.distance",
];

/// A machine file, and where its values are from.
#[derive(Debug, Clone)]
pub struct Written {
    /// The machine.
    pub description: Description,
    /// What was fitted; `None` where no survey was given, or it has none of the cells.
    pub fit: Option<Fit>,
}

/// Writes the file of a machine. `surveyed` is its survey with the samples of the write table, and
/// the date.
///
/// # Errors
/// One sentence: the survey is of a described machine, or what is known makes no machine.
pub fn host(
    machine: &Machine,
    surveyed: Option<(&Survey, Option<&Measured>, &str)>,
    tell: &mut dyn FnMut(f64),
) -> Result<Written, Error> {
    if machine.simulated.is_some() {
        return Err(Error::usage("this was simulated: its machine file already exists"));
    }
    let known = surveyed.map(|(survey, _, date)| (survey, date));
    let text = File::of(machine, known).map_err(Error::usage)?.text();
    let description = Description::parse(&text).map_err(|error| {
        let what = "the measured values do not describe a valid machine";
        Error::usage_by(error).within(what)
    })?;
    let Some((_, Some(measured), date)) = surveyed else {
        return Ok(Written { description, fit: None });
    };
    let used = used(measured);
    if used.is_empty() {
        return Ok(Written { description, fit: None });
    }
    let known: Vec<String> = description.values().into_iter().map(|value| value.path).collect();
    let keys: Vec<String> =
        FITTED.into_iter().map(str::to_owned).filter(|key| known.contains(key)).collect();
    let origin =
        format!("{} cells of the write table measured here on {date} ({USED})", used.len());
    let fit = fit::fit(&description, measured, &used, &keys, &origin, tell)?;
    Ok(Written { description: fit.description.clone(), fit: Some(fit) })
}

/// The places of the cells that [`USED`] names. Blocks of one line with a fence a line are the same
/// as with one a block: they are used, too.
pub fn used(measured: &Measured) -> Vec<usize> {
    let is_used = |write: &Write| {
        let none = write.fence_at == FenceAt::None;
        match (write.instruction, write.block, write.line) {
            (Instruction::None, _, LineState::Warm) => none,
            (Instruction::None | Instruction::Nt, Bytes(0x10_0000), LineState::AsIs) => none,
            (Instruction::None, _, _) => false,
            (_, Bytes(64), LineState::AsIs) => {
                matches!(write.fence_at, FenceAt::Block | FenceAt::Line)
            }
            _ => false,
        }
    };
    let places = measured.cells.iter().enumerate();
    let own = places.filter(|(_, cell)| matches!(&cell.task, Task::Write(write) if is_used(write)));
    own.map(|(place, _)| place).collect()
}

// The file while it is being made: values, and a source for each.
struct File {
    table: Table,
    sources: Vec<(String, String)>,
    like: String,
}

impl File {
    fn of(machine: &Machine, surveyed: Option<(&Survey, &str)>) -> Result<Self, String> {
        let mut file = Self::like(machine)?;
        file.topology(machine)?;
        file.processor(machine);
        file.generation(machine);
        file.caches(machine, surveyed)?;
        if let Some((survey, date)) = surveyed {
            file.survey(survey, date)?;
        }
        file.nodes(machine);
        Ok(file)
    }

    // As a file that comes with the program, of the same maker, with its ordinary memory alone.
    fn like(machine: &Machine) -> Result<Self, String> {
        let name = match machine.processor.vendor.as_deref() {
            Some("AuthenticAMD") => "zen3-epyc",
            Some("GenuineIntel") => "cascade-lake-optane",
            other => {
                let other = other.unwrap_or("unknown");
                return Err(format!(
                    "there is no machine file for a processor from {other} to start from"
                ));
            }
        };
        let all = catalogue::all();
        let like =
            all.iter().find(|known| known.name == name).ok_or("the machine files lack one")?;
        let mut table: Table = like.text.parse().map_err(|error| format!("{name}: {error}"))?;
        table.remove("sources");
        let assumed = format!("assumed: as in machines/{name}.toml, because no probe shows it");
        let mut file = Self { table, sources: Vec::new(), like: name.into() };
        for part in ["processor", "topology", "core", "l1", "l2", "llc", "uncore", "prefetcher"] {
            if file.table.contains_key(part) {
                file.source(part, &assumed);
            }
        }
        Ok(file)
    }

    fn source(&mut self, path: &str, source: &str) {
        self.sources.retain(|(known, _)| known != path);
        self.sources.push((path.into(), source.into()));
    }

    fn put(&mut self, path: &str, value: impl Into<Value>, source: &str) {
        if let Some((part, key)) = path.rsplit_once('.') {
            let mut table = &mut self.table;
            for step in part.split('.') {
                let Some(inner) = table.get_mut(step).and_then(Value::as_table_mut) else { return };
                table = inner;
            }
            table.insert(key.into(), value.into());
        } else {
            self.table.insert(path.into(), value.into());
        }
        self.source(path, source);
    }

    fn number(&self, path: &str) -> f64 {
        let mut steps = path.split('.');
        let first = steps.next().and_then(|step| self.table.get(step));
        let value = steps.fold(first, |value, step| value.and_then(|value| value.get(step)));
        value.map_or(0.0, |value| {
            value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).unwrap_or(0.0)
        })
    }

    fn topology(&mut self, machine: &Machine) -> Result<(), String> {
        let topology = &machine.topology;
        if !topology.cores.is_empty() && !topology.cores_known() {
            return Err(
                "the kernel hides the cores of some CPUs, and a machine file cannot say so".into(),
            );
        }
        let sockets = topology.packages.len().max(1);
        let cores = topology.cores.len().max(1);
        let threads = topology.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1).max(1);
        let last = topology.caches.iter().map(|cache| cache.level).max().unwrap_or(0);
        let shared =
            |cache: &&ringfence_machine::topology::Cache| cache.level == last && cache.holds_data();
        let llcs = topology.caches.iter().filter(shared).count().max(sockets);
        if !cores.is_multiple_of(llcs) || !llcs.is_multiple_of(sockets) {
            return Err(format!(
                "{cores} cores, {llcs} last-level caches and {sockets} sockets do not divide \
                 evenly, and a machine file cannot express that"
            ));
        }
        let source = "probed: the kernel's /sys/devices/system/cpu";
        self.put("topology.sockets", sockets as i64, source);
        self.put("topology.llcs_per_socket", (llcs / sockets) as i64, source);
        self.put("topology.cores_per_llc", (cores / llcs) as i64, source);
        self.put("topology.threads_per_core", threads as i64, source);
        for part in ["sockets", "llcs_per_socket", "cores_per_llc", "threads_per_core"] {
            self.sources.retain(|(known, _)| *known != format!("topology.{part}"));
        }
        self.source("topology", source);
        Ok(())
    }

    fn processor(&mut self, machine: &Machine) {
        let brand = machine.processor.brand.clone().unwrap_or_else(|| "unknown processor".into());
        let identity = &machine.processor;
        let number = |what: &str, value: Option<u32>| value.map(|value| format!("{what} {value}"));
        let about: Vec<String> = [
            number("family", identity.family),
            number("model", identity.model),
            number("stepping", identity.stepping),
        ]
        .into_iter()
        .flatten()
        .collect();
        let name: String = brand
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let name: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
        self.table.insert("name".into(), name.join("-").into());
        let guest = machine.features.as_ref().and_then(|features| features.hypervisor.clone());
        let guest =
            guest.map_or_else(String::new, |hypervisor| format!(", a guest of {hypervisor}"));
        self.table.insert("title".into(), format!("{brand}{guest}").into());
        self.put("processor.brand", brand, &format!("probed: CPUID; {}", about.join(", ")));
        let probed = "probed: CPUID";
        if let Some(features) = &machine.features {
            let flush = Flush::ALL.into_iter().filter(|flush| features.has(flush.name()));
            let flush: Vec<Value> = flush.map(|flush| flush.name().into()).collect();
            self.put("processor.flush", flush, probed);
            let widths = Width::ALL.into_iter().filter(|width| match width {
                Width::Sse2 => true,
                Width::Avx2 => features.avx2,
                Width::Avx512 => features.avx512f,
            });
            let widths: Vec<Value> = widths.map(|width| width.name().into()).collect();
            self.put("processor.widths", widths, probed);
        }
        if let Some(Value::Table(processor)) = self.table.get_mut("processor") {
            // What the file is like may share out what this machine does not show.
            let shown = machine.resctrl.as_ref().map(|offered| &offered.info);
            let mut gone: Vec<&str> = Vec::new();
            if shown.is_none() {
                gone.extend(["classes", "mask_bits", "bandwidth_control", "pseudo_lock", "cdp"]);
            }
            if shown.is_none_or(|info| info.of_level(2).is_empty()) {
                gone.extend(["l2_classes", "l2_mask_bits"]);
                if let Some(Value::Array(cdp)) = processor.get_mut("cdp") {
                    cdp.retain(|level| level.as_str() != Some("l2"));
                }
            }
            gone.into_iter().for_each(|key| drop(processor.remove(key)));
        }
    }

    // What is known of a generation other than the one that the file is like, and shows in no
    // probe.
    fn generation(&mut self, machine: &Machine) {
        let identity = &machine.processor;
        // Family 26 (1AH) is Zen 5.
        if identity.vendor.as_deref() == Some("AuthenticAMD") && identity.family == Some(26) {
            let source = "measured: about 58 pairs of flush and fence fit into it on a guest of \
                          this family; 104 is the reported size for Zen 5, not verified";
            self.put("core.store_buffer", 104, source);
            let passed =
                "assumed: as many as the store buffer holds, as in machines/zen3-epyc.toml";
            self.put("core.rfo_past_fences", 104, passed);
            self.put("core.rfo_window", 104, passed);
        }
    }

    fn caches(
        &mut self,
        machine: &Machine,
        surveyed: Option<(&Survey, &str)>,
    ) -> Result<(), String> {
        let topology = &machine.topology;
        let last = topology.caches.iter().map(|cache| cache.level).max().unwrap_or(3);
        let capacity = |level: u8| -> Option<&Capacity> {
            surveyed.and_then(|(survey, _)| {
                survey.probes.caches.iter().find(|cache| cache.level == level)
            })
        };
        for (key, level) in [("l1", 1), ("l2", 2), ("llc", last)] {
            let found = topology
                .caches
                .iter()
                .find(|cache| cache.level == level && cache.kind != CacheKind::Instruction);
            let Some(cache) = found else { continue };
            let ways = cache.ways.filter(|ways| (1..=32).contains(ways));
            if let Some(ways) = ways {
                self.put(
                    &format!("{key}.ways"),
                    i64::from(ways),
                    "probed: the kernel's /sys/devices/system/cpu",
                );
            }
            // Private caches are what the processor says; of one that is shared with strangers,
            // what was measured counts.
            let measured =
                capacity(level).and_then(|capacity| capacity.measured).filter(|_| key == "llc");
            let (size, source) = match (measured, surveyed) {
                (Some(size), Some((_, date))) => {
                    let nominal = cache
                        .size
                        .map_or(String::new(), |size| format!("; the kernel reports {size}"));
                    (
                        Some(size),
                        format!(
                            "measured here by survey on {date}: where the plateau of load latency \
                             ends{nominal}"
                        ),
                    )
                }
                _ => (cache.size, "probed: the kernel's /sys/devices/system/cpu".to_owned()),
            };
            if let Some(size) = size {
                let whole = self.number(&format!("{key}.ways")).max(1.0) as u64;
                let kib = (size.0 / 1024 / whole * whole).max(whole);
                self.put(&format!("{key}.size_kib"), kib as i64, &source);
            }
            if let (Some(ns), Some((_, date))) =
                (capacity(level).and_then(|capacity| capacity.plateau_ns), surveyed)
            {
                let source =
                    format!("measured here by survey on {date}: the plateau of load latency");
                self.put(&format!("{key}.latency_ns"), rounded(ns), &source);
            }
        }
        Ok(())
    }

    fn survey(&mut self, survey: &Survey, date: &str) -> Result<(), String> {
        let measured = |what: &str| by_survey(date, what);
        let alu = survey.neighbours.iter().find(|table| table.victim == "alu");
        let idle = alu
            .and_then(|table| table.rows.iter().find(|row| row.co_runner == "idle" && !row.paced));
        if let Some(step) = idle.and_then(|row| row.result.ns_per_unit.as_ref().ok()) {
            self.put(
                "processor.multiply_ns",
                rounded(step.value),
                &measured("a multiplication of the workload alu"),
            );
            let source = measured(
                "five cycles for a step of the workload alu, which are one, one and three",
            );
            self.put("processor.ghz", rounded((5.0 / step.value).clamp(0.5, 8.0)), &source);
        }
        if let Some(memory) = &survey.probes.memory {
            self.memory(memory, date)?;
        }
        if let Some(trip) = survey.probes.round_trips.first() {
            let half = measured("half of a round trip between two CPUs");
            self.put("uncore.core_to_core_ns", rounded(trip.median_ns / 2.0), &half);
        }
        // Flushes that invalidate have other caches asked, and one that leaves the line may not:
        // its own time is fitted.
        let flush = self.number("uncore.flush_ns");
        self.put("uncore.clwb_ns", flush, "assumed: as uncore.flush_ns, because no probe shows it");
        self.after_clwb(&survey.probes.reloads, date);
        Ok(())
    }

    // What a load from memory takes, divided as it is in the file that this one is like.
    fn memory(&mut self, memory: &Plateau, date: &str) -> Result<(), String> {
        let node = self.table.get("nodes").and_then(|nodes| nodes.get(0)).cloned();
        let node = |path: &str| {
            let mut value = node.clone();
            for step in path.split('.') {
                value = value.and_then(|value| value.get(step).cloned());
            }
            value.and_then(|value| value.as_float()).unwrap_or(0.0)
        };
        let (device, bus) = (node("device.dram.latency_ns"), node("bus_gb_per_s"));
        let ways = self.number("uncore.to_memory_ns") + self.number("uncore.from_memory_ns");
        let line = if bus > 0.0 { 64.0 / bus } else { 0.0 };
        let factor = (memory.ns - line) / (ways + device);
        if factor <= 0.0 {
            return Err(format!(
                "the memory latency of {:.1} ns is shorter than the transfer of one line",
                memory.ns
            ));
        }
        let what = format!(
            "a load from memory takes {:.1} ns; how that is divided is assumed, as in \
             machines/{}.toml",
            memory.ns, self.like
        );
        let source = by_survey(date, &what);
        for path in ["uncore.to_memory_ns", "uncore.from_memory_ns"] {
            let value = rounded(self.number(path) * factor);
            self.put(path, value, &source);
        }
        if let Some(Value::Array(nodes)) = self.table.get_mut("nodes") {
            for node in nodes.iter_mut().filter_map(Value::as_table_mut) {
                let dram = node.get_mut("device").and_then(|device| device.get_mut("dram"));
                if let Some(dram) = dram.and_then(Value::as_table_mut) {
                    dram.insert("latency_ns".into(), rounded(device * factor).into());
                }
            }
        }
        self.source("nodes[*].device", &source);
        Ok(())
    }

    // Where a line is after `clwb`, by what it takes to load it.
    fn after_clwb(&mut self, reloads: &Reloads, date: &str) {
        let after = |name: &str| {
            reloads
                .after
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, reload)| reload.median_ns)
        };
        if let (Some(cached), Some(kept), Some(evicted)) =
            (reloads.cached.as_ref(), after("clwb"), after("clflush"))
        {
            // In logs: the nearer of what it takes cached and from memory; the last level lies
            // between.
            let llc = self.number("llc.latency_ns");
            let near = |other: f64| (kept / other.max(1e-3)).ln().abs();
            let all = [
                ("kept", near(cached.median_ns)),
                ("moved-to-llc", near(llc)),
                ("invalidated", near(evicted)),
            ];
            let leaves = match all.into_iter().min_by(|one, other| one.1.total_cmp(&other.1)) {
                // A line that stays in the second level has stayed.
                Some(("moved-to-llc", _)) if kept < llc * 0.75 => "kept",
                Some((word, _)) => word,
                None => "kept",
            };
            let what = format!(
                "a line after clwb is loaded in {kept:.1} ns, a cached one in {:.1}, a flushed one \
                 in {evicted:.1}",
                cached.median_ns
            );
            self.put("core.clwb", leaves, &by_survey(date, &what));
        }
    }

    // One for each socket, of the kind that the file has that this one is like.
    fn nodes(&mut self, machine: &Machine) {
        let nodes = self.table.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
        let dram = nodes
            .into_iter()
            .find(|node| node.get("target").and_then(Value::as_str) == Some("dram"));
        let Some(Value::Table(dram)) = dram else { return };
        let device = self.sources.iter().find(|(known, _)| known == "nodes[*].device").cloned();
        self.sources.retain(|(known, _)| known != "nodes[*].device");
        let sockets = self.number("topology.sockets") as usize;
        let memory: u64 =
            machine.topology.nodes.iter().filter_map(|node| node.memory).map(|size| size.0).sum();
        let gib = (memory >> 30) / sockets.max(1) as u64;
        let like = self.like.clone();
        let mut all = Vec::new();
        for socket in 0..sockets {
            let mut node = dram.clone();
            node.insert("socket".into(), (socket as i64).into());
            node.insert("gib".into(), (gib.max(1) as i64).into());
            all.push(Value::Table(node));
            let assumed = format!(
                "assumed: channels, their rate and queues as in machines/{like}.toml, because no \
                 probe shows them"
            );
            self.source(&format!("nodes[{socket}]"), &assumed);
            self.source(
                &format!("nodes[{socket}].gib"),
                "probed: the kernel's /sys/devices/system/node, divided over the sockets",
            );
            if let Some((_, source)) = &device {
                self.source(&format!("nodes[{socket}].device"), source);
            }
        }
        self.table.insert("nodes".into(), Value::Array(all));
    }

    fn text(mut self) -> String {
        let sources: Table =
            self.sources.drain(..).map(|(path, source)| (path, source.into())).collect();
        let mut table = Table::new();
        // Values that are no tables come first, and sources last.
        for (key, value) in
            self.table.iter().filter(|(_, value)| !value.is_table() && !value.is_array())
        {
            table.insert(key.clone(), value.clone());
        }
        for (key, value) in
            self.table.iter().filter(|(_, value)| value.is_table() || value.is_array())
        {
            table.insert(key.clone(), value.clone());
        }
        table.insert("sources".into(), Value::Table(sources));
        toml::to_string(&table).unwrap_or_default()
    }
}

// To a thousandth.
fn by_survey(date: &str, what: &str) -> String {
    format!("measured here by survey on {date}: {what}")
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
