//! What single instructions cost, for the report of instructions that a program does not need.
//!
//! A flush of a line that was stored to, a flush of one that was not, and a fence with nothing to
//! wait for: each a batch of the same between two readings of the clock, a round after the other,
//! and of all rounds the median. A flush is priced with its share of one fence for the whole batch.
//! A batch is long, since the first few dozen instructions are only put into buffers, and later
//! ones pay for them: these are prices where the processor is kept busy, and a single one may hide
//! behind other work. The calling thread is not pinned: a round in which it moves is one of many.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ringfence_analysis::quantile::median;
use ringfence_persist::policy::Prices;
use ringfence_persist::{Flush, Pages, Region, Request, isa};
use ringfence_workloads::lines::{Flusher, Scratch};

use super::Question;

const LINES: usize = 4096;
const ROUNDS: usize = 501;
// Of the first rounds, in which caches and translations are cold.
const WARM_UP: usize = 16;

/// Measures on the question's target, whose first lines are overwritten.
///
/// # Errors
/// In a sentence, where the target cannot be mapped.
pub fn measure(question: &Question, instruction: Flush) -> Result<Prices, String> {
    let len = usize::try_from(question.size.0)
        .map_err(|_| format!("{} cannot be mapped", question.size))?;
    let request = Request { medium: question.target.medium(), len, pages: Pages::Base };
    let region = Region::map(&request).map_err(|error| error.to_string())?;
    let scratch = Scratch::new(region);
    let (Some(lines), Some(flusher)) = (scratch.lines().get(..LINES), Flusher::new(instruction))
    else {
        return Err(format!("{LINES} lines and {instruction} are needed to measure it"));
    };
    let flush = || {
        flusher.flush_each(lines.iter());
        isa::sfence();
    };
    let (mut clock, mut dirty, mut clean, mut fence) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        lines.iter().for_each(|line| line[0].store(round as u8, Ordering::Relaxed));
        isa::mfence();
        let times = [
            timed(|| ()),
            timed(flush),
            timed(flush),
            timed(|| (0..LINES).for_each(|_| isa::sfence())),
        ];
        if round >= WARM_UP {
            for (of, time) in
                [&mut clock, &mut dirty, &mut clean, &mut fence].into_iter().zip(times)
            {
                of.push(time);
            }
        }
    }
    let clock = median(&mut clock);
    let price = |mut times: Vec<f64>| each(median(&mut times) - clock);
    Ok(Prices { flush_ns: price(dirty), clean_flush_ns: price(clean), fence_ns: price(fence) })
}

fn timed(work: impl Fn()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

// Of a batch, to a tenth of a nanosecond; what is too small to tell from nothing is not known.
fn each(batch: f64) -> Option<f64> {
    let price = (batch / LINES as f64 * 10.0).round() / 10.0;
    (price > 0.0).then_some(price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::PlacementKind;
    use ringfence_experiment::task::Target;
    use ringfence_experiment::units::Share;
    use ringfence_machine::units::Bytes;

    #[test]
    fn prices_are_of_one_instruction_and_never_nothing() {
        let all = LINES as f64;
        assert_eq!(each(10.0 * all), Some(10.0));
        assert_eq!(each(10.16 * all), Some(10.2));
        assert_eq!((each(0.04 * all), each(0.0), each(-all)), (None, None, None));
    }

    #[test]
    fn what_cannot_be_mapped_has_no_price() {
        let mut question = Question {
            target: Target::Dram,
            size: Bytes::mib(1),
            victim: None,
            budget: Share(0.02),
            block: Bytes::kib(4),
            placement: PlacementKind::Auto,
            trials: 2,
            seed: 1,
        };
        let prices = measure(&question, Flush::Clflush).unwrap();
        assert!(prices.flush_ns.is_some_and(|ns| ns.is_finite() && ns > 0.0));
        question.target = Target::Dax("/no/such/file".into());
        assert!(measure(&question, Flush::Clflush).unwrap_err().contains("/no/such/file"));
    }
}
