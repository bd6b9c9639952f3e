//! Curves that had not been simulated when the machine files' values were last fixed.

use crate::curves::{
    Axis::Threads, CASCADE, CLWB, CLWB_RANDOM, Curve, LOAD_RANDOM, Memory::Dram, Memory::OneDimm,
    Memory::Optane, NT, NT_FENCED, NT_RANDOM, PERMA, STUDY, curve,
};
use crate::loops::Loop;

const NT_UNFENCED: Loop = Loop { random: true, ..NT };
const FLUSH_RANDOM: Loop = Loop { random: true, ..CLWB };

/// OptaneStudy, file 05: random blocks by their size, with the thread counts that Yang et al. give
/// in the figure's heading (loads, non-temporal, clwb: 24, 24 on DRAM, 16, 4, 12 on six DIMMs, 4,
/// 1, 2 on one); and file 12: six threads, a fence each block. PerMA-Bench,
/// results/pmem/apache-256.json: random reads and writes, independent of each other; its DIMMs
/// write 18 GB/s, OptaneStudy's 13.4, so that many threads that write tell nothing of the model.
pub const FRESH: &[Curve] = &[
    sized(OneDimm, LOAD_RANDOM, 4, &[(64, 1.675), (128, 3.344), (256, 6.505), (4096, 6.559)]),
    sized(OneDimm, NT_UNFENCED, 1, &[(128, 1.098), (256, 2.207), (1024, 2.223), (4096, 2.231)]),
    sized(OneDimm, FLUSH_RANDOM, 2, &[(64, 0.513), (128, 0.927), (256, 1.755), (4096, 1.774)]),
    sized(
        Optane,
        LOAD_RANDOM,
        16,
        &[(64, 9.67), (256, 33.65), (1024, 32.29), (4096, 25.98), (65536, 33.79)],
    ),
    sized(
        Optane,
        NT_UNFENCED,
        4,
        &[(64, 3.166), (256, 12.188), (1024, 11.354), (4096, 9.438), (65536, 12.166)],
    ),
    sized(
        Optane,
        FLUSH_RANDOM,
        12,
        &[(64, 2.75), (256, 9.479), (1024, 8.916), (4096, 7.688), (65536, 9.5)],
    ),
    sized(Dram, LOAD_RANDOM, 24, &[(64, 93.35), (256, 96.48), (4096, 98.73)]),
    sized(Dram, NT_UNFENCED, 24, &[(64, 74.76), (256, 76.79), (4096, 76.63)]),
    sized(
        Optane,
        NT_FENCED,
        6,
        &[(64, 1.832), (128, 3.552), (256, 6.836), (512, 13.225), (1024, 13.424), (4096, 13.45)],
    ),
    curve(
        CASCADE,
        PERMA,
        Optane,
        LOAD_RANDOM,
        Threads(64),
        &[(1, 1.731), (8, 10.983), (16, 13.154)],
        &[],
    ),
    curve(
        CASCADE,
        PERMA,
        Optane,
        LOAD_RANDOM,
        Threads(256),
        &[(1, 2.728), (8, 20.174), (16, 35.336)],
        &[],
    ),
    curve(CASCADE, PERMA, Optane, CLWB_RANDOM, Threads(64), &[(8, 1.925)], &[]),
    curve(CASCADE, PERMA, Optane, CLWB_RANDOM, Threads(256), &[(8, 6.105)], &[]),
    curve(CASCADE, PERMA, Optane, NT_RANDOM, Threads(64), &[(8, 2.828)], &[]),
];

const fn sized(
    memory: crate::curves::Memory,
    of: Loop,
    threads: u32,
    points: &'static [(u32, f64)],
) -> Curve {
    curve(CASCADE, STUDY, memory, of, crate::curves::Axis::Sizes(threads), points, &[])
}
