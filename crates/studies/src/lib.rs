//! Questions that take several experiments, or one and a conclusion of its own.

pub mod digest;
pub mod findings;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod lock;
pub mod pair;
pub mod sensitivity;
pub mod survey;
pub mod tune;
