//! Questions about a [`Topology`]: which CPUs are siblings, and which share which cache.

use crate::cpulist::{CpuId, CpuSet};
use crate::units::Bytes;

use super::{Cache, Core, Cpu, Node, Relation, Topology};

impl Topology {
    /// CPUs that run and that this process may use.
    pub fn usable(&self) -> CpuSet {
        self.online.intersection(&self.allowed)
    }

    /// The CPU with this number.
    pub fn cpu(&self, cpu: CpuId) -> Option<&Cpu> {
        let at = self.cpus.binary_search_by_key(&cpu, |known| known.id).ok()?;
        self.cpus.get(at)
    }

    /// The core of a CPU, if the kernel reports it.
    pub fn core_of(&self, cpu: CpuId) -> Option<&Core> {
        self.cores.get(self.cpu(cpu)?.core?)
    }

    /// The other hardware threads of the CPU's core; empty without SMT, or where unknown.
    pub fn smt_siblings(&self, cpu: CpuId) -> CpuSet {
        self.cpu(cpu).map(|known| known.siblings.clone()).unwrap_or_default()
    }

    /// Whether two CPUs are threads of one core; `None` if the core of one of them is not known.
    pub fn same_core(&self, a: CpuId, b: CpuId) -> Option<bool> {
        Some(self.core_of(a)?.cpus == self.core_of(b)?.cpus)
    }

    /// Whether two CPUs are known to be different cores.
    pub fn different_cores(&self, a: CpuId, b: CpuId) -> bool {
        self.same_core(a, b) == Some(false)
    }

    /// Whether the kernel contradicts itself about how near two CPUs are to each other.
    pub fn doubtful(&self, a: CpuId, b: CpuId) -> bool {
        let both =
            self.contradictions.iter().filter(|one| one.cpus.contains(a) && one.cpus.contains(b));
        both.into_iter().any(|one| !matches!(one.relation, Relation::Cpu | Relation::Kind))
    }

    /// Whether the core of every online CPU is known.
    pub fn cores_known(&self) -> bool {
        self.online.iter().all(|cpu| self.core_of(cpu).is_some())
    }

    /// The node whose memory is nearest to the CPU.
    pub fn node_of(&self, cpu: CpuId) -> Option<u32> {
        self.cpu(cpu)?.node
    }

    /// Whether two CPUs are known to belong to different packages.
    pub fn different_packages(&self, a: CpuId, b: CpuId) -> bool {
        let package = |cpu| self.cpu(cpu).and_then(|known| known.package);
        matches!((package(a), package(b)), (Some(a), Some(b)) if a != b)
    }

    /// The node with this number.
    pub fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.iter().find(|known| known.id == node)
    }

    /// The caches that the CPU's loads and stores go through, L1 first.
    pub fn data_caches(&self, cpu: CpuId) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.holds_data() && cache.cpus.contains(cpu))
    }

    /// The CPU's last-level cache: its highest one that holds data, from L2 on.
    pub fn llc(&self, cpu: CpuId) -> Option<&Cache> {
        self.data_caches(cpu).last().filter(|cache| cache.level >= 2)
    }

    /// Whether both CPUs have the same last-level cache; `None` where one of them is unknown.
    pub fn shares_llc(&self, a: CpuId, b: CpuId) -> Option<bool> {
        Some(self.llc(a)?.cpus == self.llc(b)?.cpus)
    }

    /// The online CPUs by last-level cache, ascending by lowest CPU. CPUs without a known
    /// last-level cache are in no group.
    pub fn llc_groups(&self) -> Vec<CpuSet> {
        let mut groups: Vec<CpuSet> = Vec::new();
        for cpu in self.online.iter() {
            if let Some(llc) = self.llc(cpu)
                && !groups.contains(&llc.cpus)
            {
                groups.push(llc.cpus.clone());
            }
        }
        groups
    }

    /// One usable CPU of every core, the lowest. A CPU with an unknown core counts as its own.
    pub fn primary_threads(&self) -> CpuSet {
        self.primaries(&self.usable())
    }

    pub(super) fn primaries(&self, among: &CpuSet) -> CpuSet {
        let lowest_of_core = |cpu: &CpuId| {
            self.core_of(*cpu)
                .is_none_or(|core| core.cpus.intersection(among).first() == Some(*cpu))
        };
        among.iter().filter(lowest_of_core).collect()
    }

    /// Size of the CPU's L1 data cache.
    pub fn l1d_size(&self, cpu: CpuId) -> Option<Bytes> {
        self.data_caches(cpu).find(|cache| cache.level == 1)?.size
    }

    /// Size of the CPU's L2.
    pub fn l2_size(&self, cpu: CpuId) -> Option<Bytes> {
        self.data_caches(cpu).find(|cache| cache.level == 2)?.size
    }

    /// Nominal size of the CPU's last-level cache.
    pub fn llc_size(&self, cpu: CpuId) -> Option<Bytes> {
        self.llc(cpu)?.size
    }
}
