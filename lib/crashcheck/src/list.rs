//! Lists that grow at their head; copies share their common part.

use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct List<T>(Option<Rc<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    value: T,
    rest: List<T>,
}

impl<T> List<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, value: T) {
        let rest = std::mem::take(self);
        self.0 = Some(Rc::new(Node { value, rest }));
    }

    pub(crate) fn split(&self) -> Option<(&T, &Self)> {
        self.0.as_ref().map(|node| (&node.value, &node.rest))
    }

    /// The newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut list = self;
        std::iter::from_fn(move || {
            let (value, rest) = list.split()?;
            list = rest;
            Some(value)
        })
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PartialEq for List<T> {
    // Whether they are one, which is all that is asked for.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<T> Drop for List<T> {
    // One after the other: a long list would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(node) = next {
            next = Rc::into_inner(node).and_then(|mut node| node.rest.0.take());
        }
    }
}
