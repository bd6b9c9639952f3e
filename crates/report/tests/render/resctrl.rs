//! resctrl of machines as they may be found, and ways back.

use ringfence_machine::fixtures::{FixtureTree, ResctrlSpec};
use ringfence_machine::resctrl;
use ringfence_resctrl::monitor::Used;
use ringfence_resctrl::transaction::{Left, Pending, Restored};
use ringfence_resctrl::{GroupId, Mode, Overview, Step};

use crate::golden::check;

fn baseline(tree: &FixtureTree) -> Overview {
    Overview { place: "/sys/fs/resctrl".into(), ..resctrl::look(&tree.root()).unwrap() }
}

fn left(what: Pending, purpose: &str, under_way: bool) -> Left {
    let (name, past, user) = (None, None, None);
    let purpose = purpose.into();
    let (steps, folder, unreadable) = (4, "/run/ringfence".into(), false);
    Left { what, name, purpose, steps, under_way, past, user, folder, unreadable }
}

#[test]
fn groups_and_what_is_left_of_changes() {
    let tree = FixtureTree::empty("resctrl");
    let spec = ResctrlSpec::default();
    spec.mount(&tree);
    spec.group(&tree, "", "shareable", "7f8", "0-63", "1\n2\n3\n");
    spec.group(&tree, "quiet", "exclusive", "7", "", "4711\n");
    spec.monitor(&tree, "quiet/mon_groups/probe", "5", "");
    tree.write("/sys/fs/resctrl/quiet/mon_data/mon_L3_01/mbm_total_bytes", "Unavailable\n");
    tree.write("/sys/fs/resctrl/quiet/mon_data/mon_L3_01/mbm_local_bytes", "Error\n");
    tree.write("/sys/fs/resctrl/info/L3/bit_usage", "0=XXSSSSSSEEE;1=XXSSSSSSEEE\n");
    let left = [
        left(Pending::Unfinished, "prove", false),
        left(Pending::Kept, "prove --keep", false),
        Left { name: Some("hot".into()), ..left(Pending::Kept, "lock create hot", false) },
        Left {
            name: Some("ringfence-7".into()),
            ..left(Pending::Kept, "resctrl apply to process 9", false)
        },
        Left {
            name: Some("ringfence-8".into()),
            ..left(Pending::Lent, "resctrl run ./batch", true)
        },
        Left {
            name: Some("ringfence-9".into()),
            ..left(Pending::Lent, "resctrl run ./killed", false)
        },
    ];
    check("resctrl-groups", |style| ringfence_report::resctrl(&baseline(&tree), &left, style));
}

#[test]
fn code_and_data_apart() {
    let tree = FixtureTree::empty("resctrl");
    let spec = ResctrlSpec {
        cdp: true,
        shareable_bits: "0",
        rmids: 0,
        domains: &[0],
        cbm_mask: "fffff",
        ..ResctrlSpec::default()
    };
    spec.mount(&tree);
    let seen = baseline(&tree);
    check("resctrl-cdp", |style| {
        ringfence_report::resctrl(&seen, &[left(Pending::Unfinished, "lock measure", true)], style)
    });
}

#[test]
fn monitoring_alone() {
    let tree = FixtureTree::empty("resctrl");
    ResctrlSpec::default().mount(&tree);
    for path in ["info/L3", "info/MB", "schemata", "size", "mode"] {
        tree.remove(format!("/sys/fs/resctrl/{path}"));
    }
    check("resctrl-monitoring", |style| ringfence_report::resctrl(&baseline(&tree), &[], style));
}

#[test]
fn hostile_groups() {
    let tree = FixtureTree::empty("resctrl");
    let spec = ResctrlSpec { domains: &[0], ..ResctrlSpec::default() };
    spec.mount(&tree);
    spec.group(&tree, &"very-long-name-".repeat(16), "shareable", "7ff", "0-63", "");
    spec.group(&tree, "red\x1b[31m", "shareable", "1", "0", "1\n");
    let mut seen = baseline(&tree);
    seen.groups[0].schemata = "NEW:0=more than was known".parse().unwrap();
    check("resctrl-hostile", |style| ringfence_report::resctrl(&seen, &[], style));
}

#[test]
fn what_cannot_be_read_hides_nothing_else() {
    let tree = FixtureTree::empty("resctrl");
    let spec = ResctrlSpec { domains: &[0], ..ResctrlSpec::default() };
    spec.mount(&tree);
    spec.group(&tree, "new", "isolated", "7", "0", "4711\n");
    tree.remove("/sys/fs/resctrl/new/cpus_list").remove("/sys/fs/resctrl/new/cpus");
    for number in 0..8 {
        spec.group(&tree, &format!("odd{number}"), "shareable", "7", "0", "none\n");
    }
    let root = tree.root().path("/").display().to_string();
    let mut seen = baseline(&tree);
    for why in seen.groups.iter_mut().flat_map(|group| &mut group.unread) {
        *why = why.replace(root.trim_end_matches('/'), "");
    }
    let purpose = "/run/ringfence/resctrl.kept holds '{}': not a journal; remove the file once \
                   resctrl is as it should be";
    let left = [Left { unreadable: true, steps: 0, ..left(Pending::Kept, purpose, false) }];
    check("resctrl-unread", |style| ringfence_report::resctrl(&seen, &left, style));
}

#[test]
fn ways_back() {
    let back = Restored {
        purpose: "ringfence prove".into(),
        steps: vec![
            Step::Remove { group: "quiet".parse().unwrap() },
            Step::Schemata {
                group: ".".parse().unwrap(),
                schemata: "L3:0=7ff;1=7ff".parse().unwrap(),
            },
            Step::Mode { group: "other".parse().unwrap(), mode: Mode::Exclusive },
        ],
        left: vec!["MB:0 of default group is now 50, was 100 before".into()],
        ..Restored::default()
    };
    check("restored", |style| ringfence_report::restored(&back, false, style));
    check("restored-tried-out", |style| ringfence_report::restored(&back, true, style));
    let nothing = Restored { purpose: "ringfence prove".into(), ..Restored::default() };
    check("restored-nothing", |style| ringfence_report::restored(&nothing, false, style));
}

#[test]
fn what_groups_use() {
    let one = |name: &str, domain, total| Used {
        group: if name.is_empty() { GroupId::default() } else { GroupId::control(name) },
        resource: "L3".into(),
        domain,
        occupancy: Some(3 << 20),
        total,
        local: Some(250_000_000),
    };
    let used =
        [one("", 0, Some(1_250_000_000)), one("", 1, None), one("batch", 0, Some(250_000_000))];
    let missing = ["occupancy of the cache: not run, because of this".to_owned()];
    check("resctrl-watched", |style| ringfence_report::watched(2.0, &used, &missing, style));
    assert_eq!(
        ringfence_report::watched_lines(2.0, &used[1..2]),
        "2.000\tdefault group\tL3:1\t3145728\t-\t250000000\n"
    );
}
