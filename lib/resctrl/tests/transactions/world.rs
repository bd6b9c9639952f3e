//! A machine on which others use resctrl already, and changes to try on it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use ringfence_resctrl::kernel::model::{Hardware, Model};
use ringfence_resctrl::{
    GroupId, Mask, Mode, Options, Resctrl, Resource, Schemata, State, Step, Thread, Transaction,
};
use ringfence_system::cpulist::CpuSet;

/// The machine, its processes, and where the journal lies.
pub struct World {
    pub model: Model,
    pub fs: Resctrl,
    /// Processes, each with two threads.
    pub processes: Vec<u32>,
    pub folder: tempfile::TempDir,
}

/// Something that another process does to resctrl; whether the kernel takes it depends on what is
/// there.
#[derive(Debug, Clone)]
pub enum Deed {
    Create(usize),
    Monitor(usize, usize),
    Mask(usize, u32, u32, u32),
    Bandwidth(usize, u32, u64),
    Mode(usize, bool),
    Cpus(usize, u8),
    Move(usize, usize),
    MoveToMonitor(usize, usize, usize),
}

pub const NAMES: [&str; 3] = ["web", "db", "batch"];
pub const OWN: [&str; 2] = ["own-a", "own-b"];

pub fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => (0usize..4).prop_map(Deed::Create),
        1 => (0usize..4, 0usize..2).prop_map(|(g, m)| Deed::Monitor(g, m)),
        4 => (0usize..4, 0u32..2, 0u32..20, 1u32..12)
            .prop_map(|(g, d, f, n)| Deed::Mask(g, d, f, n)),
        1 => (0usize..4, 0u32..2, 10u64..101).prop_map(|(g, d, a)| Deed::Bandwidth(g, d, a)),
        2 => (0usize..4, any::<bool>()).prop_map(|(g, e)| Deed::Mode(g, e)),
        2 => (0usize..4, any::<u8>()).prop_map(|(g, c)| Deed::Cpus(g, c)),
        3 => (0usize..4, 0usize..4).prop_map(|(g, p)| Deed::Move(g, p)),
        1 => (0usize..4, 0usize..2, 0usize..4).prop_map(|(g, m, p)| Deed::MoveToMonitor(g, m, p)),
    ]
}

pub fn hardware() -> impl Strategy<Value = Hardware> {
    prop_oneof![
        Just(Hardware::broadwell()),
        Just(Hardware::cascade_lake()),
        Just(Hardware::broadwell().with_cdp()),
        Just(Hardware::goldmont()),
    ]
}

impl World {
    /// A machine after others have done what they wanted; what the kernel refused did not happen.
    pub fn new(hardware: Hardware, others: &[Deed]) -> Self {
        let model = Model::new(hardware);
        let processes: Vec<u32> = (0..4).map(|_| model.spawn()).collect();
        for pid in &processes {
            model.start_thread(*pid);
        }
        let fs = model.resctrl();
        let world = Self { model, fs, processes, folder: tempfile::tempdir().unwrap() };
        for deed in others {
            for step in world.steps(deed, &NAMES) {
                let _ = world.take(&step);
            }
        }
        world
    }

    // As others do it: without a transaction.
    pub fn take(&self, step: &Step) -> Result<(), ringfence_resctrl::Error> {
        let group = self.fs.group(step.group());
        match step {
            Step::Create { .. } => group.create(),
            Step::Schemata { schemata, .. } => group.set_schemata(schemata),
            Step::Mode { mode, .. } => group.set_mode(*mode),
            Step::Cpus { cpus, .. } => group.set_cpus(cpus),
            Step::Remove { .. } => group.remove(),
            Step::Threads { threads, .. } => {
                threads.iter().try_for_each(|thread| group.add_thread(thread.tid))
            }
        }
    }

