//! A described machine as if it had been examined: its topology, features and memory.
//!
//! CPUs are numbered as Linux does on most machines: the first threads of all cores, then the
//! second ones.

use crate::hardware::HardwareThread;
use crate::hardware::machine::Device;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::task::Target as Named;
use ringfence_machine::clock::TscEvidence;
use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::features::{Features, Identity};
use ringfence_machine::targets::{Target, TargetKind};
use ringfence_machine::topology::{self, CacheKind, Topology};
use ringfence_machine::units::Bytes;
use ringfence_machine::{Machine, Simulated};
use ringfence_persist::LINE;

use crate::file::{Description, Vendor};
use crate::noise::Noise;

// What firmware usually says: a node's distance to itself, and to another socket.
const HERE: u32 = 10;
const THERE: u32 = 21;

impl Description {
    /// The machine as [`ringfence_machine`] knows machines. It says that it is simulated, and holds
    /// the file's text.
    pub fn machine(&self) -> Machine {
        Machine {
            schema: Machine::SCHEMA,
            kernel: None,
            processor: self.identity(),
            features: Some(self.features()),
            tsc: TscEvidence { cpuid_bit: true, clocksource: None },
            topology: self.topology(),
            targets: self.targets(),
            resctrl: self.offered(),
            findings: Vec::new(),
            simulated: Some(Simulated {
                name: self.name.clone(),
                title: self.title.clone(),
                file: self.text.clone(),
            }),
        }
    }

    // A line goes from one core to the other and back.
    pub(crate) fn round_trip_ns(&self, one: CpuId, other: CpuId) -> f64 {
        let (a, b) = (self.thread(one), self.thread(other));
        let ((llc, socket), (other_llc, other_socket)) =
            (self.llc_and_socket(one), self.llc_and_socket(other));
        let uncore = &self.parts.uncore;
        let way = if a.core == b.core {
            self.parts.l1.latency_ns
        } else if llc == other_llc {
            uncore.core_to_core_ns
        } else {
            let remote = if socket == other_socket { 0.0 } else { 2.0 * uncore.remote_ns };
            uncore.to_memory_ns + uncore.from_memory_ns + remote
        };
        2.0 * way
    }

    /// Which thread of which core a CPU is.
    pub(crate) fn thread(&self, cpu: CpuId) -> HardwareThread {
        HardwareThread { core: cpu % self.cores(), sibling: cpu / self.cores() }
    }

    /// The last-level cache below a CPU, and its socket.
    pub(crate) fn llc_and_socket(&self, cpu: CpuId) -> (u32, u32) {
        let topology = &self.parts.topology;
        let llc = self.thread(cpu).core / topology.cores_per_llc;
        (llc, llc / topology.llcs_per_socket)
    }

    /// What a timed load takes when the first level has its line, and when only memory has.
    pub fn scale(&self) -> Scale {
        let dram = self.parts.nodes.iter().find_map(|node| match &node.device {
            Device::Dram(dram) => Some(dram.latency_ns + LINE as f64 / node.bus_gb_per_s),
            Device::Optane(_) => None,
        });
        let uncore = &self.parts.uncore;
        let (hit_ns, miss_ns) = (
            self.parts.l1.latency_ns,
            uncore.to_memory_ns + dram.unwrap_or_default() + uncore.from_memory_ns,
        );
        Scale { clock_ns: 0.0, hit_ns, hit_high_ns: hit_ns, miss_ns, miss_low_ns: miss_ns }
    }

    /// Last-level caches, over all sockets.
    pub(crate) fn llcs(&self) -> u32 {
        self.parts.topology.sockets * self.parts.topology.llcs_per_socket
    }

    /// Cores, over all sockets.
    pub(crate) fn cores(&self) -> u32 {
        let topology = &self.parts.topology;
        topology.sockets * topology.llcs_per_socket * topology.cores_per_llc
    }

    fn identity(&self) -> Identity {
        let vendor = match self.processor.vendor {
            Vendor::Intel => "GenuineIntel",
            Vendor::Amd => "AuthenticAMD",
        };
        let noise = match self.noise {
            Some(Noise::Vm) => " with the noise of a virtual machine",
            None => "",
        };
        Identity {
            vendor: Some(vendor.into()),
            brand: Some(format!("{}, simulated{noise}", self.processor.brand)),
            ..Identity::default()
        }
    }

    fn features(&self) -> Features {
        let has = |name: &str| {
            let flush = self.processor.flush.iter().any(|flush| flush.name() == name);
            flush || self.processor.widths.iter().any(|width| width.name() == name)
        };
        Features {
            identity: self.identity(),
            clflush: has("clflush"),
            clflushopt: has("clflushopt"),
            clwb: has("clwb"),
            flush_line: Some(64),
            sse2: has("sse2"),
            avx2: has("avx2"),
            avx512f: has("avx512"),
            invariant_tsc: true,
            ..Features::default()
        }
    }

    /// How many CPUs it has, numbered from 0.
    pub(crate) fn cpu_count(&self) -> u32 {
        self.cores() * self.parts.topology.threads_per_core
    }

    fn cpus(&self, belongs: impl Fn(CpuId) -> bool) -> CpuSet {
        (0..self.cpu_count()).filter(|cpu| belongs(*cpu)).collect()
    }

