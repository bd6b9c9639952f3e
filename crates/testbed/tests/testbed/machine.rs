//! The machinery itself: what a command leaves, how it ends, and scenarios that fail.

use std::fs;
use std::path::PathBuf;

use ringfence_testbed::{Program, Testbed, in_guest, or_skip, scenarios};

#[test]
fn a_command_has_its_output_and_its_exit_code() {
    let Some(testbed) = or_skip("a_command_has_its_output_and_its_exit_code") else { return };
    let output = testbed.run("echo out; echo err >&2; id -u; pwd; exit 37");
    assert_eq!(output.code, 37, "{output}");
    assert_eq!(output.stdout, "out\n0\n/host\n", "{output}");
    assert_eq!(output.stderr, "err\n", "{output}");
}

#[test]
fn files_go_in_and_come_out() {
    let Some(testbed) = or_skip("files_go_in_and_come_out") else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("files_go_in_and_come_out");
    fs::create_dir_all(folder.join("tree/below")).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number * 7 / 3) as u8).collect();
    fs::write(folder.join("bytes"), &bytes).unwrap();
    fs::write(folder.join("tree/below/file"), "text").unwrap();
    let shell = Program::new("/bin/true", "true").unwrap();
    let output = testbed
        .copy(folder.join("bytes"))
        .copy(folder.join("tree"))
        .copy(shell.path())
        .out(folder.join("out"))
        .run("./true && cp bytes /out/ && cp -r tree /out/ && cat tree/below/file && cat bytes");
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.starts_with("text"), "{output}");
    assert_eq!(fs::read(folder.join("out/bytes")).unwrap(), bytes);
    assert_eq!(fs::read(folder.join("out/tree/below/file")).unwrap(), b"text");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_takes_too_long_is_ended_and_said() {
    let Some(testbed) = or_skip("what_takes_too_long_is_ended_and_said") else { return };
    // Booting takes a tenth of the first on an idle machine, and longer on a busy one.
    let mut why = String::new();
    for seconds in [10, 60, 300] {
        why = testbed.clone().time(seconds).try_run("echo begun; sleep 6000").unwrap_err();
        assert!(why.contains("exit code 124"), "{why}");
        // On a busy machine the limit is longer.
        let limit = why.split_once("timed out after ").unwrap().1.split_once(' ').unwrap().0;
        assert!((seconds..=10 * seconds).contains(&limit.parse().unwrap()), "{why}");
        if why.contains("begun") {
            return;
        }
    }
    panic!("it never began: {why}");
}

#[test]
fn a_qemu_that_outlives_its_guest_is_ended() {
    let test = "a_qemu_that_outlives_its_guest_is_ended";
    let Some(testbed) = or_skip(test) else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).unwrap();
    let profile = folder.join("stays");
    let broadwell = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testbed/profiles/broadwell");
    let said = fs::read_to_string(broadwell).unwrap();
    assert!(!said.contains("\nmore = "), "{said}");
    fs::write(&profile, format!("{said}\nmore = -no-shutdown\n")).unwrap();
    let output = testbed
        .profile(profile.to_str().unwrap())
        .out(folder.join("out"))
        .run("echo text > /out/file; echo printed; exit 3");
    assert_eq!((output.code, output.stdout.as_str()), (3, "printed\n"), "{output}");
    assert_eq!(fs::read(folder.join("out/file")).unwrap(), b"text\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_kernel_that_dies_is_a_failure_of_the_testbed() {
    let Some(testbed) = or_skip("a_kernel_that_dies_is_a_failure_of_the_testbed") else { return };
    let why = testbed.try_run("echo begun; echo c > /proc/sysrq-trigger; sleep 60").unwrap_err();
    assert!(why.contains("exit code 125") && why.contains("sysrq triggered crash"), "{why}");
}

