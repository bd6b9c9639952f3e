//! What a recorded program executed.

use ringfence_persist::Flush;
use ringfence_report::{Style, Told};
use ringfence_trace::Profile;
use ringfence_trace::census::dynamic::checked::{Change, Changed, Checked, Figure};
use ringfence_trace::census::dynamic::saving::{Cost, Predicted, Saving};
use ringfence_trace::census::dynamic::{
    self, AtPlace, Confidence, Executed, Finding, NeedlessLine, Race, Run, SizesOf, Waits,
};
use ringfence_trace::events::{Ended, Location, Medium, TracedFile};

use crate::golden::check;
use crate::html;

fn executed(
    run: &Run,
    saving: Option<&Result<Saving, String>>,
    all: bool,
    style: &Style,
) -> String {
    ringfence_report::executed(&Told { run, saving, checked: None }, all, style)
}

fn place(function: &str, offset: u64, source: Option<(&str, u32)>) -> Location {
    let mut place = Location::bare("/usr/lib/x86_64-linux-gnu/libpmem.so.1", 0x1000 + offset);
    (place.function, place.offset) = (Some(function.into()), offset);
    (place.file, place.line) = (source.map(|(file, _)| file.into()), source.map(|(_, line)| line));
    place
}

fn at(location: Location, executed: Executed) -> AtPlace {
    AtPlace { location: Some(location), executed }
}

fn needless(
    place: &str,
    own: bool,
    confidence: Confidence,
    flushes: u64,
    needless: u64,
) -> NeedlessLine {
    NeedlessLine { place: place.into(), own, confidence, flushes, needless }
}

// Flushes, fences, stores, streams, what is locked, and the kernel's writes.
fn by_kind() -> [Executed; 6] {
    let flushes = Executed {
        clwb: 41_000,
        clean_flushes: 1200,
        flushed_again: 310,
        flushed_again_unchanged: 300,
        unfenced_lines: 1,
        ..Executed::default()
    };
    let fences = Executed {
        sfence: 12_003,
        idle_fences: 4,
        blocks: 9000,
        partial_blocks: 8700,
        ..Executed::default()
    };
    let stores = Executed {
        stores: 1_200_000,
        stored_bytes: 9_600_000,
        unflushed_lines: 3,
        ..Executed::default()
    };
    let streams = Executed { nt_stores: 500, nt_bytes: 16_000, ..Executed::default() };
    let locked = Executed { locked: 77, locked_bytes: 8, ..Executed::default() };
    let kernel = Executed { writes: 1, written_bytes: 4096, msync: 2, ..Executed::default() };
    [flushes, fences, stores, streams, locked, kernel]
}

fn sizes() -> Vec<SizesOf> {
    [(1, 12, 0), (2, 5, 0), (8, 1_199_000, 0), (64, 983, 500), (4096, 0, 0), (65536, 1, 0)]
        .map(|(up_to, stores, nt_stores)| SizesOf { up_to, stores, nt_stores })
        .to_vec()
}

fn never_durable() -> Finding {
    Finding {
        rule: "never durable".into(),
        location: None,
        caller: None,
        count: 3,
        file: Some(1),
        offset: 960,
        size: 8,
        text: "insert+0x52 (btree.c:120): never durable: the 8 bytes stored at 960 are never \
               flushed, so that a crash may lose them: flush them, then fence (3 times)"
            .into(),
        confidence: Confidence::High,
        own: true,
        makes_pool: false,
    }
}

// What each place executed, of two that are told.
fn sites(inlined: &Location, insert: &Location) -> Vec<AtPlace> {
    let [flushes, fences, stores, streams, locked, kernel] = by_kind();
    let copy = "memmove_mov_avx512f(std::vector<unsigned char, std::allocator<unsigned char> >&)";
    vec![
        at(inlined.clone(), flushes),
        at(place("memory_barrier", 0x4, None), fences),
        at(place(copy, 0x120, None), streams),
        at(insert.clone(), stores),
        at(Location::bare("/usr/lib/x86_64-linux-gnu/libc.so.6", 0x8f00), locked),
        AtPlace { location: None, executed: kernel },
    ]
}

fn run() -> Run {
    let mut total = Executed::default();
    by_kind().into_iter().for_each(|one| total += one);
    let inlined = Location {
        inlined: Some("clwb".into()),
        ..place("flush_clwb_nolog", 0x1f, Some(("src/libpmem2/x86_64/flush.h", 61)))
    };
    let insert = Location {
        module: "/usr/bin/btree".into(),
        ..place("insert", 0x52, Some(("/home/me/btree.c", 120)))
    };
    Run {
        command: vec!["./btree".into(), "/mnt/pmem/pool".into(), "100".into()],
        ended: Some(Ended::Exited(0)),
        uncertain: Vec::new(),
        notes: Vec::new(),
        files: vec![TracedFile {
            id: 1,
            path: "/mnt/pmem/pool".into(),
            size: 8 << 20,
            medium: Some(Medium::Dax),
        }],
        threads: 2,
        events: 1_253_582,
        recorded_ns: 3_210_000_000,
        events_per_second: Some(390_524.0),
        locked_in_all: Some(1234),
        total,
        most_dirty_lines: 17,
        waits: vec![Waits { lines: 3, fences: 12_000 }],
        nt_lines: 250,
        sizes: sizes(),
        sites: sites(&inlined, &insert),
        callers: vec![at(insert.clone(), total)],
        findings: vec![never_durable()],
        needless_lines: vec![
            needless("insert (btree.c:120)", true, Confidence::High, 12, 12),
            needless("pmem_persist (libpmem.so.1)", false, Confidence::Medium, 41_000, 12_300),
        ],
        pool_making: None,
        rules: Profile::IntelAdr,
        races: vec![Race {
            first: Some(insert),
            second: Some(inlined),
            count: 12,
            file: 1,
            offset: 0x3c0,
        }],
    }
}

