//! Sequential reading and writing, as STREAM's add (McCalpin, 1995): `a[i] = b[i] + c[i]`.

use ringfence_experiment::task::Stream;

use crate::workload::{Latencies, Work, Workload};

const PORTION: usize = 512;

/// Three arrays, walked in step.
pub struct Streamer {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    at: usize,
}

impl Streamer {
    /// Allocates and touches the arrays.
    pub fn new(task: &Stream) -> Self {
        let len = (task.size.0 as usize / (3 * size_of::<f64>())).next_multiple_of(PORTION);
        Self { a: vec![1.0; len], b: vec![2.0; len], c: vec![3.0; len], at: 0 }
    }
}

impl Workload for Streamer {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        for _ in 0..amount {
            let range = self.at..self.at + PORTION;
            let sources = self.b[range.clone()].iter().zip(&self.c[range.clone()]);
            for (a, (b, c)) in self.a[range].iter_mut().zip(sources) {
                *a = b + c;
            }
            self.at = (self.at + PORTION) % self.a.len();
        }
        Work { units: amount * (PORTION * 3 * size_of::<f64>()) as u64, untimed: 0 }
    }
}
