//! A counterexample, told so that a person can follow it.

use std::fmt;

use crate::event::{Event, Kind};
use crate::machine::Inner;

/// What was done, run by run, and what of it had reached memory when the machine stopped.
#[derive(Debug)]
pub struct Story {
    runs: Vec<Vec<Event>>,
    fates: Vec<Vec<Fate>>,
}

/// What became of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It had reached memory.
    Reached,
    /// It had not.
    Lost,
    /// Either, it makes no difference here.
    Either,
}

impl Story {
    pub(crate) fn of(inner: &Inner, runs: Vec<Vec<Event>>) -> Self {
        let fates = inner.layers.iter().map(|layer| layer.fates()).collect();
        Self { runs, fates }
    }

    /// The stores of all runs that crashed, and what became of each, in order.
    pub fn fates(&self) -> impl Iterator<Item = (&Event, Fate)> {
        self.runs.iter().zip(&self.fates).flat_map(|(run, fates)| {
            let stores = run
                .iter()
                .filter(|event| matches!(event.kind, Kind::Store(_) | Kind::Stream(_) | Kind::Locked(_)));
            stores.zip(fates.iter().copied())
        })
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, run) in self.runs.iter().enumerate() {
            match number {
                0 => writeln!(f, "the program:")?,
                _ => writeln!(f, "recovery, and what follows it:")?,
            }
            let mut fates = self.fates.get(number).into_iter().flatten();
            for event in run {
                let is_store = matches!(event.kind, Kind::Store(_) | Kind::Stream(_) | Kind::Locked(_));
                let fate = match is_store.then(|| fates.next()).flatten() {
                    Some(Fate::Reached) => "reached memory",
                    Some(Fate::Lost) => "LOST",
                    Some(Fate::Either) => "either",
                    None => "",
                };
                writeln!(f, "  {:<14}  {}  ({}:{})", fate, event.kind, event.at.file(), event.at.line())?;
            }
            if number + 1 < self.runs.len() {
                writeln!(f, "  -- crash --")?;
            }
        }
        Ok(())
    }
}
