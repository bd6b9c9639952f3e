//! `resctrl`, of machines that stand in as folders.

use ringfence_machine::fixtures::{self, FixtureTree, ResctrlSpec};
use serde_json::Value;

use crate::support::{self, Output, ringfence};

fn run(tree: &FixtureTree, args: &[&str]) -> Output {
    let root = tree.root().path("/");
    // What stands behind '--' is the command's.
    let (own, command) =
        args.split_at(args.iter().position(|arg| *arg == "--").unwrap_or(args.len()));
    ringfence(&[&["resctrl"], own, &["--root", root.to_str().unwrap()], command].concat())
}

// The default group has lost ways to a group that a transaction has made.
fn fenced(journal: &str) -> FixtureTree {
    let tree = fixtures::xeon_2s64t();
    let spec = ResctrlSpec::default();
    spec.group(&tree, "", "shareable", "7f8", "0-63", "1\n");
    spec.group(&tree, "quiet", "shareable", "7", "", "");
    let before = concat!(
        r#"{"schema":1,"boot":"","place":"/sys/fs/resctrl","mounted":false,"#,
        r#""owner":{"tid":1,"start":1},"purpose":"ringfence prove","#,
        r#""before":{"groups":{"":{"mode":"shareable","#,
        r#""schemata":"L3:0=7ff;1=7ff\nMB:0=100;1=100","cpus":"0-63","threads":[]}}}}"#,
    );
    let steps = [
        r#"{"do":"schemata","group":"","schemata":"L3:0=7f8;1=7f8"}"#,
        r#"{"do":"create","group":"quiet"}"#,
        r#"{"do":"schemata","group":"quiet","schemata":"L3:0=7;1=7"}"#,
    ];
    tree.write(format!("/run/ringfence/{journal}"), format!("{before}\n{}\n", steps.join("\n")));
    tree
}