    /// A deed as steps; group 0 is the default one, the others are called so.
    pub fn steps(&self, deed: &Deed, names: &[&str]) -> Vec<Step> {
        let id = |number: usize| match number {
            0 => GroupId::default(),
            number => GroupId::control(names[(number - 1) % names.len()]),
        };
        let monitor = |group: usize, number: usize| id(group).with_monitor(["m", "n"][number]);
        let threads = |process: usize| -> Vec<Thread> {
            let kernel = self.fs.kernel();
            let known = |tid| Some(Thread { tid, start: kernel.started(tid)? });
            kernel.threads(self.processes[process]).into_iter().filter_map(known).collect()
        };
        let step = match *deed {
            Deed::Create(group) => Step::Create { group: id(group.max(1)) },
            Deed::Monitor(group, number) => Step::Create { group: monitor(group, number) },
            Deed::Mask(group, domain, first, bits) => {
                let info = self.fs.info().unwrap();
                let mut schemata = Schemata::new();
                for resource in info.of_level(3).into_iter().chain(info.of_level(2)) {
                    let all = info.cache(&resource).unwrap().cbm_mask;
                    schemata.set_mask(resource, domain, Mask::run(first, bits).and(all));
                }
                Step::Schemata { group: id(group), schemata }
            }
            Deed::Bandwidth(group, domain, amount) => {
                let mut schemata = Schemata::new();
                schemata.set_amount(Resource::Mb, domain, amount);
                Step::Schemata { group: id(group), schemata }
            }
            Deed::Mode(group, exclusive) => {
                let mode = if exclusive { Mode::Exclusive } else { Mode::Shareable };
                Step::Mode { group: id(group), mode }
            }
            Deed::Cpus(group, bits) => {
                let cpus = (0..4u32).filter(|cpu| bits >> cpu & 1 == 1);
                Step::Cpus { group: id(group.max(1)), cpus: cpus.collect::<CpuSet>() }
            }
            Deed::Move(group, process) => {
                Step::Threads { group: id(group), threads: threads(process) }
            }
            Deed::MoveToMonitor(group, number, process) => {
                let all = threads(process);
                return vec![
                    Step::Threads { group: id(group), threads: all.clone() },
                    Step::Threads { group: monitor(group, number), threads: all },
                ];
            }
        };
        vec![step]
    }

    pub fn state(&self) -> State {
        State::read(&self.fs).unwrap()
    }

    pub fn options(&self) -> Options {
        Options { folder: Some(self.folder.path().into()), ..Options::default() }
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("resctrl.journal")
    }

    /// As [`World::options`]; the program dies at the given moment, counted from 0.
    pub fn options_dying_at(&self, moment: usize) -> (Options, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        let watch = move |_| {
            if seen.fetch_add(1, Ordering::Relaxed) == moment {
                std::panic::panic_any(Killed);
            }
        };
        (Options { watch: Some(Arc::new(watch)), ..self.options() }, count)
    }

    /// Where every thread is that lives, by the names of its groups.
    pub fn threads(&self) -> BTreeMap<u32, BTreeSet<String>> {
        let kernel = self.fs.kernel();
        let mut places: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for group in self.fs.groups().unwrap() {
            for tid in group.tasks().unwrap_or_default() {
                if kernel.started(tid).is_some() {
                    places.entry(tid).or_default().insert(group.id().to_string());
                }
            }
        }
        places
    }
}

/// What a program that is killed throws.
pub struct Killed;

/// Runs something that may be killed on its way; whether it was.
pub fn until_killed(run: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => false,
        Err(thrown) if thrown.is::<Killed>() => true,
        Err(thrown) => std::panic::resume_unwind(thrown),
    }
}

/// Changes by a transaction that dies at a moment, if it gets that far; the journal is as it was
/// then.
pub fn change(world: &World, deeds: &[Deed], own: &[&str], options: &Options) -> bool {
    let mut begun: Option<Transaction> = None;
    let killed = until_killed(|| {
        let transaction = begun.insert(Transaction::begin(&world.fs, "a test", options).unwrap());
        for deed in deeds {
            for step in world.steps(deed, own) {
                let _ = transaction.apply(step);
            }
        }
        transaction.restore().unwrap();
    });
    if let Some(transaction) = begun {
        transaction.abandon();
    }
    killed
}

/// Keeps the default hook from printing what is thrown here on purpose.
pub fn quietly() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Killed>() {
                usual(info);
            }
        }));
    });
}
