//! Cache and bandwidth limits that somebody left behind.

use super::{Finding, Severity, View};

const DIR: &str = "/sys/fs/resctrl";
/// What the kernel itself puts beside the groups.
const NOT_GROUPS: [&str; 3] = ["info", "mon_groups", "mon_data"];

pub(super) fn find(view: &View) -> Vec<Finding> {
    let names = view.root.list_opt(DIR);
    let is_group = |name: &&String| {
        !NOT_GROUPS.contains(&name.as_str()) && view.root.exists(format!("{DIR}/{name}/tasks"))
    };
    let groups: Vec<&str> = names.iter().filter(is_group).map(String::as_str).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        id: "stale-resctrl".into(),
        severity: Severity::Warning,
        title: "resctrl groups exist already".into(),
        cause: "another tool, a container runtime or a run that was killed made them".into(),
        consequence: "tasks may be confined to some cache ways or to a share of the bandwidth".into(),
        remedy: format!("if nothing needs them: rmdir {DIR}/GROUP; they are never removed unasked"),
        evidence: groups.join(", "),
    }]
}
