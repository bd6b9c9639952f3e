//! A map from small or huge numbers with cheap copies: they share all that neither has changed
//! since.
//!
//! A radix tree that is copied along the path to a change where it is shared. What was never set is
//! a default and takes no room, so that it serves as memory of any size.

use std::rc::Rc;

/// Numbers that share a leaf: words of a line, where the numbers are those of words.
const LEAF: usize = 8;
const FANOUT: usize = 16;
const BITS: u32 = FANOUT.trailing_zeros();

#[derive(Debug, Clone)]
enum Link<T> {
    None,
    Inner(Rc<[Link<T>; FANOUT]>),
    Leaf(Rc<[T; LEAF]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Trie<T> {
    root: Link<T>,
    // Inner nodes on the way to a leaf.
    height: u32,
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { root: Link::None, height: 0 }
    }
}

fn empty<T>() -> [Link<T>; FANOUT] {
    std::array::from_fn(|_| Link::None)
}

fn child(leaf: usize, level: u32) -> usize {
    (leaf >> (level * BITS)) % FANOUT
}

impl<T: Clone + Default + PartialEq> Trie<T> {
    // Whether leaves of this number lie below the root.
    fn reaches(&self, leaf: usize) -> bool {
        leaf.checked_shr(self.height * BITS).unwrap_or(0) == 0
    }

    /// What is at the number, if anything near it was ever set.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let leaf = number / LEAF;
        if !self.reaches(leaf) {
            return None;
        }
        let mut link = &self.root;
        let mut level = self.height;
        loop {
            match link {
                Link::None => return None,
                Link::Inner(children) => {
                    level -= 1;
                    link = &children[child(leaf, level)];
                }
                Link::Leaf(all) => return Some(&all[number % LEAF]),
            }
        }
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: usize) -> &mut T {
        let leaf = number / LEAF;
        if matches!(self.root, Link::None) {
            self.height = 0;
        }
        while !self.reaches(leaf) {
            let root = std::mem::replace(&mut self.root, Link::None);
            if !matches!(root, Link::None) {
                let mut children = empty();
                children[0] = root;
                self.root = Link::Inner(Rc::new(children));
            }
            self.height += 1;
        }
        let mut link = &mut self.root;
        for level in (0..self.height).rev() {
            if matches!(link, Link::None) {
                *link = Link::Inner(Rc::new(empty()));
            }
            let Link::Inner(children) = link else {
                unreachable!("leaves lie below all inner nodes")
            };
            link = &mut Rc::make_mut(children)[child(leaf, level)];
        }
        if matches!(link, Link::None) {
            *link = Link::Leaf(Rc::new(std::array::from_fn(|_| T::default())));
        }
        let Link::Leaf(all) = link else { unreachable!("inner nodes lie above all leaves") };
        &mut Rc::make_mut(all)[number % LEAF]
    }

    /// Sets it, and gives back the room of what is a default.
    pub(crate) fn set(&mut self, number: usize, value: T) {
        if value != T::default() {
            *self.get_mut(number) = value;
        } else if self.get(number).is_some() {
            remove(&mut self.root, number / LEAF, self.height, number % LEAF);
        }
    }

    /// All numbers that are something else than a default, in order.
    pub(crate) fn for_each<'a>(&'a self, visit: &mut impl FnMut(usize, &'a T)) {
        each(&self.root, 0, &mut |number, value| {
            if *value != T::default() {
                visit(number, value);
            }
        });
    }

    /// Whether both are one, so that nothing can differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.height == other.height
            && match (&self.root, &other.root) {
                (Link::None, Link::None) => true,
                (Link::Inner(one), Link::Inner(other)) => Rc::ptr_eq(one, other),
                (Link::Leaf(one), Link::Leaf(other)) => Rc::ptr_eq(one, other),
                _ => false,
            }
    }

    /// All numbers at which the other may be something else: those that do not share their room.
    pub(crate) fn unshared(&self, other: &Self, visit: &mut impl FnMut(usize)) {
        if self.height == other.height {
            unshared(&self.root, &other.root, 0, visit);
        } else {
            each(&self.root, 0, &mut |number, _| visit(number));
            each(&other.root, 0, &mut |number, _| visit(number));
        }
    }
}

