//! The ring whose program dies at any single operation on memory, in recovery, attaching, pushing,
//! popping and all they do, by a crash or by a kill, of both sides or of one: whatever was
//! acknowledged is there, in order, once; what was not may be there, whole and in order, until
//! something else is pushed in its place.
//!
//! `RINGFENCE_WORLDS` says how many random worlds are tried.

mod support;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ringfence_persist::Memory;
use ringfence_persist::ring::{Consumer, Producer, RingError, Shape, format, inspect, recover};
use support::Random;
use support::crash_memory::Dying;

type Payload = Vec<u8>;

// What must hold, as plain data.
#[derive(Default, Clone)]
struct Model {
    next: u64,
    // Acknowledged and not popped.
    queue: VecDeque<Payload>,
    // Popped, but not durably: may come back, all from some point on.
    lazily: VecDeque<Payload>,
    // Written and not acknowledged, for each epoch that may be the last one: a first part of one of
    // them may be there.
    flights: Vec<Vec<Payload>>,
}

impl Model {
    fn payload(&mut self, len: usize) -> Payload {
        self.next += 1;
        // Numbered as far as there is room, so that none is taken for another.
        self.next.to_le_bytes().into_iter().cycle().take(len.max(3)).collect()
    }

    // Whether these may be what is there to read; if so that is what must be there from now on.
    fn accept(&mut self, there: Vec<Payload>, in_flight: bool) {
        let sure: Vec<&Payload> = self.lazily.iter().chain(&self.queue).collect();
        let nothing = [Vec::new()];
        let flights = if in_flight { &self.flights[..] } else { &[] };
        let fits = flights.iter().chain(&nothing).any(|flight| {
            let all: Vec<&Payload> = sure.iter().copied().chain(flight).collect();
            (0..=self.lazily.len()).any(|from| {
                let to = from + there.len();
                (sure.len()..=all.len()).contains(&to) && all[from..to].iter().copied().eq(&there)
            })
        });
        assert!(
            fits,
            "{there:?} is there, of {:?}, {:?} and {:?}",
            self.lazily, self.queue, flights
        );
        self.lazily.clear();
        self.queue = there.into();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Producer,
    Consumer,
    Push(usize),
    Batch(Vec<usize>, End),
    Pop,
    PopDurably,
    Commit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Committed,
    Dropped,
    Forgotten,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Crash,
    Kill,
    // The other side goes on.
    KillOne,
}

struct World<'m> {
    memory: &'m Dying,
    model: Model,
    nt_threshold: usize,
    producer: Option<Producer<&'m Dying>>,
    consumer: Option<Consumer<&'m Dying>>,
}

impl<'m> World<'m> {
    fn new(memory: &'m Dying, shape: &Shape, nt_threshold: usize) -> Self {
        format(memory, shape).unwrap();
        Self { memory, model: Model::default(), nt_threshold, producer: None, consumer: None }
    }

    // Whether it survived.
    fn recover(&mut self) -> bool {
        let recovered = self.memory.run(|| {
            let (_, found) = recover(self.memory).unwrap();
            assert_eq!(inspect(self.memory).unwrap().1, found);
            (found, contents(&mut Consumer::attach(self.memory).unwrap()))
        });
        let Some((found, there)) = recovered else { return false };
        assert_eq!(there.len() as u64, found.entries);
        self.model.accept(there, true);
        true
    }

