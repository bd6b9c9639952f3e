//! Programs on a described machine, for as long as the caller wants.

mod engine;
mod refusal;
mod setup;

pub use engine::Run;
pub use refusal::{HardwareThread, SetupError, Thread};
pub use setup::Setup;
