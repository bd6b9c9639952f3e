//! What is stored to a node: shifts, cuts, and splits.

use ringfence_persist::Memory;

use super::{
    Bug, COUNT, FULL, FastFair, Full, LEAF, LEFTMOST, LEVEL, LINE, LOW, NODE, SIBLING, key_at,
    pointer_at,
};

// Stores of a shift, in order: what was stored to a line is durable before anything is stored to
// another.
struct Shift<'a, M> {
    memory: &'a M,
    line: Option<usize>,
    fences: bool,
}

impl<M: Memory> Shift<'_, M> {
    fn store(&mut self, at: usize, value: u64) {
        let line = at / LINE * LINE;
        if self.line.is_some_and(|last| last != line) {
            self.flush(self.fences);
        }
        self.line = Some(line);
        self.memory.store_u64(at, value);
    }

    fn flush(&mut self, fence: bool) {
        if let Some(line) = self.line.take() {
            self.memory.flush(line..line + LINE);
            if fence {
                self.memory.sfence();
            }
        }
    }
}

impl<M: Memory> FastFair<M> {
    // Leftmost pointer, sibling, level, lowest key; and all records, since a node that was begun
    // before a crash is allocated again.
    pub(super) fn write_node(&self, node: usize, head: [u64; 4], entries: &[(u64, u64)]) {
        for (field, value) in [LEFTMOST, SIBLING, LEVEL, LOW].into_iter().zip(head) {
            self.memory.store_u64(node + field, value);
        }
        self.memory.store_u64(node + COUNT, entries.len() as u64);
        for record in 0..=FULL {
            let (key, pointer) = entries.get(record).copied().unwrap_or_default();
            self.memory.store_u64(key_at(node, record), key);
            self.memory.store_u64(pointer_at(node, record), pointer);
        }
    }

    // Cuts off what the sibling has, and closes the gaps that interrupted shifts left.
    pub(super) fn repair(&self, node: usize) {
        let end = self.end(node);
        let stale = |record: &usize| {
            !self.is_twin(node, *record) && self.memory.load_u64(key_at(node, *record)) >= end
        };
        if let Some(record) = (0..self.used(node)).find(stale) {
            self.cut(node, record);
        }
        while let Some(twin) = (0..self.used(node)).find(|record| self.is_twin(node, *record)) {
            self.shift_out(node, twin);
        }
    }

    fn cut(&self, node: usize, record: usize) {
        self.memory.store_u64(pointer_at(node, record), 0);
        self.persist(pointer_at(node, record)..pointer_at(node, record) + 8);
        self.set_count(node, record);
    }

    fn set_count(&self, node: usize, count: usize) {
        if self.bug == Some(Bug::CountApart) {
            self.memory.store_u64(node + COUNT, count as u64);
            self.persist(node + COUNT..node + COUNT + 8);
        }
    }

    // FAST: from the right, each entry to the next record; then the new one where it belongs.
    pub(super) fn shift_in(&self, node: usize, key: u64, pointer: u64) {
        let fences = self.bug != Some(Bug::ShiftNotFlushed);
        let mut shift = Shift { memory: &self.memory, line: None, fences };
        let count = self.used(node);
        // The end moves first; behind it lies what was cut off earlier.
        shift.store(pointer_at(node, count + 1).min(pointer_at(node, FULL)), 0);
        let mut record = count;
        while record > 0 && self.memory.load_u64(key_at(node, record - 1)) > key {
            shift.store(
                pointer_at(node, record),
                self.memory.load_u64(pointer_at(node, record - 1)),
            );
            shift.store(key_at(node, record), self.memory.load_u64(key_at(node, record - 1)));
            record -= 1;
        }
        // A twin of its left neighbour until it is complete.
        shift.store(pointer_at(node, record), self.left_pointer(node, record));
        if self.bug == Some(Bug::PointerFirst) {
            shift.store(pointer_at(node, record), pointer);
        }
        shift.store(key_at(node, record), key);
        shift.store(pointer_at(node, record), pointer);
        shift.flush(true);
        self.set_count(node, count + 1);
    }

    // From the left: the entry becomes a twin, then each takes the next one's place.
    pub(super) fn shift_out(&self, node: usize, first: usize) {
        let fences = self.bug != Some(Bug::DeleteNotFlushed);
        let mut shift = Shift { memory: &self.memory, line: None, fences };
        let count = self.used(node);
        shift.store(pointer_at(node, first), self.left_pointer(node, first));
        for record in first..count {
            shift.store(key_at(node, record), self.memory.load_u64(key_at(node, record + 1)));
            let next = if record + 1 == count {
                0
            } else {
                self.memory.load_u64(pointer_at(node, record + 1))
            };
            shift.store(pointer_at(node, record), next);
        }
        shift.flush(true);
        self.set_count(node, count - 1);
    }

    // FAIR: the upper half goes to a new sibling. The node must be repaired.
    pub(super) fn split(&self, node: usize) -> Result<usize, Full> {
        let middle = FULL / 2;
        let entries: Vec<(u64, u64)> =
            self.entries(node).iter().map(|(_, key, pointer)| (*key, *pointer)).collect();
        let (low, pointer) = entries[middle];
        let sibling = self.allocate()?;
        let level = self.word(node, LEVEL);
        // Of an inner node the middle key goes up, and its child is the sibling's leftmost.
        let (leftmost, upper) =
            if level == 0 { (LEAF, &entries[middle..]) } else { (pointer, &entries[middle + 1..]) };
        self.write_node(sibling, [leftmost, self.word(node, SIBLING), level, low], upper);
        if self.bug != Some(Bug::SiblingNotFlushed) {
            self.persist(sibling..sibling + NODE);
        }
        if self.bug == Some(Bug::CutFirst) {
            self.cut(node, middle);
        }
        self.memory.store_u64(node + SIBLING, sibling as u64);
        self.memory.flush(node + SIBLING..node + SIBLING + 8);
        if self.bug != Some(Bug::LinkNotDurable) {
            self.memory.sfence();
        }
        self.cut(node, middle);
        Ok(sibling)
    }
}
