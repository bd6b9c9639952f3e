//! A trace played back in several ways, a round after the other.

use std::time::{Duration, Instant};

use ringfence_analysis::estimate::{self, Difference, NotEstimable, Window};
use ringfence_persist::{Mapped, Methods, Region, Request};
use ringfence_trace::census::dynamic::saving::Cost;
use ringfence_trace::playback::{Playback, Way};

/// Of each mapping, one figure: where pages lie varies from one to the next.
pub const MAPPINGS: u32 = 8;

// The first round of a mapping takes its page faults.
const WARM_UP: u32 = 1;
const MOST_ROUNDS: u32 = 200;
/// Of all intervals.
pub const LEVEL: f64 = 0.95;

/// How long each way took, by mapping.
pub struct Played {
    ways: Vec<Way>,
    windows: Vec<Vec<(u32, Window)>>,
}

impl Played {
    /// Plays for about so long; `tell` is told how much of it is done, from 0 to 1.
    pub fn new(
        playback: &Playback,
        ways: &[Way],
        time: Duration,
        mut tell: impl FnMut(f64),
    ) -> Result<Self, String> {
        let mut this = Self { ways: ways.to_vec(), windows: vec![Vec::new(); ways.len()] };
        let mut rounds = 1;
        for mapping in 0..MAPPINGS {
            let region = Region::map(&Request::dram(playback.memory().max(1)));
            let region = region.map_err(|error| error.to_string())?;
            let mut memory = Mapped::with_methods(region, Methods::of_processor());
            for round in 0..WARM_UP + rounds {
                let start = Instant::now();
                for turn in 0..ways.len() {
                    // Each is first as often as it is last.
                    let way = (turn + (mapping + round) as usize) % ways.len();
                    let start = Instant::now();
                    playback.play(&mut memory, Mapped::flush_by, ways[way]);
                    let ns = start.elapsed().as_nanos() as f64;
                    if round >= WARM_UP {
                        this.windows[way].push((mapping, Window { units: 1.0, ns }));
                    }
                }
                if (mapping, round) == (0, 0) {
                    let each = start.elapsed().as_secs_f64() * f64::from(MAPPINGS);
                    let fit = time.as_secs_f64() / each.max(1e-9) - f64::from(WARM_UP);
                    rounds = (fit as u32).clamp(1, MOST_ROUNDS);
                }
            }
            tell(f64::from(mapping + 1) / f64::from(MAPPINGS));
        }
        Ok(this)
    }

    /// What one way takes more than another.
    pub fn difference(&self, more: Way, less: Way) -> Result<Cost, String> {
        let of =
            |way| self.ways.iter().position(|one| *one == way).map(|number| &self.windows[number]);
        let (Some(more), Some(less)) = (of(more), of(less)) else {
            return Err("it was not replayed like this".to_owned());
        };
        cost(estimate::difference(more, less, LEVEL))
    }
}

/// A difference as a cost.
pub fn cost(difference: Result<Difference, NotEstimable>) -> Result<Cost, String> {
    let Difference { ns, low, high, .. } = difference.map_err(|why| why.told())?;
    Ok(Cost { ns, low, high })
}
