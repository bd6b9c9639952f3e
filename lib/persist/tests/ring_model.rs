//! The ring against a queue, with crashes at any time: whatever was acknowledged is there, in
//! order, once; what was not may be there, whole, and in order.

mod support;

use std::collections::VecDeque;

use proptest::prelude::*;
use ringfence_persist::ring::{Consumer, Producer, RingError, Shape, format, inspect, recover};
use support::{Crashing, Random};

#[derive(Debug, Clone)]
enum Step {
    Push(usize),
    // Commits unless the flag says to abandon.
    Batch(Vec<usize>, bool),
    Pop,
    PopDurably,
    Commit,
    // The producer goes, without a crash, and another takes over.
    Producer,
    Consumer,
    // A crash, as the seed has it, with these in an unfinished batch; `deep`: another one after
    // recovery.
    Crash { seed: u64, deep: bool, flight: Vec<usize> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = || prop_oneof![4 => 0usize..60, 1 => 0usize..600];
    let step = prop_oneof![
        8 => len().prop_map(Step::Push),
        3 => (proptest::collection::vec(len(), 0..5), proptest::bool::weighted(0.3))
            .prop_map(|(b, a)| Step::Batch(b, a)),
        4 => Just(Step::Pop),
        3 => Just(Step::PopDurably),
        1 => Just(Step::Commit),
        1 => Just(Step::Producer),
        1 => Just(Step::Consumer),
        2 => (any::<u64>(), any::<bool>(), proptest::collection::vec(len(), 0..4))
            .prop_map(|(seed, deep, flight)| Step::Crash { seed, deep, flight }),
    ];
    proptest::collection::vec(step, 1..60)
}

// What must hold, as plain data.
#[derive(Default)]
struct Model {
    next: u64,
    // Acknowledged and not popped.
    queue: VecDeque<Vec<u8>>,
    // Popped, but not durably: may come back, all from some point on.
    lazily: VecDeque<Vec<u8>>,
}

impl Model {
    fn payload(&mut self, len: usize) -> Vec<u8> {
        self.next += 1;
        // Numbered as far as there is room, so that none is taken for another.
        self.next.to_le_bytes().into_iter().cycle().take(len.max(3)).collect()
    }

    fn push_batch(&mut self, producer: &mut Producer<&Crashing>, lens: Vec<usize>, abandon: bool) {
        let mut batch = producer.batch().unwrap();
        let mut pushed = Vec::new();
        for len in lens {
            let payload = self.payload(len);
            if batch.push(&payload).is_ok() {
                pushed.push(payload);
            }
        }
        if abandon {
            drop(batch);
        } else {
            batch.commit().unwrap();
            self.queue.extend(pushed);
        }
    }
}

struct World {
    memory: Crashing,
    model: Model,
    nt_threshold: usize,
}

impl World {
    fn new(lines: usize, grain: usize, nt_threshold: usize) -> Self {
        let memory = Crashing::new(4096 + lines * grain);
        let shape = Shape::new(lines * grain, grain, 77).unwrap();
        format(&memory, &shape).unwrap();
        recover(&memory).unwrap();
        Self { memory, model: Model::default(), nt_threshold }
    }

    fn life(&mut self, steps: &mut impl Iterator<Item = Step>) -> Result<(), TestCaseError> {
        let attach =
            || Producer::attach(&self.memory).unwrap().with_nt_threshold(self.nt_threshold);
        let mut producer = attach();
        let mut consumer = Consumer::attach(&self.memory).unwrap();
        for step in steps.by_ref() {
            let model = &mut self.model;
            match step {
                Step::Push(len) => {
                    let payload = model.payload(len);
                    match producer.try_push(&payload) {
                        Ok(()) => model.queue.push_back(payload),
                        Err(RingError::Full) => {}
                        Err(RingError::TooLong { .. }) => {
                            prop_assert!(payload.len() > producer.max_payload())
                        }
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    }
                }
                Step::Batch(lens, abandon) => {
                    model.push_batch(&mut producer, lens, abandon);
                }
                Step::Pop | Step::PopDurably => {
                    let entry = consumer.try_read().unwrap();
                    prop_assert_eq!(entry.as_deref(), model.queue.front().map(|entry| &entry[..]));
                    let Some(entry) = entry else { continue };
                    if matches!(step, Step::PopDurably) {
                        entry.pop_durably().unwrap();
                        model.queue.pop_front();
                        model.lazily.clear();
                    } else {
                        entry.pop().unwrap();
                        model.lazily.extend(model.queue.pop_front());
                    }
                }
                Step::Commit => {
                    consumer.commit().unwrap();
                    model.lazily.clear();
                }
                Step::Producer => {
                    drop(producer);
                    producer = attach();
                }
                Step::Consumer => {
                    // A consumer that goes properly commits.
                    drop(consumer);
                    model.lazily.clear();
                    consumer = Consumer::attach(&self.memory).unwrap();
                }
                Step::Crash { seed, deep, flight } => {
                    let payloads: Vec<_> =
                        flight.into_iter().map(|len| model.payload(len)).collect();
                    let mut batch = producer.batch().unwrap();
                    let flight = payloads
                        .into_iter()
                        .take_while(|payload| batch.push(payload).is_ok())
                        .collect();
                    std::mem::forget(batch);
                    std::mem::forget(consumer);
                    return self.crash(seed, deep, flight);
                }
            }
        }
        std::mem::forget(consumer);
        self.crash(1, false, Vec::new())
    }

