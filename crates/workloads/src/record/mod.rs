//! Records, each failure-atomic by one of several methods, written one behind the other.

pub mod method;

use ringfence_experiment::task::{self, Parameters, RecordMethod};
use ringfence_persist::record::Record;
use ringfence_persist::{Mapped, Memory, Methods, Pages, Region, Request};

use super::write::Regions;
use crate::workload::{Latencies, SetupError, Work, Workload};

/// Writes records.
pub struct Recorder<M = Mapped> {
    memory: M,
    kind: Kind,
    payload: Vec<u8>,
    // A record, and how many there is room for.
    next: usize,
    count: usize,
    failure: Option<String>,
}

enum Kind {
    Fresh { method: RecordMethod, room: usize },
    Short(Vec<Record<56>>),
    Long(Vec<Record<128>>),
}

impl Recorder {
    /// Maps the target. Slots get a first value each.
    ///
    /// # Errors
    /// Where the task makes no sense, or the target cannot be had.
    pub fn new(task: &task::Record, seed: u64, regions: &mut Regions) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        regions.reserve(&task.target)?;
        let len = usize::try_from(task.size.0)
            .map_err(|_| SetupError::Other(format!("size = {} cannot be mapped", task.size)))?;
        let request = Request { medium: task.target.medium(), len, pages: Pages::Base };
        let memory = Mapped::with_methods(Region::map(&request)?, Methods::of_processor());
        Self::over(task, seed, memory)
    }
}

impl<M: Memory> Recorder<M> {
    /// In memory that no other code uses, of at least the task's size.
    ///
    /// # Errors
    /// Where the task makes no sense.
    pub fn over(task: &task::Record, seed: u64, memory: M) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        let payload = task.payload.0 as usize;
        let room = method::room(task.method, payload);
        let count = task.size.0 as usize / room;
        let kind = match (task.method, payload) {
            (RecordMethod::Slots, 56) => Kind::Short(slots(&memory, seed, room, count)),
            (RecordMethod::Slots, _) => Kind::Long(slots(&memory, seed, room, count)),
            (method, _) => Kind::Fresh { method, room },
        };
        let payload = (0..payload).map(|byte| (byte % 251) as u8 + 1).collect();
        Ok(Self { memory, kind, payload, next: 0, count, failure: None })
    }
}

fn slots<const N: usize>(
    memory: &impl Memory,
    seed: u64,
    room: usize,
    count: usize,
) -> Vec<Record<N>> {
    let create = |number: usize| {
        let at = number * room;
        Record::create(memory, [at, at + room / 2], seed, &[0; N])
    };
    (0..count).map(create).collect()
}

impl<M: Memory> Workload for Recorder<M> {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        for _ in 0..amount {
            let number = self.next;
            self.payload[0] = self.payload[0].wrapping_add(1);
            match &mut self.kind {
                Kind::Fresh { method, room } => {
                    method::write(*method, &self.memory, number * *room, &self.payload);
                }
                Kind::Short(records) => replace(&mut records[number], &self.memory, &self.payload),
                Kind::Long(records) => replace(&mut records[number], &self.memory, &self.payload),
            }
            self.next = if number + 1 == self.count { 0 } else { number + 1 };
        }
        if let Err(error) = self.memory.health() {
            self.failure.get_or_insert_with(|| error.to_string());
        }
        Work { units: amount, untimed: 0 }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[inline]
fn replace<const N: usize>(record: &mut Record<N>, memory: &impl Memory, payload: &[u8]) {
    record.write(memory, payload.try_into().expect("the payload is the record's"));
}

#[cfg(test)]
mod tests {
    use ringfence_machine::units::Bytes;

    use super::*;

    struct Nothing;
    impl Latencies for Nothing {
        fn count(&self, _: u64) {}
    }

    // Through the end and on from the start, and what was written last is there.
    #[test]
    fn every_method_leaves_its_records_behind() {
        for (method, payload) in
            RecordMethod::ALL.iter().flat_map(|method| [(*method, 56), (*method, 128)])
        {
            if method.in_one_line() && payload > 56 {
                continue;
            }
            let task = task::Record {
                method,
                payload: Bytes(payload),
                size: Bytes::kib(4),
                ..Default::default()
            };
            let mut recorder = Recorder::new(&task, 3, &mut Regions::default()).unwrap();
            let written = recorder.count as u64 + 3;
            assert_eq!(recorder.work(written, &Nothing).units, written);
            let last = recorder.payload.clone();
            let (memory, room) = (&recorder.memory, method::room(method, payload as usize));
            for number in [0, 2, recorder.count - 1] {
                let mut found = vec![0; payload as usize];
                match &recorder.kind {
                    Kind::Fresh { .. } => {
                        assert!(
                            method::read(method, memory, number * room, &mut found),
                            "{method:?} {number}"
                        );
                    }
                    Kind::Short(_) => {
                        found.copy_from_slice(&slot::<56>(memory, number * room, room))
                    }
                    Kind::Long(_) => {
                        found.copy_from_slice(&slot::<128>(memory, number * room, room))
                    }
                }
                assert_eq!(found[1..], last[1..], "{method:?} {payload} {number}");
                assert_eq!(found[0] == last[0], number == 2, "{method:?} {payload} {number}");
            }
        }
    }

    fn slot<const N: usize>(memory: &Mapped, at: usize, room: usize) -> [u8; N] {
        Record::<N>::peek(memory, [at, at + room / 2], 3).unwrap().1
    }
}
