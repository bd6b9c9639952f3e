//! Measures what a timed read takes on this machine: the [`Scale`] that tells hits from misses.

use std::cell::Cell;

use ringfence_experiment::scale::Scale;
use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::pin;
use ringfence_persist::{Flush, LINE, isa};

use super::lines::{self, Flusher, Piece};
use super::read::Order;

// Every fourth line is read, so that a prefetcher of adjacent lines brings in none that is to be
// missed.
const LINES: u64 = 4096;
const STRIDE: usize = 4 * LINE;
// The first round meets page tables and branches that are not cached.
const ROUNDS: u64 = 4;

/// Measures on a CPU, in some ms. `None` where this process may not run there.
pub fn measure(cpu: CpuId) -> Option<Scale> {
    let measured = std::thread::spawn(move || {
        pin::pin_current_thread(cpu).ok()?;
        Some(on_this_cpu())
    });
    measured.join().ok().flatten()
}

fn on_this_cpu() -> Scale {
    let clock = Clock::host();
    let clflush = Flusher::new(Flush::Clflush).expect("every x86-64 processor has it");
    let mut memory = vec![1u8; LINES as usize * STRIDE + LINE];
    let aligned = memory.as_ptr().align_offset(LINE);
    let all = lines::pieces(Cell::from_mut(&mut memory[aligned..]).as_slice_of_cells());
    // The first piece of a line.
    let first = |number: u64| &all[number as usize * (STRIDE / size_of::<Piece>())];
    let timed = |number: u64| lines::timed_read(clock, std::slice::from_ref(first(number)));
    let mut order = Order::new(LINES, 1);
    let (mut nothing, mut hits, mut misses) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        clflush.flush_each((0..LINES).map(first));
        isa::mfence();
        order.begin();
        for number in order.by_ref() {
            let start = clock.now();
            let empty = clock.now() - start;
            let (miss, hit) = (timed(number), timed(number));
            if round > 0 {
                nothing.push(clock.ns(empty));
                misses.push(clock.ns(miss));
                hits.push(clock.ns(hit));
            }
        }
    }
    for values in [&mut nothing, &mut hits, &mut misses] {
        values.sort_by(f64::total_cmp);
    }
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share) as usize];
    Scale {
        clock_ns: at(&nothing, 0.5),
        hit_ns: at(&hits, 0.5),
        hit_high_ns: at(&hits, 0.99),
        miss_ns: at(&misses, 0.5),
        miss_low_ns: at(&misses, 0.01),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_in_order() {
        let cpu = pin::affinity().unwrap().first().unwrap();
        let scale = measure(cpu).unwrap();
        assert!(scale.clock_ns > 0.0 && scale.hit_ns <= scale.hit_high_ns, "{scale:?}");
        assert!(scale.miss_low_ns <= scale.miss_ns, "{scale:?}");
        assert_eq!(measure(60_000), None);
    }
}
