//! Which states of a crash point are looked at where not all are.

use ringfence_crashcheck::{Leaves, Unit};

use crate::points::{Choice, Point};

/// Everything that can be lost.
pub fn all_lost(point: &Point) -> Vec<Choice> {
    vec![Choice(point.leaves.units().into_iter().map(|unit| (unit, 0)).collect())]
}

/// One thing that is lost.
pub fn one_lost(point: &Point) -> Vec<Choice> {
    point.leaves.units().into_iter().map(|unit| Choice(vec![(unit, 0)])).collect()
}

/// One thing that is not lost.
pub fn one_there(point: &Point) -> Vec<Choice> {
    let units = point.leaves.units();
    let others = |there: &Unit| {
        let lost = units.iter().filter(|unit| *unit != there).map(|unit| (*unit, 0));
        let newest = point.leaves.ways(*there) - 1;
        Choice(std::iter::once((*there, newest)).chain(lost).collect())
    };
    units.iter().map(others).collect()
}

/// Each thing in the ways between lost and newest, two things that are lost, and random choices.
pub fn rest(point: &Point) -> Vec<Choice> {
    const RANDOM: usize = 256;
    let units = point.leaves.units();
    let mut all = Vec::new();
    for unit in &units {
        for way in 1..point.leaves.ways(*unit).saturating_sub(1).min(64) {
            all.push(Choice(vec![(*unit, way)]));
        }
    }
    for (number, one) in units.iter().enumerate().take(32) {
        for other in units.iter().skip(number + 1).take(32) {
            all.push(Choice(vec![(*one, 0), (*other, 0)]));
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ point.steps as u64;
    let mut draw = |below: u32| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % u64::from(below)) as u32
    };
    for _ in 0..RANDOM {
        all.push(Choice(
            units.iter().map(|unit| (*unit, draw(point.leaves.ways(*unit)))).collect(),
        ));
    }
    all
}

/// How many states there are; usize::MAX for more than that.
pub fn states(leaves: &Leaves) -> usize {
    leaves
        .units()
        .iter()
        .fold(1usize, |product, unit| product.saturating_mul(leaves.ways(*unit) as usize))
}
