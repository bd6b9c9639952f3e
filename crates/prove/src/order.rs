//! In which order candidates are tried where there is not time for all: a pure function.

use super::lever::Candidate;

/// The candidates by their numbers, those that are likeliest to help first: the strongest setting of each lever, then the
/// next stronger of each. Levers come in the order in which they were offered, or asked for by `wanted`.
pub fn likeliest_first(candidates: &[Candidate], wanted: &[String]) -> Vec<usize> {
    let stronger = |index: usize| {
        let lever = &candidates[index].lever;
        candidates[index + 1..].iter().filter(|other| other.lever == *lever).count()
    };
    let place = |index: usize| {
        let lever = &candidates[index].lever;
        wanted.iter().position(|name| name == lever).unwrap_or(wanted.len())
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&index| (stronger(index), place(index), index));
    order
}

/// As many candidates as fit, in the order in which they were offered, and the others. `holds` says whether some of them
/// fit together.
pub fn fitting(
    candidates: Vec<Candidate>,
    wanted: &[String],
    holds: &dyn Fn(&[Candidate]) -> bool,
) -> (Vec<Candidate>, Vec<Candidate>) {
    let order = likeliest_first(&candidates, wanted);
    let split = |count: usize| {
        let numbered = candidates.iter().cloned().enumerate();
        let (kept, left): (Vec<_>, Vec<_>) = numbered.partition(|(index, _)| order[..count].contains(index));
        let only = |all: Vec<(usize, Candidate)>| all.into_iter().map(|(_, one)| one).collect::<Vec<_>>();
        (only(kept), only(left))
    };
    (0..=candidates.len())
        .rev()
        .map(split)
        .find(|(kept, _)| kept.is_empty() || holds(kept))
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "../tests/inside/order.rs"]
mod tests;
