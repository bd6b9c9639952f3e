//! The order of runs in a round, drawn from the seed and the round's number alone.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// What runs next: a case by its number, or the shell alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Slot {
    /// A case.
    Case(usize),
    /// The shell with nothing to do.
    Shell,
}

impl Slot {
    /// The case's number, if it is one.
    pub fn case(self) -> Option<usize> {
        match self {
            Self::Case(case) => Some(case),
            Self::Shell => None,
        }
    }
}

/// One run of every case. Those that are compared are adjacent, in random order; so are the groups.
/// The shell comes first or last, so that it comes between none of them.
pub fn round(groups: &[Vec<usize>], shell: bool, seed: u64, number: u32) -> Vec<Slot> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(
        seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    );
    let mut groups = groups.to_vec();
    shuffle(&mut groups, &mut rng);
    let mut order = Vec::new();
    for mut group in groups {
        shuffle(&mut group, &mut rng);
        order.extend(group.into_iter().map(Slot::Case));
    }
    if shell {
        let at = if below(&mut rng, 2) == 0 { 0 } else { order.len() };
        order.insert(at, Slot::Shell);
    }
    order
}

/// How much longer the environment of a run is than of another: programs whose stack begins
/// elsewhere may take another time, which must not always fall to the same command.
pub fn environment_offset(seed: u64, number: u32, place: usize) -> usize {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(
        seed.rotate_left(17) ^ (u64::from(number) << 20) ^ (place as u64 + 1),
    );
    below(&mut rng, 4096)
}

fn shuffle<T>(all: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for place in (1..all.len()).rev() {
        all.swap(place, below(rng, place + 1));
    }
}

// Uniform below `n` up to 2^-64: the same on every platform and version.
fn below(rng: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runs_once_and_groups_stay_together() {
        let groups = vec![vec![0, 1], vec![2, 3, 4]];
        let mut firsts = [0; 5];
        for number in 0..2000 {
            let order = round(&groups, false, 7, number);
            assert_eq!(order, round(&groups, false, 7, number));
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2, 3, 4].map(Slot::Case));
            let at = |case| order.iter().position(|slot| *slot == Slot::Case(case)).unwrap();
            assert_eq!(at(0).abs_diff(at(1)), 1, "{order:?}");
            let Slot::Case(first) = order[0] else { panic!() };
            firsts[first] += 1;
        }
        // Half of the time a group is first, and within it each case alike: 500, and 333.
        assert!(firsts[..2].iter().all(|count| (420..580).contains(count)), "{firsts:?}");
        assert!(firsts[2..].iter().all(|count| (260..410).contains(count)), "{firsts:?}");
    }

    #[test]
    fn the_shell_comes_between_nobody() {
        for number in 0..50 {
            let order = round(&[vec![0, 1]], true, 3, number);
            assert!(
                order.len() == 3 && (order[0] == Slot::Shell || order[2] == Slot::Shell),
                "{order:?}"
            );
        }
    }
}