#[test]
fn everything_is_shown() {
    let tree = fenced("resctrl.journal");
    let text = run(&tree, &[]).ok().to_owned();
    for part in ["14 of 16 CLOSIDs", "142 of 144 RMIDs", "........###", "########...", "recover"] {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
    let json = run(&tree, &["--json"]).json();
    assert_eq!(json["closids_free"], 14);
    assert_eq!(json["journals"][0]["what"], "unfinished");
    assert_eq!(json["resctrl"]["groups"][1]["schemata"], "L3:0=7;1=7\nMB:0=100;1=100");
}

#[test]
fn a_run_without_limits_is_refused() {
    let tree = fenced("resctrl.journal");
    let refused = run(&tree, &["run", "--", "true"]);
    assert_eq!(refused.code(), Some(2));
    let why = "nothing is limited: give --l3, --l2 or --mba\n";
    assert!(refused.stderr.ends_with(why), "{}", refused.stderr);
}

#[test]
fn a_dry_run_tells_the_steps_and_takes_none() {
    for (journal, verb, other) in
        [("resctrl.journal", "recover", "undo"), ("resctrl.kept", "undo", "recover")]
    {
        let tree = fenced(journal);
        let text = run(&tree, &[verb, "--dry-run"]).ok().to_owned();
        let expected = "Changes of 'ringfence prove' that would be undone:\n  remove group \
                        quiet\n  set L3:0=7ff;1=7ff in default group\n";
        assert_eq!(text, expected);
        let steps = run(&tree, &[verb, "--dry-run", "--json"]).json();
        assert_eq!(steps["would_put_back"]["steps"][0], "remove group quiet");
        assert!(tree.root().exists(format!("/run/ringfence/{journal}")));
        assert!(run(&tree, &[other]).ok().starts_with("Nothing to undo"));
        assert_eq!(run(&tree, &[other, "--json"]).json()["put_back"], Value::Null);
    }
}

#[test]
fn what_was_put_back_by_hand_needs_no_step() {
    let tree = fenced("resctrl.kept");
    ResctrlSpec::default().group(&tree, "", "shareable", "7ff", "0-63", "1\n");
    tree.remove("/sys/fs/resctrl/quiet");
    let text = run(&tree, &["undo"]).ok().to_owned();
    assert_eq!(text, "Nothing left to undo of 'ringfence prove'.\n");
    assert!(!tree.root().exists("/run/ringfence/resctrl.kept"));
}

#[test]
fn what_cannot_be_put_back_can_be_forgotten() {
    let tree = fenced("resctrl.journal");
    // A folder with files in it is not removed as the kernel's groups are.
    let refused = run(&tree, &["recover"]);
    assert_eq!(refused.code(), Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("removing"), "{}", refused.stderr);
    let forget = |args: &[&str]| run(&tree, &[&["forget"], args].concat()).ok().to_owned();
    assert!(forget(&["--kept"]).starts_with("Nothing to forget"));
    assert!(forget(&[]).starts_with("Forgotten"));
    assert!(forget(&[]).starts_with("Nothing to forget"));
}

#[test]
fn what_an_earlier_boot_has_left_goes_with_a_sentence() {
    for (journal, verb, flag) in
        [("resctrl.kept", "undo", "--kept"), ("resctrl.journal", "recover", "")]
    {
        let tree = fenced(journal);
        let path = format!("/run/ringfence/{journal}");
        let text = std::fs::read_to_string(tree.root().path(&path)).unwrap();
        let earlier = text.replace(r#""boot":"","#, r#""boot":"another","#);
        let write = || {
            tree.write(&path, &earlier);
        };
        write();
        assert!(run(&tree, &[]).ok().contains("of an earlier boot"));
        let sentence = "The changes of 'ringfence prove' belonged to an earlier boot and are gone \
                        with it: there is nothing to restore, and its journal ";
        assert_eq!(
            *run(&tree, &[verb, "--dry-run"]).ok(),
            format!("{sentence}would be removed.\n")
        );
        assert!(tree.root().exists(&path));
        assert_eq!(*run(&tree, &[verb]).ok(), format!("{sentence}was removed.\n"));
        assert!(!tree.root().exists(&path));
        write();
        assert_eq!(run(&tree, &[verb, "--json"]).json()["removed"]["of"], "an earlier boot");
        assert!(run(&tree, &[verb]).ok().starts_with("Nothing to undo"));
        write();
        let flags: Vec<&str> =
            ["forget", flag].into_iter().filter(|flag| !flag.is_empty()).collect();
        let text = run(&tree, &flags).ok().to_owned();
        assert_eq!(text, "Forgotten: it belonged to an earlier boot, and nothing of it is left.\n");
        assert!(!tree.root().exists(&path));
    }
}

#[test]
fn a_journal_of_another_user_is_not_acted_upon_unasked() {
    let tree = fenced("resctrl.journal");
    let (from, to) =
        (tree.root().path("/run/ringfence"), tree.root().path("/run/user/4711/ringfence"));
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, &to).unwrap();
    if std::os::unix::fs::chown(to.join("resctrl.journal"), Some(4711), None).is_err() {
        // The rest takes root.
        return;
    }
    let said = run(&tree, &[]).said();
    assert!(said.contains("started by user 4711"), "{said}");
    for verb in ["recover", "forget"] {
        let output = run(&tree, &[verb]);
        assert_eq!(output.code(), Some(2), "{}", output.stderr);
        assert!(output.stderr.contains("--folder"), "{}", output.stderr);
        assert!(to.join("resctrl.journal").exists());
    }
    assert!(run(&tree, &["recover", "--dry-run"]).ok().contains("remove group quiet"));
    assert!(
        run(&tree, &["forget", "--folder", to.to_str().unwrap()]).ok().starts_with("Forgotten")
    );
    assert!(!to.join("resctrl.journal").exists());
}

#[test]
fn where_there_is_none_the_reason_is_said() {
    for (tree, part) in [
        (fixtures::vm_2cpu(), "hypervisor"),
        (fixtures::cxl_node(), "CONFIG_X86_CPU_RESCTRL"),
        (fixtures::zen_multi_llc(), "mount -t resctrl"),
    ] {
        for args in [
            &[][..],
            &["--json"],
            &["recover"],
            &["undo", "--dry-run"],
            &["undo", "ringfence-1"],
            &["watch"],
            &["apply", "--pid", "1", "--l3", "1"],
            &["run", "--l3", "1", "--", "true"],
        ] {
            let output = run(&tree, args);
            assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
            assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
            assert_eq!((output.stdout.as_str(), output.stderr.lines().count()), ("", 1));
        }
    }
}

#[test]
fn a_file_that_makes_no_sense_is_named() {
    let tree = fixtures::xeon_2s64t();
    tree.write("/sys/fs/resctrl/schemata", "L3:0=many\n");
    let output = run(&tree, &[]);
    // The rest is shown.
    let page = output.ok();
    assert!(output.said().contains("/sys/fs/resctrl/schemata holds 'L3:0=many'"), "{page}");
    assert!(page.contains("default group") && page.contains("15 of 16 CLOSIDs"), "{page}");
    tree.write("/run/ringfence/resctrl.kept", "{}\n");
    let output = run(&tree, &["undo"]);
    assert_eq!(output.code(), Some(1));
    assert!(output.stderr.contains("check resctrl, then remove the file"), "{}", output.stderr);
}

const LINE: &str = " S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100\n";

// Processes beside those of the groups: 42 with a child, and what the system needs.
fn inhabited() -> FixtureTree {
    let tree = fixtures::xeon_2s64t();
    for (pid, name) in [(1, "init"), (42, "batch"), (300, "sshd")] {
        tree.write(format!("/proc/{pid}/stat"), format!("{pid} ({name}){LINE}"));
    }
    tree.write("/proc/43/stat", format!("43 (batch){}", LINE.replace("S 1 ", "S 42 ")));
    tree
}

#[test]
fn limits_are_planned_by_what_there_is() {
    let tree = inhabited();
    let planned = |args: &[&str]| {
        let text = run(&tree, args).ok().to_owned();
        assert!(
            !tree.root().exists("/run/ringfence") && text.starts_with("Would be done:\n"),
            "{text}"
        );
        let words: Vec<&str> = text.split_whitespace().skip(3).collect();
        let own =
            words.iter().find(|word| word.starts_with("ringfence-")).copied().unwrap_or("none");
        words.join(" ").replace(own.trim_end_matches(','), "OWN")
    };
    for (args, expected) in [
        (
            &[
                "run",
                "--dry-run",
                "--l3",
                "0=0xf;1=0x1f0",
                "--mba",
                "45",
                "--",
                "./batch",
                "a \
                b",
            ][..],
            "make group OWN set L3:0=f;1=1f0, MB:0=45;1=45 in OWN run ./batch 'a b' in OWN Note: \
             45 % of MB:0 is rounded up to 50 %, the next step of the hardware. Note: 45 % of MB:1 \
             is rounded up to 50 %, the next step of the hardware.",
        ),
        (
            &["run", "--dry-run", "--l3", "1=0x600", "--cpus", "0-1", "--", "./batch"],
            "make group OWN set L3:1=600 in OWN run ./batch in OWN Note: devices may also use ways \
             0x600 of L3:1.",
        ),
        (
            &["apply", "--dry-run", "--pid", "42", "--l3", "4"],
            "make group OWN set L3:0=1e0;1=1e0 in OWN move 2 processes of process 42 to OWN",
        ),
        (
            &["apply", "--dry-run", "--pid", "42,43", "--none"],
            "move 2 processes of process 42, 43 to default group",
        ),
    ] {
        assert_eq!(planned(args), expected, "{args:?}");
    }
}

#[test]
fn what_cannot_be_limited_is_refused_in_a_sentence() {
    let tree = inhabited();
    for (args, part) in [
        (&["run", "--", "./batch"][..], "nothing is limited: give --l3, --l2 or --mba"),
        (
            &["run", "--l3", "0xfff", "--", "./batch"],
            "give a mask within 0x7ff of 1 or more bits without gaps",
        ),
        (&["run", "--l3", "0x5", "--", "./batch"], "has a gap"),
        (&["run", "--l3", "12", "--", "./batch"], "a number of ways from 1 to 11"),
        (&["run", "--l3", "2=0xf", "--", "./batch"], "--l3: there is no number '2' here: 0, 1"),
        (
            &["run", "--l2", "1", "--", "./batch"],
            "the ways of the L2 cannot be allocated here, only L3, MB",
        ),
        (&["run", "--mba", "5", "--", "./batch"], "from 10 % in steps of 10 %, 100 % at most"),
        (&["run", "--mba", "2000MB/s", "--", "./batch"], "mounted without mba_MBps"),
        (&["run", "--l3", "1", "--cpus", "1-", "--", "./batch"], "--cpus: "),
        (&["apply", "--pid", "42"], "nothing is limited: give --l3, --l2 or --mba, or --none"),
        (
            &["apply", "--l3", "1"],
            "no target is named: give --pid, --cgroup, --unit or --container",
        ),
        (&["apply", "--pid", "42", "--l3", "1", "--for", "soon"], "--for: "),
        (
            &["apply", "--pid", "9", "--l3", "1"],
            "pid:9 was not found: no running process has that ID",
        ),
        (
            &["apply", "--pid", "42,1", "--l3", "1"],
            "pid:1 is refused: process 1 (init) is part of it, and it is process 1",
        ),
        (
            &["apply", "--pid", "300", "--l3", "1"],
            "process 300 (sshd) is part of it, and you may be logged in through it; nothing was \
             changed",
        ),
        (
            &["apply", "--cgroup", "/absent", "--l3", "1"],
            "cgroup:/absent was not found: no control groups are mounted",
        ),
        (
            &["apply", "--container", "web", "--l3", "1"],
            "--container: 'container:web' is not a target",
        ),
        (
            &["apply", "--unit", "absent", "--l3", "1"],
            "unit:absent.service was not found: no control groups are mounted",
        ),
        (&["watch", "--interval", "1ms"], "--interval: 1ms is not between 10ms and 1h"),
        (&["watch", "--interval", "1"], "--interval: "),
        (&["watch", "--pid", "9"], "no running process has that ID"),
        (&["undo", "absent"], "nothing is kept under the name 'absent'; kept: nothing"),
    ] {
        let output = run(&tree, args);
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
        assert_eq!(
            (output.stdout.as_str(), output.stderr.lines().count()),
            ("", 1),
            "{}",
            output.stderr
        );
        assert!(!tree.root().exists("/run/ringfence"));
    }
}

#[test]
fn what_groups_use_is_shown_line_by_line() {
    let tree = fenced("resctrl.kept");
    let text = run(&tree, &["watch", "--count", "2", "--interval", "10ms"]).ok().to_owned();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let heads = "seconds group cache occupancy_bytes total_bytes_per_second local_bytes_per_second";
    assert_eq!(lines[0].join(" "), heads);
    assert_eq!(lines.len(), 1 + 2 * 2 * 2, "{text}");
    // Counters of a folder stand still.
    assert_eq!(lines[3][1..], ["quiet", "L3:0", "1310720", "0", "0"]);
    let text =
        run(&tree, &["watch", "--json", "--count", "2", "--interval", "10ms"]).ok().to_owned();
    for line in text.lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        support::check_json(&document);
        assert_eq!(document["used"][1]["domain"], 1);
        assert!(document["seconds"].as_f64().unwrap() >= 0.01);
    }
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn what_the_kernel_does_not_count_is_said() {
    let tree = fixtures::xeon_2s64t();
    tree.write("/sys/fs/resctrl/info/L3_MON/mon_features", "mbm_local_bytes\n");
    let watch = ["watch", "--count", "1", "--interval", "10ms"];
    let output = run(&tree, &watch);
    output.ok();
    let why =
        "occupancy of the cache: not run, because info/L3_MON/mon_features names no llc_occupancy";
    assert!(output.stderr.contains(why), "{}", output.stderr);
    let json = run(&tree, &[&watch[..], &["--json"]].concat()).json();
    assert_eq!(json["missing"].as_array().unwrap().len(), 2, "{json}");
    tree.write("/sys/fs/resctrl/info/L3_MON/mon_features", "");
    assert!(run(&tree, &watch).stderr.contains("names no mbm_total_bytes"));
    tree.remove("/sys/fs/resctrl/info/L3_MON");
    let output = run(&tree, &watch);
    assert_eq!(output.code(), Some(2));
    assert!(
        output.stderr.contains("not run, because resctrl has no monitoring here"),
        "{}",
        output.stderr
    );
}
