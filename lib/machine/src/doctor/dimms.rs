//! Persistent memory as hardware and as mounted: health of the modules, mounts without DAX, far
//! nodes.

use crate::cpulist::CpuSet;
use crate::targets::mounted_without_dax;

use super::finding::{Finding, Severity, View};

const DIR: &str = "/sys/bus/nd/devices";

pub(super) fn find(view: &View) -> Vec<Finding> {
    let modules = modules(view);
    let findings = [
        health(&modules),
        dirty_shutdown(&modules),
        temperature_unseen(&modules),
        without_dax(view),
        far(view),
    ];
    findings.into_iter().flatten().collect()
}

/// What the kernel shows of a module without a question to its firmware: flags and the count of
/// unclean shutdowns (Documentation/ABI/testing/sysfs-bus-nfit and sysfs-bus-papr-pmem).
struct Module {
    name: String,
    flags: Vec<String>,
    dirty_shutdowns: Option<u64>,
}

fn modules(view: &View) -> Vec<Module> {
    let mut modules = Vec::new();
    for name in view.root.list_opt(DIR).into_iter().filter(|name| name.starts_with("nmem")) {
        let provider =
            ["nfit", "papr"].into_iter().find(|it| view.root.exists(format!("{DIR}/{name}/{it}")));
        let Some(provider) = provider else { continue };
        let path = |file: &str| format!("{DIR}/{name}/{provider}/{file}");
        let flags = view.root.read_opt(path("flags")).unwrap_or_default();
        modules.push(Module {
            flags: flags.split_whitespace().map(str::to_string).collect(),
            dirty_shutdowns: view.root.parse_opt(path("dirty_shutdown")),
            name,
        });
    }
    modules
}

// The names are those of the kernel's `flags_show` (drivers/acpi/nfit/core.c, papr_scm.c). The rest
// of what it may say, such as `encrypted` and `locked`, is not a matter of health.
fn health(modules: &[Module]) -> Option<Finding> {
    const LOSES: [&str; 5] = ["save_fail", "restore_fail", "flush_fail", "not_armed", "map_fail"];
    const WARNS: [&str; 2] = ["smart_event", "smart_notify"];
    let with = |wanted: &[&str]| -> Vec<String> {
        let own = |module: &Module| {
            let flags: Vec<&str> = module
                .flags
                .iter()
                .map(String::as_str)
                .filter(|flag| wanted.contains(flag))
                .collect();
            (!flags.is_empty()).then(|| format!("{}: {}", module.name, flags.join(" ")))
        };
        modules.iter().filter_map(own).collect()
    };
    let loses = with(&LOSES);
    let all = with(&[&LOSES[..], &WARNS[..]].concat());
    (!all.is_empty()).then(|| Finding {
        id: "nvdimm-health".into(),
        severity: if loses.is_empty() { Severity::Warning } else { Severity::Serious },
        title: "A persistent memory module reports a health problem".into(),
        cause: "its firmware told the kernel at boot".into(),
        consequence: "a module that cannot save or is not armed loses stores at the next power \
                      loss, and one that has passed a threshold of heat or wear may be throttled: \
                      figures are those of a faulty module"
            .into(),
        remedy: "ndctl list -DH shows the problem (temperature, spares, life used); replace the \
                 module, or measure on another"
            .into(),
        evidence: all.join("; "),
    })
}

fn dirty_shutdown(modules: &[Module]) -> Option<Finding> {
    let counted = |module: &Module| {
        let count = module.dirty_shutdowns.filter(|count| *count > 0)?;
        Some(format!("{}: dirty_shutdown is {count}", module.name))
    };
    let evidence: Vec<String> = modules.iter().filter_map(counted).collect();
    (!evidence.is_empty()).then(|| Finding {
        id: "nvdimm-dirty-shutdown".into(),
        severity: Severity::Info,
        title: "Persistent memory was not flushed at an earlier power loss".into(),
        cause: "the modules count shutdowns at which they could not drain their buffers".into(),
        consequence: "data written before that may be incomplete, although it was flushed and \
                      fenced: no program is at fault"
            .into(),
        remedy: "check data from before that time; if the count grows, check the power supply and \
                 the modules"
            .into(),
        evidence: evidence.join("; "),
    })
}

fn temperature_unseen(modules: &[Module]) -> Option<Finding> {
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    (!names.is_empty()).then(|| Finding {
        id: "nvdimm-temperature".into(),
        severity: Severity::Info,
        title: "The temperature of the persistent memory modules is unknown".into(),
        cause:
            "the kernel shows health flags in sysfs, but temperatures and throttling only through \
             an ioctl to the module's firmware"
                .into(),
        consequence:
            "a module that is too hot writes more slowly for minutes, which looks like an \
                      effect of whatever ran then"
                .into(),
        remedy: "before and after measuring: ndctl list -DH (media and controller temperature, \
                 alarms)"
            .into(),
        evidence: format!("{} without a temperature in {DIR}", names.join(", ")),
    })
}

fn without_dax(view: &View) -> Option<Finding> {
    let mounts = mounted_without_dax(view.root);
    (!mounts.is_empty()).then(|| Finding {
        id: "pmem-without-dax".into(),
        severity: Severity::Warning,
        title: "Persistent memory is mounted without DAX".into(),
        cause: "the file system was mounted without -o dax".into(),
        consequence: "files there go through the page cache: stores only reach the medium with \
                      msync, and figures are those of DRAM and of write-back (except for files \
                      with the DAX attribute, Linux 5.8 and later)"
            .into(),
        remedy: "mount it with -o dax (dax=always); the file system's blocks must be as large as \
                 pages"
            .into(),
        evidence: mounts.join("; "),
    })
}

fn far(view: &View) -> Option<Finding> {
    let usable = view.topology.usable();
    let cpus_of = |node: u32| {
        view.topology.nodes.iter().find(|known| known.id == node).map(|known| &known.cpus)
    };
    let far: Vec<String> = view
        .targets
        .iter()
        .filter(|target| target.is_persistent())
        .filter_map(|target| {
            let node = target.node?;
            // A node that is not known, or memory alone, is equally far from all nodes.
            let cpus: &CpuSet = cpus_of(node).filter(|cpus| !cpus.is_empty())?;
            cpus.is_disjoint(&usable)
                .then(|| format!("{} is on node {node}, whose CPUs are {cpus}", target.name))
        })
        .collect();
    (!far.is_empty()).then(|| Finding {
        id: "pmem-far".into(),
        severity: Severity::Warning,
        title: "This process may not run near the persistent memory".into(),
        cause: format!("it may use {}, none of which is on the memory's node", usable.named()),
        consequence:
            "every access crosses to another node: slower, and slower still when two tasks do so"
                .into(),
        remedy: "run on the memory's node: numactl -N NODE, or widen the cpuset".into(),
        evidence: far.join("; "),
    })
}
