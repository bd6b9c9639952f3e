//! The stretch of steps before a crash in which a kill shows what recovery may print.

use std::collections::BTreeMap;

use crate::program::{ALL_THREADS, Did, OF_RECOVERY, Program};

/// What each thread printed and stored, by the numbers of steps.
#[derive(Debug, Default)]
pub struct Stretches {
    // All acknowledgements.
    printed: Vec<usize>,
    threads: BTreeMap<u32, Thread>,
    // Of a program that was killed: its threads would have printed more.
    is_killed: bool,
    // The acknowledgement of a recovery.
    recovered: Option<usize>,
}

#[derive(Debug, Default)]
struct Thread {
    printed: Vec<usize>,
    stored: Vec<usize>,
}

impl Stretches {
    /// Of a program.
    pub fn of(program: &Program) -> Self {
        let mut all = Self { is_killed: program.killed_at.is_some(), ..Self::default() };
        for (number, step) in program.steps.iter().enumerate() {
            match step.did {
                Did::Acknowledged(one) => {
                    let thread = program.acknowledged[one].thread;
                    all.printed.push(number);
                    if thread == ALL_THREADS {
                        all.recovered = Some(number);
                    } else {
                        all.threads.entry(thread).or_default().printed.push(number);
                    }
                }
                Did::Instruction(kind) if kind.write().is_some() => {
                    all.threads.entry(step.thread).or_default().stored.push(number);
                }
                _ => {}
            }
        }
        all
    }

    /// For a crash after so many steps: the number of steps before its stretch.
    ///
    /// The stretch begins with the last acknowledgement. If another thread has stored something
    /// since its own last line, and prints again later, its operation was in progress then, and the
    /// stretch begins before that store.
    pub fn begins(&self, steps: usize) -> usize {
        let before = |all: &[usize]| all.partition_point(|one| *one < steps);
        let Some(last) = before(&self.printed).checked_sub(1) else { return 0 };
        let last = self.printed[last] + 1;
        if self.recovered.is_some_and(|recovered| recovered < last) {
            return last;
        }
        let under_way = self.threads.iter().filter_map(|(number, thread)| {
            let own = before(&thread.printed);
            let prints_later =
                own < thread.printed.len() || self.is_killed && *number < OF_RECOVERY && own > 0;
            let from = own.checked_sub(1).map_or(0, |own| thread.printed[own]);
            let first = thread.stored.partition_point(|one| *one < from);
            prints_later.then(|| thread.stored.get(first).copied()).flatten()
        });
        under_way.fold(last, usize::min)
    }
}

#[cfg(test)]
mod tests {
    use ringfence_crashcheck::{Kind, Write};

    use super::*;
    use crate::program::{Acknowledged, Step};

    // What threads did: 's' for a store, 'p' for a print.
    fn stretches(all: &[(u32, char)]) -> Stretches {
        let mut program = Program::default();
        for (thread, what) in all {
            let did = match what {
                's' => Did::Instruction(Kind::Store(Write { word: 0, bytes: [0; 8], mask: 0xff })),
                _ => {
                    program.acknowledged.push(Acknowledged { lines: Vec::new(), thread: *thread });
                    Did::Acknowledged(program.acknowledged.len() - 1)
                }
            };
            program.steps.push(Step { thread: *thread, site: 0, did });
        }
        Stretches::of(&program)
    }

    #[test]
    fn it_begins_with_the_last_line_or_with_what_was_under_way_then() {
        let one = stretches(&[(1, 's'), (1, 'p'), (1, 's'), (1, 'p'), (1, 's')]);
        assert_eq!([0, 1, 2, 3, 5].map(|steps| one.begins(steps)), [0, 0, 2, 2, 4]);
        let greeted = stretches(&[(1, 'p'), (2, 's'), (2, 'p'), (2, 's'), (2, 'p')]);
        assert_eq!(greeted.begins(5), 5, "thread 1 has nothing under way");
        let two = stretches(&[(1, 's'), (2, 's'), (2, 'p'), (2, 's'), (1, 'p')]);
        assert_eq!(two.begins(3), 0, "thread 1 has");
        assert_eq!(two.begins(5), 5);
        let silent = stretches(&[(1, 's'), (2, 's'), (2, 'p'), (2, 's'), (2, 'p')]);
        assert_eq!(silent.begins(3), 3, "nothing is known of a thread that prints nothing");
    }
}