    // One step, or what must come before it. Whether it survived.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Producer => self.attach_producer(),
            Step::Consumer => self.attach_consumer(),
            Step::Push(_) | Step::Batch(..) if self.producer.is_none() => self.attach_producer(),
            Step::Push(len) => self.push(&[*len], None),
            Step::Batch(lens, end) => self.push(lens, Some(*end)),
            _ if self.consumer.is_none() => self.attach_consumer(),
            Step::Pop => self.pop(false),
            Step::PopDurably => self.pop(true),
            Step::Commit => {
                let consumer = self.consumer.as_mut().unwrap();
                let Some(done) = self.memory.run(|| consumer.commit()) else { return false };
                done.unwrap();
                self.model.lazily.clear();
                true
            }
        }
    }

    fn attach_producer(&mut self) -> bool {
        self.producer = None;
        let Some(producer) = self.memory.run(|| Producer::attach(self.memory)) else {
            return false;
        };
        self.producer = Some(producer.unwrap().with_nt_threshold(self.nt_threshold));
        self.model.flights.clear();
        true
    }

    // One that is there goes without a goodbye.
    fn attach_consumer(&mut self) -> bool {
        std::mem::forget(self.consumer.take());
        let Some(consumer) = self.memory.run(|| Consumer::attach(self.memory)) else {
            return false;
        };
        let mut consumer = consumer.unwrap();
        let there = self.memory.run(|| contents(&mut consumer));
        self.consumer = Some(consumer);
        // Looking changes nothing: where it died in that, the next one sees the same.
        there.map(|there| self.model.accept(there, false)).is_some()
    }

    // By a batch, or without.
    fn push(&mut self, lens: &[usize], batch: Option<End>) -> bool {
        let producer = self.producer.as_mut().unwrap();
        let payloads: Vec<Payload> = lens.iter().map(|len| self.model.payload(*len)).collect();
        // Then the first one finds room, whichever process popped the others.
        let empty =
            self.model.queue.is_empty() && self.model.lazily.is_empty() && self.consumer.is_some();
        let mut begun = Vec::new();
        let mut try_one =
            |payload: &Payload, push: &mut dyn FnMut(&[u8]) -> Result<(), RingError>| {
                begun.push(payload.clone());
                match push(payload) {
                    Ok(()) => true,
                    Err(RingError::Full) if empty && begun.len() == 1 => {
                        panic!("full, and nothing is there")
                    }
                    Err(RingError::Full | RingError::TooLong { .. }) => {
                        begun.pop();
                        false
                    }
                    Err(error) => panic!("{error}"),
                }
            };
        let done = self.memory.run(|| {
            let Some(end) = batch else {
                return try_one(&payloads[0], &mut |payload| producer.try_push(payload));
            };
            let mut batch = producer.batch().unwrap();
            for payload in &payloads {
                try_one(payload, &mut |payload| batch.push(payload));
            }
            match end {
                End::Committed => batch.commit().unwrap(),
                End::Dropped => drop(batch),
                End::Forgotten => std::mem::forget(batch),
            }
            end == End::Committed
        });
        let model = &mut self.model;
        match done {
            // The epoch before, if its entries were not to count, was closed.
            Some(true) => {
                model.flights.clear();
                model.queue.extend(begun);
            }
            Some(false) if batch == Some(End::Forgotten) => model.flights = vec![begun],
            Some(false) => model.flights.clear(),
            None => model.flights.push(begun),
        }
        done.is_some()
    }

    fn pop(&mut self, durably: bool) -> bool {
        let consumer = self.consumer.as_mut().unwrap();
        let mut handed = None;
        let done = self.memory.run(|| {
            let Some(entry) = consumer.try_read().unwrap() else { return false };
            handed = Some(entry.to_vec());
            if durably {
                entry.pop_durably().unwrap()
            } else {
                entry.pop().unwrap()
            }
            true
        });
        let model = &mut self.model;
        if let Some(entry) = handed {
            assert_eq!(Some(&entry), model.queue.front());
            model.lazily.extend(model.queue.pop_front());
        } else if done.is_some() {
            assert!(model.queue.is_empty(), "nothing to read, but {:?}", model.queue);
        }
        if durably && done == Some(true) {
            model.lazily.clear();
        }
        done.is_some()
    }

    // After a death in this step, or after none.
    fn meet(&mut self, fate: Fate, step: &Step, random: &mut Random) {
        let producers = matches!(step, Step::Producer | Step::Push(_) | Step::Batch(..));
        let both = !matches!(fate, Fate::KillOne);
        if both || producers {
            self.producer = None;
        }
        if both || !producers {
            std::mem::forget(self.consumer.take());
        }
        if matches!(fate, Fate::Crash) { self.memory.crash(random) } else { self.memory.kill() }
    }

    // What is there at last can be popped, and the ring can be used.
    fn end(mut self) {
        assert!(self.recover() && self.step(&Step::Producer) && self.step(&Step::Consumer));
        while !self.model.queue.is_empty() {
            assert!(self.step(&Step::PopDurably));
        }
        let all = self.producer.as_ref().unwrap().max_payload();
        assert!(
            self.step(&Step::Push(all)) && self.model.queue.len() == 1,
            "the empty ring takes one as long"
        );
        assert!(self.step(&Step::PopDurably));
    }
}

