use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use ringfence_experiment::task::OneTask;
use ringfence_workloads::{Latencies, Work};

struct Breaks(u64);
impl Workload for Breaks {
    fn work(&mut self, _: u64, _: &dyn Latencies) -> Work {
        self.0 += 1;
        Work { units: 1, untimed: 0 }
    }
    fn failure(&self) -> Option<&str> {
        (self.0 == 3).then_some("it broke")
    }
}

#[test]
fn work_that_fails_ends_the_task_and_is_not_counted() {
    let shared = Shared::create(1).unwrap();
    let slot = shared.slot(0);
    slot.give(order::RUN);
    let (mut workload, mut tally, counted) =
        (Breaks(0), Tally::default(), Counted::new(Clock::host()));
    let ended = steady(slot, order::RUN, &mut workload, None, &mut 1, &mut tally, &counted);
    assert_eq!(ended, Err("it broke".into()));
    assert_eq!((tally.report.units, slot.latest().1.units), (2, 2));
}

// Works until its limit, and is over once it is told so.
struct Syncs {
    noted: Arc<Noted>,
    worked: u64,
    over: bool,
}

struct Noted {
    syncs: AtomicU64,
    limit: AtomicU64,
    over: AtomicBool,
}

impl Workload for Syncs {
    fn work(&mut self, _: u64, _: &dyn Latencies) -> Work {
        self.over = self.noted.over.load(Ordering::Acquire);
        self.worked += 1;
        Work { units: 1, untimed: 0 }
    }
    fn resumed(&mut self) {
        self.worked = 0;
    }
    fn paused(&mut self) {
        self.noted.syncs.fetch_add(1, Ordering::AcqRel);
    }
    fn spent(&self) -> bool {
        self.worked >= self.noted.limit.load(Ordering::Acquire)
    }
    fn failure(&self) -> Option<&str> {
        self.over.then_some("over")
    }
}

const LONG: Duration = Duration::from_secs(60);

fn order_to(slot: &Slot, order: u32, state: u32) {
    slot.give(order);
    assert!(slot.wait_state(state, LONG));
}

// A worker with a task of this limit, and how often it has synced its files.
fn served(limit: u64, during: impl FnOnce(&Slot, &dyn Fn() -> u64)) {
    let shared = Shared::create(1).unwrap();
    let slot = shared.slot(0);
    let noted = Arc::new(Noted {
        syncs: AtomicU64::new(0),
        limit: AtomicU64::new(limit),
        over: AtomicBool::new(false),
    });
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let workload = Syncs { noted: noted.clone(), worked: 0, over: false };
            let home = pin::affinity().unwrap();
            let seat =
                Seat { home: home.clone(), anywhere: home, pinned: vec![true], at_home: true };
            serve(slot, vec![Some(Runner::Steady(Box::new(workload), None))], seat)
        });
        during(slot, &|| noted.syncs.load(Ordering::Acquire));
        // While it stands still: in the middle of its work it would end before it has paused.
        order_to(slot, order::PAUSE, state::PAUSED);
        noted.over.store(true, Ordering::Release);
        slot.give(order::RUN);
        assert_eq!(serving.join().unwrap().text, "over");
    });
}

#[test]
fn whoever_is_held_does_nothing_and_syncs_nothing_until_its_next_order() {
    served(u64::MAX, |slot, syncs| {
        // The next episode's tasks may be the same.
        for (times, next, state) in
            [(0, order::PAUSE, state::PAUSED), (1, order::RUN, state::RUNNING)]
        {
            order_to(slot, order::RUN, state::RUNNING);
            let before = slot.latest().1.units;
            while slot.latest().1.units == before {
                std::thread::yield_now();
            }
            order_to(slot, order::HOLD, state::HELD);
            let held = slot.latest();
            // A bell that brings no order.
            slot.ring();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!((slot.latest(), slot.state(), syncs()), (held, state::HELD, times));
            order_to(slot, next, state);
            assert_eq!(syncs(), times + 1);
        }
    });
}

#[test]
fn whoever_has_reached_its_limit_stands_still_until_it_goes_on() {
    served(3, |slot, _| {
        for times in 1..3 {
            order_to(slot, order::RUN, state::RUNNING);
            while !slot.spent() {
                std::thread::yield_now();
            }
            let number = slot.ask();
            assert!(slot.wait_answer(number, LONG), "it answers while it stands still");
            assert_eq!(slot.latest().1.units, 3 * times);
            order_to(slot, order::HOLD, state::HELD);
            assert_eq!(slot.latest().1.units, 3 * times);
            order_to(slot, order::PAUSE, state::PAUSED);
        }
    });
}

#[test]
fn only_variants_that_are_not_pinned_leave_their_cpu() {
    let before = pin::affinity().unwrap();
    let task = |text: &str| {
        let task: OneTask = text.parse().expect("a task");
        Some(Assigned { task: task.task().clone(), quota: None })
    };
    let cpu = before.first().expect("this thread runs somewhere");
    let free = task("write pinned=false");
    let ring = task("ring pinned=false");
    let spec = Spec {
        slot: 0,
        home: CpuSet::single(cpu),
        seed: 0,
        stops_at_limits: false,
        tasks: vec![task("write"), free, None, task("ring"), ring],
        cgroup: None,
    };
    let mut seat = Seat::of(&spec);
    pin::pin_current_thread(cpu).unwrap();
    let home = CpuSet::single(cpu);
    for (variant, expected) in [(0, &home), (1, &before), (0, &home), (4, &before), (3, &home)] {
        seat.take(variant).unwrap();
        assert_eq!(pin::affinity().unwrap(), *expected, "variant {variant}");
    }
}
