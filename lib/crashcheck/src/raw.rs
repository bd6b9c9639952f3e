//! The crate's `unsafe`: a place in the source kept in an atomic, and a thread's stack, which the C
//! library knows.

use std::panic::Location;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::event::Source;

/// A place in the source, or none, that one thread notes and another looks at.
#[derive(Debug, Default)]
pub(crate) struct LastAt(AtomicPtr<Location<'static>>);

impl LastAt {
    #[inline]
    pub(crate) fn note(&self, at: Source) {
        self.0.store(std::ptr::from_ref(at).cast_mut(), Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.0.store(std::ptr::null_mut(), Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Source> {
        let last = self.0.load(Relaxed);
        // SAFETY: null, or made of a reference that is valid forever, to something that never
        // changes.
        unsafe { last.as_ref() }
    }
}

/// Where the calling thread's stack begins, if that is known.
pub(crate) fn lowest_of_stack() -> Option<usize> {
    // SAFETY: all zeros is a value of it; it is filled before it is read.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the calling thread is alive, and the pointer is to a value of ours.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return None;
    }
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes were filled just now, and the pointers are to values of ours.
    let failed = unsafe {
        libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size)
    };
    // SAFETY: filled above, and not used any more.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    (failed == 0).then_some(lowest as usize)
}
