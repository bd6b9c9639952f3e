//! A persistent B+-tree: FAST and FAIR, after "Endurable Transient Inconsistency in
//! Byte-Addressable Persistent B+-Tree" (Hwang, Kim, Won, Nam, FAST 2018).
//!
//! *FAST*: entries of a node are sorted, and shifted by stores of 8 bytes in such an order that
//! after each of them readers see the same: an entry whose pointer is that of its left neighbour
//! does not count. A line is durable before the shift goes on to the next. *FAIR*: a node is split
//! by building its right sibling, linking it, and cutting what it has off the node; its parent is
//! told last. Every level is a list, so that readers find what is not cut off yet, or not yet known
//! to the parent; writers complete what they find half done.
//!
//! The published code does not complete it, and what the paper takes for the first key of a sibling
//! is gone once that key is deleted (issues 4 to 6 of DICL/FAST_FAIR; Fu et al., "Witcher", SOSP
//! 2021, bugs 3 to 6). So here a node keeps its lowest key for good, as in Lee et al., "RECIPE"
//! (SOSP 2019), and nodes are not merged.
//!
//! Nodes are not given back, and a crash may leave one that nothing refers to.
//!
//! In memory, in bytes: a line of header, then nodes of two lines: leftmost pointer, sibling,
//! level, lowest key, a count that only a bug believes, and from 48 on five records of key and
//! pointer, of which the first lies in the first line and the last is never used: it ends the node
//! by a pointer of 0.

use std::ops::Range;

use ringfence_persist::Memory;

mod node;

const MAGIC: u64 = 0x4641_5354_4641_4952;
const AT_MAGIC: usize = 0;
const AT_ROOT: usize = 8;
const AT_NEXT: usize = 16;

const LINE: usize = 64;
/// Bytes of a node.
pub const NODE: usize = 128;
const LEFTMOST: usize = 0;
const SIBLING: usize = 8;
const LEVEL: usize = 16;
const LOW: usize = 24;
const COUNT: usize = 32;
const RECORDS: usize = 48;
const RECORD: usize = 16;
// Entries that a node can hold; one record more ends it.
const FULL: usize = 4;
// The leftmost pointer of a leaf: no value is that.
const LEAF: u64 = 1;
// Longer lists are circles.
const MOST: usize = 1000;

/// What can be done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An insertion shifts on into the next line before the last is durable.
    ShiftNotFlushed,
    /// So does a deletion (Witcher 3: the published code flushes at the wrong end of the line).
    DeleteNotFlushed,
    /// The pointer of a new entry is stored before its key.
    PointerFirst,
    /// A deletion does not see that an earlier shift was not completed (Witcher 4).
    DeleteBlind,
    /// The sibling is linked before it is durable.
    SiblingNotFlushed,
    /// What the sibling has is cut off before the link to it is durable.
    LinkNotDurable,
    /// What the sibling has is cut off before it is linked.
    CutFirst,
    /// The new root is published before it is durable.
    RootNotFlushed,
    /// A split that a crash interrupted is never completed (Witcher 5; issue 6).
    NotCompleted,
    /// A node's number of entries is kept in a word of its own, and believed.
    CountApart,
    /// What was allocated is not durable when it is used.
    NextNotFlushed,
}

/// There is no memory left for another node.
#[derive(Debug)]
pub struct Full;

/// A tree over memory.
pub struct FastFair<M> {
    memory: M,
    bug: Option<Bug>,
}

fn key_at(node: usize, record: usize) -> usize {
    node + RECORDS + record * RECORD
}

fn pointer_at(node: usize, record: usize) -> usize {
    key_at(node, record) + 8
}

impl<M: Memory> FastFair<M> {
    /// Makes an empty tree, durable on return. The memory must be zero.
    pub fn create(memory: M, bug: Option<Bug>) -> Self {
        let tree = Self { memory, bug };
        let root = NODE;
        tree.write_node(root, [LEAF, 0, 0, 0], &[]);
        tree.persist(root..root + NODE);
        tree.memory.store_u64(AT_NEXT, (root + NODE) as u64);
        tree.memory.store_u64(AT_ROOT, root as u64);
        tree.memory.store_u64(AT_MAGIC, MAGIC);
        tree.persist(0..LINE);
        tree
    }

    /// Finds a tree: `None` if there is none. There is nothing to recover: readers bear with what a
    /// crash left, and writers repair it where they pass.
    pub fn open(memory: M, bug: Option<Bug>) -> Option<Self> {
        (memory.load_u64(AT_MAGIC) == MAGIC).then_some(Self { memory, bug })
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut node = self.to_right(self.root(), key);
        while self.word(node, LEVEL) > 0 {
            node = self.to_right(self.child(node, key), key);
        }
        self.entries(node)
            .into_iter()
            .find(|(_, there, _)| *there == key)
            .map(|(_, _, value)| value)
    }

