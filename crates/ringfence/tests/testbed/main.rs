//! The program on real kernels, in the testbed. One program, so that its guests fill the
//! processors.

mod cgroup_v2;
mod levers;
mod lock;
mod pmem;
mod prove;
mod resctrl;
#[path = "../support/mod.rs"]
mod support;
mod write_limit;
