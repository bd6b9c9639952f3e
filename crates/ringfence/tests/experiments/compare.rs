//! `compare`: two datasets, two surveys' folders, and what is refused.

use std::fs;

use crate::support::{Folder, Output, ringfence_in};

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stdout.is_empty() && output.stderr.contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

const WRITE: [&str; 13] = [
    "write",
    "--instruction",
    "clflush,none",
    "--block",
    "4KiB",
    "--size",
    "1MiB",
    "--trials",
    "4",
    "--rounds",
    "1",
    "--probe",
    "0ms",
];

fn measure(folder: &Folder, out: &str, more: &[&str]) {
    let args = [&WRITE[..], &["--quiet", "--out", out], more].concat();
    ringfence_in(folder.path(), &args).ok();
}

#[test]
fn two_datasets_are_compared_and_the_page_asks_for_nothing() {
    let folder = Folder::new();
    measure(&folder, "one", &["--window", "2ms"]);
    measure(&folder, "two", &["--window", "2ms", "--seed", "2"]);
    let text = ringfence_in(folder.path(), &["compare", "one", "two", "--html", "page.html"]);
    let text = text.said();
    assert!(text.contains("before: one") && text.contains("Of 2 cells"), "{text}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("write clflush"), "{page}");
    // Nothing is fetched.
    assert!(page.contains("default-src 'none'") && !page.contains("src=\""), "{page}");
    // A page of ours is replaced; another file is not, and a run says so before it prints anything.
    ringfence_in(folder.path(), &["compare", "one", "two", "--html", "page.html"]).ok();
    fs::write(folder.path().join("notes.html"), "<p>mine</p>").unwrap();
    let foreign = ringfence_in(folder.path(), &["compare", "one", "two", "--html", "notes.html"]);
    refused(&foreign, "is not a report");
    assert_eq!(fs::read_to_string(folder.path().join("notes.html")).unwrap(), "<p>mine</p>");
    let json = ringfence_in(folder.path(), &["compare", "one", "two", "--json"]).json();
    let cells = json["compared"][0]["comparison"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert_eq!(cell["figure"], "cost");
        let change = &cell["change"];
        // A noisy minute can leave no figure, and then the verdict says why.
        match change["slowdown"]["value"].as_f64() {
            Some(ratio) => assert!(ratio > 0.0, "{cell}"),
            None => assert_eq!(change["verdict"], "not_estimable", "{cell}"),
        }
    }
}

#[test]
fn surveys_are_compared_dataset_by_dataset_and_the_rest_is_named() {
    let folder = Folder::new();
    for (dir, window) in [("a", "2ms"), ("b", "4ms")] {
        fs::create_dir(folder.path().join(dir)).unwrap();
        measure(&folder, &format!("{dir}/same"), &["--window", "2ms"]);
        measure(&folder, &format!("{dir}/longer"), &["--window", window]);
        measure(&folder, &format!("{dir}/only-{dir}"), &["--window", "2ms"]);
    }
    let text = ringfence_in(folder.path(), &["compare", "a", "b"]);
    let text = text.said();
    assert!(text.contains("before: a/same"), "{text}");
    assert!(
        text.contains("not compared: longer: these cannot be compared: their windows differ"),
        "{text}"
    );
    assert!(text.contains("not compared: only-a, which only BEFORE contains"), "{text}");
    assert!(text.contains("not compared: only-b, which only AFTER contains"), "{text}");
    refused(&ringfence_in(folder.path(), &["compare", "a", "b/same"]), "one dataset");
    refused(&ringfence_in(folder.path(), &["compare", "a/same", "b/longer"]), "windows differ");
    refused(&ringfence_in(folder.path(), &["compare", "a/same", "nowhere"]), "nowhere");
}
