//! `explain`, of what every machine has.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Folder, ringfence, ringfence_in, skip};

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
    let text = ringfence(&["explain", file.to_str().unwrap()]).ok().to_owned();
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_file(&file).unwrap();
    assert_eq!((&of_file["durability"], &of_file["reasons"]), (&of_dir["durability"], &of_dir["reasons"]));
    if of_file["durability"] != "page-cache" {
        return skip(&format!("{} is not a disk's: {of_file}", dir.display()));
    }
    assert_eq!(of_file["path"], file.to_str().unwrap());
    assert_eq!(of_file["elides_flushes"], false);
    assert!(of_file["reasons"][0].as_str().unwrap().starts_with("MAP_SYNC was refused with E"), "{of_file}");
    assert!(of_file["remedies"][0].as_str().unwrap().contains("/dev/daxX.Y"), "{of_file}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let flat = words.join(" ");
    for part in [
        "page cache: a store is durable once msync has returned",
        "because MAP_SYNC was refused",
        "for more use a",
    ] {
        assert!(flat.contains(part), "{text}");
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
    assert!(said["verdict"].as_str().unwrap().ends_with("no store survives a power failure"), "{said}");
}
