//! The order table, applied one instruction at a time.

use std::rc::Rc;

use super::{Cover, CrashImage, Fixed, Interval, LINE_WORDS, Order, Tie};
use crate::content::Map;
use crate::event::{Event, Kind, Write};
use crate::profile::Profile;

struct Walk {
    profile: Profile,
    fixed: Fixed,
    // Covers with their words, in order of time.
    covers: Vec<(usize, Cover)>,
    intervals: Vec<Interval>,
    // The group of each line that was stored to.
    groups: Map<u32>,
    // The line stored to last, and its group: most stores follow one to the same line.
    last: (usize, u32),
    streams: u32,
    // Non-temporal stores before this one are durable.
    drained: u32,
    // Of which groups flushes under way have taken along how many stores.
    weak: Vec<(u32, u32)>,
    strong: Vec<(u32, u32)>,
    fences: u32,
}

impl CrashImage {
    /// What the events can leave, if the machine stops after the last of them; the first `killed`
    /// of them are of processes that died before, so that what they stored is visible to all.
    pub(crate) fn of(profile: Profile, events: &[Event], killed: usize) -> Self {
        let mut image = walk(profile, events, killed);
        // Completed flushes hold whatever else is decided.
        let consistent = image.settle();
        debug_assert!(consistent);
        image
    }
}

fn walk(profile: Profile, events: &[Event], killed: usize) -> CrashImage {
    let mut walk = Walk {
        profile,
        fixed: Fixed::default(),
        covers: Vec::with_capacity(events.len()),
        intervals: Vec::new(),
        groups: Map::default(),
        last: (usize::MAX, 0),
        streams: 0,
        drained: 0,
        weak: Vec::new(),
        strong: Vec::new(),
        fences: 0,
    };
    let (before, own) = events.split_at(killed);
    before.iter().for_each(|event| walk.step(event.kind));
    walk.visible();
    own.iter().for_each(|event| walk.step(event.kind));
    walk.end()
}

impl Walk {
    fn step(&mut self, kind: Kind) {
        match kind {
            Kind::Store(write) => self.store(write),
            Kind::Stream(write) => {
                self.cover(write, Order::Streamed(self.streams));
                self.streams += 1;
            }
            Kind::Flushopt(line) | Kind::Flush(line) if self.profile != Profile::Eadr => {
                if let Some(group) = self.groups.get(&line).copied() {
                    let count = self.intervals[group as usize].hi;
                    if matches!(kind, Kind::Flushopt(_)) {
                        self.weak.push((group, count));
                    } else {
                        self.strong.push((group, count));
                        if self.profile == Profile::IntelAdr {
                            let time = self.fixed.stores.len() as u32;
                            self.fixed.ties.push(Tie { group, need: count, time });
                        }
                    }
                }
            }
            Kind::Flushopt(_) | Kind::Flush(_) | Kind::Mark(_) | Kind::Acknowledge(_) => {}
            Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => self.fence(kind),
        }
    }

    fn fence(&mut self, kind: Kind) {
        self.fences += 1;
        for (group, count) in self.weak.drain(..) {
            let lo = &mut self.intervals[group as usize].lo;
            *lo = count.max(*lo);
        }
        if self.profile.completes_clflush(kind) {
            for (group, count) in self.strong.drain(..) {
                let lo = &mut self.intervals[group as usize].lo;
                *lo = count.max(*lo);
            }
        }
        self.drained = self.streams;
        if let Kind::Locked(write) = kind {
            self.store(write);
        }
        self.visible();
    }

    // Every ordinary store so far is visible to other processors, which is all that it takes where
    // caches last.
    fn visible(&mut self) {
        if self.profile == Profile::Eadr {
            self.intervals.iter_mut().for_each(|interval| interval.lo = interval.hi);
        }
    }

    fn store(&mut self, write: Write) {
        let line = if self.profile == Profile::Eadr { 0 } else { write.word / LINE_WORDS };
        if self.last.0 != line {
            let group = *self.groups.entry(line).or_insert_with(|| {
                self.intervals.push(Interval { lo: 0, hi: 0 });
                self.fixed.lines.push(line);
                self.intervals.len() as u32 - 1
            });
            self.last = (line, group);
        }
        let group = self.last.1;
        let hi = &mut self.intervals[group as usize].hi;
        let number = *hi;
        *hi += 1;
        self.cover(write, Order::Ordinary { group, number });
    }

    fn cover(&mut self, write: Write, order: Order) {
        let time = self.fixed.stores.len() as u32;
        self.fixed.stores.push(order);
        let cover =
            Cover { order, bytes: write.bytes, mask: write.mask, time, fences: self.fences };
        self.covers.push((write.word, cover));
    }

    fn end(self) -> CrashImage {
        let Self { mut fixed, mut covers, intervals, streams, drained, .. } = self;
        covers.sort_unstable_by_key(|(word, cover)| (*word, cover.time));
        fixed.covers.reserve_exact(covers.len());
        for covers in covers.chunk_by(|(word, _), (other, _)| word == other) {
            fixed.words.push((covers[0].0, fixed.covers.len() as u32));
            // What lies below a whole word that is durable can never be seen again.
            let durable = |(_, cover): &(usize, Cover)| match cover.order {
                Order::Ordinary { group, number } => number < intervals[group as usize].lo,
                Order::Streamed(number) => number < drained,
            };
            let from = covers
                .iter()
                .rposition(|cover| cover.1.mask == 0xff && durable(cover))
                .unwrap_or(0);
            fixed.covers.extend(covers[from..].iter().map(|(_, cover)| *cover));
        }
        fixed.words.push((usize::MAX, fixed.covers.len() as u32));
        // A completed flush needs no tie any more.
        fixed.ties.retain(|tie| intervals[tie.group as usize].lo < tie.need);
        if !fixed.ties.is_empty() {
            fixed.times.resize_with(intervals.len(), Vec::new);
            for (time, order) in fixed.stores.iter().enumerate() {
                if let Order::Ordinary { group, .. } = order {
                    fixed.times[*group as usize].push(time as u32);
                }
            }
        }
        let streamed = (0..streams).map(|number| (number < drained).then_some(true)).collect();
        CrashImage { fixed: Rc::new(fixed), intervals, streamed }
    }
}
