//! What scripts for hyperfine rely on.

use std::fs;

use super::support::{Folder, ringfence_in};
use super::{read, versus};

#[test]
fn runs_know_their_number_as_hyperfine_tells_it() {
    let folder = Folder::new();
    let say = |what: &str| format!("echo {what} ${{HYPERFINE_ITERATION:-none}} >> log");
    let (a, setup, prepare) = (say("a"), say("setup"), say("prepare"));
    let args =
        [&a, "true", "--setup", &setup, "--prepare", &prepare, "--cleanup", "echo done >> log"];
    versus(&folder, &[&args[..], &["-w", "2", "-r", "2", "--out", "out"]].concat()).ok();
    let log = read(&folder, "log");
    let of = |what: &str| -> Vec<&str> {
        log.lines().filter_map(|line| line.strip_prefix(what)).collect()
    };
    assert_eq!(of("setup "), ["none"]);
    assert_eq!(of("a "), ["warmup-0", "warmup-1", "0", "1"]);
    // Before each of two commands.
    assert_eq!(
        of("prepare ").concat(),
        ["warmup-0", "warmup-1", "0", "1"].map(|one| one.repeat(2)).concat()
    );
}

#[test]
fn the_first_parameter_changes_fastest_and_columns_are_sorted() {
    let folder = Folder::new();
    let lists = ["-L", "z", "1,2", "-L", "b", "x,y", "-w", "0", "-r", "4", "--out", "out"];
    let exports = ["--export-csv", "h.csv", "--export-json", "h.json"];
    versus(&folder, &[&["true {z} {b}"], &lists[..], &exports].concat()).ok();
    let csv = read(&folder, "h.csv");
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().ends_with(",min,max,parameter_b,parameter_z"), "{csv}");
    let commands: Vec<&str> = lines.clone().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(commands, ["true 1 x", "true 2 x", "true 1 y", "true 2 y"]);
    assert!(lines.next().unwrap().ends_with(",x,1"), "{csv}");
}

#[test]
fn tables_are_sorted_and_seconds_have_three_digits() {
    let folder = Folder::new();
    let args = [
        "sleep 0.05",
        "sleep 0.01",
        "-w",
        "0",
        "-r",
        "4",
        "-n",
        "long",
        "-n",
        "short",
        "-u",
        "second",
    ];
    let table = |sort: &str, out: &str| {
        let export = ["--sort", sort, "--export-markdown", "h.md", "--out", out];
        let ran = versus(&folder, &[&args[..], &export].concat());
        // By the names that they were given.
        assert!(ran.said().contains("'short' against 'long'"), "{}", ran.stdout);
        read(&folder, "h.md")
    };
    let names = |text: &str| -> Vec<String> {
        text.lines().skip(2).map(|line| line.split('`').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&table("command", "one")), ["long", "short"]);
    let sorted = table("mean-time", "two");
    assert_eq!(names(&sorted), ["short", "long"]);
    // The least and the most.
    let cells: Vec<&str> = sorted.lines().last().unwrap().split(" | ").skip(2).take(2).collect();
    let digits = |cell: &&str| cell.split_once('.').map(|(_, digits)| digits.len());
    assert!(
        sorted.contains("Mean [s]") && cells.iter().all(|cell| digits(cell) == Some(3)),
        "{sorted}"
    );
    let wrong = ringfence_in(folder.path(), &["versus", "true", "true", "--sort", "size"]);
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
}

#[test]
fn names_of_any_kind_stay_in_their_cell_and_thirty_settings_are_told_apart() {
    let folder = Folder::new();
    let name = "a `b`\n\u{1b}[31m<b> | c";
    let args = ["true", "true", "-n", name, "-n", "short", "-w", "0", "-r", "4", "--out", "one"];
    let exports = ["--export-markdown", "h.md", "--export-summary", "s.md"];
    let ran = versus(&folder, &[&args[..], &exports].concat());
    assert!(
        !ran.said().contains('\u{1b}') && ran.stdout.contains("\\u{1b}[31m<b>"),
        "{}",
        ran.stdout
    );
    let markdown = read(&folder, "h.md");
    assert_eq!(markdown.lines().count(), 4, "{markdown}");
    assert!(read(&folder, "s.md").contains("&lt;b> | c)**"), "{}", read(&folder, "s.md"));
    let many = ["true {n}", "-P", "n", "1", "30", "-N", "-w", "0", "-r", "4", "--out", "many"];
    assert!(versus(&folder, &many).said().contains("'true 30' against 'true 1'"));
}

// What asks the terminal for a password would be stopped in the background, and waited for without
// end.
#[test]
fn commands_have_no_terminal() {
    let folder = Folder::new();
    let sessions = "sh -c 'cut -d\" \" -f6,7 /proc/self/stat >> sessions'";
    versus(&folder, &[sessions, "true", "-N", "-r", "2", "-w", "0", "--prepare", sessions]).ok();
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own = own.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    let text = read(&folder, "sessions");
    let all: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(all.len() >= 4, "{text}");
    for (session, terminal) in &all {
        assert!(*session != own && *terminal == "0", "{own}: {text}");
    }
}

#[test]
fn a_signal_is_an_exit_code_as_in_shells() {
    let folder = Folder::new();
    let killed = "sh -c 'kill -9 $$'";
    let args = ["true", killed, "-N", "-r", "3", "-w", "0", "--export-json", "out.json"];
    versus(&folder, &[&args[..], &["--ignore-failure=137"]].concat()).ok();
    let exported: serde_json::Value = serde_json::from_str(&read(&folder, "out.json")).unwrap();
    assert_eq!(
        exported["results"][1]["exit_codes"],
        serde_json::json!([137, 137, 137]),
        "{exported}"
    );
    assert_eq!(versus(&folder, &[&args[..], &["--ignore-failure=1"]].concat()).code(), Some(1));
}

#[test]
fn what_is_exported_to_stays_what_it_is() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("private.json"), "old").unwrap();
    fs::set_permissions(at("private.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("target.csv", at("link.csv")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    let args = ["true", "false", "-i", "-N", "-r", "2", "-w", "0"];
    let exports =
        ["--export-json", "private.json", "--export-csv", "link.csv", "--export-markdown", "null"];
    versus(&folder, &[&args[..], &exports].concat()).ok();
    assert!(read(&folder, "private.json").contains("\"results\""));
    assert_eq!(fs::metadata(at("private.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(read(&folder, "target.csv").starts_with("command,mean,"));
    for link in ["link.csv", "null"] {
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
    }
    // As 'jq' behind a pipe reads it.
    let script = format!(
        "{} versus {} --style none --quiet --export-csv >(cat > piped.csv); wait",
        env!("CARGO_BIN_EXE_ringfence"),
        args.join(" ")
    );
    let status = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .status();
    assert!(status.unwrap().success());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !fs::read_to_string(at("piped.csv")).is_ok_and(|text| text.starts_with("command,mean,")) {
        assert!(std::time::Instant::now() < until, "nothing came through the pipe");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
