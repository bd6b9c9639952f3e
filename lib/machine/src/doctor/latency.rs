//! Keeping CPUs out of deep sleep while a measurement runs.

use std::fs::File;
use std::io::{self, Write};

/// Holds `/dev/cpu_dma_latency` at 0: until this is dropped no CPU enters a sleep state that takes
/// time to leave (Linux Documentation/power/pm_qos_interface). The kernel lets go of it when the
/// file is closed, however the process ends.
#[derive(Debug)]
pub struct CpuDmaLatency {
    _open: File,
}

/// Why CPUs could not be kept awake.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot hold /dev/cpu_dma_latency at 0: {source}; {}",
    match source.kind() {
        io::ErrorKind::PermissionDenied => "run as root, or give this user write access to the \
                                            device",
        io::ErrorKind::NotFound => "this kernel or container has no such device; boot with \
                                    cpuidle.off=1 instead",
        _ => "CPUs may enter deep sleep states during the measurement",
    }
)]
pub struct LatencyError {
    source: io::Error,
}

impl LatencyError {
    /// The kernel's error.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl CpuDmaLatency {
    /// Asks the kernel of this machine for a wake-up latency of 0 µs.
    pub fn hold() -> Result<Self, LatencyError> {
        let open = || {
            let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
            file.write_all(&0i32.to_ne_bytes())?;
            Ok(file)
        };
        open().map(|file| Self { _open: file }).map_err(|source| LatencyError { source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_or_says_why_not() {
        if let Err(error) = CpuDmaLatency::hold() {
            ringfence_testbed::skip_here("holding a wake-up latency", &error.to_string());
            assert!(error.errno().is_some());
        }
    }

    #[test]
    fn without_permission_it_names_a_remedy() {
        let error = LatencyError { source: io::Error::from_raw_os_error(libc::EACCES) };
        assert!(error.to_string().contains("run as root"), "{error}");
    }
}
