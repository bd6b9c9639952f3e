//! `sensitivity`: an experiment like any other, shown as curves.

use crate::support::{Folder, cpus, ringfence_in, skip};

#[test]
fn curves_are_measured_and_shown_again() {
    if cpus().len() < 2 {
        return skip("a polluter needs a second CPU");
    }
    let folder = Folder::new();
    let args = [
        "sensitivity",
        "--victim=alu",
        "--victim=chase footprint=64KiB",
        "--polluter=write,chase",
        "--footprint=128KiB,64KiB",
        "--trials=2",
        "--window=2ms",
        "--settle=0ms",
        "--probe=0ms",
        "--quiet",
        "--json",
        "--out=data",
    ];
    let printed = ringfence_in(folder.path(), &args).json();
    let curves = printed["sensitivity"]["curves"].as_array().unwrap();
    let names: Vec<_> =
        curves.iter().map(|curve| [curve["victim"].as_str(), curve["polluter"].as_str()]).collect();
    let [alu, chase] = [Some("alu"), Some("chase footprint=64KiB")];
    let [write, pointers] = [Some("write"), Some("chase")];
    assert_eq!(names, [[alu, write], [alu, pointers], [chase, write], [chase, pointers]]);
    for curve in curves {
        let sizes: Vec<_> =
            curve["points"].as_array().unwrap().iter().map(|point| &point["footprint"]).collect();
        assert_eq!(sizes, ["64KiB", "128KiB"]);
    }
    let shown = ringfence_in(folder.path(), &["show", "-v", "data"]);
    assert!(shown.said().contains("chase footprint=64KiB beside plain stores"), "{}", shown.stdout);
    let shown = ringfence_in(folder.path(), &["show", "data", "--json"]).json();
    assert_eq!(shown["datasets"][0]["results"], printed["results"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    for (args, part) in [
        (&["sensitivity"][..], "--victim"),
        (&["sensitivity", "--victim=wirte block=64B"], "did you mean 'write'"),
        (&["sensitivity", "--victim=alu", "--footprint=big"], "--footprint: 'big' is not a size"),
        (&["sensitivity", "--victim=alu", "--footprint=1KiB"], "--footprint 1KiB: at least 4KiB"),
        (&["sensitivity", "--victim=alu", "--polluter=stream"], "--polluter"),
        (&["sensitivity", "--victim=alu", "--trials=1"], "at least 4"),
    ] {
        let output = ringfence_in(folder.path(), args);
        assert_eq!(
            (output.code(), output.stdout.as_str()),
            (Some(2), ""),
            "{args:?}: {}",
            output.stderr
        );
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
        assert!(folder.entries().is_empty(), "{args:?}");
    }
}
