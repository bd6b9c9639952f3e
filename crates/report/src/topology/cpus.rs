//! Lists of CPUs, short.

use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::Topology;

/// `0-3,8`, and `0-62:2` for every second one, as `taskset` reads it.
pub(crate) fn list(cpus: &CpuSet) -> String {
    let ids: Vec<CpuId> = cpus.iter().collect();
    let mut parts = Vec::new();
    let mut rest = &ids[..];
    while let [first, others @ ..] = rest {
        let step = others.first().map_or(1, |next| next - first);
        let run = rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count() + 1;
        let last = rest[run - 1];
        // Two or three CPUs far from each other are not a series.
        let taken = match step {
            1 if run > 1 => {
                parts.push(format!("{first}-{last}"));
                run
            }
            _ if run > 3 => {
                parts.push(format!("{first}-{last}:{step}"));
                run
            }
            _ => {
                parts.push(first.to_string());
                1
            }
        };
        rest = &rest[taken..];
    }
    parts.join(",")
}

/// `CPU 3`, `CPUs 0-3`.
pub(crate) fn named(cpus: &CpuSet) -> String {
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", list(cpus))
}

/// The hardware threads of a core: `2+34`.
pub(crate) fn siblings(core: &CpuSet) -> String {
    core.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+")
}

/// The distance between the two threads of a core, where it is the same for all cores.
pub(crate) fn regular_siblings(topology: &Topology) -> Option<CpuId> {
    let offset = |core: &CpuSet| match core.iter().collect::<Vec<_>>()[..] {
        [a, b] => Some(b - a),
        _ => None,
    };
    let first = offset(&topology.cores.first()?.cpus)?;
    topology.cores.iter().all(|core| offset(&core.cpus) == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_fold() {
        for (set, text) in [
            ("", ""),
            ("3", "3"),
            ("0-7,32-39", "0-7,32-39"),
            ("0,2,4,6,8,10", "0-10:2"),
            ("1,3,5,7,33,35,37,39", "1-7:2,33-39:2"),
            ("0,2,4", "0,2,4"),
            ("0,32", "0,32"),
            ("0,4,8,12,13", "0-12:4,13"),
            ("0,1,4,5", "0-1,4-5"),
        ] {
            let set: CpuSet = set.parse().unwrap();
            assert_eq!(list(&set), text);
        }
    }
}
