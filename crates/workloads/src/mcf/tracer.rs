//! What a solver tells of the memory that it touches, so that a simulation can follow it.

/// A place in memory: a line of 64 bytes for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An arc, by its number.
    Arc(u32),
    /// A node, by its number.
    Node(u32),
}

/// How a place is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loaded from an address that a processor knows early enough to have many such loads under
    /// way.
    Load,
    /// Loaded from an address that comes out of the load before it.
    Follow,
    /// Stored to.
    Store,
}

/// Is told of each place that a solver touches, in order.
pub trait Tracer {
    /// So many fields of a place are loaded or stored.
    fn touch(&mut self, place: Place, access: Access, fields: u32);

    /// What was loaded last decides a branch, and not as a processor predicts: an arc violates,
    /// where most do not, or the search for a cycle goes on from its other end.
    fn surprise(&mut self);
}

/// Ignores all accesses, and leaves nothing of itself in the code.
#[derive(Debug, Clone, Copy, Default)]
pub struct Untraced;

impl Tracer for Untraced {
    #[inline(always)]
    fn touch(&mut self, _: Place, _: Access, _: u32) {}

    #[inline(always)]
    fn surprise(&mut self) {}
}
