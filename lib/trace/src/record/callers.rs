//! Callers: the rules that the runtime asks for, and the frames that it finds by them.

use ringfence_trace_runtime::layout::frame;

use super::service::Service;
use crate::events::{Callers, Frame};

impl Service<'_> {
    /// The rule for code of a process.
    pub(super) fn frame(&mut self, thread: u32, pc: u64) -> [u64; 4] {
        let origin = self.space(thread).map_or(pc, |space| space.origin(pc));
        let rule = self
            .in_file(thread, origin)
            .map(|(analysis, address)| analysis.unwinding.rule(address));
        rule.unwrap_or([frame::LAST, 0, 0, 0])
    }

    /// Keeps the frames that a thread has found, and gives them a number.
    pub(super) fn callers(&mut self, thread: u32, count: usize) -> u32 {
        let mut frames = Vec::new();
        for pc in self.memory.frames(thread, count) {
            // Of the call, as a function may end with one.
            let (module, address) = self.place(thread, pc.wrapping_sub(1));
            frames.push(Frame { module, address: address + 1 });
        }
        self.stacks += 1;
        let id = self.stacks;
        self.writer.callers(&Callers { id, frames });
        id
    }
}
