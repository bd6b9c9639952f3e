//! Failures by their cause: the stores that were lost, and how recovery fails then.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_crashcheck::{Fate, Kind, Unit, WORD};
use serde::{Deserialize, Serialize};

use crate::examine::{Examination, ExamineError, Failure};
use crate::image::{Image, overlaid};
use crate::oracle::{Fault, Outcome};
use crate::points::{Choice, Crash};
use crate::program::{Did, Program};

/// Causes that are worked out, at most.
const MOST_CAUSES: usize = 64;

/// A cause, and the smallest failure that it has.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What is wrong.
    pub fault: Fault,
    /// The stores that were lost, one of each line or sector; none where a kill is enough.
    pub lost: Vec<Lost>,
    /// Where it crashed.
    pub crash: Crash,
    /// Crashes that fail in this way: states at crash points.
    pub crashes: u64,
    /// What recovery did.
    pub outcome: Outcome,
    /// What it does if nothing is lost.
    pub expected: Outcome,
    /// What the files hold then.
    pub image: Image,
}

/// A store that was lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lost {
    /// The instruction; 0: not known.
    pub site: u32,
    /// The file, by its number.
    pub file: usize,
    /// Where in it.
    pub offset: u64,
    /// The bytes of one word that were stored.
    pub bytes: Vec<u8>,
    /// The flush that was under way, if there was one: what waited for it had not come.
    pub flushed: Option<u32>,
}

/// Sorts failures by their causes, the most frequent first; and the number of failures whose causes
/// were too many to work out.
///
/// # Errors
/// Where recovery cannot be run any more.
pub fn findings(
    examination: &mut Examination<'_>,
    failures: &[Failure],
) -> Result<(Vec<Finding>, u64), ExamineError> {
    let mut order: Vec<&Failure> = failures.iter().collect();
    order.sort_by_key(|failure| (examination.lost(failure).len(), failure.point));
    let mut known: BTreeMap<(usize, Unit, u32), Option<Lost>> = BTreeMap::new();
    let mut groups: Vec<(BTreeSet<u32>, Failure, u64)> = Vec::new();
    let mut others = 0;
    for failure in order {
        let lost = examination.lost(failure);
        let sites = |lost: &[Lost]| lost.iter().map(|one| one.site).collect::<BTreeSet<u32>>();
        let all = sites(&of(examination, failure.point, &lost, &mut known));
        let like = groups.iter_mut().find(|(cause, first, _)| {
            // A failure that a kill is enough for explains no other.
            let explains = cause.is_subset(&all) && cause.is_empty() == all.is_empty();
            first.fault == failure.fault && explains
        });
        if let Some((.., count)) = like {
            *count += 1;
            continue;
        }
        if groups.len() >= MOST_CAUSES {
            others += 1;
            continue;
        }
        let only = Failure { choice: Choice(lost), ..failure.clone() };
        let small = examination.shrink(&only)?;
        let cause = sites(&of(examination, small.point, &small.choice.0, &mut known));
        match groups.iter_mut().find(|(one, first, _)| first.fault == small.fault && *one == cause)
        {
            Some((.., count)) => *count += 1,
            None => groups.push((cause, small, 1)),
        }
    }
    groups.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    let mut all = Vec::new();
    for (_, failure, crashes) in groups {
        let lost = of(examination, failure.point, &failure.choice.0, &mut known);
        all.push(Finding {
            fault: failure.fault,
            lost,
            crash: examination.crash(failure.point),
            crashes,
            expected: match failure.choice.0.is_empty() {
                true => examination.clean().clone(),
                false => examination.kill(failure.point).clone(),
            },
            image: examination.image_of(failure.point, &failure.choice),
            outcome: failure.outcome,
        });
    }
    Ok((all, others))
}

// The first store that is lost of each unit.
fn of(
    examination: &Examination<'_>,
    point: usize,
    lost: &[(Unit, u32)],
    known: &mut BTreeMap<(usize, Unit, u32), Option<Lost>>,
) -> Vec<Lost> {
    let one = |(unit, way): &(Unit, u32)| {
        let found = known.entry((point, *unit, *way));
        found.or_insert_with(|| first_lost(examination, point, *unit, *way)).clone()
    };
    let mut all: Vec<Lost> = lost.iter().filter_map(one).collect();
    all.sort();
    all.dedup();
    all
}

fn first_lost(examination: &Examination<'_>, point: usize, unit: Unit, way: u32) -> Option<Lost> {
    let (program, at) = (examination.program(), &examination.points[point]);
    let leaves = at.decided(&Choice(vec![(unit, way)]));
    let bytes = at.leaves.bytes_of(unit);
    let steps = &program.steps[..at.steps];
    let instructions: Vec<(usize, Kind)> = steps
        .iter()
        .enumerate()
        .filter_map(|(number, step)| match step.did {
            Did::Instruction(kind) => Some((number, kind)),
            _ => None,
        })
        .collect();
    let kinds: Vec<Kind> = instructions.iter().map(|(_, kind)| *kind).collect();
    let mut fates = leaves.fates(&kinds).into_iter();
    let mut found = None;
    // What the unit's words hold: a store that changes nothing explains nothing.
    let mut words: BTreeMap<usize, u64> = BTreeMap::new();
    for (number, kind) in instructions {
        let Some(write) = kind.write() else { continue };
        let fate = fates.next();
        if !bytes.contains(&(write.word * WORD)) {
            continue;
        }
        let initial = || program.place(write.word).map_or(0, |place| program.initial[place]);
        let word = words.entry(write.word).or_insert_with(initial);
        let changed = overlaid(*word, write.bytes, write.mask);
        let changes = std::mem::replace(word, changed) != changed;
        if fate == Some(Fate::Lost) && (changes || found.is_none()) {
            found = Some((number, write));
            if changes {
                break;
            }
        }
    }
    let (number, write) = found?;
    let line = write.word * WORD / 64;
    let flushed = steps[number..].iter().find_map(|step| match step.did {
        Did::Instruction(Kind::Flushopt(one) | Kind::Flush(one)) if one == line => Some(step.site),
        _ => None,
    });
    let (file, offset) = Program::file_of(write.word);
    let first = write.mask.trailing_zeros() as usize;
    let stored = &write.bytes[first..first + write.mask.count_ones() as usize];
    let (offset, bytes) = (offset + first as u64, stored.to_vec());
    Some(Lost { site: steps[number].site, file, offset, bytes, flushed })
}
