//! From instructions to what they can leave: the order table, applied one instruction at a time. It
//! goes on from crash to crash, and what it comes by stays shared.

use std::hash::BuildHasher;
use std::rc::Rc;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::key::{certain, over, then};
use super::parts::{Cover, Group, LINE_WORDS, Order, Stream};
use super::stores::CrashImage;
use super::ties::{Tie, Ties};
use crate::bytes::overlay;
use crate::event::{Event, Kind, Write};
use crate::list::List;
use crate::profile::Profile;

/// A run on its way.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    profile: Profile,
    // Where nothing is decided.
    image: CrashImage,
    // Lines of which a flush is under way, perhaps more than once.
    weak: List<usize>,
    strong: List<usize>,
    fences: u32,
    // Since the last fence, and ordinary stores behind the first of them: line, number and time.
    ties: List<Tie>,
    tied: List<(usize, u32, u32)>,
    // How many groups can have come out in so many ways, of those that are open.
    widths: SmallVec<[(u32, u32); 2]>,
    // Words of which something else can have become.
    changed: Vec<usize>,
    // Of all instructions in order, where it is asked for.
    history: Option<u64>,
}

impl Walk {
    /// Before the first event. What follows shall be told apart by its history too where it is
    /// `remembered`.
    pub(crate) fn new(profile: Profile, remembered: bool) -> Self {
        Self {
            profile,
            image: CrashImage::new(profile),
            weak: List::default(),
            strong: List::default(),
            fences: 0,
            ties: List::default(),
            tied: List::default(),
            widths: SmallVec::new(),
            changed: Vec::new(),
            history: remembered.then_some(0),
        }
    }

    /// What a crash of the machine leaves now.
    pub(crate) fn image(&self) -> CrashImage {
        let mut image = self.image.clone();
        if !self.ties.is_empty() {
            let mut ties: Vec<Tie> = self.ties.iter().copied().collect();
            ties.reverse();
            let mut tied: Vec<_> = self.tied.iter().copied().collect();
            tied.sort_unstable();
            let times = tied.chunk_by(|one, other| one.0 == other.0).map(|of_line| {
                let (line, first, _) = of_line[0];
                (line, first, of_line.iter().map(|(.., time)| *time).collect())
            });
            image.ties = Some(Rc::new(Ties { ties, times: times.collect() }));
        }
        // Completed flushes leave no tie that could bring anything along.
        debug_assert!(image.clone().settle());
        image
    }

    /// As [`image`](Self::image), as far as stores go.
    pub(crate) fn stores(&self) -> &CrashImage {
        &self.image
    }

    /// Words of which something else can have become since they were taken out of here, some twice.
    pub(crate) fn changed(&mut self) -> &mut Vec<usize> {
        &mut self.changed
    }

    /// A number for all instructions since the machine stopped.
    pub(crate) fn history(&self) -> u64 {
        self.history.expect("it was asked for")
    }

    /// How many contents of memory this can be, if all that is open is told apart.
    pub(crate) fn images(&self) -> f64 {
        let power = |(width, count): &(u32, u32)| f64::from(*width).powi(*count as i32);
        self.widths.iter().map(power).product::<f64>() * 2f64.powi(self.image.streamed as i32)
    }

    /// Whether nothing is open, but perhaps what other processors see.
    pub(crate) fn is_settled_if_killed(&self) -> bool {
        (self.widths.is_empty() || self.profile == Profile::Eadr) && self.image.streamed == 0
    }

    /// The process is killed: what it stored is visible to all.
    pub(crate) fn kill(&mut self) {
        self.visible(false);
    }

    /// One more instruction.
    pub(crate) fn step(&mut self, event: &Event) {
        let kind = event.kind;
        if let (Some(history), None) = (&mut self.history, kind.mark()) {
            *history = then(*history, FxBuildHasher.hash_one(kind));
        }
        match kind {
            Kind::Store(write) => self.store(write),
            Kind::Stream(write) => {
                let number = self.image.streamed;
                self.cover(write, Order::Streamed(number), 0);
                *self.image.streams.get_mut(number as usize) =
                    Stream { place: write.word + 1, there: None };
                self.image.streamed += 1;
            }
            Kind::Flushopt(line) | Kind::Flush(line) if self.profile != Profile::Eadr => {
                self.flush(kind, line)
            }
            Kind::Flushopt(_) | Kind::Flush(_) | Kind::Mark(_) | Kind::Acknowledge(_) => {}
            Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => self.fence(kind),
        }
    }

    fn flush(&mut self, kind: Kind, line: usize) {
        let Some(group) = self.image.groups.get(line).copied().filter(|group| group.hi > group.lo)
        else {
            return;
        };
        let need = group.hi;
        if matches!(kind, Kind::Flushopt(_)) {
            if group.weak == 0 {
                self.weak.push(line);
            }
            self.image.groups.get_mut(line).weak = need;
            return;
        }
        if group.strong == 0 {
            self.strong.push(line);
        }
        self.image.groups.get_mut(line).strong = need;
        if self.profile == Profile::IntelAdr {
            self.ties.push(Tie { line, need, time: self.image.stores });
        }
    }

