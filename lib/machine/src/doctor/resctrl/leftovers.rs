//! What this program has left behind or kept.

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
            cause: "it was left in place on demand".into(),
            consequence: "what is measured is measured under it".into(),
            remedy: format!("{} puts back what was there before", left.undone_by()),
            evidence,
        },
        Pending::Waiting => Finding {
            id: "resctrl-waiting".into(),
            severity: Severity::Warning,
            title: "Settings of resctrl could not be put back".into(),
            cause: "they belong to a CPU or a cache that was offline".into(),
            consequence:
                "once it is online, groups of others have other CPUs or ways there than they had"
                    .into(),
            remedy: "ringfence resctrl recover, once it is online".into(),
            evidence,
        },
        Pending::Damaged => Finding {
            id: "resctrl-damaged".into(),
            severity: Severity::Warning,
            title: "A journal of changes to resctrl is damaged".into(),
            cause: "some of its lines make no sense".into(),
            consequence: "what those lines said was set may still be set".into(),
            remedy: "compare with 'ringfence resctrl', then ringfence resctrl forget removes it"
                .into(),
            evidence,
        },
        Pending::Lent if left.under_way => Finding {
            id: "resctrl-lent".into(),
            severity: Severity::Warning,
            title: "A program has limits of its own in resctrl".into(),
            cause: "another run of this program has not ended".into(),
            consequence: "what is measured is measured beside it".into(),
            remedy: "wait for it to end".into(),
            evidence,
        },
        Pending::Unfinished if left.under_way => Finding {
            id: "resctrl-changing".into(),
            severity: Severity::Serious,
            title: "Somebody is changing resctrl at the moment".into(),
            cause: "another run of this program has not ended".into(),
            consequence: "cache ways and bandwidth change while one measures".into(),
            remedy: "wait for it to end".into(),
            evidence,
        },
        Pending::Unfinished | Pending::Lent => Finding {
            id: "resctrl-unfinished".into(),
            severity: Severity::Warning,
            title: "A run that was killed has left settings of resctrl behind".into(),
            cause: "it could not put them back".into(),
            consequence: "tasks may be confined to some cache ways or to a share of the bandwidth"
                .into(),
            remedy: "ringfence resctrl recover puts back what was there before".into(),
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
        consequence: "what it says was set may still be set".into(),
        remedy: "compare with 'ringfence resctrl', put back by hand what is not as it should \
                 be, then remove the file"
            .into(),
        evidence: format!("in {}", left.folder.display()),
    }
}
