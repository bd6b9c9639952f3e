//! What a word can be, over all that several runs left of it.

use smallvec::SmallVec;

use crate::bytes::{Bytes, masked, overlay};
use crate::crash_image::{CrashImage, Outcome};
use crate::event::WORD;

/// All layers with what is decided by it, and the bytes.
pub(crate) type Way = (Vec<CrashImage>, Bytes);

/// Every way in which the first `depth` runs can have left the wanted bytes of a word under those
/// of `over`: with what is decided by it, and no more decided than shows. With a `target` only
/// those in which they are that.
pub(crate) fn ways(
    layers: &[CrashImage],
    depth: usize,
    word: usize,
    wanted: u8,
    over: (Bytes, u8),
    target: Option<Bytes>,
) -> Vec<Way> {
    let mut all = Vec::new();
    Asked { word, wanted, target }.ways(layers.to_vec(), depth, over, &mut all);
    all
}

struct Asked {
    word: usize,
    wanted: u8,
    target: Option<Bytes>,
}

impl Asked {
    fn fits(&self, bytes: Bytes, mask: u8) -> bool {
        let mask = mask & self.wanted;
        self.target.is_none_or(|target| masked(bytes, mask) == masked(target, mask))
    }

    fn ways(
        &self,
        layers: Vec<CrashImage>,
        mut depth: usize,
        over: (Bytes, u8),
        all: &mut Vec<Way>,
    ) {
        let &Self { word, wanted, .. } = self;
        let (mut bytes, mut known) = over;
        while depth > 0 && wanted & !known != 0 {
            depth -= 1;
            if let Some((below, mask)) = layers[depth].plain(word) {
                overlay(&mut bytes, below, mask & !known);
                known |= mask;
                continue;
            }
            let mut outcomes = layers[depth].outcomes(word);
            // Where non-temporal stores alone show, nothing else hangs on them, and what lies below
            // stays open: another way to the same bytes that decides more can be left out. So those
            // come first.
            let alone = |outcome: &Outcome| {
                outcome.touches_no_group() && wanted & !(known | outcome.mask) == 0
            };
            outcomes.sort_by_key(|outcome| !alone(outcome));
            let mut found: SmallVec<[Bytes; 4]> = SmallVec::new();
            for outcome in outcomes {
                let mut bytes = bytes;
                overlay(&mut bytes, outcome.bytes, outcome.mask & !known);
                let below = known | outcome.mask;
                if !self.fits(bytes, below) {
                    continue;
                }
                let mut layers = layers.clone();
                if !layers[depth].decide(&outcome) {
                    continue;
                }
                let before = all.len();
                self.ways(layers, depth, (bytes, below), all);
                if alone(&outcome) {
                    found.push(masked(bytes, wanted));
                } else if outcome.touches_no_group() && !found.is_empty() {
                    let more = all.split_off(before);
                    all.extend(
                        more.into_iter()
                            .filter(|(_, bytes)| !found.contains(&masked(*bytes, wanted))),
                    );
                }
            }
            return;
        }
        if self.fits(bytes, 0xff) {
            all.push((layers, bytes));
        }
    }
}

/// Settles in place that a word came out just so, where one layer decides it and in one way:
/// whether it can.
pub(crate) fn settle(
    layers: &mut [CrashImage],
    word: usize,
    wanted: u8,
    target: Bytes,
) -> Option<bool> {
    let layer = layers.iter().rposition(|layer| layer.plain(word) != Some(([0; WORD], 0)))?;
    let mut outcomes = layers[layer].outcomes(word);
    if layer > 0 && outcomes.iter().any(|outcome| wanted & !outcome.mask != 0) {
        return None;
    }
    outcomes.retain(|outcome| masked(outcome.bytes, wanted) == masked(target, wanted));
    match &outcomes[..] {
        [] => Some(false),
        [one] => Some(layers[layer].decide(one)),
        _ => None,
    }
}

/// What the wanted bytes of a word can be, over all layers and under a run's own; in order.
pub(crate) fn values(
    layers: &[CrashImage],
    word: usize,
    wanted: u8,
    own: (Bytes, u8),
) -> SmallVec<[Bytes; 4]> {
    let mut all: SmallVec<[(Bytes, u8); 4]> = SmallVec::from_elem(own, 1);
    for layer in layers.iter().rev() {
        if all.iter().all(|(_, known)| known & wanted == wanted) {
            break;
        }
        let over = |(mut bytes, known): (Bytes, u8), below: Bytes, mask: u8| {
            overlay(&mut bytes, below, mask & !known);
            (bytes, known | mask)
        };
        match layer.plain(word) {
            Some((below, mask)) => all.iter_mut().for_each(|one| *one = over(*one, below, mask)),
            None => {
                let values = layer.values(word);
                all = all
                    .into_iter()
                    .flat_map(|one| {
                        values.iter().map(move |(below, mask)| over(one, *below, *mask))
                    })
                    .collect();
                all.sort_unstable();
                all.dedup();
            }
        }
    }
    let mut all: SmallVec<_> = all.into_iter().map(|(bytes, _)| masked(bytes, wanted)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The wanted bytes of a word, if they can be nothing else.
pub(crate) fn certain(layers: &[CrashImage], word: usize, wanted: u8) -> Option<Bytes> {
    let mut found = None;
    only_one(layers, word, wanted, Default::default(), &mut found).then_some(found).flatten()
}

// Whether all ways are like the one that was found first.
fn only_one(
    mut layers: &[CrashImage],
    word: usize,
    wanted: u8,
    over: (Bytes, u8),
    found: &mut Option<Bytes>,
) -> bool {
    let (mut bytes, mut known) = over;
    while let Some((layer, below)) = layers.split_last().filter(|_| wanted & !known != 0) {
        layers = below;
        if let Some((below, mask)) = layer.plain(word) {
            overlay(&mut bytes, below, mask & !known);
            known |= mask;
            continue;
        }
        return layer.all_values(word, &mut |below, mask| {
            let mut bytes = bytes;
            overlay(&mut bytes, below, mask & !known);
            only_one(layers, word, wanted, (bytes, known | mask), found)
        });
    }
    let bytes = masked(bytes, wanted);
    *found.get_or_insert(bytes) == bytes
}
