//! Leftover and kept settings of this program.

use ringfence_resctrl::transaction::{self, Left, Pending};

use crate::doctor::finding::{Finding, Severity};
use crate::root::FsRoot;

pub(super) fn find(root: &FsRoot) -> Vec<Finding> {
    // What is of an earlier boot or mount has no effect any more.
    transaction::left(root, None).iter().filter(|left| left.past.is_none()).map(finding).collect()
}

fn finding(left: &Left) -> Finding {
    if left.unreadable && !left.under_way {
        return unreadable(left);
    }
    let evidence = format!("{} in {}", left.purpose, left.folder.display());
    match left.what {
        Pending::Kept => Finding {
            id: "resctrl-kept".into(),
            severity: Severity::Warning,
            title: "A setting of resctrl is kept".into(),
            cause: "it was kept on request".into(),
            consequence: "it is in effect during measurements".into(),
            remedy: format!("{} restores the earlier state", left.undone_by()),
            evidence,
        },
        Pending::Waiting => Finding {
            id: "resctrl-waiting".into(),
            severity: Severity::Warning,
            title: "Settings of resctrl could not be restored".into(),
            cause: "they belong to a CPU or a cache that was offline".into(),
            consequence:
                "once it is online, other groups have different CPUs or ways there than before"
                    .into(),
            remedy: "ringfence resctrl recover, once it is online".into(),
            evidence,
        },
        Pending::Damaged => Finding {
            id: "resctrl-damaged".into(),
            severity: Severity::Warning,
            title: "A journal of changes to resctrl is damaged".into(),
            cause: "some of its lines are invalid".into(),
            consequence: "the settings in those lines may still be in effect".into(),
            remedy:
                "check with 'ringfence resctrl', then remove it with 'ringfence resctrl forget'"
                    .into(),
            evidence,
        },
        Pending::Lent if left.under_way => Finding {
            id: "resctrl-lent".into(),
            severity: Severity::Warning,
            title: "A program has its own limits in resctrl".into(),
            cause: "another run of this program has not ended".into(),
            consequence: "that program runs during measurements".into(),
            remedy: "wait for it to end".into(),
            evidence,
        },
        Pending::Unfinished if left.under_way => Finding {
            id: "resctrl-changing".into(),
            severity: Severity::Serious,
            title: "Another run is changing resctrl at the moment".into(),
            cause: "another run of this program has not ended".into(),
            consequence: "cache ways and bandwidth change during measurements".into(),
            remedy: "wait for it to end".into(),
            evidence,
        },
        Pending::Unfinished | Pending::Lent => Finding {
            id: "resctrl-unfinished".into(),
            severity: Severity::Warning,
            title: "A killed run left settings in resctrl".into(),
            cause: "it could not restore them".into(),
            consequence: "tasks may be confined to some cache ways or to a share of the bandwidth"
                .into(),
            remedy: "ringfence resctrl recover restores the earlier state".into(),
            evidence,
        },
    }
}

fn unreadable(left: &Left) -> Finding {
    Finding {
        id: "resctrl-journal-unreadable".into(),
        severity: Severity::Warning,
        title: "A journal of changes to resctrl cannot be read".into(),
        cause: left.purpose.clone(),
        consequence: "the settings in it may still be in effect".into(),
        remedy: "check with 'ringfence resctrl', restore wrong settings by hand, then remove the \
                 file"
            .into(),
        evidence: format!("in {}", left.folder.display()),
    }
}