    /// Adds a key (below the largest) with a value above 1, durable on return; no two neighbours
    /// may have the same value. False if the key is there already.
    pub fn insert(&self, key: u64, value: u64) -> Result<bool, Full> {
        assert!(value > 1, "{value} means something else here");
        let leaf = self.descend(key, 0)?;
        if self.entries(leaf).iter().any(|(_, there, _)| *there == key) {
            return Ok(false);
        }
        self.insert_into(leaf, key, value)?;
        Ok(true)
    }

    /// Removes a key, durable on return. False if it is not there.
    pub fn delete(&self, key: u64) -> Result<bool, Full> {
        let leaf = self.descend(key, 0)?;
        let record = if self.bug == Some(Bug::DeleteBlind) {
            (0..self.used(leaf)).find(|record| self.memory.load_u64(key_at(leaf, *record)) == key)
        } else {
            self.repair(leaf);
            self.entries(leaf)
                .iter()
                .find(|(_, there, _)| *there == key)
                .map(|(record, ..)| *record)
        };
        if let Some(record) = record {
            self.shift_out(leaf, record);
        }
        Ok(record.is_some())
    }

    /// All keys with their values, in order.
    pub fn items(&self) -> Vec<(u64, u64)> {
        let first = self.levels().into_iter().last().expect("a tree has a root");
        self.list(first)
            .into_iter()
            .flat_map(|leaf| self.entries(leaf))
            .map(|(_, key, value)| (key, value))
            .collect()
    }

    /// What is wrong with the tree's form, if anything. Nodes that their parents do not know are
    /// wrong only where `complete` is asked for.
    pub fn check(&self, complete: bool) -> Result<(), String> {
        let mut known = vec![self.root()];
        for first in self.levels() {
            let nodes = self.list(first);
            if let Some(node) = known.iter().find(|node| !nodes.contains(node)) {
                return Err(format!("the node at {node} is in no list"));
            }
            if let Some(node) = nodes.iter().find(|node| complete && !known.contains(node)) {
                return Err(format!("no parent knows the node at {node}"));
            }
            let keys: Vec<u64> =
                nodes.iter().flat_map(|node| self.entries(*node)).map(|(_, key, _)| key).collect();
            if !keys.is_sorted_by(|one, other| one < other) {
                return Err(format!("out of order: {keys:?}"));
            }
            known.clear();
            for node in nodes.into_iter().filter(|node| self.word(*node, LEVEL) > 0) {
                let low = self.word(node, LOW);
                let children = self.entries(node).into_iter().map(|(_, key, child)| (key, child));
                for (key, child) in children.chain([(low, self.word(node, LEFTMOST))]) {
                    if self.word(child as usize, LOW) != key {
                        return Err(format!(
                            "the node at {child} is not the one for keys from {key} on"
                        ));
                    }
                    known.push(child as usize);
                }
            }
        }
        Ok(())
    }

    /// Levels from the root to the leaves.
    pub fn height(&self) -> usize {
        self.levels().len()
    }

    fn word(&self, node: usize, field: usize) -> u64 {
        self.memory.load_u64(node + field)
    }

    fn root(&self) -> usize {
        self.memory.load_u64(AT_ROOT) as usize
    }

    fn persist(&self, range: Range<usize>) {
        self.memory.flush(range);
        self.memory.sfence();
    }

    // The first node of each level, the root first.
    fn levels(&self) -> Vec<usize> {
        let mut levels = vec![self.root()];
        while let Some(node) = levels.last().filter(|node| self.word(**node, LEVEL) > 0) {
            assert!(levels.len() < MOST, "the tree goes in a circle");
            levels.push(self.word(*node, LEFTMOST) as usize);
        }
        levels
    }

    // A node and those to its right.
    fn list(&self, first: usize) -> Vec<usize> {
        let mut nodes = vec![first];
        while let Some(next) =
            nodes.last().map(|node| self.word(*node, SIBLING) as usize).filter(|node| *node != 0)
        {
            assert!(nodes.len() < MOST, "the siblings go in a circle");
            nodes.push(next);
        }
        nodes
    }

    // Records up to the end, those included that do not count.
    fn used(&self, node: usize) -> usize {
        if self.bug == Some(Bug::CountApart) {
            return self.word(node, COUNT) as usize;
        }
        (0..=FULL)
            .find(|record| self.memory.load_u64(pointer_at(node, *record)) == 0)
            .unwrap_or(FULL + 1)
    }

    fn left_pointer(&self, node: usize, record: usize) -> u64 {
        match record.checked_sub(1) {
            None => self.word(node, LEFTMOST),
            Some(left) => self.memory.load_u64(pointer_at(node, left)),
        }
    }

