//! From instructions to what they can leave: the order table, applied one instruction at a time. It
//! goes on from crash to crash, and what it comes by stays shared.

use std::hash::BuildHasher;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::key::{certain, over, then};
use super::parts::{Cover, Group, LINE_WORDS, Order, Stream, Word};
use super::stores::CrashImage;
use super::ties::{Tie, Ties};
use crate::bytes::overlay;
use crate::event::{Event, Kind, Write};
use crate::list::List;
use crate::profile::Profile;

/// A thread or a system call that waits for flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// A thread waits for its own flushes.
    Thread(u32),
    /// A system call waits for what was stored when it began.
    Call(u32),
}

// Flushes in progress and non-temporal stores that are not durable yet.
#[derive(Debug, Clone)]
struct Pending {
    of: Waits,
    weak: List<Flushed>,
    strong: List<Flushed>,
    streams: List<u32>,
}

// A flush in progress: it covers the first `count` stores of a group, as of a time.
#[derive(Debug, Clone, Copy)]
struct Flushed {
    line: usize,
    count: u32,
    time: u32,
}

/// A run on its way.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    profile: Profile,
    // Where nothing is decided.
    image: CrashImage,
    // Usually of one thread.
    pending: SmallVec<[Pending; 1]>,
    // Non-temporal stores that no fence or call has covered yet.
    on_their_way: u32,
    // Whether a durable non-temporal store lies over an ordinary store that is not durable: their
    // numbers must not be reused then.
    keeps_streams: bool,
    fences: u32,
    // Since the last fence, and ordinary stores behind the first of them: line, number and time.
    ties: List<(u32, Tie)>,
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
        let group_words = if profile == Profile::Eadr { usize::MAX } else { LINE_WORDS };
        Self::of_groups(profile, group_words, remembered)
    }

    /// The same for groups of so many words, which is another number where memory is not written
    /// back by lines.
    pub(crate) fn of_groups(profile: Profile, group_words: usize, remembered: bool) -> Self {
        Self {
            profile,
            image: CrashImage::new(group_words),
            pending: SmallVec::new(),
            on_their_way: 0,
            keeps_streams: false,
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
            let mut ties: Vec<Tie> = self.ties.iter().map(|(_, tie)| *tie).collect();
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
        self.widths.iter().map(power).product::<f64>() * 2f64.powi(self.on_their_way as i32)
    }

    /// Whether nothing is open.
    pub(crate) fn is_settled(&self) -> bool {
        self.widths.is_empty() && self.on_their_way == 0
    }

    /// Whether nothing is open, but perhaps what other processors see.
    pub(crate) fn is_settled_if_killed(&self) -> bool {
        (self.widths.is_empty() || self.profile == Profile::Eadr) && self.on_their_way == 0
    }

    /// The process is killed: what it stored is visible to all.
    pub(crate) fn kill(&mut self) {
        self.visible();
    }

    /// One more instruction.
    pub(crate) fn step(&mut self, event: &Event) {
        self.step_of(0, event.kind);
    }

    /// One more instruction of a thread: its fences wait for its own flushes and non-temporal
    /// stores.
    pub(crate) fn step_of(&mut self, thread: u32, kind: Kind) {
        if let (Some(history), None) = (&mut self.history, kind.mark()) {
            *history = then(*history, FxBuildHasher.hash_one(kind));
        }
        match kind {
            Kind::Store(write) => self.store(write),
            Kind::Stream(write) => self.stream(thread, write),
            Kind::Flushopt(line) | Kind::Flush(line) if self.profile != Profile::Eadr => {
                self.flush(thread, kind, line)
            }
            Kind::Flushopt(_) | Kind::Flush(_) | Kind::Mark(_) | Kind::Acknowledge(_) => {}
            Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => {
                self.fence(thread, kind)
            }
        }
    }

    /// A system call begins that makes durable what was stored to these words.
    pub(crate) fn call_begins(&mut self, call: u32, words: Range<usize>) {
        let groups = self.image.group_of(words.start)..=self.image.group_of(words.end - 1);
        let time = self.image.stores;
        let mut found = Vec::new();
        self.image.groups.for_each(&mut |line, group| {
            if groups.contains(&line) && group.hi > group.lo {
                found.push(Flushed { line, count: group.hi, time });
            }
        });
        let mut streamed = Vec::new();
        self.image.streams.for_each(&mut |number, stream| {
            if words.contains(&(stream.place - 1)) && stream.there.is_none() {
                streamed.push(number as u32);
            }
        });
        let pending = self.pending_of(Waits::Call(call));
        found.into_iter().for_each(|flushed| pending.weak.push(flushed));
        streamed.into_iter().for_each(|number| pending.streams.push(number));
    }

    /// The call ends: they are durable.
    pub(crate) fn call_ends(&mut self, call: u32) {
        let Some(at) = self.pending.iter().position(|one| one.of == Waits::Call(call)) else {
            return;
        };
        let Pending { weak, streams, .. } = self.pending.swap_remove(at);
        let mut lines = SmallVec::new();
        weak.iter().for_each(|flushed| self.complete(*flushed, &mut lines));
        self.settle_all(&lines, &streams);
    }

    fn pending_of(&mut self, of: Waits) -> &mut Pending {
        let at = self.pending.iter().position(|one| one.of == of).unwrap_or_else(|| {
            let [weak, strong] = Default::default();
            self.pending.push(Pending { of, weak, strong, streams: List::default() });
            self.pending.len() - 1
        });
        &mut self.pending[at]
    }

    fn stream(&mut self, thread: u32, write: Write) {
        let number = self.image.streamed;
        self.cover(write, Order::Streamed(number), 0);
        *self.image.streams.get_mut(number as usize) =
            Stream { place: write.word + 1, there: None };
        self.image.streamed += 1;
        self.on_their_way += 1;
        self.pending_of(Waits::Thread(thread)).streams.push(number);
    }

    fn flush(&mut self, thread: u32, kind: Kind, line: usize) {
        let Some(group) = self.image.groups.get(line).filter(|group| group.hi > group.lo) else {
            return;
        };
        let (count, time) = (group.hi, self.image.stores);
        let flushed = Flushed { line, count, time };
        let pending = self.pending_of(Waits::Thread(thread));
        if matches!(kind, Kind::Flushopt(_)) {
            pending.weak.push(flushed);
            return;
        }
        pending.strong.push(flushed);
        if self.profile == Profile::IntelAdr {
            self.ties.push((thread, Tie { line, need: count, time }));
        }
    }

    fn fence(&mut self, thread: u32, kind: Kind) {
        self.fences += 1;
        let mut lines = SmallVec::new();
        let mut streams = List::default();
        if let Some(at) = self.pending.iter().position(|one| one.of == Waits::Thread(thread)) {
            let pending = &mut self.pending[at];
            streams = std::mem::take(&mut pending.streams);
            let weak = std::mem::take(&mut pending.weak);
            let is_strong = self.profile.completes_clflush(kind);
            let strong =
                if is_strong { std::mem::take(&mut pending.strong) } else { List::default() };
            if pending.strong.is_empty() {
                self.pending.swap_remove(at);
            }
            weak.iter()
                .chain(strong.iter())
                .for_each(|flushed| self.complete(*flushed, &mut lines));
            if is_strong {
                self.untie(thread);
            }
        }
        self.settle_all(&lines, &streams);
        if let Kind::Locked(write) = kind {
            self.store(write);
        }
        self.visible();
    }

    // Removes a thread's ties. Those of other threads stay, with all stores after them.
    fn untie(&mut self, thread: u32) {
        if self.ties.iter().all(|(of, _)| *of == thread) {
            (self.ties, self.tied) = (List::default(), List::default());
            return;
        }
        let mut others: Vec<_> =
            self.ties.iter().filter(|(of, _)| *of != thread).copied().collect();
        self.ties = List::default();
        while let Some(tie) = others.pop() {
            self.ties.push(tie);
        }
    }

    // Settles the words of these groups and of these non-temporal stores.
    fn settle_all(&mut self, lines: &[usize], streams: &List<u32>) {
        let mut streamed: SmallVec<[usize; 8]> = SmallVec::new();
        for number in streams.iter() {
            let stream = self.image.streams.get_mut(*number as usize);
            // A call may have covered it before its thread's fence did.
            self.on_their_way -= u32::from(stream.there.replace(true).is_none());
            streamed.push(stream.place - 1);
        }
        for line in lines {
            if self.image.has_one_group() {
                let words: Vec<usize> = self.image.buffered.iter().copied().collect();
                words.into_iter().for_each(|word| self.settle(word));
            } else {
                let words = self.image.group_words;
                (line * words..(line + 1) * words).for_each(|word| self.settle(word));
            }
        }
        streamed.into_iter().for_each(|word| self.settle(word));
        if self.on_their_way == 0 && !self.keeps_streams {
            (self.image.streams, self.image.streamed) = Default::default();
            // Numbers that a call covered before their thread's fence.
            self.pending.iter_mut().for_each(|one| one.streams = List::default());
        }
        for line in lines {
            if self.is_over(*line) {
                self.image.groups.set(*line, Group::default());
            }
        }
    }

    // Whether a group can be reset: no tie counts from its beginning, and no word of it is open.
    fn is_over(&self, line: usize) -> bool {
        let words = self.image.group_words;
        self.ties.is_empty()
            && !self.image.has_one_group()
            && self.image.groups.get(line).is_some_and(|group| group.lo == group.hi)
            && (line * words..(line + 1) * words)
                .all(|word| self.image.words.get(word).is_none_or(Word::is_settled))
    }

    // Marks the stores that a flush covered as durable. Does nothing if the group was reset since,
    // or if another flush already covered more.
    fn complete(&mut self, flushed: Flushed, lines: &mut SmallVec<[usize; 8]>) {
        let Flushed { line, count, time } = flushed;
        let Some(mut group) = self.image.groups.get(line).copied() else { return };
        if group.hi == 0 || count <= group.lo || time <= group.since {
            return;
        }
        let before = group.hi - group.lo;
        group.lo = count;
        *self.image.groups.get_mut(line) = group;
        self.widens(before, group.hi - group.lo);
        lines.push(line);
    }

    // Every ordinary store so far is visible to other processors, which is all that it takes where
    // caches last.
    fn visible(&mut self) {
        if self.profile != Profile::Eadr || self.image.buffered.is_empty() {
            return;
        }
        let Group { lo, hi, all, .. } = *self.image.groups.get_mut(0);
        *self.image.groups.get_mut(0) = Group { lo: hi, hi, all, ..Group::default() };
        self.widens(hi - lo, 0);
        for word in std::mem::take(&mut self.image.buffered).iter() {
            self.settle(*word);
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
        let (line, time) = (self.image.group_of(write.word), self.image.stores);
        let group = self.image.groups.get_mut(line);
        let (number, lo) = (group.hi, group.lo);
        if number == 0 {
            group.since = time;
        }
        group.hi += 1;
        group.all += 1;
        self.widens(number - lo, number + 1 - lo);
        if self.image.has_one_group() {
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
    fn settle(&mut self, number: usize) {
        let Some(word) = self.image.words.get(number).filter(|word| !word.is_settled()) else {
            return;
        };
        let lo = self.image.interval(self.image.group_of(number)).lo;
        let streams = &self.image.streams;
        let durable = |cover: &Cover| match cover.order {
            Order::Ordinary(number) => number < lo,
            Order::Streamed(number) => streams.get(number as usize).is_some_and(Stream::is_there),
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
        self.keeps_streams |=
            open.iter().any(|cover| durable(cover) && matches!(cover.order, Order::Streamed(_)));
        let below = certain(word.base, word.mask);
        word.chain = open.iter().fold(below, |key, cover| over(key, cover, durable(cover), lo));
        self.changed.push(number);
    }
}
