//! CPUs and time that this process may not use.

use crate::root::FsRoot;

use super::finding::{Finding, Severity, View};

pub(super) fn find(view: &View) -> Vec<Finding> {
    [affinity(view), one_cpu(view), quota(view)].into_iter().flatten().collect()
}

fn affinity(view: &View) -> Option<Finding> {
    let denied = view.topology.online.difference(&view.topology.allowed);
    (!denied.is_empty()).then(|| Finding {
        id: "cpus-restricted".into(),
        severity: Severity::Info,
        title: "This process may not use all CPUs".into(),
        cause: "its affinity or the cpuset of its cgroup leaves CPUs out".into(),
        consequence:
            "placements on the others are listed as not run, and processes there are not visible"
                .into(),
        remedy: "start it with taskset -c, or in a cgroup whose cpuset.cpus has them".into(),
        evidence: format!("allowed {}, online {}", view.topology.usable(), view.topology.online),
    })
}

fn one_cpu(view: &View) -> Option<Finding> {
    (view.topology.usable().len() == 1).then(|| Finding {
        id: "one-cpu".into(),
        severity: Severity::Serious,
        title: "There is only one CPU to measure on".into(),
        cause: format!("of {} online CPUs this process may use one", view.topology.online.len()),
        consequence: "no neighbour can run beside a victim: only single-task experiments are \
                      possible"
            .into(),
        remedy: "allow at least two CPUs".into(),
        evidence: format!("usable: CPU {}", view.topology.usable()),
    })
}

fn quota(view: &View) -> Option<Finding> {
    let (path, text) = strictest_quota(view.root)?;
    Some(Finding {
        id: "cpu-quota".into(),
        severity: Severity::Serious,
        title: "A CPU quota stops this process from time to time".into(),
        cause: "its cgroup, or one above, limits CPU time".into(),
        consequence: "once the quota is used up, every task stops until the next period".into(),
        remedy: "raise or remove the quota (cpu.max, docker --cpus, systemd CPUQuota=)".into(),
        evidence: format!("{path} is '{text}'"),
    })
}

/// The first quota from this process's cgroup upwards. Both hierarchies name limits in
/// microseconds per period; `max` and -1 stand for none.
fn strictest_quota(root: &FsRoot) -> Option<(String, String)> {
    let own = root.read_opt("/proc/self/cgroup")?;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let (mounts, file): (&[&str], _) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "cpu.max")
        } else if controllers.split(',').any(|name| name == "cpu") {
            (&["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"], "cpu.cfs_quota_us")
        } else {
            continue;
        };
        for mount in mounts {
            for dir in std::path::Path::new(group).ancestors() {
                let path =
                    format!("{mount}{}/{file}", dir.display().to_string().trim_end_matches('/'));
                if let Some(text) = root.read_opt(&path)
                    && !text.starts_with("max")
                    && !text.starts_with('-')
                {
                    return Some((path, text));
                }
            }
        }
    }
    None
}
