//! `resctrl`, of machines that stand in as folders.

mod support;

use ringfence_machine::fixtures::{self, FixtureTree, ResctrlSpec};
use serde_json::Value;
use support::{Output, ringfence};

fn run(tree: &FixtureTree, args: &[&str]) -> Output {
    let root = tree.root().path("/");
    ringfence(&[&["resctrl"], args, &["--root", root.to_str().unwrap()]].concat())
}

// The default group has lost ways to a group that a transaction has made.
fn fenced(journal: &str) -> FixtureTree {
    let tree = fixtures::xeon_2s64t();
    let spec = ResctrlSpec::default();
    spec.group(&tree, "", "shareable", "7f8", "0-63", "1\n");
    spec.group(&tree, "quiet", "shareable", "7", "", "");
    let before = r#"{"schema":1,"boot":"","place":"/sys/fs/resctrl","mounted":false,"owner":{"tid":1,"start":1},"purpose":"ringfence prove","before":{"groups":{"":{"mode":"shareable","schemata":"L3:0=7ff;1=7ff\nMB:0=100;1=100","cpus":"0-63","threads":[]}}}}"#;
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
fn a_dry_run_tells_the_steps_and_takes_none() {
    for (journal, verb, other) in
        [("resctrl.journal", "recover", "undo"), ("resctrl.kept", "undo", "recover")]
    {
        let tree = fenced(journal);
        let text = run(&tree, &[verb, "--dry-run"]).ok().to_owned();
        let expected = "What 'ringfence prove' had changed would be put back:\n  remove group quiet\n  \
                        set L3:0=7ff;1=7ff in default group\n";
        assert_eq!(text, expected);
        let steps = run(&tree, &[verb, "--dry-run", "--json"]).json();
        assert_eq!(steps["would_put_back"]["steps"][0], "remove group quiet");
        assert!(tree.root().exists(format!("/run/ringfence/{journal}")));
        assert!(run(&tree, &[other]).ok().starts_with("Nothing to put back"));
        assert_eq!(run(&tree, &[other, "--json"]).json()["put_back"], Value::Null);
    }
}

#[test]
fn what_was_put_back_by_hand_needs_no_step() {
    let tree = fenced("resctrl.kept");
    ResctrlSpec::default().group(&tree, "", "shareable", "7ff", "0-63", "1\n");
    tree.remove("/sys/fs/resctrl/quiet");
    let text = run(&tree, &["undo"]).ok().to_owned();
    assert_eq!(text, "Nothing that 'ringfence prove' had changed is left to put back.\n");
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
    for (journal, verb, flag) in [("resctrl.kept", "undo", "--kept"), ("resctrl.journal", "recover", "")] {
        let tree = fenced(journal);
        let path = format!("/run/ringfence/{journal}");
        let text = std::fs::read_to_string(tree.root().path(&path)).unwrap();
        let earlier = text.replace(r#""boot":"","#, r#""boot":"another","#);
        let write = || {
            tree.write(&path, &earlier);
        };
        write();
        assert!(run(&tree, &[]).ok().contains("of an earlier boot"));
        let sentence = "What 'ringfence prove' had changed belonged to an earlier boot and is gone with it: there is \
                        nothing to put back, and its journal ";
        assert_eq!(*run(&tree, &[verb, "--dry-run"]).ok(), format!("{sentence}would be removed.\n"));
        assert!(tree.root().exists(&path));
        assert_eq!(*run(&tree, &[verb]).ok(), format!("{sentence}was removed.\n"));
        assert!(!tree.root().exists(&path));
        write();
        assert_eq!(run(&tree, &[verb, "--json"]).json()["removed"]["of"], "an earlier boot");
        assert!(run(&tree, &[verb]).ok().starts_with("Nothing to put back"));
        write();
        let flags: Vec<&str> = ["forget", flag].into_iter().filter(|flag| !flag.is_empty()).collect();
        let text = run(&tree, &flags).ok().to_owned();
        assert_eq!(text, "Forgotten: it belonged to an earlier boot, and nothing of it is left.\n");
        assert!(!tree.root().exists(&path));
    }
}

#[test]
fn a_journal_of_another_user_is_not_acted_upon_unasked() {
    let tree = fenced("resctrl.journal");
    let (from, to) = (tree.root().path("/run/ringfence"), tree.root().path("/run/user/4711/ringfence"));
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, &to).unwrap();
    if std::os::unix::fs::chown(to.join("resctrl.journal"), Some(4711), None).is_err() {
        // The rest takes root.
        return;
    }
    let said = run(&tree, &[]).said();
    assert!(said.contains("which user 4711 ran"), "{said}");
    for verb in ["recover", "forget"] {
        let output = run(&tree, &[verb]);
        assert_eq!(output.code(), Some(2), "{}", output.stderr);
        assert!(output.stderr.contains("--folder"), "{}", output.stderr);
        assert!(to.join("resctrl.journal").exists());
    }
    assert!(run(&tree, &["recover", "--dry-run"]).ok().contains("remove group quiet"));
    assert!(run(&tree, &["forget", "--folder", to.to_str().unwrap()]).ok().starts_with("Forgotten"));
    assert!(!to.join("resctrl.journal").exists());
}

#[test]
fn where_there_is_none_the_reason_is_said() {
    for (tree, part) in [
        (fixtures::vm_2cpu(), "hypervisor"),
        (fixtures::cxl_node(), "CONFIG_X86_CPU_RESCTRL"),
        (fixtures::zen_multi_llc(), "mount -t resctrl"),
    ] {
        for args in [&[][..], &["--json"], &["recover"], &["undo", "--dry-run"]] {
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
    assert_eq!(output.code(), Some(1));
    assert!(output.stderr.contains("/sys/fs/resctrl/schemata holds 'L3:0=many'"), "{}", output.stderr);
    tree.write("/run/ringfence/resctrl.kept", "{}\n");
    let output = run(&tree, &["undo"]);
    assert_eq!(output.code(), Some(1));
    assert!(output.stderr.contains("remove the file once resctrl is as it should be"), "{}", output.stderr);
}
