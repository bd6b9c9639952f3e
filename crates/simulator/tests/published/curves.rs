//! What was published, and how it was measured.

use ringfence_persist::Flush;
use ringfence_simulator::{Description, catalogue};

use crate::loops::{Access, Loop, rate};

/// Where a loop's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Dram,
    Optane,
    OneDimm,
}

/// What changes from point to point.
#[derive(Debug, Clone, Copy)]
pub enum Axis {
    /// Threads, each with blocks of so many bytes; GB/s of all together.
    Threads(u32),
    /// Bytes of a block; ns a block of one thread.
    Bytes,
    /// Bytes of a block; GB/s of so many threads together.
    Sizes(u32),
}

// OptaneStudy's "GB/s" are 2^30 bytes a second: src/kernel/lat.c divides by MB, which is 0x100000,
// and graphs/ by 1024 once more.
const GIB: f64 = 1.073_741_824;

/// A curve.
pub struct Curve {
    pub machine: &'static str,
    pub source: &'static str,
    pub memory: Memory,
    pub of: Loop,
    pub axis: Axis,
    /// By threads, or by bytes; bandwidths in the source's own unit.
    pub points: &'static [(u32, f64)],
    /// Points that fixed values of the machine file.
    pub used: &'static [u32],
    /// Cores of a socket, where the machine file has fewer.
    pub cores: u32,
}

impl Curve {
    pub fn title(&self) -> String {
        let Loop { access, fence, random, .. } = self.of;
        let unit = match self.axis {
            Axis::Threads(block) => format!("GB/s by threads, {block} B"),
            Axis::Bytes => "ns by bytes".to_owned(),
            Axis::Sizes(threads) => format!("GB/s by bytes, {threads} threads"),
        };
        format!(
            "{}, {:?}, {access:?}{}{}: {unit} ({})",
            self.machine,
            self.memory,
            if fence { ", fenced" } else { "" },
            if random { ", random" } else { "" },
            self.source
        )
    }

    /// Points in ns, or in GB/s of 10^9 bytes.
    pub fn published(&self) -> impl Iterator<Item = (u32, f64)> {
        let unit = match self.axis {
            Axis::Threads(_) | Axis::Sizes(_) if self.source == STUDY => GIB,
            _ => 1.0,
        };
        self.points.iter().map(move |(x, y)| (*x, y * unit))
    }

    /// What comes out for each point.
    pub fn simulate(&self) -> Vec<f64> {
        let text =
            catalogue::all().into_iter().find(|known| known.name == self.machine).unwrap().text;
        let mut machine = Description::parse(&text).unwrap().parts;
        if self.source == STUDY {
            // Its prefetchers were off.
            machine.prefetcher = None;
        }
        if self.cores > machine.topology.cores_per_llc {
            // As much of the last level for each core.
            machine.llc.size_kib =
                machine.llc.size_kib / machine.topology.cores_per_llc * self.cores;
            machine.topology.cores_per_llc = self.cores;
        }
        let dram = |target: &str| target == "dram";
        let wanted = self.memory == Memory::Dram;
        let node = machine.nodes.iter().position(|node| dram(&node.target) == wanted).unwrap();
        if self.memory == Memory::OneDimm {
            machine.nodes[node].channels = 1;
        }
        let point = |(x, _): &(u32, f64)| match self.axis {
            Axis::Threads(block) => rate(&machine, node, self.of, block, *x) * f64::from(block),
            Axis::Bytes => 1.0 / rate(&machine, node, self.of, *x, 1),
            Axis::Sizes(threads) => rate(&machine, node, self.of, *x, threads) * f64::from(*x),
        };
        self.points.iter().map(point).collect()
    }
}

pub(super) const NT: Loop =
    Loop { access: Access::Nt, flush: Flush::Clwb, fence: false, random: false, rest: 0 };
pub(super) const NT_FENCED: Loop = Loop { fence: true, ..NT };
pub(super) const LOAD: Loop = Loop { access: Access::Load, ..NT };
pub(super) const LOAD_RANDOM: Loop = Loop { random: true, ..LOAD };
pub(super) const CHASE: Loop = Loop { access: Access::Chase, random: true, ..NT };
pub(super) const STORE: Loop = Loop { access: Access::Store, random: true, ..NT };
pub(super) const PLAIN: Loop = Loop { access: Access::Store, ..NT };
pub(super) const CLWB: Loop = Loop { access: Access::FlushEach, ..NT };
pub(super) const CLWB_FENCED: Loop = Loop { access: Access::FlushEach, fence: true, ..NT };
pub(super) const CLWB_RANDOM: Loop =
    Loop { access: Access::StoreFlush, fence: true, random: true, ..NT };