#[test]
fn a_busy_program() {
    check("executed", |style| executed(&run(), None, false, style));
}

#[test]
fn more_places_than_are_shown() {
    let mut run = run();
    run.sites = (0..14)
        .map(|n| at(place("store", n, None), Executed { stores: 1, ..Executed::default() }))
        .collect();
    run.callers = run.sites.clone();
    (run.races, run.command) = (vec![], vec![]);
    run.findings = vec![run.findings[0].clone(); 12];
    run.ended = Some(Ended::Signal(11));
    check("executed-many", |style| executed(&run, None, false, style));
    run.ended = None;
    check("executed-all", |style| executed(&run, None, true, style));
}

#[test]
fn the_making_of_a_pool_stands_apart() {
    let mut run = run();
    let making = Finding {
        own: false,
        makes_pool: true,
        confidence: Confidence::Low,
        ..run.findings[0].clone()
    };
    run.findings.extend(vec![making; 60]);
    run.pool_making = Some(Executed { clwb: 49_000, clean_flushes: 43_000, ..Executed::default() });
    check("executed-pool", |style| executed(&run, None, false, style));
    let all = executed(&run, None, true, &Style::plain(80));
    assert!(
        all.contains("60 findings are about pool creation by PMDK") && !all.contains("--all"),
        "{all}"
    );
    let told = Told { run: &run, saving: None, checked: None };
    html::check("census-pool", &ringfence_report::html::executed(&told));
}

#[test]
fn what_is_sound_or_did_nothing() {
    let total = Executed {
        stores: 1,
        stored_bytes: 8,
        clwb: 1,
        sfence: 1,
        blocks: 1,
        ..Executed::default()
    };
    let mut run = Run {
        total,
        events: 3,
        threads: 1,
        most_dirty_lines: 1,
        sizes: vec![SizesOf { up_to: 8, stores: 1, nt_stores: 0 }],
        sites: vec![at(place("put", 0, None), total)],
        callers: vec![at(place("put", 0, None), total)],
        races: vec![],
        findings: vec![],
        needless_lines: vec![],
        recorded_ns: 0,
        events_per_second: None,
        ended: Some(Ended::Stopped("vscatterdps at 0x1234 cannot be recorded".into())),
        ..run()
    };
    check("executed-sound", |style| executed(&run, None, false, style));
    run.files[0].medium = Some(Medium::PageCache);
    check("executed-page-cache", |style| executed(&run, None, false, style));
    (run.events, run.total, run.sizes) = (0, Executed::default(), vec![]);
    (run.sites, run.callers) = (vec![], vec![]);
    check("executed-nothing", |style| executed(&run, None, false, style));
}

#[test]
fn two_runs() {
    let before = run();
    let fewer = |executed: Executed| Executed {
        clwb: executed.clwb / 2,
        clean_flushes: 0,
        sfence: executed.sfence.saturating_sub(3),
        idle_fences: executed.idle_fences.min(1),
        ..executed
    };
    let mut after = run();
    after.total = fewer(after.total);
    after
        .sites
        .iter_mut()
        .chain(&mut after.callers)
        .for_each(|row| row.executed = fewer(row.executed));
    (after.events, after.threads) = (1_233_079, 1);
    let diff = dynamic::diff(&before, &after);
    check("executed-diff", |style| ringfence_report::executed_diff(&diff, style));
    let same = dynamic::diff(&before, &before);
    check("executed-same", |style| ringfence_report::executed_diff(&same, style));
}

#[test]
fn what_it_would_cost() {
    let cost = |ns: f64| Cost { ns, low: 0.9 * ns, high: 1.1 * ns };
    let predicted = |method: Option<&str>, cost| Predicted { method: method.map(Into::into), cost };
    let mut saving = Saving {
        measured_on: "dram, 1GiB".into(),
        lines: 39_750,
        fences: 12_000,
        predicted: vec![
            predicted(None, cost(4_123_000.0)),
            predicted(Some("clflushopt"), Cost { low: -1000.0, ..cost(3_900_000.0) }),
            predicted(Some("clwb"), cost(4_100_000.0)),
            predicted(Some("nt"), cost(9_000_000.0)),
        ],
        needless_flushes: 1500,
        needless_fences: 1,
        needless_ns: Some(18_123.0),
    };
    let with = |saving: Result<Saving, String>| {
        move |style: &Style| executed(&run(), Some(&saving), false, style)
    };
    check("executed-costs", with(Ok(saving.clone())));
    saving.needless_ns = None;
    check("executed-no-price", with(Ok(saving.clone())));
    (saving.needless_flushes, saving.needless_fences, saving.predicted) = (0, 0, vec![]);
    check("executed-no-lines", with(Ok(saving)));
    let why = "what clwb costs was not measured: 'ringfence survey' measures every method that the \
               machine has";
    check("executed-no-costs", with(Err(why.into())));
}