#[test]
fn a_plug_can_be_pulled() {
    let Some(testbed) = or_skip("a_plug_can_be_pulled") else { return };
    let mut running = testbed.start("i=0; while :; do echo $i; i=$((i + 1)); done").unwrap();
    for number in 0..100 {
        assert_eq!(running.line(), Some(number.to_string()));
    }
    running.cut();
    let (code, errors) = running.wait();
    assert_eq!(code, 143, "{errors}");
}

#[test]
fn bad_flags_are_refused_in_one_sentence() {
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testbed/run");
    for flags in [
        &["--profile", "no-such", "true"][..],
        &["--pmem", "0", "true"],
        &["--pmem", "many", "true"],
        &["--pmem-file", "/no/such/file", "true"],
        &["--pmem-domain", "battery", "true"],
        &["--memmap", "64M", "true"],
        &["--disk", "16", "true"],
        &["--profile", "disks", "--nvme", "none", "true"],
        &["--user", "somebody", "true"],
        &["--copy", "/no/such/file", "true"],
        &["--copy", "/etc/passwd", "--copy", "/etc/passwd", "true"],
        &["--mount", "a b", "true"],
        &["--rdt", "rdt-l3-cbm=20 -S", "true"],
        &["--time", "-1", "true"],
        &["--time"],
        &["--no-such-flag", "true"],
        &["--mount", "-"],
        &[],
    ] {
        let output = std::process::Command::new(&run).args(flags).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{flags:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{flags:?}");
    }
}

fn runs_as_root_in_the_guest() {
    assert!(in_guest());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("Uid:\t0\t0"), "{status}");
    assert!(fs::read_to_string("/proc/version").unwrap().contains("Debian"));
}

fn sees_resctrl() {
    assert!(fs::read_to_string("/sys/fs/resctrl/schemata").unwrap().contains("L3:0=00f"));
}

#[test]
fn scenarios_that_pass_pass() {
    scenarios!(
        |testbed: Testbed| testbed.profile("few").mount("-"),
        || Ok(()),
        [runs_as_root_in_the_guest, sees_resctrl],
    );
}

fn panics() {
    panic!("this one is\nto panic");
}

fn leaves_something_behind() {
    fs::write("/tmp/left", "").unwrap();
}

fn comes_too_late() {}

fn nothing_is_left() -> Result<(), String> {
    if PathBuf::from("/tmp/left").exists() { Err("there is /tmp/left".into()) } else { Ok(()) }
}

#[test]
fn scenarios_that_fail_fail_the_test_with_their_words() {
    let run = || {
        scenarios!(
            |testbed: Testbed| testbed,
            nothing_is_left,
            [runs_as_root_in_the_guest, panics, leaves_something_behind, comes_too_late],
        );
    };
    if in_guest() || Testbed::find().is_err() {
        return run();
    }
    let said = *std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
    assert!(said.starts_with("3 of 4 scenarios failed"), "{said}");
    assert!(
        said.contains(
            "FAILED panics: this one is\n    to panic (crates/testbed/tests/testbed/machine.rs:"
        ),
        "{said}"
    );
    assert!(
        said.contains("FAILED leaves_something_behind: it left behind: there is /tmp/left"),
        "{said}"
    );
    assert!(
        said.contains(
            "FAILED comes_too_late: not run: since leaves_something_behind: there is /tmp/left"
        ),
        "{said}"
    );
}

fn ends_the_program() {
    std::process::exit(0);
}

#[test]
fn a_scenario_that_ends_the_program_fails_and_so_do_those_behind_it() {
    let run = || {
        scenarios!(
            |testbed: Testbed| testbed,
            || Ok(()),
            [runs_as_root_in_the_guest, ends_the_program, comes_too_late]
        );
    };
    if in_guest() || Testbed::find().is_err() {
        return run();
    }
    let said = *std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("FAILED ends_the_program: it began and did not end"), "{said}");
    assert!(said.contains("FAILED comes_too_late: it was not begun"), "{said}");
    assert!(!said.contains("FAILED runs_as_root_in_the_guest"), "{said}");
}
