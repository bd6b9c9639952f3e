//! What the census of a recording knows of the program: its files, and what they are stored on.

use std::path::Path;

use ringfence_trace::census::dynamic::{self, Confidence, Run};
use ringfence_trace::events::{Action, Location, Medium};
use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Reader, Writer};

use crate::programs::build;

fn census(program: &Path, folder: &Path) -> Run {
    let file = folder.join("file");
    let command = vec![program.as_os_str().to_owned(), file.as_os_str().to_owned()];
    let trace = folder.join("trace");
    let mut writer = Writer::create(&trace, About::default()).unwrap();
    let outcome =
        record(Options { command, files: vec![file], ..Options::default() }, &mut writer).unwrap();
    writer.finish(outcome.ended).unwrap();
    dynamic::of(&Reader::open(&trace).unwrap()).unwrap()
}

#[test]
fn handlers_have_no_caller_in_the_recorder() {
    for words in [&["-g", "-O0"][..], &["-g", "-O2"], &["-g", "-O2", "-fno-omit-frame-pointer"]] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = build(folder.path(), "handlers.c", "gcc", words, &[]) else { return };
        let run = census(&program, folder.path());
        assert_eq!(run.total.flushes(), 45);
        let own = program.display().to_string();
        let places = run.callers.iter().chain(&run.sites).filter(|row| row.executed.flushes() > 0);
        let modules: Vec<&str> =
            places.map(|row| &*row.location.as_ref().unwrap().module).collect();
        assert!(
            !modules.is_empty() && modules.iter().all(|module| *module == own),
            "{words:?}: {modules:?}"
        );
        let lines: Vec<&str> = run.needless_lines.iter().map(|line| &*line.place).collect();
        assert!(lines.iter().any(|place| place.starts_with("on (")), "{words:?}: {lines:?}");

        let recording = Reader::open(&folder.path().join("trace")).unwrap();
        let mut in_handlers = 0;
        for event in recording.events() {
            let event = event.unwrap();
            let frames =
                recording.callers(event.callers).map_or(&[][..], |callers| &callers.frames);
            let frames: Vec<_> = frames
                .iter()
                .map(|frame| recording.location(&frame.module, frame.call()))
                .collect();
            assert!(
                !frames.iter().any(|frame| frame.module.contains("memfd:")),
                "{words:?}: {frames:?}"
            );
            let is_handler = |place: &Location| place.function.as_deref() == Some("on");
            if matches!(event.action, Action::Flush { .. })
                && frames.first().is_some_and(is_handler)
            {
                assert_eq!(frames.len(), 1, "{words:?}: {frames:?}");
                in_handlers += 1;
            }
        }
        assert_eq!(in_handlers, 44, "{words:?}");
    }
}

// Of each kind in one place: see the program.
#[test]
fn what_is_needless_is_charged_to_the_program_s_own_lines() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["-g", "-O0", "-fno-builtin", "-fno-inline"];
    let Some(program) = build(folder.path(), "charged.c", "gcc", &words, &[]) else { return };
    let run = census(&program, folder.path());
    let own = program.display().to_string();
    let flushing = run.callers.iter().filter(|row| row.executed.flushes() > 0);
    let modules: Vec<&str> = flushing.map(|row| &*row.location.as_ref().unwrap().module).collect();
    assert!(!modules.is_empty() && modules.iter().all(|module| *module == own), "{modules:?}");

    let lines: Vec<_> = run
        .needless_lines
        .iter()
        .map(|line| (&*line.place, line.own, line.confidence, line.flushes, line.needless))
        .collect();
    let clean = lines.iter().find(|(place, ..)| place.starts_with("flush_clean (")).unwrap();
    assert_eq!((clean.1, clean.2, clean.3, clean.4), (true, Confidence::High, 7, 7), "{lines:?}");
    let persist = lines.iter().find(|(place, ..)| place.starts_with("persist (")).unwrap();
    assert_eq!((persist.2, persist.3, persist.4), (Confidence::Medium, 27, 7), "{lines:?}");
    assert!(!lines.iter().any(|(place, ..)| place.starts_with("put (")), "{lines:?}");
    // Neither what starts programs nor what makes pools.
    let others = ["pmemobj_create", "_start", "__libc_start_"];
    let is_other = |place: &str| others.iter().any(|other| place.starts_with(other));
    assert!(!lines.iter().any(|(place, ..)| is_other(place)), "{lines:?}");
    assert_eq!(run.pool_making.unwrap().clean_flushes, 50);

    // The copy's stores overlap, and are one finding.
    let of = |rule: &str| {
        run.findings.iter().filter(|one| one.rule == rule && !one.makes_pool).collect::<Vec<_>>()
    };
    let lost: Vec<_> = of("never durable")
        .into_iter()
        .map(|one| (one.count, one.size, one.confidence, one.own))
        .collect();
    assert_eq!(lost, [(1, 100, Confidence::High, true)], "{:#?}", run.findings);
    let rare: Vec<u64> = of("rarely flushed").into_iter().map(|one| one.count).collect();
    assert_eq!(rare, [99], "{:#?}", run.findings);
    assert!(run.findings.last().unwrap().makes_pool && !run.findings[0].makes_pool);
    let order: Vec<_> =
        run.findings.iter().map(|one| (one.makes_pool, !one.own, one.confidence)).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_fence_that_completes_stores_elsewhere_is_not_to_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "elsewhere.c", "gcc", &["-O1"], &[]) else { return };
    let run = census(&program, folder.path());
    let texts: Vec<&str> = run.findings.iter().map(|finding| &*finding.text).collect();
    let [text] = texts[..] else { panic!("{texts:?}") };
    assert!(text.contains("leave it out only if it completes nothing else"), "{text}");
    assert_eq!(run.findings[0].confidence, Confidence::Medium);
}

#[test]
fn the_medium_of_each_file_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "elsewhere.c", "gcc", &["-O1"], &[]) else { return };
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let medium = |folder: &Path| census(&program, folder).files[0].medium;
    assert_eq!(medium(in_memory.path()), Some(Medium::Memory));
    // Wherever temporary files lie, it is not DAX.
    assert_ne!(medium(folder.path()), Some(Medium::Dax));
}
