//! Memory that crashes: for tests of what recovery makes of what is left.
//!
//! A deliberately small model, apart from the checker's: stores go to a volatile image; flushed
//! lines and non-temporal words reach the durable one at the next fence. A crash keeps the durable
//! image and, of every word that differs, either value, as the random numbers have it, with one
//! line's ordinary stores in order.

#![allow(dead_code)]

pub mod crash_memory;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ringfence_persist::{Memory, checksum};

/// Numbers that look random, from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// See the module.
pub struct Crashing {
    state: RefCell<State>,
}

#[derive(Clone)]
struct State {
    now: Vec<u8>,
    durable: Vec<u8>,
    // Ordinary stores of each line since it was last made durable, in order, by words.
    ordinary: BTreeMap<usize, Vec<(usize, [u8; 8])>>,
    // Of those, how many a flush has taken along.
    flushed: BTreeMap<usize, usize>,
    // Words written past the caches.
    streamed: BTreeSet<usize>,
}

impl Crashing {
    pub fn new(len: usize) -> Self {
        Self::of(vec![0; len])
    }

    pub fn of(bytes: Vec<u8>) -> Self {
        let (ordinary, flushed, streamed) = Default::default();
        Self {
            state: RefCell::new(State {
                now: bytes.clone(),
                durable: bytes,
                ordinary,
                flushed,
                streamed,
            }),
        }
    }

    /// What a crash now leaves; each call may draw another outcome.
    pub fn crash(&self, random: &mut Random) -> Self {
        let state = self.state.borrow();
        let mut left = state.durable.clone();
        // How likely things are to have reached memory differs from crash to crash.
        let bias = random.below(5);
        let reached = |random: &mut Random| random.below(4) < bias;
        for stores in state.ordinary.values() {
            let count = (0..stores.len()).take_while(|_| reached(random)).count();
            for (word, bytes) in &stores[..count] {
                left[word * 8..][..8].copy_from_slice(bytes);
            }
        }
        // Last: a word that was streamed is newer than the ordinary stores to it, which came
        // before.
        for word in &state.streamed {
            if reached(random) {
                left[word * 8..][..8].copy_from_slice(&state.now[word * 8..][..8]);
            }
        }
        Self::of(left)
    }

    /// The process is killed, and the machine goes on: everything stored can be seen, and no more
    /// of it is durable than before.
    pub fn kill(&self) {
        let State { now, ordinary, flushed, streamed, .. } = &mut *self.state.borrow_mut();
        // A fence waits for its own processor's flushes.
        flushed.clear();
        for word in std::mem::take(streamed) {
            ordinary
                .entry(word / 8)
                .or_default()
                .push((word, now[word * 8..][..8].try_into().unwrap()));
        }
    }

    fn fence(&self) {
        let State { now, durable, ordinary, flushed, streamed } = &mut *self.state.borrow_mut();
        for word in std::mem::take(streamed) {
            let value: [u8; 8] = now[word * 8..][..8].try_into().unwrap();
            durable[word * 8..][..8].copy_from_slice(&value);
            // What was stored there before, and is still in a cache, cannot come after it any more.
            for store in
                ordinary.get_mut(&(word / 8)).into_iter().flatten().filter(|store| store.0 == word)
            {
                store.1 = value;
            }
        }
        for (line, count) in std::mem::take(flushed) {
            if let Some(stores) = ordinary.get_mut(&line) {
                for (word, bytes) in stores.drain(..count) {
                    durable[word * 8..][..8].copy_from_slice(&bytes);
                }
            }
        }
    }
}

impl Memory for Crashing {
    fn len(&self) -> usize {
        self.state.borrow().now.len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        let state = self.state.borrow();
        // A load of what was streamed and not fenced may return anything: the ring must not do
        // that.
        let words = at / 8..(at + into.len()).div_ceil(8);
        assert!(state.streamed.range(words).next().is_none(), "read before the fence at {at}");
        into.copy_from_slice(&state.now[at..at + into.len()]);
    }

    fn load_u64(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        state.now[at..at + bytes.len()].copy_from_slice(bytes);
        for word in at / 8..(at + bytes.len()).div_ceil(8) {
            assert!(!state.streamed.contains(&word), "stored over an unfenced stream at {at}");
            let value = state.now[word * 8..][..8].try_into().unwrap();
            state.ordinary.entry(word / 8).or_default().push((word, value));
        }
    }

    fn store_u64(&self, at: usize, value: u64) {
        assert!(at.is_multiple_of(8));
        self.store(at, &value.to_le_bytes());
    }

    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8));
        let state = &mut *self.state.borrow_mut();
        state.now[at..at + bytes.len()].copy_from_slice(bytes);
        state.streamed.extend(at / 8..(at + bytes.len()) / 8);
    }

    fn flush(&self, range: Range<usize>) {
        let State { ordinary, flushed, .. } = &mut *self.state.borrow_mut();
        if !range.is_empty() {
            for line in range.start / 64..range.end.div_ceil(64) {
                if let Some(stores) = ordinary.get(&line) {
                    flushed.insert(line, stores.len());
                }
            }
        }
    }

    fn sfence(&self) {
        self.fence();
    }

    fn mfence(&self) {
        self.fence();
    }

    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.fence();
        let found = self.load_u64(at);
        if found != current {
            return Err(found);
        }
        self.store_u64(at, new);
        Ok(found)
    }

    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        let bytes: Vec<u8> = pieces
            .into_iter()
            .flat_map(|piece| {
                let mut bytes = vec![0; piece.len()];
                self.load(piece.start, &mut bytes);
                bytes
            })
            .collect();
        checksum::of(&bytes, seed) == sum
    }
}
