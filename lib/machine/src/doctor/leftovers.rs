//! Leftover changes of killed runs, other than in resctrl.

use ringfence_system::changes::Left;

use super::finding::{Finding, Severity, View};

pub(super) fn find(view: &View) -> Vec<Finding> {
    let left = ringfence_system::changes::left(view.root, None);
    let left = left.iter().filter(|left| !left.past && !left.under_way).map(finding);
    let damaged = ringfence_system::changes::damaged(view.root, None);
    left.chain(damaged.iter().map(|path| Finding {
        id: "changes-damaged".into(),
        severity: Severity::Warning,
        title: "A journal of changes to the system was damaged".into(),
        cause: "some of its lines were invalid; the rest was restored".into(),
        consequence: "the settings in those lines may still be in effect".into(),
        remedy: "inspect the journal, then remove it".into(),
        evidence: path.display().to_string(),
    }))
    .collect()
}

fn finding(left: &Left) -> Finding {
    let readable = left.owner.is_some();
    Finding {
        id: if readable { "changes-left" } else { "changes-unreadable" }.into(),
        severity: Severity::Warning,
        title: if readable {
            "A killed run left changes to the system"
        } else {
            "A journal of changes to the system cannot be read"
        }
        .into(),
        cause: if readable {
            "it could not restore them, and there was no measurement since".into()
        } else {
            left.purpose.clone()
        },
        consequence:
            "control groups may limit or weight tasks, and settings may differ from before".into(),
        remedy: match (readable, left.is_others()) {
            (true, false) => "ringfence restore restores the earlier state".into(),
            (true, true) => "its user can run 'ringfence restore'".into(),
            (false, _) => {
                "run 'restore' with the version of ringfence that wrote it, or inspect it and \
                 remove it"
                    .into()
            }
        },
        evidence: if readable {
            format!("{} in {}", left.purpose, left.path.display())
        } else {
            left.path.display().to_string()
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::zen_multi_llc;
    use crate::{doctor, targets, topology::Topology};

    fn ids(tree: &crate::fixtures::FixtureTree) -> Vec<(String, String)> {
        let root = tree.root();
        let topology = Topology::read(&root).unwrap();
        let found = doctor::examine(&root, &topology, &targets::find(&root, &topology)).into_iter();
        found
            .filter(|finding| finding.id.starts_with("changes"))
            .map(|finding| (finding.id.to_string(), finding.evidence))
            .collect()
    }

    #[test]
    fn what_is_left_is_told_until_it_is_put_back_or_gone() {
        let tree = zen_multi_llc();
        assert_eq!(ids(&tree), []);
        let journal = |boot: &str, schema: u32| {
            let head = format!(r#"{{"schema":{schema},"boot":"{boot}","#)
                + r#""owner":{"tid":4711,"start":9},"purpose":"quotas of programs"}"#;
            tree.write("/run/ringfence/changes-4711-9-1.journal", head + "\n");
        };
        journal("", 1);
        let found = ids(&tree);
        assert_eq!(found[0].0, "changes-left");
        assert!(found[0].1.starts_with("quotas of programs in "), "{}", found[0].1);
        journal("another", 1);
        assert_eq!(ids(&tree), []);
        journal("", 9);
        assert_eq!(ids(&tree)[0].0, "changes-unreadable");
        tree.write("/run/ringfence/changes-4711-9-2.damaged", "nonsense\n");
        assert_eq!(ids(&tree)[1].0, "changes-damaged");
    }
}
