//! Which CPUs the current thread may run on.

use std::io;

use crate::cpulist::{CpuId, CpuSet, MAX_CPU};
use crate::raw;

const WORDS: usize = (MAX_CPU as usize + 1) / 64;

/// Why the affinity of a thread could not be changed or read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot run on CPU {cpus}: {source}; {}",
    if source.raw_os_error() == Some(libc::EINVAL) {
        "it does not exist, is offline, or the cgroup of this process excludes it"
    } else {
        "the system refuses to set the affinity of threads"
    }
)]
pub struct PinError {
    cpus: CpuSet,
    source: io::Error,
}

impl PinError {
    /// The kernel's error.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// Pins the current thread to one CPU.
pub fn pin_current_thread(cpu: CpuId) -> Result<(), PinError> {
    set_affinity(&CpuSet::single(cpu))
}

/// Lets the current thread run on these CPUs only. CPUs that are offline or outside of its
/// cgroup are ignored by the kernel as long as one is left.
#[doc(alias = "hwloc_set_cpubind")]
pub fn set_affinity(cpus: &CpuSet) -> Result<(), PinError> {
    set_affinity_of(0, cpus)
}

/// Lets a thread of any process of this user run on these CPUs only.
pub fn pin_thread(thread: i32, cpus: &CpuSet) -> Result<(), PinError> {
    set_affinity_of(thread, cpus)
}

fn set_affinity_of(thread: i32, cpus: &CpuSet) -> Result<(), PinError> {
    let mut mask = [0u64; WORDS];
    for cpu in cpus.iter().filter(|&cpu| cpu <= MAX_CPU) {
        mask[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    raw::set_affinity(thread, &mask).map_err(|source| PinError { cpus: cpus.clone(), source })
}

/// The CPUs that the current thread may run on.
#[doc(alias = "hwloc_get_cpubind")]
pub fn affinity() -> io::Result<CpuSet> {
    let mut mask = [0u64; WORDS];
    raw::affinity(&mut mask)?;
    Ok((0..=MAX_CPU).filter(|&cpu| mask[cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Keeps the current thread on one CPU until it is dropped, then restores what was before.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    // Affinity belongs to the thread: the guard must not be dropped on another.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Pins the current thread to `cpu`.
    ///
    /// ```
    /// use ringfence_machine::probe::pin::{Pinned, affinity};
    /// let before = affinity().unwrap();
    /// let cpu = before.last().unwrap();
    /// {
    ///     let _pinned = Pinned::to(cpu).unwrap();
    ///     assert_eq!(affinity().unwrap().to_string(), cpu.to_string());
    /// }
    /// assert_eq!(affinity().unwrap(), before);
    /// ```
    pub fn to(cpu: CpuId) -> Result<Self, PinError> {
        let before = affinity().map_err(|source| PinError { cpus: CpuSet::single(cpu), source })?;
        pin_current_thread(cpu)?;
        Ok(Self { before, _not_send: std::marker::PhantomData })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Where all of the old CPUs went offline meanwhile there is nothing to go back to.
        let _ = set_affinity(&self.before);
    }
}

/// Runs `work` pinned to `cpu` and restores the affinity that was before.
pub fn with_pinned<T>(cpu: CpuId, work: impl FnOnce() -> T) -> Result<T, PinError> {
    let _pinned = Pinned::to(cpu)?;
    Ok(work())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_cpu_is_an_error_and_changes_nothing() {
        let before = affinity().unwrap();
        let error = with_pinned(MAX_CPU, || ()).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL));
        assert!(error.to_string().contains("CPU 65535"), "{error}");
        assert_eq!(affinity().unwrap(), before);
    }
}
