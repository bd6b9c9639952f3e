//! What scripts for hyperfine rely on.

use super::support::{Folder, ringfence_in};
use super::{read, versus};

#[test]
fn runs_know_their_number_as_hyperfine_tells_it() {
    let folder = Folder::new();
    let say = |what: &str| format!("echo {what} ${{HYPERFINE_ITERATION:-none}} >> log");
    let (a, setup, prepare) = (say("a"), say("setup"), say("prepare"));
    let args = [&a, "true", "--setup", &setup, "--prepare", &prepare, "--cleanup", "echo done >> log"];
    versus(&folder, &[&args[..], &["-w", "2", "-r", "2", "--out", "out"]].concat()).ok();
    let log = read(&folder, "log");
    let of = |what: &str| -> Vec<&str> { log.lines().filter_map(|line| line.strip_prefix(what)).collect() };
    assert_eq!(of("setup "), ["none"]);
    assert_eq!(of("a "), ["warmup-0", "warmup-1", "0", "1"]);
    // Before each of two commands.
    assert_eq!(of("prepare ").concat(), ["warmup-0", "warmup-1", "0", "1"].map(|one| one.repeat(2)).concat());
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
    let args =
        ["sleep 0.05", "sleep 0.01", "-w", "0", "-r", "4", "-n", "long", "-n", "short", "-u", "second"];
    let table = |sort: &str, out: &str| {
        let export = ["--sort", sort, "--export-markdown", "h.md", "--out", out];
        let ran = versus(&folder, &[&args[..], &export].concat());
        // By the names that they were given.
        assert!(ran.said().contains("b against a (short against long)"), "{}", ran.stdout);
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
    assert!(sorted.contains("Mean [s]") && cells.iter().all(|cell| digits(cell) == Some(3)), "{sorted}");
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
    assert!(!ran.said().contains('\u{1b}') && ran.stdout.contains("\\u{1b}[31m<b>"), "{}", ran.stdout);
    let markdown = read(&folder, "h.md");
    assert_eq!(markdown.lines().count(), 4, "{markdown}");
    assert!(read(&folder, "s.md").contains("&lt;b> | c)**"), "{}", read(&folder, "s.md"));
    let many = ["true {n}", "-P", "n", "1", "30", "-N", "-w", "0", "-r", "4", "--out", "many"];
    assert!(versus(&folder, &many).said().contains("ad against a (n=30 against n=1)"));
}