    fn topology(&self) -> Topology {
        let parts = &self.parts.topology;
        let all = self.cpus(|_| true);
        let siblings = |core: u32| self.cpus(|cpu| self.thread(cpu).core == core);
        let of_socket = |socket: u32| self.cpus(|cpu| self.llc_and_socket(cpu).1 == socket);
        let cores = 0..self.cores();
        let cpu = |id: CpuId| {
            let (core, socket) = (self.thread(id).core, self.llc_and_socket(id).1);
            topology::Cpu {
                id,
                online: true,
                package: Some(socket),
                die: None,
                core: Some(core as usize),
                node: Some(socket),
                siblings: self.cpus(|other| other != id && self.thread(other).core == core),
                kind: None,
                max_khz: Some((self.processor.ghz * 1e6) as u64),
            }
        };
        let cache = |level: u8, kind: CacheKind, id: u32, (kib, ways): (u32, u32), cpus: CpuSet| {
            topology::Cache {
                level,
                kind,
                id: Some(id),
                size: Some(Bytes::kib(kib.into())),
                line: Some(Bytes(64)),
                ways: Some(ways),
                sets: Some(kib * 16 / ways),
                cpus,
            }
        };
        let (l1, l2, llc) = (&self.parts.l1, &self.parts.l2, &self.parts.llc);
        let first = cores
            .clone()
            .map(|core| cache(1, CacheKind::Data, core, (l1.size_kib, l1.ways), siblings(core)));
        let level = self.last_level();
        let second = cores
            .clone()
            .filter(|_| level == 3)
            .map(|core| cache(2, CacheKind::Unified, core, (l2.size_kib, l2.ways), siblings(core)));
        let last = (0..self.llcs()).map(|id| {
            let below = self.cpus(|cpu| self.llc_and_socket(cpu).0 == id);
            cache(level as u8, CacheKind::Unified, id, (llc.size_kib, llc.ways), below)
        });
        Topology {
            possible: all.clone(),
            present: all.clone(),
            online: all.clone(),
            offline: CpuSet::new(),
            allowed: all.clone(),
            packages: (0..parts.sockets)
                .map(|id| topology::Package { id, cpus: of_socket(id) })
                .collect(),
            dies: Vec::new(),
            cores: cores
                .map(|core| topology::Core {
                    core_id: Some(core),
                    package: Some(core / (parts.cores_per_llc * parts.llcs_per_socket)),
                    kind: None,
                    cpus: siblings(core),
                })
                .collect(),
            cpus: all.iter().map(cpu).collect(),
            caches: first.chain(second).chain(last).collect(),
            nodes: self.nodes(&of_socket),
            fake_nodes: false,
            notes: Vec::new(),
            contradictions: Vec::new(),
        }
    }

    fn nodes(&self, of_socket: &dyn Fn(u32) -> CpuSet) -> Vec<topology::Node> {
        let sockets = self.parts.topology.sockets;
        let ordinary = self.parts.nodes.iter().filter_map(|node| match node.target.parse() {
            Ok(Named::Dram) => Some((node.socket, node.gib, true)),
            Ok(Named::Node(id)) => Some((id, node.gib, false)),
            _ => None,
        });
        let mut nodes: Vec<topology::Node> = ordinary
            .map(|(id, gib, own)| topology::Node {
                id,
                cpus: if own { of_socket(id) } else { CpuSet::new() },
                memory: Some(Bytes::gib(gib.into())),
                free: Some(Bytes::gib(gib.into())),
                distances: (0..sockets)
                    .map(|other| (other, if other == id { HERE } else { THERE }))
                    .collect(),
                memory_only: !own,
                offline: CpuSet::new(),
                cpus_known: true,
                memory_known: true,
            })
            .collect();
        nodes.sort_by_key(|node| node.id);
        nodes
    }

    // What the write pending queue has accepted is durable (ADR), or what is in a cache already
    // (eADR).
    fn durable(&self, target: Target) -> Target {
        let domain = if self.processor.eadr { "cpu_cache" } else { "memory_controller" };
        Target { persistence_domain: Some(domain.into()), ..target }
    }

    fn targets(&self) -> Vec<Target> {
        let nodes = &self.parts.nodes;
        let gib = |dram: bool| nodes.iter().filter(move |node| (node.target == "dram") == dram);
        let all = Bytes::gib(gib(true).map(|node| u64::from(node.gib)).sum());
        let target = |kind, name: &str, size, node| Target {
            kind,
            name: name.into(),
            size: Some(size),
            free: Some(size),
            align: None,
            node,
            persistence_domain: None,
            volatile: false,
            usable: true,
            why: "simulated".into(),
        };
        let others = gib(false).map(|node| {
            let size = Bytes::gib(node.gib.into());
            match node.target.parse() {
                Ok(Named::Node(id)) => target(TargetKind::Node, &node.target, size, Some(id)),
                Ok(Named::DevDax(_)) => {
                    self.durable(target(TargetKind::Devdax, &node.target, size, Some(node.socket)))
                }
                _ => self.durable(target(TargetKind::Dax, &node.target, size, Some(node.socket))),
            }
        });
        std::iter::once(target(TargetKind::Dram, "dram", all, None)).chain(others).collect()
    }
}
