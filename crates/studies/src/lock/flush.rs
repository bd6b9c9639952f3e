//! A flush of every line of a locked region, once: what takes it apart.

use std::sync::atomic::Ordering;

use ringfence_machine::probe::pin;
use ringfence_persist::{Flush, LINE, isa};
use ringfence_resctrl::pseudo::Mapped;
use ringfence_resctrl::{Error, Resctrl};
use ringfence_workloads::lines::Flusher;

/// Stores to every line of a region, flushes it by the instruction, and waits for that. The region
/// is mapped meanwhile, and this thread runs on its CPUs alone.
///
/// # Errors
/// Where the instruction is not one of this processor's, the CPUs may not be used, or the region
/// cannot be mapped.
pub fn flush_once(fs: &Resctrl, name: &str, flush: Flush) -> Result<(), Error> {
    let Some(flusher) = Flusher::new(flush) else {
        return Err(Error::Usage(format!("this processor has no {flush}")));
    };
    let group = fs.group(&name.parse()?);
    let cpus = group.cpus()?;
    let pinned =
        |error: &dyn std::fmt::Display| Error::Usage(format!("flushing region '{name}': {error}"));
    let work = move || -> Result<(), Error> {
        pin::set_affinity(&cpus).map_err(|error| pinned(&error))?;
        let region = Mapped::open(&group)?;
        for line in region.bytes().iter().step_by(LINE) {
            line.store(1, Ordering::Relaxed);
            flusher.flush(line);
        }
        isa::mfence();
        Ok(())
    };
    // A thread of its own, so that the caller's affinity does not change.
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