fn remove<T: Clone + Default + PartialEq>(
    link: &mut Link<T>,
    leaf: usize,
    level: u32,
    within: usize,
) {
    let alone = match link {
        Link::None => true,
        Link::Inner(children) => {
            let at = child(leaf, level - 1);
            remove(&mut Rc::make_mut(children)[at], leaf, level - 1, within);
            children.iter().all(|child| matches!(child, Link::None))
        }
        Link::Leaf(all) => {
            let other = |(number, value): (usize, &T)| number != within && *value != T::default();
            let alone = !all.iter().enumerate().any(other);
            if !alone {
                Rc::make_mut(all)[within] = T::default();
            }
            alone
        }
    };
    if alone {
        *link = Link::None;
    }
}

fn each<'a, T>(link: &'a Link<T>, leaf: usize, visit: &mut impl FnMut(usize, &'a T)) {
    match link {
        Link::None => {}
        Link::Inner(children) => {
            for (number, child) in children.iter().enumerate() {
                each(child, leaf << BITS | number, visit);
            }
        }
        Link::Leaf(all) => {
            all.iter().enumerate().for_each(|(number, value)| visit(leaf * LEAF + number, value));
        }
    }
}

fn unshared<T>(one: &Link<T>, other: &Link<T>, leaf: usize, visit: &mut impl FnMut(usize)) {
    match (one, other) {
        (Link::Inner(one), Link::Inner(other)) => {
            if !Rc::ptr_eq(one, other) {
                for (number, (one, other)) in one.iter().zip(other.iter()).enumerate() {
                    unshared(one, other, leaf << BITS | number, visit);
                }
            }
        }
        (Link::Leaf(one), Link::Leaf(other)) if Rc::ptr_eq(one, other) => {}
        (one, other) => {
            each(one, leaf, &mut |number, _| visit(number));
            if matches!(one, Link::None) {
                each(other, leaf, &mut |number, _| visit(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_number_there_is_can_be_set_too() {
        let mut trie = Trie::default();
        for number in [usize::MAX, 0, 1 << 37, usize::MAX - 1] {
            assert_eq!(trie.get(number).copied().unwrap_or(0), 0);
            trie.set(number, number);
        }
        let mut all = Vec::new();
        trie.for_each(&mut |number, value| all.push((number, *value)));
        assert_eq!(
            all,
            [(1 << 37, 1 << 37), (usize::MAX - 1, usize::MAX - 1), (usize::MAX, usize::MAX)]
        );
        for number in [1 << 37, usize::MAX - 1, usize::MAX] {
            trie.set(number, 0);
        }
        assert!(matches!(trie.root, Link::None), "no room is left in use");
    }

    proptest! {
        // As a plain map does, and copies keep what they were.
        #[test]
        fn it_is_a_map_of_which_copies_stay(
            changes in prop::collection::vec(
                (0usize..3, 0usize..300, 0u32..3, prop::bool::weighted(0.2)),
                0..200,
            )
        ) {
            let mut trie = Trie::default();
            let mut plain: BTreeMap<usize, u32> = BTreeMap::new();
            let mut copies = Vec::new();
            for (far, number, value, copy) in changes {
                let number = number << (far * 14);
                trie.set(number, value);
                plain.insert(number, value);
                if copy {
                    copies.push((trie.clone(), plain.clone()));
                }
            }
            copies.push((trie.clone(), plain.clone()));
            for (trie, mut plain) in copies {
                plain.retain(|_, value| *value != 0);
                let mut all = BTreeMap::new();
                trie.for_each(&mut |number, value| _ = all.insert(number, *value));
                prop_assert_eq!(&all, &plain);
                prop_assert!(plain.iter().all(|(number, value)| trie.get(*number) == Some(value)));
            }
        }

        #[test]
        fn what_is_shared_is_the_same(
            before in prop::collection::btree_map(0usize..5000, 1u32..9, 0..50),
            changes in prop::collection::btree_map(0usize..90_000, 0u32..9, 0..9),
        ) {
            let mut one = Trie::default();
            before.iter().for_each(|(number, value)| one.set(*number, *value));
            let mut other = one.clone();
            changes.iter().for_each(|(number, value)| other.set(*number, *value));
            let mut visited = BTreeSet::new();
            one.unshared(&other, &mut |number| _ = visited.insert(number));
            for number in before.keys().chain(changes.keys()) {
                let at = |trie: &Trie<u32>| trie.get(*number).copied().unwrap_or(0);
                prop_assert!(at(&one) == at(&other) || visited.contains(number));
            }
            if one.height == other.height {
                prop_assert!(visited.len() <= changes.len() * LEAF, "{} for \
                    {}", visited.len(), changes.len());
            }
        }
    }
}