    fn crash(&mut self, seed: u64, deep: bool, flight: Vec<Vec<u8>>) -> Result<(), TestCaseError> {
        let mut random = Random(seed);
        // Half of the time nothing is lost but the process.
        if random.below(2) == 0 {
            self.memory = self.memory.crash(&mut random);
        } else {
            self.memory.kill();
        }
        let mut accepted = None;
        if deep {
            accepted = Some(recover(&self.memory).unwrap().1.entries);
            if random.below(2) == 0 {
                _ = Producer::attach(&self.memory).unwrap();
            }
            self.memory = self.memory.crash(&mut random);
        }
        let (_, seen) = inspect(&self.memory).unwrap();
        let (shape, found) =
            recover(&self.memory).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(found, seen);
        prop_assert!(found.end - found.cursor <= shape.capacity as u64);

        let consumer = Consumer::attach(&self.memory).unwrap();
        let there = contents(consumer);
        prop_assert_eq!(there.len() as u64, found.entries);
        prop_assert!(
            accepted.is_none_or(|accepted| accepted == found.entries),
            "accepted {accepted:?} before"
        );
        // Some of those popped lazily, from some point on; every acknowledged one; of the
        // unfinished, up to some point.
        let model = &mut self.model;
        let all: Vec<&Vec<u8>> = model.lazily.iter().chain(&model.queue).chain(&flight).collect();
        let (first, last) = (model.lazily.len(), model.lazily.len() + model.queue.len());
        let fits = (0..=first).any(|from| {
            let to = from + there.len();
            (last..=all.len()).contains(&to) && all[from..to].iter().copied().eq(&there)
        });
        prop_assert!(
            fits,
            "{there:?} is none of {all:?}, of which {first}..{last} are acknowledged"
        );
        model.queue = there.into();
        model.lazily.clear();
        Ok(())
    }
}

fn contents(mut consumer: Consumer<&Crashing>) -> Vec<Vec<u8>> {
    let mut there = Vec::new();
    consumer
        .scan(|entry| {
            there.push(entry.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    there
}

// PROPTEST_CASES makes it longer.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_a_queue_that_survives(
        lines in prop_oneof![Just(1usize), 2usize..6, 6usize..20],
        wide in any::<bool>(),
        nt_threshold in prop_oneof![Just(0usize), Just(200)],
        steps in steps(),
    ) {
        let mut world = World::new(lines, if wide { 256 } else { 64 }, nt_threshold);
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            world.life(&mut steps)?;
        }
    }

    // A crash in the middle of a push or batch, before its fence: what is there is a first part of
    // it.
    #[test]
    fn an_unfinished_batch_is_there_up_to_some_entry(
        before in proptest::collection::vec(0usize..100, 0..4),
        lens in proptest::collection::vec(0usize..100, 1..6),
        seeds in proptest::collection::vec(any::<u64>(), 8),
        again in proptest::collection::vec(0usize..100, 1..4),
        nt_threshold in prop_oneof![Just(0usize), Just(200)],
    ) {
        let mut world = World::new(40, 64, nt_threshold);
        let mut producer = Producer::attach(&world.memory).unwrap().with_nt_threshold(nt_threshold);
        let mut acknowledged = Vec::new();
        for len in before {
            let payload = world.model.payload(len);
            producer.try_push(&payload).unwrap();
            acknowledged.push(payload);
        }
        let unfinished: Vec<Vec<u8>> = lens.iter().map(|len| world.model.payload(*len)).collect();
        let mut batch = producer.batch().unwrap();
        unfinished.iter().for_each(|payload| batch.push(payload).unwrap());
        std::mem::forget(batch);
        for seed in seeds {
            let mut random = Random(seed);
            let memory = world.memory.crash(&mut random);
            recover(&memory).unwrap();
            let there = contents(Consumer::attach(&memory).unwrap());
            let all: Vec<_> = acknowledged.iter().chain(&unfinished).cloned().collect();
            prop_assert!(there.len() >= acknowledged.len());
            prop_assert_eq!(&there[..], &all[..there.len()]);
            // The next life pushes over the rest; then nothing of the rest comes back.
            let mut producer = Producer::attach(&memory).unwrap();
            let mut wanted = there;
            for len in &again {
                let payload = world.model.payload(*len);
                producer.try_push(&payload).unwrap();
                wanted.push(payload);
            }
            let memory = memory.crash(&mut random);
            recover(&memory).unwrap();
            prop_assert_eq!(contents(Consumer::attach(&memory).unwrap()), wanted);
        }
    }
}
