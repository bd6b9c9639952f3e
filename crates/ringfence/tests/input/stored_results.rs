//! Where results go, and how they are found again.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{Folder, Output, Running, command, joined, ringfence_in, skip};

const MEASURE: [&str; 12] = [
    "write", "-i", "none", "--block", "4KiB", "--size", "64KiB", "--trials", "2", "--window",
    "1ms", "--quiet",
];

fn measured(folder: &Folder, environment: &[(&str, &str)]) -> Output {
    let (mut command, mark) = command(folder.path(), &MEASURE);
    command.envs(environment.iter().copied());
    Running::spawn(command, mark).wait()
}

#[test]
fn results_are_kept_in_the_state_directory_and_found_again() {
    let folder = Folder::new();
    let [first, second] = [(); 2].map(|()| measured(&folder, &[]));
    for printed in [&first, &second] {
        assert!(printed.ok().contains("dataset: /"), "{}", printed.stdout);
    }
    let results = folder.results();
    assert_eq!((folder.entries(), results.len()), (vec!["state".to_owned()], 2), "{results:?}");
    let last = results
        .iter()
        .find(|result| second.stdout.contains(&format!("dataset: {}\n", result.display())));
    let last = last.expect("the second names its folder");
    let name = last.file_name().unwrap().to_str().unwrap();
    // The last one, by its path, and by its name.
    let shown = ringfence_in(folder.path(), &["show"]);
    assert_eq!(shown.stderr, format!("{}:\n", last.display()));
    for named in [last.to_str().unwrap(), name] {
        assert_eq!(ringfence_in(folder.path(), &["show", named]).ok(), shown.ok());
    }
    let list = ringfence_in(folder.path(), &["show", "--list"]);
    let rows: Vec<&str> = list.ok().lines().filter(|line| line.starts_with("write ")).collect();
    assert!(rows.len() == 2 && rows[0].contains(name) && rows[0].contains("KiB"), "{rows:?}");
    assert!(joined(&list.stdout).contains("2 results in "), "{}", list.stdout);
    for page in [&["show", "--html"][..], &["report"]] {
        let _ = std::fs::remove_file(last.join("report.html"));
        let wrote = ringfence_in(folder.path(), page);
        assert_eq!(wrote.ok(), format!("report: {}\n", last.join("report.html").display()));
        assert!(last.join("report.html").exists());
    }
    ringfence_in(folder.path(), &["show", name, "--html=page.html"]).ok();
    assert!(folder.path().join("page.html").exists());
}

#[test]
fn results_of_one_second_are_in_the_order_in_which_they_began() {
    let folder = Folder::new();
    let results = folder.path().join("state/ringfence");
    // The order of their names is another one.
    let names = ["write-20260509-072933", "b-20260509-072933", "commit-20260509-072933"];
    for name in names {
        measured(&folder, &[]).ok();
        let measured = folder.results();
        let new = measured.iter().find(|path| !names.iter().any(|name| path.ends_with(name)));
        std::fs::rename(new.expect("a new result"), results.join(name)).unwrap();
    }
    // What is written to a result later does not move it.
    ringfence_in(folder.path(), &["show", names[0], "--html"]).ok();
    let shown = ringfence_in(folder.path(), &["show"]);
    assert_eq!(shown.stderr, format!("{}:\n", results.join(names[2]).display()));
    let list = ringfence_in(folder.path(), &["show", "--list"]);
    let place = |name: &str| list.ok().find(name).expect("it is listed");
    let places = names.map(place);
    assert!(places[2] < places[1] && places[1] < places[0], "{}", list.stdout);
}

#[test]
fn the_state_directory_is_below_home_unless_it_is_named() {
    let folder = Folder::new();
    let home = folder.path().join("a home");
    let relative = [("XDG_STATE_HOME", "relative"), ("HOME", home.to_str().unwrap())];
    let printed = measured(&folder, &relative);
    let place = format!("dataset: '{}/.local/state/ringfence/write-", home.display());
    assert!(printed.ok().contains(&place), "{}", printed.stdout);
    assert_eq!(folder.entries(), ["a home"]);
}

#[test]
fn a_state_directory_that_cannot_be_made_names_out() {
    let folder = Folder::new();
    let refused = measured(&folder, &[("XDG_STATE_HOME", "/proc/absent")]);
    assert_eq!((refused.code(), refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot be created"), "{}", refused.stderr);
    assert!(
        refused.stderr.trim_end().ends_with("name a folder by --out DIR"),
        "{}",
        refused.stderr
    );
}

// As sudo sets the environment.
#[test]
fn under_sudo_results_belong_to_the_user_who_called_it() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skip("only root can give files away");
    }
    let folder = Folder::new();
    measured(&folder, &[("SUDO_UID", "1234"), ("SUDO_GID", "1235")]).ok();
    let [result] = &folder.results()[..] else { panic!("{:?}", folder.results()) };
    let owner = |path: &Path| {
        let metadata = path.symlink_metadata().unwrap();
        (metadata.uid(), metadata.gid())
    };
    assert_eq!(owner(result.parent().unwrap()), (1234, 1235));
    for entry in std::fs::read_dir(result).unwrap() {
        assert_eq!(owner(&entry.unwrap().path()), (1234, 1235));
    }
}