// Whatever panics elsewhere: the memory may be in no state to commit.
impl Drop for World<'_> {
    fn drop(&mut self) {
        std::mem::forget(self.consumer.take());
    }
}

fn contents<M: Memory>(consumer: &mut Consumer<M>) -> Vec<Payload> {
    let mut there = Vec::new();
    let scanned = consumer.scan(|entry| {
        there.push(entry.to_vec());
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    there
}

fn draw(random: &mut Random, capacity: usize) -> Step {
    let len = |random: &mut Random| {
        if random.below(4) == 0 { random.below(capacity) } else { random.below(60) }
    };
    match random.below(16) {
        0..4 => Step::Push(len(random)),
        4..7 => {
            let lens = (0..1 + random.below(4)).map(|_| len(random)).collect();
            let ends = [End::Committed, End::Committed, End::Dropped, End::Forgotten];
            Step::Batch(lens, ends[random.below(4)])
        }
        7 => [Step::Producer, Step::Consumer][random.below(2)].clone(),
        8..11 => Step::Pop,
        11..15 => Step::PopDurably,
        _ => Step::Commit,
    }
}

// Whether the next part ends in a death, and where: mostly early, and far into long entries too.
fn doom(memory: &Dying, random: &mut Random, one_in: usize) {
    let within = [8, 30, 60, 300][random.below(4)];
    memory.dies_after(if random.below(one_in) == 0 { random.below(within) } else { usize::MAX });
}

fn world(seed: u64) {
    let random = &mut Random(seed);
    let grain = [64, 256][random.below(2)];
    let capacity = [1, 2, 3, 4, 8, 16][random.below(6)] * grain;
    let memory = Dying::new(4096 + capacity);
    let nt_threshold = [0, 0, 200, usize::MAX][random.below(4)];
    let shape = Shape::new(capacity, grain, random.next()).unwrap();
    let mut world = World::new(&memory, &shape, nt_threshold);
    for _ in 0..2 + random.below(6) {
        doom(&memory, random, 3);
        while !world.recover() {
            if random.below(2) == 0 {
                memory.crash(random)
            } else {
                memory.kill()
            }
            doom(&memory, random, 3);
        }
        memory.dies_after(usize::MAX);
        let mut last = Step::Producer;
        for _ in 0..random.below(40) {
            last = draw(random, capacity);
            doom(&memory, random, 6);
            if !world.step(&last) {
                if random.below(3) < 2 {
                    break;
                }
                world.meet(Fate::KillOne, &last, random);
            }
            memory.dies_after(usize::MAX);
        }
        world.meet([Fate::Crash, Fate::Kill][random.below(2)], &last, random);
    }
    world.end();
}

#[test]
fn death_at_random_moments_of_many_lives() {
    let worlds = std::env::var("RINGFENCE_WORLDS").map_or(10_000, |text| text.parse().unwrap());
    for seed in 0..worlds {
        let run = || world(seed);
        assert!(std::panic::catch_unwind(run).is_ok(), "world {seed} failed, see above");
    }
}

// One life with everything in it, which dies at its first operation, at its second, and so on.
fn life() -> Vec<Step> {
    use Step::*;
    let batch = |lens: &[usize], end| Batch(lens.to_vec(), end);
    let all = 6 * 64;
    vec![
        Producer,
        Consumer,
        Push(10),
        Push(100),
        Pop,
        batch(&[30, 50], End::Committed),
        Commit,
        Push(0),
        PopDurably,
        batch(&[20, 20], End::Dropped),
        Push(70),
        PopDurably,
        Pop,
        batch(&[40, 40, 40], End::Forgotten),
        Push(40),
        PopDurably,
        PopDurably,
        PopDurably,
        // It asks for room, and gets it.
        batch(&[40, 40, 40, 40, 40, 40, 40], End::Committed),
        Pop,
        Push(40),
        Pop,
        PopDurably,
        Push(100),
        Consumer,
        PopDurably,
        batch(&[80, 10], End::Forgotten),
        Producer,
        Push(all),
        Push(10),
        PopDurably,
        Commit,
    ]
}

// Whether the life was over before the death.
fn dies_after(operations: usize, fate: Fate, nt_threshold: usize, random: &mut Random) -> bool {
    let memory = Dying::new(4096 + 6 * 64);
    let mut world =
        World::new(&memory, &Shape::new(6 * 64, 64, random.next()).unwrap(), nt_threshold);
    assert!(world.recover());
    memory.dies_after(operations);
    let (mut survived, mut last) = (true, Step::Producer);
    for step in life() {
        // A step that only attached a side is still to come.
        let attached = |world: &World| (world.producer.is_some(), world.consumer.is_some());
        for _ in 0..2 {
            let before = attached(&world);
            if !world.step(&step) {
                survived = false;
                world.meet(fate, &step, random);
                if !matches!(fate, Fate::KillOne) {
                    assert!(world.recover());
                }
            } else if before == attached(&world) {
                break;
            }
        }
        last = step;
    }
    world.meet(Fate::Crash, &last, random);
    world.end();
    survived
}

#[test]
fn death_at_every_operation_of_one_life() {
    for nt_threshold in [0, 200, usize::MAX] {
        for (fate, times) in [(Fate::Crash, 8), (Fate::Kill, 2), (Fate::KillOne, 2)] {
            for seed in 0..times {
                let over = (0..).find(|n| dies_after(*n, fate, nt_threshold, &mut Random(seed)));
                assert!(over.unwrap() > 200, "a life is longer than {over:?} operations");
            }
        }
    }
}

// Killed after the cursor was durable and before the space was given back: if the next consumer did
// not do that, the producer would wait forever.
#[test]
fn what_a_killed_consumer_popped_is_given_back() {
    let mut unsaid = 0;
    for operations in 0.. {
        let memory = Dying::new(4096 + 64);
        format(&memory, &Shape::new(64, 64, 3).unwrap()).unwrap();
        recover(&memory).unwrap();
        let mut producer = Producer::attach(&memory).unwrap();
        let mut consumer = Consumer::attach(&memory).unwrap();
        producer.try_push(b"one").unwrap();
        memory.dies_after(operations);
        let popped = memory.run(|| consumer.try_read().unwrap().unwrap().pop_durably().unwrap());
        memory.kill();
        std::mem::forget(consumer);
        let full = matches!(producer.try_push(b"other"), Err(RingError::Full));
        assert!(full || popped.is_some(), "the space is free before the pop is over");
        let mut consumer = Consumer::attach(&memory).unwrap();
        let there = contents(&mut consumer);
        if full && there.is_empty() {
            unsaid += 1;
            producer.try_push(b"other").unwrap();
        }
        assert_eq!(
            contents(&mut consumer),
            [if there == [b"one"] { &b"one"[..] } else { b"other" }]
        );
        if popped.is_some() {
            break;
        }
    }
    assert!(unsaid > 0, "no death was between the cursor and the room");
}
