//! Memory: which channel has a line, and when that channel answers.

mod blocks;
mod channel;
mod dimm;

use std::ops::Range;

use crate::hardware::counters::ChannelCounters;
use crate::hardware::event::Request;
use crate::hardware::machine::Node;
use channel::{Bus, Channel};

pub use channel::Accepted;

/// The channels of all nodes.
pub struct Memory {
    channels: Vec<Channel>,
    /// The bus of each channel, by its number.
    bus_of: Vec<u32>,
    buses: Vec<Bus>,
    /// For each channel the others on its bus.
    mates: Vec<Vec<u32>>,
    /// For each channel the others of its controller whose reads may fill the queue in front, and
    /// how many lines that holds.
    ingress: Vec<Option<(Vec<u32>, u64)>>,
    nodes: Vec<Interleaving>,
}

/// How a node's lines are spread over its channels.
struct Interleaving {
    first: u32,
    channels: u32,
    /// What 2^63 divided by these is, rounded up: to divide a number of 31 bits without dividing
    /// (Granlund and Montgomery, 1994).
    reciprocal: u64,
    /// Lines on one channel before the next, as a power of two.
    shift: u32,
}

impl Interleaving {
    // The channel of a line, and the line's number on it.
    #[inline]
    fn place(&self, line: u32) -> (usize, u32) {
        let chunk = line >> self.shift;
        let round = ((u128::from(self.reciprocal) * u128::from(chunk)) >> 63) as u32;
        let channel = chunk - round * self.channels;
        ((self.first + channel) as usize, round << self.shift | line & ((1 << self.shift) - 1))
    }
}

