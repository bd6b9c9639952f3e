//! Questions that take several experiments, or one and a conclusion of its own.

pub mod compare;
pub mod digest;
mod engines;
mod error;
pub mod findings;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod lock;
pub mod measure;
pub mod pair;
pub mod prove;
pub mod reproduce;
pub mod sensitivity;
pub mod study;
pub mod survey;
pub mod tune;

pub use error::StudyError;