fn checked() -> Checked {
    let known = |ns: f64, half: f64| Figure::Known(Cost { ns, low: ns - half, high: ns + half });
    let not_run = |why: &str| Figure::NotRun { not_run: why.into() };
    let changed = |change, environment: &str, predicted, measured| Changed {
        change,
        environment: environment.into(),
        predicted,
        measured,
    };
    Checked {
        instruction: Some("clwb"),
        durability: known(1_060_000.0, 20_000.0),
        run: known(19_300_000.0, 150_000.0),
        mappings: 8,
        runs: 172,
        changes: vec![
            changed(
                Change::By(Flush::Clflushopt),
                "PMEM_NO_CLWB=1",
                known(-143_000.0, 21_000.0),
                known(445_000.0, 160_000.0),
            ),
            changed(
                Change::By(Flush::Clflush),
                "PMEM_NO_CLWB=1 PMEM_NO_CLFLUSHOPT=1",
                known(97_600.0, 42_000.0),
                known(49_500.0, 141_000.0),
            ),
            changed(
                Change::NoFlush,
                "PMEM_NO_FLUSH=1",
                known(-242_000.0, 12_000.0),
                not_run("the program ignores PMEM_NO_FLUSH=1: 56 306 flushes continue"),
            ),
            changed(
                Change::Needed,
                "",
                not_run("the trials differ"),
                not_run("no variable removes unnecessary flushes"),
            ),
        ],
    }
}

#[test]
fn what_was_predicted_stands_beside_what_was_measured() {
    let (run, checked) = (run(), checked());
    assert_eq!(
        checked.changes.iter().map(Changed::agree).collect::<Vec<_>>(),
        [Some(false), Some(true), None, None]
    );
    let told = Told { run: &run, saving: None, checked: Some(&checked) };
    check("executed-checked", |style| ringfence_report::executed(&told, false, style));
    let page = html::check("census", &ringfence_report::html::executed(&told));
    for part in ["Needless: ", "+2.3 %", "not run, because no variable removes"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_check_explains_only_the_columns_that_it_has() {
    let (run, mut checked) = (run(), checked());
    let why = Figure::NotRun { not_run: "there was too little time".into() };
    let text = |checked: &Checked| {
        let told = Told { run: &run, saving: None, checked: Some(checked) };
        let text = ringfence_report::executed(&told, false, &Style::plain(100));
        let (_, text) = text.split_once("What other instructions would change").unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    checked.changes.iter_mut().for_each(|one| one.measured = why.clone());
    let predicted = text(&checked);
    assert!(predicted.contains("change predicted -"), "{predicted}");
    for absent in ["Measured: ", "'agree'", "PMEM_NO_CLWB=1;", "Both "] {
        assert!(!predicted.contains(absent), "{absent}: {predicted}");
    }
    checked.changes.iter_mut().for_each(|one| one.predicted = why.clone());
    let neither = text(&checked);
    assert!(neither.contains("not measured, because there was too little time"), "{neither}");
    for absent in ["change predicted", "Predicted: ", "Measured: ", "differences"] {
        assert!(!neither.contains(absent), "{absent}: {neither}");
    }
    (checked.durability, checked.run) = (why.clone(), why);
    assert!(!text(&checked).contains("Played back"), "{}", text(&checked));
}

#[test]
fn locked_instructions_are_in_a_column_of_their_own() {
    let total = Executed { stores: 2, locked: 1, ..Executed::default() };
    let run = Run {
        total,
        sites: vec![at(place("put", 0, None), total)],
        callers: vec![at(place("put", 0, None), total)],
        ..run()
    };
    let text = executed(&run, None, true, &Style::plain(120));
    let head = text.lines().find(|line| line.starts_with("instruction ")).unwrap();
    let row = text.lines().find(|line| line.starts_with("put")).unwrap();
    assert!(head.ends_with("stores  locked"), "{text}");
    assert_eq!(row.split_whitespace().rev().take(2).collect::<Vec<_>>(), ["1", "2"], "{text}");
}

#[test]
fn a_trace_of_nothing_is_a_page_too() {
    let run = Run {
        command: vec![html::HOSTILE.into()],
        events: 0,
        total: Executed::default(),
        sizes: vec![],
        sites: vec![],
        callers: vec![],
        races: vec![],
        findings: vec![],
        needless_lines: vec![],
        ..run()
    };
    let page = ringfence_report::html::executed(&Told { run: &run, saving: None, checked: None });
    html::check("census-nothing", &page);
}