    fn fence(&mut self, kind: Kind) {
        self.fences += 1;
        let mut lines: SmallVec<[usize; 8]> = SmallVec::new();
        for line in std::mem::take(&mut self.weak).iter() {
            self.complete(*line, |group| std::mem::take(&mut group.weak), &mut lines);
        }
        if self.profile.completes_clflush(kind) {
            for line in std::mem::take(&mut self.strong).iter() {
                self.complete(*line, |group| std::mem::take(&mut group.strong), &mut lines);
            }
            (self.ties, self.tied) = (List::default(), List::default());
        }
        for line in &lines {
            (line * LINE_WORDS..(line + 1) * LINE_WORDS).for_each(|word| self.settle(word, true));
        }
        let mut streamed: SmallVec<[usize; 8]> = SmallVec::new();
        self.image.streams.for_each(&mut |_, stream| streamed.push(stream.place - 1));
        streamed.into_iter().for_each(|word| self.settle(word, true));
        (self.image.streams, self.image.streamed) = Default::default();
        for line in lines {
            if self.image.groups.get(line).is_some_and(|group| group.lo == group.hi) {
                self.image.groups.set(line, Group::default());
            }
        }
        if let Kind::Locked(write) = kind {
            self.store(write);
        }
        self.visible(true);
    }

    // The stores that a flush took along are durable.
    fn complete(
        &mut self,
        line: usize,
        take: impl Fn(&mut Group) -> u32,
        lines: &mut SmallVec<[usize; 8]>,
    ) {
        // The group may have begun anew since, and other flushes have taken along more.
        let Some(mut group) = self.image.groups.get(line).copied() else { return };
        let (before, count) = (group.hi - group.lo, take(&mut group));
        group.lo = group.lo.max(count);
        *self.image.groups.get_mut(line) = group;
        if group.hi - group.lo != before {
            self.widens(before, group.hi - group.lo);
            lines.push(line);
        }
    }

    // Every ordinary store so far is visible to other processors, which is all that it takes where
    // caches last.
    fn visible(&mut self, drained: bool) {
        if self.profile != Profile::Eadr || self.image.buffered.is_empty() {
            return;
        }
        let Group { lo, hi, all, .. } = *self.image.groups.get_mut(0);
        *self.image.groups.get_mut(0) = Group { lo: hi, hi, all, ..Group::default() };
        self.widens(hi - lo, 0);
        for word in std::mem::take(&mut self.image.buffered).iter() {
            self.settle(*word, drained);
        }
    }

    // A group of which so many stores were open.
    fn widens(&mut self, before: u32, after: u32) {
        if before > 0 {
            let at = self
                .widths
                .iter()
                .position(|(width, _)| *width == before + 1)
                .expect("it was counted");
            self.widths[at].1 -= 1;
            if self.widths[at].1 == 0 {
                self.widths.swap_remove(at);
            }
        }
        if after > 0 {
            match self.widths.iter_mut().find(|(width, _)| *width == after + 1) {
                Some((_, count)) => *count += 1,
                None => self.widths.push((after + 1, 1)),
            }
        }
    }

    fn store(&mut self, write: Write) {
        let line = self.image.group_of(write.word);
        let group = self.image.groups.get_mut(line);
        let (number, lo) = (group.hi, group.lo);
        group.hi += 1;
        group.all += 1;
        self.widens(number - lo, number + 1 - lo);
        if self.image.one_group {
            self.image.buffered.push(write.word);
        } else if !self.ties.is_empty() {
            self.tied.push((line, number, self.image.stores));
        }
        self.cover(write, Order::Ordinary(number), lo);
    }

    fn cover(&mut self, write: Write, order: Order, lo: u32) {
        let time = self.image.stores;
        self.image.stores += 1;
        let cover =
            Cover { order, bytes: write.bytes, mask: write.mask, time, fences: self.fences };
        let word = self.image.words.get_mut(write.word);
        let below = if word.is_settled() { certain(word.base, word.mask) } else { word.chain };
        word.chain = over(below, &cover, false, lo);
        word.covers.push(cover);
        // Often the one before.
        if self.changed.last() != Some(&write.word) {
            self.changed.push(write.word);
        }
    }

    // More of what was stored to the word is durable.
    fn settle(&mut self, number: usize, drained: bool) {
        let Some(word) = self.image.words.get(number).filter(|word| !word.is_settled()) else {
            return;
        };
        let lo = self.image.interval(self.image.group_of(number)).lo;
        let durable = |cover: &Cover| match cover.order {
            Order::Ordinary(number) => number < lo,
            Order::Streamed(_) => drained,
        };
        let mut open: SmallVec<[Cover; 8]> = word.open().copied().collect();
        open.reverse();
        let whole = open.iter().rposition(|cover| cover.mask == 0xff && durable(cover));
        let word = self.image.words.get_mut(number);
        if let Some(from) = whole {
            // What lies below a whole word that is durable can never be seen again.
            open.drain(..from);
            word.mask = 0;
            if word.covers.iter().nth(open.len()).is_some() {
                word.covers = List::default();
                open.iter().for_each(|cover| word.covers.push(*cover));
            }
        }
        let settled = open.iter().position(|cover| !durable(cover)).unwrap_or(open.len());
        for cover in open.drain(..settled) {
            overlay(&mut word.base, cover.bytes, cover.mask);
            word.mask |= cover.mask;
            word.settled = cover.time + 1;
        }
        let below = certain(word.base, word.mask);
        word.chain = open.iter().fold(below, |key, cover| over(key, cover, durable(cover), lo));
        self.changed.push(number);
    }
}
