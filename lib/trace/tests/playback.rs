//! Traces played back: which operations reach memory in each way, and that memory ends as the files
//! did.

use std::cell::RefCell;
use std::ops::Range;

use proptest::prelude::*;
use ringfence_persist::{Flush, Mapped, Memory, Methods, Region, Request, isa};
use ringfence_trace::census::dynamic;
use ringfence_trace::events::{Action, Ended, Event, Place, Site, TracedFile};
use ringfence_trace::playback::{Playback, PlaybackError, Way};
use ringfence_trace::recording::{About, Reader, Writer};

// Memory that keeps what was done to it.
#[derive(Default)]
struct Logged {
    bytes: RefCell<Vec<u8>>,
    by: Option<Flush>,
    log: RefCell<Vec<Done>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Store(usize),
    Stream(usize),
    Flush(Option<Flush>, usize),
    Sfence,
    Mfence,
}

impl Logged {
    fn new(size: usize) -> Self {
        Self { bytes: vec![0; size].into(), ..Self::default() }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn did(&self, done: Done) {
        self.log.borrow_mut().push(done);
    }
}

impl Memory for Logged {
    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }
    fn load(&self, _: usize, _: &mut [u8]) {
        unreachable!("nothing is loaded")
    }
    fn load_u64(&self, _: usize) -> u64 {
        unreachable!("nothing is loaded")
    }
    fn store(&self, at: usize, bytes: &[u8]) {
        self.put(at, bytes);
        self.did(Done::Store(at));
    }
    fn store_u64(&self, at: usize, value: u64) {
        self.store(at, &value.to_ne_bytes());
    }
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8));
        self.put(at, bytes);
        self.did(Done::Stream(at));
    }
    fn flush(&self, range: Range<usize>) {
        assert_eq!((range.start % 64, range.len()), (0, 64));
        self.did(Done::Flush(self.by, range.start));
    }
    fn sfence(&self) {
        self.did(Done::Sfence);
    }
    fn mfence(&self) {
        self.did(Done::Mfence);
    }
    fn compare_exchange_u64(&self, _: usize, _: u64, _: u64) -> Result<u64, u64> {
        unreachable!("nothing is compared")
    }
    fn verify(&self, _: [Range<usize>; 2], _: u64, _: u64) -> bool {
        unreachable!("nothing is verified")
    }
}

fn recorded(actions: &[Action]) -> (tempfile::TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), About::default()).unwrap();
    for id in 1..=2 {
        writer
            .file(TracedFile { id, path: format!("/mnt/{id}"), size: 1 << 20, medium: None })
            .unwrap();
    }
    writer.site(&Site { id: 1, module: "/no/such".into(), address: 1, bytes: vec![] });
    for (sequence, action) in (1..).zip(actions) {
        let action = action.clone();
        writer.push(&Event { sequence, thread: 1, site: 1, callers: 0, action }).unwrap();
    }
    writer.finish(Ended::Exited(0)).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    (folder, reader)
}

fn at(file: u32, offset: u64) -> Place {
    Place { file, offset }
}

fn store(offset: u64, bytes: &[u8]) -> Action {
    Action::Store { at: at(1, offset), bytes: bytes.to_vec() }
}

fn flush(flush: Flush, offset: u64) -> Action {
    Action::Flush { flush, at: at(1, offset) }
}

fn played(actions: &[Action], way: Way) -> Vec<Done> {
    let (_folder, reader) = recorded(actions);
    let playback = Playback::of(&reader).unwrap();
    let mut memory = Logged::new(playback.memory());
    playback.play(&mut memory, |memory, flush| memory.by = Some(flush), way);
    memory.log.into_inner()
}

#[test]
fn each_way_executes_what_it_says() {
    use Done::{Mfence, Sfence, Store};
    let actions = [
        store(0, &[1; 8]),
        flush(Flush::Clwb, 7),
        flush(Flush::Clwb, 8),
        flush(Flush::Clflush, 64),
        Action::Sfence,
        Action::Sfence,
        store(67, &[2; 3]),
        flush(Flush::Clwb, 67),
        Action::Mfence,
    ];
    let by = |flush, line| Done::Flush(Some(flush), line);
    let (clwb, clflush) = (|line| by(Flush::Clwb, line), |line| by(Flush::Clflush, line));
    assert_eq!(
        played(&actions, Way::AsRecorded),
        [Store(0), clwb(0), clwb(0), clflush(64), Sfence, Sfence, Store(67), clwb(64), Mfence]
    );
    assert_eq!(
        played(&actions, Way::By(Flush::Clflush)),
        [
            Store(0),
            clflush(0),
            clflush(0),
            clflush(64),
            Sfence,
            Sfence,
            Store(67),
            clflush(64),
            Mfence
        ]
    );
    // The second flush of the first line, that of a clean line, and the fence behind a fence.
    assert_eq!(
        played(&actions, Way::Needed),
        [Store(0), clwb(0), Sfence, Store(67), clwb(64), Mfence]
    );
    assert_eq!(played(&actions, Way::NoFlush), [Store(0), Sfence, Sfence, Store(67), Mfence]);
    assert_eq!(played(&actions, Way::Bare), [Store(0), Store(67)]);
}