impl Memory {
    /// Idle and empty. What is drawn by lot is drawn from the seed.
    pub fn new(nodes: &[Node], slices: usize, seed: u64) -> Self {
        let (mut channels, mut places) = (Vec::new(), Vec::new());
        for node in nodes {
            let shift = (node.interleave_bytes / 64).trailing_zeros();
            let reciprocal = (1_u64 << 63).div_ceil(node.channels.into());
            let first = channels.len() as u32;
            places.push(Interleaving { first, channels: node.channels, reciprocal, shift });
            for _ in 0..node.channels {
                let seed = seed ^ (channels.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                channels.push(Channel::new(node, slices, seed));
            }
        }
        // Each has a bus of its own, or that of a channel of the node that it shares with.
        let mut bus_of: Vec<u32> = (0..channels.len() as u32).collect();
        for (node, place) in nodes.iter().zip(&places) {
            let Some(with) = node.shares_with(nodes) else { continue };
            for channel in 0..place.channels.min(places[with].channels) {
                bus_of[(place.first + channel) as usize] = places[with].first + channel;
            }
        }
        let others = |channel: usize| {
            let same = |other: &u32| {
                *other as usize != channel && bus_of[*other as usize] == bus_of[channel]
            };
            (0..bus_of.len() as u32).filter(same).collect()
        };
        let mates: Vec<Vec<u32>> = (0..channels.len()).map(others).collect();
        let mut ingress = vec![None; channels.len()];
        for (node, place) in nodes.iter().zip(&places) {
            let (Some(shared), Some(with)) = (&node.ingress, node.shares_with(nodes)) else {
                continue;
            };
            for other in 0..places[with].channels {
                let same = |number: &u32| number / shared.channels == other / shared.channels;
                let behind = (0..place.channels).filter(same).map(|number| place.first + number);
                ingress[(places[with].first + other) as usize] =
                    Some((behind.collect(), u64::from(shared.lines)));
            }
        }
        let buses = vec![Bus::default(); channels.len()];
        Self { channels, bus_of, buses, mates, ingress, nodes: places }
    }

    /// The channels of a node.
    pub fn channels(&self, node: usize) -> Range<usize> {
        let first = self.nodes[node].first as usize;
        first..first + self.nodes[node].channels as usize
    }

    /// A read of a line arrives at its channel; when its data is there.
    #[inline]
    pub fn read(&mut self, node: usize, line: u32, at: u64) -> (usize, u64) {
        let (channel, local) = self.nodes[node].place(line);
        self.advance(channel, at);
        let bus = &mut self.buses[self.bus_of[channel] as usize];
        self.channels[channel].make_room(bus, at);
        for mate in &self.mates[channel] {
            self.channels[*mate as usize].make_room(bus, at);
        }
        let delay = self.delay(channel, at);
        let bus = &mut self.buses[self.bus_of[channel] as usize];
        (channel, self.channels[channel].read(bus, local, at) + delay)
    }

    // How long a read waits in the controller's queue behind reads of other channels.
    #[inline]
    fn delay(&self, channel: usize, at: u64) -> u64 {
        let Some((behind, lines)) = &self.ingress[channel] else { return 0 };
        let (mut count, mut time, mut busy) = (0, 0, 0);
        for one in behind {
            let (waiting, pace) = self.channels[*one as usize].backlog(at);
            count += waiting;
            time += waiting * pace;
            busy += u64::from(waiting > 0);
        }
        match count > *lines {
            true => (count - lines) * (time / count) / busy,
            false => 0,
        }
    }

    /// A write of a line arrives at its channel; whether the write pending queue accepts it at
    /// once.
    #[inline]
    pub fn write(&mut self, node: usize, at: u64, write: Request) -> (usize, bool) {
        let (channel, local) = self.nodes[node].place(write.line);
        self.advance(channel, at);
        (channel, self.channels[channel].write(local, at, write))
    }

    /// Does what a channel, and those on its bus, can do until a time.
    #[inline]
    pub fn advance(&mut self, channel: usize, at: u64) {
        let bus = &mut self.buses[self.bus_of[channel] as usize];
        let mates = &self.mates[channel];
        if mates.is_empty() {
            self.channels[channel].advance(bus, at);
            return;
        }
        let together = || mates.iter().map(|mate| *mate as usize).chain([channel]);
        together().for_each(|one| self.channels[one].keep_promises(at));
        // Whose turn comes first takes the bus.
        while let Some((start, one)) = together()
            .filter_map(|one| Some((self.channels[one].next_write(*bus)?, one)))
            .min()
            .filter(|(start, _)| *start < at)
        {
            self.channels[one].carry_write(bus, start, at);
        }
    }

    /// The other channels on a channel's bus.
    #[inline]
    pub fn mates(&self, channel: usize) -> &[u32] {
        &self.mates[channel]
    }

    /// Whether no write waits on a channel, and none is to be told that it was accepted.
    #[inline]
    pub fn is_settled(&self, channel: usize) -> bool {
        self.channels[channel].is_settled()
    }

    /// When a channel with writes that wait for acceptance can next make room, unless that was
    /// asked before.
    #[inline]
    pub fn alarm(&mut self, channel: usize, now: u64) -> Option<u64> {
        self.channels[channel].alarm(self.buses[self.bus_of[channel] as usize], now)
    }

    /// A channel's alarm has come.
    pub fn alarmed(&mut self, channel: usize, at: u64) {
        self.channels[channel].alarmed();
        self.advance(channel, at + 1);
    }

    /// A write that was accepted after it had waited.
    #[inline]
    pub fn accepted(&mut self, channel: usize) -> Option<Accepted> {
        self.channels[channel].accepted()
    }

    /// What a channel had done when it last advanced.
    pub fn counters(&self, channel: usize) -> ChannelCounters {
        self.channels[channel].counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_spread_as_division_says() {
        for channels in 1..=64_u32 {
            let reciprocal = (1_u64 << 63).div_ceil(channels.into());
            let node = Interleaving { first: 3, channels, reciprocal, shift: 2 };
            let near = |line: u32| (line.saturating_sub(300)..=line.saturating_add(300)).step_by(7);
            for line in [0, 1 << 20, 1 << 30, (1 << 31) - 400].into_iter().flat_map(near) {
                let (round, channel) = (line / 4 / channels, line / 4 % channels);
                assert_eq!(node.place(line), (3 + channel as usize, 4 * round + line % 4));
            }
        }
    }
}
