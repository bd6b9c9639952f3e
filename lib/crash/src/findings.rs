//! Failures by their cause: the stores that were lost, and how recovery fails then.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_crashcheck::{Fate, Kind, Unit, WORD};
use serde::{Deserialize, Serialize};

use crate::examine::{Examination, ExamineError, Failure};
use crate::image::{Image, overlaid};
use crate::oracle::{Fault, Outcome};
use crate::points::{Choice, Crash};
use crate::program::{Did, Program};
use crate::remedy::{Failing, Remedy};

/// Causes that are worked out, at most.
const MOST_CAUSES: usize = 64;
/// Remedies that are tried, at most.
const MOST_REMEDIES: usize = 64;

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
    /// What makes these crashes impossible, or the most of them; none where nothing does.
    pub remedy: Option<Remedy>,
    /// How many of them it leaves possible.
    pub left: u64,
    /// Other failures that the same remedy makes impossible.
    pub also: Vec<Also>,
}

/// Another failure by the same cause.
#[derive(Debug, Clone)]
pub struct Also {
    /// What is wrong.
    pub fault: Fault,
    /// The stores that were lost.
    pub lost: Vec<Lost>,
    /// Crashes that fail in this way.
    pub crashes: u64,
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

// Failures with the same lost stores, by their instructions.
struct Group {
    sites: BTreeSet<u32>,
    // The smallest.
    first: Failure,
    lost: Vec<Lost>,
    crashes: Vec<Failing>,
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
    let (groups, others) = grouped(examination, failures)?;
    let mut all = Vec::new();
    for (remedy, left, numbers) in by_remedy(examination, &groups) {
        let Group { first, lost, crashes, .. } = &groups[numbers[0]];
        examination.confirm(first)?;
        let also = numbers[1..].iter().map(|other| {
            let Group { first, lost, crashes, .. } = &groups[*other];
            Also { fault: first.fault, lost: lost.clone(), crashes: crashes.len() as u64 }
        });
        all.push(Finding {
            fault: first.fault,
            lost: lost.clone(),
            crash: examination.crash(first.steps),
            crashes: crashes.len() as u64,
            expected: match lost.is_empty() {
                true => examination.clean().clone(),
                false => examination.kill(first.point).clone(),
            },
            image: examination.image_of(first),
            outcome: first.outcome.clone(),
            remedy,
            left,
            also: also.collect(),
        });
    }
    Ok((all, others))
}

// By the stores that were lost, the most frequent first.
fn grouped(
    examination: &mut Examination<'_>,
    failures: &[Failure],
) -> Result<(Vec<Group>, u64), ExamineError> {
    let mut order: Vec<&Failure> = failures.iter().collect();
    order.sort_by_key(|failure| (examination.lost(failure).len(), failure.point));
    let mut known = Known::default();
    let mut groups: Vec<Group> = Vec::new();
    let mut others = 0;
    for failure in order {
        let lost = examination.lost(failure);
        let stores = known.of(examination, failure.point, &lost);
        let all = sites(&stores);
        let like = groups.iter_mut().find(|group| {
            // A failure that a kill is enough for explains no other.
            let explains = group.sites.is_subset(&all) && group.sites.is_empty() == all.is_empty();
            group.first.fault == failure.fault && explains
        });
        if let Some(group) = like {
            let of_cause = lost.iter().zip(&stores).filter(|(_, store)| {
                store.as_ref().is_some_and(|store| group.sites.contains(&store.site))
            });
            group.crashes.push((failure.point, of_cause.map(|(unit, _)| *unit).collect()));
            continue;
        }
        if groups.len() >= MOST_CAUSES {
            others += 1;
            continue;
        }
        let only = Failure { choice: Choice(lost), ..failure.clone() };
        let first = examination.shrink(&only)?;
        let stores = known.of(examination, first.point, &first.choice.0);
        let crash = (first.point, first.choice.0.clone());
        let sites = sites(&stores);
        let is_same = |group: &&mut Group| group.first.fault == first.fault && group.sites == sites;
        match groups.iter_mut().find(is_same) {
            Some(group) => group.crashes.push(crash),
            None => {
                let mut lost: Vec<Lost> = stores.into_iter().flatten().collect();
                lost.sort();
                lost.dedup();
                groups.push(Group { sites, first, lost, crashes: vec![crash] });
            }
        }
    }
    groups.iter_mut().for_each(|group| group.crashes.sort_by_key(|(point, _)| *point));
    groups.sort_by_key(|group| std::cmp::Reverse(group.crashes.len()));
    Ok((groups, others))
}

fn sites(stores: &[Option<Lost>]) -> BTreeSet<u32> {
    stores.iter().flatten().map(|one| one.site).collect()
}

// Groups that one remedy is enough for, by their numbers: the remedy, and how many crashes of the
// first of them it leaves.
type Remedied = (Option<Remedy>, u64, Vec<usize>);

fn by_remedy(examination: &Examination<'_>, groups: &[Group]) -> Vec<Remedied> {
    let stores = groups.iter().flat_map(|group| &group.sites).copied().collect();
    let lost = groups.iter().flat_map(|group| &group.lost);
    let mut candidates =
        examination.remedies(&stores, &lost.filter_map(|lost| lost.flushed).collect());
    candidates.truncate(MOST_REMEDIES);
    let numbered = |number: usize| groups[number].crashes.iter().map(move |one| (number, one));
    let mut crashes: Vec<(usize, &Failing)> = (0..groups.len()).flat_map(numbered).collect();
    crashes.sort_by_key(|(_, (point, _))| *point);
    // Of each group, how many crashes a remedy makes impossible.
    let prevented = |remedy: &Remedy| {
        let mut counts = vec![0; groups.len()];
        let each = examination.prevented(remedy, crashes.iter().map(|(_, crash)| *crash));
        let numbers = crashes.iter().map(|(number, _)| *number);
        numbers
            .zip(each)
            .for_each(|(number, is_prevented)| counts[number] += usize::from(is_prevented));
        counts
    };
    let counts: Vec<Vec<usize>> = candidates.iter().map(prevented).collect();
    let mut left: BTreeSet<usize> = (0..groups.len()).collect();
    let mut all: Vec<Remedied> = Vec::new();
    loop {
        let whole = |candidate: usize| -> Vec<usize> {
            let is_whole = |number: &usize| {
                let group = &groups[*number];
                !group.sites.is_empty() && counts[candidate][*number] == group.crashes.len()
            };
            left.iter().copied().filter(is_whole).collect()
        };
        let crashes = |of: &[usize]| of.iter().map(|one| groups[*one].crashes.len()).sum::<usize>();
        // Of those that are as good, the first.
        let best = (0..candidates.len()).rev().max_by_key(|candidate| crashes(&whole(*candidate)));
        let Some((best, solved)) =
            best.map(|best| (best, whole(best))).filter(|(_, solved)| !solved.is_empty())
        else {
            break;
        };
        // The fewest stores that are enough.
        let all_stores = &candidates[best];
        let own = solved.iter().flat_map(|one| &groups[*one].sites).copied().collect();
        let narrow = [BTreeSet::from([all_stores.after]), own]
            .map(|stores| Remedy { stores, ..all_stores.clone() });
        let is_enough = |remedy: &&Remedy| {
            let counts = prevented(remedy);
            solved.iter().all(|one| counts[*one] == groups[*one].crashes.len())
        };
        let remedy = narrow.iter().find(is_enough).unwrap_or(all_stores).clone();
        solved.iter().for_each(|one| _ = left.remove(one));
        all.push((Some(remedy), 0, solved));
    }
    for number in left {
        let best = (0..candidates.len()).rev().max_by_key(|candidate| counts[*candidate][number]);
        let best = best.filter(|best| counts[*best][number] > 0);
        let remains = groups[number].crashes.len() - best.map_or(0, |best| counts[best][number]);
        all.push((best.map(|best| candidates[best].clone()), remains as u64, vec![number]));
    }
    let crashes =
        |(.., of): &Remedied| of.iter().map(|one| groups[*one].crashes.len()).sum::<usize>();
    all.sort_by_key(|one| std::cmp::Reverse(crashes(one)));
    all
}

// The first store that is lost of each unit, as far as it was looked for.
#[derive(Default)]
struct Known(BTreeMap<(usize, Unit, u32), Option<Lost>>);

impl Known {
    fn of(
        &mut self,
        examination: &Examination<'_>,
        point: usize,
        lost: &[(Unit, u32)],
    ) -> Vec<Option<Lost>> {
        let one = |(unit, way): &(Unit, u32)| {
            let found = self.0.entry((point, *unit, *way));
            found.or_insert_with(|| first_lost(examination, point, *unit, *way)).clone()
        };
        lost.iter().map(one).collect()
    }
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
