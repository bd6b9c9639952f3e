//! What the code of programs has.

use ringfence_persist::Flush;
use ringfence_report::Style;
use ringfence_trace::census::{Census, Change, File, Function, Unread};
use ringfence_trace::code::choices::{Choice, Holder, Variant};
use ringfence_trace::code::{Counts, Operation};

use crate::golden::check;

const CLWB: Operation = Operation::Flush(Flush::Clwb);

fn counts(all: &[(Operation, u64)]) -> Counts {
    let mut counts = Counts::default();
    for (operation, count) in all {
        (0..*count).for_each(|_| counts.add(*operation));
    }
    counts
}

fn file(path: &str, member: Option<&str>, functions: &[(&str, Counts)]) -> File {
    let mut total = Counts::default();
    functions.iter().for_each(|(_, counts)| total += *counts);
    let function = |(name, counts): &(&str, Counts)| Function {
        name: (*name).into(),
        counts: *counts,
        unfenced: 0,
        sites: vec![],
    };
    File {
        path: path.into(),
        member: member.map(Into::into),
        code_bytes: 298_496,
        counts: total,
        functions: functions.iter().map(function).collect(),
        chosen: vec![],
        choices_not_detected: None,
    }
}

fn store() -> File {
    file(
        "/usr/lib/libstore.so.1",
        None,
        &[
            ("store_persist", counts(&[(CLWB, 2), (Operation::Sfence, 1)])),
            (
                "store_copy(std::vector<unsigned char, std::allocator<unsigned char> > const&, \
                 unsigned long)",
                counts(&[(Operation::NonTemporal, 1208), (Operation::Sfence, 3)]),
            ),
            ("store_lock", counts(&[(Operation::Locked, 14)])),
        ],
    )
}

#[test]
fn one_file_and_its_functions() {
    let census = Census { files: vec![store()], unread: vec![] };
    check("census", |style| ringfence_report::census(&census, false, style));
    check("census-all", |style| ringfence_report::census(&census, true, style));
}

#[test]
fn what_is_chosen_at_run_time() {
    let clwb = ("flush_clwb", counts(&[(CLWB, 1), (Operation::Sfence, 1)]), "clwb");
    let clflush = ("flush_clflush", counts(&[(Operation::Flush(Flush::Clflush), 1)]), "clflush");
    let avx512f = (
        "copy_avx512f_clwb",
        counts(&[(CLWB, 4), (Operation::NonTemporal, 134)]),
        "avx avx512f clwb",
    );
    let choice = |holder, name: &str, of: &[&(&str, Counts, &str)], here: Option<&str>| Choice {
        holder,
        name: name.into(),
        variants: of
            .iter()
            .map(|(function, counts, needs)| {
                let needs: Vec<String> = needs.split_whitespace().map(Into::into).collect();
                let lacks = here
                    .map(|here| needs.iter().filter(|one| !here.contains(*one)).cloned().collect());
                Variant {
                    function: (*function).into(),
                    address: 0x1000,
                    counts: *counts,
                    needs,
                    lacks,
                }
            })
            .collect(),
    };
    let empty = ("flush_empty", Counts::default(), "");
    let flushes = [&clflush, &clwb, &empty];
    let file = |here| File {
        chosen: vec![
            choice(Holder::Ifunc, "persist", &[&clflush, &clwb], here),
            choice(Holder::Field, "+0x80, set by unnamed at 0xcd80", &[&avx512f, &clwb], here),
            choice(Holder::Variable, "Func_flush", &flushes, here),
        ],
        ..store()
    };
    let census = |here| Census { files: vec![file(here)], unread: vec![] };
    let show = |census: &Census, style: &_| ringfence_report::census(census, false, style);
    check("census-chosen", |style| show(&census(Some("clflush clwb avx")), style));
    check("census-chosen-old", |style| show(&census(Some("clflush")), style));
    check("census-chosen-unknown", |style| show(&census(None), style));
    let many: Vec<_> = [&clflush, &clwb].into_iter().cycle().take(22).collect();
    let many = vec![choice(Holder::Table, "methods", &many, None)];
    let many = Census { files: vec![File { chosen: many, ..store() }], unread: vec![] };
    let lines =
        |all| ringfence_report::census(&many, all, &Style::plain(80)).matches("not known").count();
    assert_eq!((lines(false), lines(true)), (20, 22));
    assert!(show(&many, &Style::plain(80)).contains("2 more: --all"));
    // Beside other files it is shown when everything is.
    let two = Census { files: vec![file(None), file(None)], unread: vec![] };
    assert!(
        !ringfence_report::census(&two, false, &Style::plain(80)).contains("Chosen at run time")
    );
    assert!(ringfence_report::census(&two, true, &Style::plain(80)).contains("Chosen at run time"));
}

#[test]
fn several_files_and_what_cannot_be_read() {
    let none = file("/usr/lib/libnone.so", None, &[("count", counts(&[(Operation::Locked, 3)]))]);
    let member = File {
        choices_not_detected: Some("object files".into()),
        ..file("/usr/lib/libstore.a", Some("flush.o"), &[("flush", counts(&[(CLWB, 1)]))])
    };
    let unread = Unread {
        path: "/usr/lib/libarm.so".into(),
        why: "its code is for Aarch64, not for x86".into(),
    };
    let census = Census { files: vec![none, member, store()], unread: vec![unread] };
    check("census-several", |style| ringfence_report::census(&census, false, style));
}

#[test]
fn stores_past_the_caches_that_no_fence_follows() {
    let mut store = store();
    let one = Function { unfenced: 3, ..store.functions.remove(1) };
    let many = (0..11).map(|n| Function {
        name: format!("copy_{n}"),
        unfenced: n % 2 + 1,
        counts: one.counts,
        sites: vec![],
    });
    let census =
        |functions| Census { files: vec![File { functions, ..store.clone() }], unread: vec![] };
    let many = census(many.collect());
    check("census-unfenced", |style| {
        ringfence_report::census(&census(vec![one.clone()]), false, style)
    });
    check("census-unfenced-many", |style| ringfence_report::census(&many, false, style));
    assert!(ringfence_report::census(&many, true, &Style::plain(80)).contains("copy_10"));
}

#[test]
fn code_without_any() {
    let census = Census { files: vec![file("./hello", None, &[])], unread: vec![] };
    check("census-none", |style| ringfence_report::census(&census, false, style));
    check("census-nothing", |style| ringfence_report::census(&Census::default(), false, style));
}

#[test]
fn two_builds() {
    let changes = [
        Change {
            function: "store_persist".into(),
            before: counts(&[(CLWB, 2), (Operation::Sfence, 2)]),
            after: counts(&[(CLWB, 2), (Operation::Sfence, 1)]),
        },
        Change {
            function: "store_copy".into(),
            before: Counts::default(),
            after: counts(&[(Operation::NonTemporal, 1208)]),
        },
    ];
    check("census-diff", |style| ringfence_report::census_diff(&changes, style));
    check("census-same", |style| ringfence_report::census_diff(&[], style));
}