pub(super) const NT_RANDOM: Loop = Loop { fence: true, random: true, ..NT };

pub(super) const CASCADE: &str = "cascade-lake-optane";
pub(super) const ICE: &str = "ice-lake-optane";

pub(super) const fn curve(
    machine: &'static str,
    source: &'static str,
    memory: Memory,
    of: Loop,
    axis: Axis,
    points: &'static [(u32, f64)],
    used: &'static [u32],
) -> Curve {
    Curve { machine, source, memory, of, axis, points, used, cores: 24 }
}

use Axis::{Bytes, Sizes, Threads};
use Memory::{Dram, OneDimm, Optane};

pub(super) const STUDY: &str = "OptaneStudy";
pub(super) const PERMA: &str = "PerMA-Bench";

/// OptaneStudy: Yang et al., FAST 2020, graphs/ of github.com/NVSL/OptaneStudy: files 04 (by
/// threads), 13 (by bytes), 02 (random reads). PerMA-Bench: Benson et al., VLDB 2022, results/ of
/// the branch eval of github.com/hpides/perma-bench: operations a second and GiB/s, made into ns
/// and GB/s. Times by bytes are made of bandwidths, too.
pub const CURVES: &[Curve] = &[
    curve(
        CASCADE,
        STUDY,
        OneDimm,
        NT,
        Threads(256),
        &[(1, 2.22), (2, 2.21), (4, 2.20), (8, 1.53), (12, 1.12), (16, 0.94), (24, 0.80)],
        &[1],
    ),
    curve(
        CASCADE,
        STUDY,
        OneDimm,
        CLWB,
        Threads(256),
        &[(1, 1.44), (2, 1.79), (4, 1.71), (8, 1.40), (12, 1.08), (16, 0.88), (24, 0.82)],
        &[],
    ),
    curve(
        CASCADE,
        STUDY,
        OneDimm,
        LOAD,
        Threads(256),
        &[(1, 2.92), (2, 5.66), (4, 6.52), (8, 6.46), (16, 4.73), (24, 3.89)],
        &[4],
    ),
    curve(
        CASCADE,
        STUDY,
        Optane,
        NT,
        Threads(256),
        &[(1, 4.13), (2, 8.19), (4, 12.50), (8, 12.00), (16, 10.00), (24, 7.50)],
        &[4],
    ),
    curve(
        CASCADE,
        STUDY,
        Optane,
        CLWB,
        Threads(256),
        &[(1, 1.42), (4, 5.75), (8, 9.98), (16, 8.67), (24, 7.50)],
        &[],
    ),
    curve(
        CASCADE,
        STUDY,
        Optane,
        LOAD,
        Threads(256),
        &[(1, 2.88), (4, 11.63), (8, 21.13), (16, 34.88), (24, 37.56)],
        &[1],
    ),
    curve(CASCADE, STUDY, Optane, CHASE, Bytes, &[(64, 305.0)], &[64]),
    curve(CASCADE, STUDY, Dram, CHASE, Bytes, &[(64, 101.5)], &[64]),
    curve(
        CASCADE,
        STUDY,
        Dram,
        NT,
        Threads(256),
        &[(1, 4.31), (4, 17.25), (8, 33.81), (16, 64.19), (24, 76.81)],
        &[],
    ),
    curve(
        CASCADE,
        STUDY,
        Dram,
        CLWB,
        Threads(256),
        &[(1, 1.44), (4, 6.00), (8, 11.75), (16, 23.75), (24, 35.56)],
        &[1],
    ),
    curve(
        CASCADE,
        STUDY,
        Dram,
        LOAD,
        Threads(256),
        &[(1, 7.38), (4, 29.31), (8, 65.38), (16, 103.56), (24, 104.56)],
        &[1, 24],
    ),
    curve(
        CASCADE,
        STUDY,
        OneDimm,
        NT_FENCED,
        Bytes,
        &[(64, 176.6), (128, 183.4), (256, 188.9), (512, 215.5), (1024, 426.3), (4096, 1704.9)],
        &[],
    ),
    curve(
        CASCADE,
        STUDY,
        OneDimm,
        CLWB_FENCED,
        Bytes,
        &[(64, 103.7), (128, 113.5), (256, 184.8), (512, 373.1), (1024, 747.9), (4096, 3458.0)],
        &[64],
    ),
    curve(
        CASCADE,
        PERMA,
        Optane,
        NT_FENCED,
        Bytes,
        &[(64, 175.4), (128, 180.2), (256, 186.4), (512, 199.3), (1024, 355.9)],
        &[64],
    ),
    curve(
        CASCADE,
        PERMA,
        Dram,
        NT_FENCED,
        Bytes,
        &[(64, 166.6), (128, 179.7), (256, 185.2), (512, 191.0), (1024, 333.9)],
        &[],
    ),
    curve(CASCADE, PERMA, Optane, NT_RANDOM, Bytes, &[(64, 179.0), (256, 200.7)], &[]),
    curve(CASCADE, PERMA, Dram, NT_RANDOM, Bytes, &[(64, 170.7), (256, 192.1)], &[]),
    curve(CASCADE, PERMA, Optane, CLWB_RANDOM, Bytes, &[(64, 219.3), (256, 290.6)], &[64]),
    curve(CASCADE, PERMA, Dram, CLWB_RANDOM, Bytes, &[(64, 125.4), (256, 156.8)], &[256]),
    curve(CASCADE, PERMA, Dram, LOAD, Threads(4096), &[(1, 13.76), (8, 91.96)], &[1]),
    curve(CASCADE, PERMA, Optane, LOAD, Threads(4096), &[(1, 4.57), (8, 32.15)], &[]),
    curve(
        CASCADE,
        PERMA,
        Optane,
        LOAD_RANDOM,
        Sizes(16),
        &[(512, 36.88), (1024, 19.45)],
        &[512, 1024],
    ),
    curve(
        ICE,
        PERMA,
        Optane,
        LOAD_RANDOM,
        Sizes(16),
        &[(256, 41.94), (512, 32.55), (1024, 34.37)],
        &[512, 1024],
    ),
    curve(CASCADE, PERMA, Dram, PLAIN, Bytes, &[(64, 6.41), (1024, 96.1)], &[]),
    curve(CASCADE, PERMA, Optane, PLAIN, Bytes, &[(64, 24.9), (1024, 361.6)], &[]),
    curve(CASCADE, STUDY, Dram, PLAIN, Bytes, &[(64, 11.6)], &[64]),
    curve(CASCADE, STUDY, Optane, PLAIN, Bytes, &[(64, 39.1)], &[]),
    curve(CASCADE, STUDY, OneDimm, PLAIN, Bytes, &[(64, 65.4)], &[]),
    curve(CASCADE, PERMA, Optane, STORE, Bytes, &[(64, 104.1), (256, 203.4)], &[]),
    curve(CASCADE, PERMA, Dram, STORE, Bytes, &[(64, 30.1), (256, 61.4)], &[]),
    curve(
        CASCADE,
        PERMA,
        Dram,
        NT_FENCED,
        Threads(256),
        &[(2, 2.76), (4, 5.58), (8, 11.04), (16, 21.45)],
        &[],
    ),
    curve(
        CASCADE,
        PERMA,
        Dram,
        CLWB_RANDOM,
        Threads(256),
        &[(2, 3.27), (4, 6.39), (8, 12.38), (16, 23.29)],
        &[],
    ),
    curve(
        ICE,
        PERMA,
        Optane,
        NT_FENCED,
        Bytes,
        &[(64, 164.3), (128, 162.1), (256, 166.1), (512, 178.1), (1024, 251.9)],
        &[64],
    ),
    curve(
        ICE,
        PERMA,
        Dram,
        NT_FENCED,
        Bytes,
        &[(64, 151.1), (128, 152.2), (256, 156.6), (512, 166.8), (1024, 185.3)],
        &[1024],
    ),
    curve(ICE, PERMA, Optane, NT_RANDOM, Bytes, &[(64, 163.6), (256, 168.0)], &[]),
    curve(ICE, PERMA, Dram, NT_RANDOM, Bytes, &[(64, 150.3), (256, 154.8)], &[]),
    curve(ICE, PERMA, Optane, CLWB_RANDOM, Bytes, &[(64, 546.8), (256, 623.5)], &[]),
    curve(ICE, PERMA, Dram, CLWB_RANDOM, Bytes, &[(64, 233.5), (256, 242.5)], &[64]),
    curve(ICE, PERMA, Optane, STORE, Bytes, &[(64, 54.9), (256, 132.8)], &[]),
    curve(ICE, PERMA, Dram, STORE, Bytes, &[(64, 10.2), (256, 41.3)], &[]),
    curve(
        ICE,
        PERMA,
        Dram,
        NT_FENCED,
        Threads(256),
        &[(2, 3.29), (4, 6.59), (8, 13.14), (16, 25.90)],
        &[],
    ),
    curve(
        ICE,
        PERMA,
        Optane,
        NT_FENCED,
        Threads(256),
        &[(2, 3.05), (4, 6.11), (8, 11.96), (16, 21.78)],
        &[],
    ),
    curve(
        ICE,
        PERMA,
        Dram,
        CLWB_RANDOM,
        Threads(256),
        &[(2, 2.14), (4, 4.25), (8, 8.43), (16, 16.33)],
        &[],
    ),
];
