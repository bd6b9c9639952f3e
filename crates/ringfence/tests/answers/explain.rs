//! `explain`, of what every machine has.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Folder, ringfence, ringfence_in, skip};

fn json(path: &Path) -> Value {
    ringfence(&["explain", "--json", path.to_str().unwrap()]).json()
}

#[test]
fn a_file_on_a_disk_is_durable_after_msync() {
    // Where the program was built lies on a disk, as a rule, and never on tmpfs unseen.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("explain-{}", std::process::id()));
    fs::write(&file, "mine").unwrap();
    let (of_file, of_dir) = (json(&file), json(dir));
    let text = ringfence(&["explain", "-v", file.to_str().unwrap()]).ok().to_owned();
    let brief = ringfence(&["explain", file.to_str().unwrap()]).ok().to_owned();
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_file(&file).unwrap();
    assert_eq!(
        (&of_file["durability"], &of_file["reasons"]),
        (&of_dir["durability"], &of_dir["reasons"])
    );
    if of_file["durability"] != "page-cache" {
        return skip(&format!("{} is not a disk's: {of_file}", dir.display()));
    }
    assert_eq!(of_file["path"], file.to_str().unwrap());
    assert_eq!(of_file["elides_flushes"], false);
    assert!(
        of_file["reasons"][0].as_str().unwrap().starts_with("MAP_SYNC was refused with E"),
        "{of_file}"
    );
    assert!(of_file["remedies"][0].as_str().unwrap().contains("/dev/daxX.Y"), "{of_file}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let flat = words.join(" ");
    for part in [
        "page cache: a store is durable once msync has returned",
        "because MAP_SYNC was refused",
        "for more use a",
        "From file to medium",
        "Durability after each call, according to the kernel",
    ] {
        assert!(flat.contains(part), "{text}");
    }
    let flat_brief = brief.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(brief.lines().count() < 16 && flat_brief.contains("not safe"), "{brief}");
    // Verdict and reasons come first, as before there was more.
    assert!(flat.find("for more").unwrap() < flat.find("From file to medium").unwrap(), "{text}");
}

// Whatever this machine's disks are: the file and its folder lie on the same, and both say the same
// of a sync.
#[test]
fn the_way_to_the_medium_is_the_same_for_a_file_and_its_folder() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("medium-{}", std::process::id()));
    fs::write(&file, "mine").unwrap();
    let (of_file, of_dir) = (json(&file), json(dir));
    fs::remove_file(&file).unwrap();
    let (of_file, of_dir) = (&of_file["medium"], &of_dir["medium"]);
    for part in ["file_system", "flush", "promises", "unknown"] {
        assert_eq!(of_file[part], of_dir[part], "{part}");
    }
    let weak = |promise: &&Value| promise["call"] == "sync_file_range";
    assert_eq!(of_file["promises"].as_array().unwrap().iter().find(weak).unwrap()["durable"], "no");
    for load in of_file["load"].as_array().unwrap() {
        assert!(load["seconds"].as_f64().unwrap() > 0.2, "{load}");
    }
}

// Names of the disks at the bottom that state a scheduler.
fn queued(part: &Value, names: &mut Vec<String>) {
    let below = part["below"].as_array().unwrap();
    if below.is_empty() && part["queue"]["scheduler"].is_string() {
        names.push(part["name"].as_str().unwrap().to_owned());
    }
    for below in below {
        let inner = [&below["device"], &below["file"]["file_system"]];
        inner.into_iter().filter(|part| part.is_object()).for_each(|part| queued(part, names));
    }
}

#[test]
fn doctor_tells_of_the_disks_below_the_folder_that_it_is_started_in() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut names = Vec::new();
    queued(&json(dir)["medium"]["file_system"], &mut names);
    let findings = |dir: &Path| ringfence_in(dir, &["doctor", "--json"]).json()["findings"].clone();
    let told = |findings: &Value| -> Vec<String> {
        let all =
            findings.as_array().unwrap().iter().filter(|finding| finding["id"] == "disk-queue");
        all.map(|finding| finding["evidence"].as_str().unwrap().to_owned()).collect()
    };
    if Path::new("/dev/shm").is_dir() {
        assert_eq!(told(&findings(Path::new("/dev/shm"))), [""; 0]);
    }
    if names.is_empty() {
        return skip(&format!("no disk below {} states a scheduler", dir.display()));
    }
    let told = told(&findings(dir));
    assert_eq!(told.len(), names.len(), "{told:?}");
    for name in names {
        let queue = format!("/sys/block/{name}/queue: scheduler ");
        assert!(told.iter().any(|evidence| evidence.starts_with(&queue)), "{name}: {told:?}");
    }
}

#[test]
fn a_folder_is_left_as_it_was() {
    let folder = Folder::new();
    let said = ringfence_in(folder.path(), &["explain", "."]);
    assert!(said.ok().starts_with(".: "), "{}", said.stdout);
    assert!(folder.entries().is_empty());
}

#[test]
fn shared_memory_is_volatile() {
    if !Path::new("/dev/shm").is_dir() {
        return skip("there is no /dev/shm");
    }
    let said = json(Path::new("/dev/shm"));
    assert_eq!(said["durability"], "volatile", "{said}");
    assert!(said["reasons"][0].as_str().unwrap().contains("tmpfs is memory"), "{said}");
    assert!(
        said["verdict"].as_str().unwrap().ends_with("no store survives a power failure"),
        "{said}"
    );
    assert_eq!(said["medium"]["flush"]["memory"], "tmpfs", "{said}");
    let text = ringfence(&["explain", "-v", "/dev/shm"]).ok().to_owned();
    assert!(text.contains("any call  not durable: tmpfs is memory"), "{text}");
}
