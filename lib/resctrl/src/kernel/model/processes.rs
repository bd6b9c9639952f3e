//! The modelled process table.

use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub parent: u32,
    pub user: u32,
    pub threads: BTreeMap<u32, Task>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub start: u64,
    pub closid: u32,
    pub rmid: u32,
}