#[test]
fn stores_over_pages_and_parts_of_words() {
    let nt = |offset, size| Action::NonTemporal { at: at(2, offset), bytes: vec![3; size] };
    let actions = [store(4090, &[1; 12]), nt(8192, 16), nt(8196, 4)];
    let log = played(&actions, Way::AsRecorded);
    // In packed pages: two of the first file, one of the second. Parts of words are stored as
    // others are.
    assert_eq!(log, [Done::Store(4090), Done::Store(4096), Done::Stream(8192), Done::Store(8196)]);
}

#[test]
fn what_is_too_large_is_refused() {
    let far = |page: u64| store(page << 12, &[1]);
    let actions: Vec<Action> = (0..=1 << 18).map(far).collect();
    let (_folder, reader) = recorded(&actions);
    assert!(matches!(
        Playback::of(&reader),
        Err(PlaybackError::TooLarge { what: "bytes in pages", .. })
    ));
}

#[test]
fn it_runs_on_this_machine_s_memory() {
    let actions: Vec<Action> = (0..100u64)
        .flat_map(|n| {
            [store(n * 72, &n.to_ne_bytes()), flush(Flush::Clflush, n * 72), Action::Sfence]
        })
        .collect();
    let (_folder, reader) = recorded(&actions);
    let playback = Playback::of(&reader).unwrap();
    let region = Region::map(&Request::dram(playback.memory())).unwrap();
    let mut memory = Mapped::with_methods(region, Methods::of_processor());
    let others = Flush::ALL.into_iter().filter(|flush| isa::supports(*flush)).map(Way::By);
    for way in others.chain([Way::AsRecorded, Way::Needed, Way::NoFlush, Way::Bare]) {
        memory.store(0, &vec![0; playback.memory()]);
        playback.play(&mut memory, Mapped::flush_by, way);
        let words: Vec<u64> = (0..100).map(|n| memory.load_u64(n * 72)).collect();
        assert_eq!(words, (0..100).collect::<Vec<u64>>(), "{way:?}");
    }
}

fn action() -> impl Strategy<Value = Action> {
    let place = (1..=2u32, 0..400u64).prop_map(|(file, offset)| at(file, 4000 + offset));
    let bytes = prop::collection::vec(any::<u8>(), 1..40);
    let which = prop::sample::select(Flush::ALL.to_vec());
    prop_oneof![
        4 => (place.clone(), bytes.clone()).prop_map(|(at, bytes)| Action::Store { at, bytes }),
        1 => (place.clone(), bytes.clone())
            .prop_map(|(at, bytes)| Action::NonTemporal { at, bytes }),
        1 => (place.clone(), bytes)
            .prop_map(|(at, bytes)| Action::Locked { stores: Some((at, bytes)) }),
        4 => (which, place).prop_map(|(flush, at)| Action::Flush { flush, at }),
        2 => Just(Action::Sfence),
        1 => Just(Action::Mfence),
        1 => Just(Action::Locked { stores: None }),
        1 => Just(Action::Output { bytes: vec![7; 9] }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_and_counts_are_the_traces(actions in prop::collection::vec(action(), 0..60)) {
        let (_folder, reader) = recorded(&actions);
        let playback = Playback::of(&reader).unwrap();
        let run = dynamic::of(&reader).unwrap();
        let play = |way| {
            let mut memory = Logged::new(playback.memory());
            playback.play(&mut memory, |memory, flush| memory.by = Some(flush), way);
            memory
        };
        let count = |memory: &Logged| {
            let log = memory.log.borrow();
            let flushes = log.iter().filter(|done| matches!(done, Done::Flush(..))).count() as u64;
            let is_fence = |done: &&Done| matches!(done, Done::Sfence | Done::Mfence);
            let fences = log.iter().filter(is_fence).count() as u64;
            (flushes, fences)
        };
        let (flushes, fences) = (run.total.flushes(), run.total.sfence + run.total.mfence);
        let whole = play(Way::AsRecorded);
        prop_assert_eq!(count(&whole), (flushes, fences));
        let needed = (flushes - run.total.needless_flushes(), fences - run.total.idle_fences);
        prop_assert_eq!(count(&play(Way::Needed)), needed);
        prop_assert_eq!(count(&play(Way::NoFlush)), (0, fences));
        // Pages stand in the order in which they were first touched.
        let mut pages: Vec<(u32, u64)> = Vec::new();
        let mut expected: Vec<u8> = Vec::new();
        let mut page = |place: Place, expected: &mut Vec<u8>| {
            let page = (place.file, place.offset / 4096);
            let number = pages.iter().position(|known| *known == page).unwrap_or_else(|| {
                pages.push(page);
                expected.extend([0; 4096]);
                pages.len() - 1
            });
            number * 4096 + (place.offset % 4096) as usize
        };
        for action in &actions {
            if let Action::Flush { at, .. } = action {
                page(*at, &mut expected);
            }
            for (n, byte) in action.stores().into_iter().flat_map(|(at, bytes)| {
                bytes
                    .iter()
                    .enumerate()
                    .map(move |(n, byte)| (at.offset + n as u64, (at.file, *byte)))
            }) {
                let place = page(at(byte.0, n), &mut expected);
                expected[place] = byte.1;
            }
        }
        prop_assert_eq!(&*whole.bytes.borrow(), &expected);
    }
}