    fn is_twin(&self, node: usize, record: usize) -> bool {
        self.left_pointer(node, record) == self.memory.load_u64(pointer_at(node, record))
    }

    // The lowest key of the sibling: no key from there on counts here.
    fn end(&self, node: usize) -> u64 {
        match self.word(node, SIBLING) {
            0 => u64::MAX,
            sibling => self.word(sibling as usize, LOW),
        }
    }

    // What counts: record, key, pointer.
    fn entries(&self, node: usize) -> Vec<(usize, u64, u64)> {
        let counted = (self.bug == Some(Bug::CountApart)).then(|| self.used(node));
        let end = self.end(node);
        let mut entries = Vec::new();
        let mut left = self.word(node, LEFTMOST);
        for record in 0..counted.unwrap_or(FULL + 1) {
            let pointer = self.memory.load_u64(pointer_at(node, record));
            if pointer == 0 && counted.is_none() {
                break;
            }
            if pointer != left {
                let key = self.memory.load_u64(key_at(node, record));
                entries.extend((key < end).then_some((record, key, pointer)));
            }
            left = pointer;
        }
        entries
    }

    fn child(&self, node: usize, key: u64) -> usize {
        let entries = self.entries(node);
        let found = entries.iter().rev().find(|(_, low, _)| *low <= key);
        let child = found.map_or(self.word(node, LEFTMOST), |(_, _, child)| *child) as usize;
        // So that every way down comes to an end.
        assert_eq!(
            self.word(child, LEVEL) + 1,
            self.word(node, LEVEL),
            "a child is one level below"
        );
        child
    }

    // The node of the list that a key belongs to: this one, or one to its right that its parent
    // does not know yet.
    fn to_right(&self, mut node: usize, key: u64) -> usize {
        for _ in 0..MOST {
            if key < self.end(node) {
                return node;
            }
            node = self.word(node, SIBLING) as usize;
        }
        panic!("the siblings go in a circle");
    }

    // The writer's way to a node of this level, on which it completes what it finds half done.
    fn descend(&self, key: u64, level: u64) -> Result<usize, Full> {
        self.complete(self.root())?;
        let mut node = self.to_right(self.root(), key);
        while self.word(node, LEVEL) > level {
            let child = self.child(node, key);
            self.complete(child)?;
            node = self.to_right(child, key);
        }
        Ok(node)
    }

    // Tells the parent of a node's sibling, if it does not know.
    fn complete(&self, node: usize) -> Result<(), Full> {
        match self.word(node, SIBLING) as usize {
            0 => Ok(()),
            _ if self.bug == Some(Bug::NotCompleted) => Ok(()),
            sibling => self.tell_parent(node, sibling),
        }
    }

    fn tell_parent(&self, node: usize, sibling: usize) -> Result<(), Full> {
        let (low, level) = (self.word(sibling, LOW), self.word(node, LEVEL) + 1);
        if self.root() == node {
            return self.grow(node, low, sibling);
        }
        if self.word(self.root(), LEVEL) < level {
            // The published code leaves it at that.
            return Ok(());
        }
        let mut parent = self.to_right(self.root(), low);
        while self.word(parent, LEVEL) > level {
            parent = self.to_right(self.child(parent, low), low);
        }
        if self.child(parent, low) != sibling {
            self.insert_into(parent, low, sibling as u64)
        } else {
            Ok(())
        }
    }

    fn grow(&self, left: usize, low: u64, right: usize) -> Result<(), Full> {
        let root = self.allocate()?;
        self.write_node(
            root,
            [left as u64, 0, self.word(left, LEVEL) + 1, 0],
            &[(low, right as u64)],
        );
        if self.bug != Some(Bug::RootNotFlushed) {
            self.persist(root..root + NODE);
        }
        self.memory.store_u64(AT_ROOT, root as u64);
        self.persist(AT_ROOT..AT_ROOT + 8);
        Ok(())
    }

    // Durable at the next fence, and so before anything points there.
    fn allocate(&self) -> Result<usize, Full> {
        let node = self.memory.load_u64(AT_NEXT) as usize;
        if node + NODE > self.memory.len() {
            return Err(Full);
        }
        self.memory.store_u64(AT_NEXT, (node + NODE) as u64);
        if self.bug != Some(Bug::NextNotFlushed) {
            self.memory.flush(AT_NEXT..AT_NEXT + 8);
        }
        Ok(node)
    }

    fn insert_into(&self, node: usize, key: u64, pointer: u64) -> Result<(), Full> {
        self.repair(node);
        if self.used(node) < FULL {
            self.shift_in(node, key, pointer);
            return Ok(());
        }
        let sibling = self.split(node)?;
        self.shift_in(if key < self.word(sibling, LOW) { node } else { sibling }, key, pointer);
        self.tell_parent(node, sibling)
    }
}
