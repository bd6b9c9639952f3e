//! What the lab asks for: scratch memory of a named medium.

use std::path::PathBuf;

/// Where a region's memory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// Anonymous memory of this process.
    Dram,
    /// An unlinked file in this directory, or under this new name, through the page cache (or on
    /// tmpfs, which *is* the page cache).
    File(PathBuf),
    /// The same, on a file system mounted with DAX and mapped with `MAP_SYNC`: the stores reach the
    /// medium with no page cache between.
    Dax(PathBuf),
    /// A `/dev/daxX.Y` character device.
    DevDax(PathBuf),
    /// Anonymous memory bound to one NUMA node.
    Node(u32),
}

/// The pages a region is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// The kernel's base page, 4 KiB.
    Base,
    /// Transparent huge pages, requested with `madvise(MADV_HUGEPAGE)`; the kernel may decline.
    Transparent,
    /// Reserved 2 MiB pages (`vm.nr_hugepages`); mapping fails where too few are free.
    Huge2M,
}

/// What to map.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where from.
    pub medium: Medium,
    /// Bytes; rounded up to whole pages.
    pub len: usize,
    /// Of which size; only [`Medium::Dram`] and [`Medium::Node`] can be other than [`Pages::Base`].
    pub pages: Pages,
}

impl Request {
    /// `len` bytes of anonymous memory in base pages.
    pub fn dram(len: usize) -> Self {
        Self { medium: Medium::Dram, len, pages: Pages::Base }
    }
}
