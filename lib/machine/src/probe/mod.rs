//! Short measurements of what sysfs reports or omits.
//!
//! Every probe runs on threads of its own, is bounded by a deadline, and leaves the affinity of
//! the calling thread alone.

mod buffer;
mod capacity;
mod chase;
mod footprint;
pub mod pin;
mod ping_pong;
mod plateaus;
mod reload;

pub use buffer::{Flush, Pages};
pub use capacity::{Capacities, Capacity, capacities, levels};
pub use footprint::{Footprints, footprints, footprints_within, latency_over_footprint};
pub use ping_pong::{PingPong, ping_pong};
pub use plateaus::{Plateau, plateaus};
pub use reload::{Reload, reload_latency};

use crate::cpulist::CpuId;
use crate::probe::pin::PinError;

/// Why a probe has no figure.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A thread could not be pinned where it was to run.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A probe between two CPUs was requested for a single one.
    #[error("cannot measure between CPU {0} and itself: name two different CPUs")]
    SameCpu(CpuId),
    /// Nothing was measured before the deadline.
    #[error(
        "{what} did not finish within {ms} ms: other work keeps CPU {cpus} busy; free it or allow \
         more time"
    )]
    TimedOut {
        /// What was measured.
        what: &'static str,
        /// The CPUs in question.
        cpus: String,
        /// How long it was given.
        ms: u128,
    },
    /// The system refused memory or a thread.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's error, including errno.
        source: std::io::Error,
    },
}

/// The `q`-quantile (0 to 1) of values in ascending order, without interpolation.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}
