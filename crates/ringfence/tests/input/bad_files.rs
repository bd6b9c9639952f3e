//! Experiment files that say nothing this program can do: exit code 2 and one line that names the
//! trouble, where the text is at fault with its line and column.

use std::fs;

use crate::support::{Folder, ringfence_in};

const GOOD: &str = r#"schema = 1
name = "good"
metric = "victim"
[measure]
looks = [2]
[placement]
kind = "auto"
[[role]]
name = "victim"
task = { workload = "chase", footprint = "64KiB" }
[[role]]
name = "aggressor"
task = { workload = "alu" }
[[arm]]
name = "alone"
active = ["victim"]
[[arm]]
name = "beside"
active = ["victim", "aggressor"]
baseline = "alone"
"#;

fn refused(bytes: &[u8], part: &str) {
    let (files, folder) = (Folder::new(), Folder::new());
    let file = files.path().join("experiment.toml");
    fs::write(&file, bytes).unwrap();
    let output = ringfence_in(folder.path(), &["run", file.to_str().unwrap()]);
    let said =
        format!("{:?}\n{}\n{}", output.status, output.stderr, String::from_utf8_lossy(bytes));
    assert_eq!(output.code(), Some(2), "{said}");
    assert_eq!(output.stdout, "", "{said}");
    assert_eq!(output.stderr.lines().count(), 1, "{said}");
    assert!(output.stderr.contains(part), "'{part}' is not in {said}");
    assert!(folder.entries().is_empty(), "{:?}: {said}", folder.entries());
}

#[test]
fn the_file_that_the_others_are_made_from_is_good() {
    let folder = Folder::new();
    fs::write(folder.path().join("good.toml"), GOOD).unwrap();
    let output = ringfence_in(folder.path(), &["run", "good.toml", "--save", "again.toml"]);
    output.ok();
}

#[test]
fn texts_that_are_no_toml() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "'schema' is missing"),
        (b"schema", "line 1, column"),
        (b"schema =", "line 1, column"),
        (b"schema = 1\nname = \"open", "line 2, column"),
        (b"schema = 1\n[measure\nlooks = [2]", "line 2, column"),
        (b"schema = 1\nschema = 1", "duplicate key"),
        (b"schema = 1\nname = 'a' metric = 'b'", "line 2, column"),
        (b"schema = 01", "line 1, column"),
        (b"= 1", "line 1, column"),
        (b"schema = [1, 2", "line 1, column"),
        (b"schema = { a = 1", "line 1, column"),
        (b"schema = 1\n\ttask = { workload = }", "line 2, column"),
        (b"name = \"\\q\"", "line 1, column"),
        (b"\x7fELF\x02\x01\x01\x00", "line 1, column"),
        (b"schema = \xff\xfe", "UTF-8"),
        (b"{\"schema\": 1}", "line 1, column"),
        (&[0u8; 4096], "line 1, column"),
    ];
    for (bytes, part) in cases {
        refused(bytes, part);
    }
}

#[test]
fn words_and_values_that_make_no_sense() {
    let cases = [
        ("schema = 1", "schema = 3", "this program reads 1 to 2"),
        ("schema = 1", "schema = \"1\"", "line 1, column"),
        ("schema = 1\n", "", "'schema' is missing"),
        ("schema = 1", "schema = 1\nseeed = 3", "did you mean 'seed'"),
        ("schema = 1", "schema = 1\nseed = -1", "line 2, column"),
        ("schema = 1", "schema = 1\naa = 1", "at least 2 trials"),
        ("name = \"good\"", "name = \"../up\"", "cannot be a folder's name"),
        ("name = \"good\"", "name = \"\"", "cannot be a folder's name"),
        ("metric = \"victim\"", "metric = \"victm\"", "did you mean 'victim'"),
        ("looks = [2]", "look = [2]", "did you mean 'looks'"),
        ("looks = [2]", "looks = []", "looks is empty"),
        ("looks = [2]", "looks = [4, 4]", "larger than the one before"),
        ("looks = [2]", "looks = [200000]", "100000"),
        ("looks = [2]", "looks = [2]\nwindow = 20", "line 6, column"),
        ("looks = [2]", "looks = [2]\nwindow = \"20\"", "is not a duration"),
        ("looks = [2]", "looks = [2]\nrounds = 0", "measure nothing"),
        ("kind = \"auto\"", "kind = \"lcc\"", "did you mean 'llc'"),
        ("workload = \"chase\"", "workload = \"chse\"", "did you mean 'chase'"),
        ("workload = \"chase\", ", "", "workload is missing"),
        ("footprint = \"64KiB\"", "footprnt = \"64KiB\"", "did you mean 'footprint'"),
        ("footprint = \"64KiB\"", "footprint = \"64KB\"", "'64KB' is not a size"),
        ("footprint = \"64KiB\"", "footprint = []", "names no value"),
        ("footprint = \"64KiB\"", "footprint = -1", "footprint = -1"),
        ("workload = \"alu\"", "workload = \"command\"", "'run' is missing"),
        ("workload = \"alu\"", "workload = \"command\", run = \"\"", "run is empty"),
        ("workload = \"alu\"", "workload = \"command\", run = \"x\", unit = \"laps\"", "laps"),
        ("name = \"aggressor\"", "name = \"victim\"", "duplicate role 'victim'"),
        ("name = \"aggressor\"", "name = \"aggressor\"\ncount = 0", "count must be at least 1"),
        ("name = \"aggressor\"", "name = \"aggressor\"\ncount = []", "count must be at least 1"),
        ("name = \"aggressor\"", "name = \"aggressor\"\ncpus = \"99999\"", "99999"),
        ("name = \"aggressor\"", "name = \"aggressor\"\ncpus = \"3-1\"", "3-1"),
        ("name = \"beside\"", "name = \"alone\"", "duplicate arm 'alone'"),
        ("active = [\"victim\"]", "active = []", "does not run 'victim'"),
        (
            "active = [\"victim\"]",
            "active = [\"victim\", \"agressor\"]",
            "did you mean 'aggressor'",
        ),
        ("baseline = \"alone\"", "baseline = \"beside\"", "its own baseline"),
        ("baseline = \"alone\"", "baseline = \"aloen\"", "did you mean 'alone'"),
        ("baseline = \"alone\"", "set = { victim = { footprint = [\"4KiB\"] } }", "not a list"),
        ("baseline = \"alone\"", "set = { nobody = { a = 1 } }", "which it does not run"),
    ];
    for (from, to, part) in cases {
        assert!(GOOD.contains(from), "{from}");
        refused(GOOD.replacen(from, to, 1).as_bytes(), part);
    }
    let (roles, arms) = (GOOD.find("[[role]]").unwrap(), GOOD.find("[[arm]]").unwrap());
    refused(&GOOD.as_bytes()[..roles], "'role' is missing");
    refused(&GOOD.as_bytes()[..arms], "'arm' is missing");
}
