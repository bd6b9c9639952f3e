//! How long and how often something may be frozen: pure, without a clock.

use std::time::Duration;

/// The longest freeze unless another is chosen, as README says.
pub const LONGEST: Duration = Duration::from_millis(100);
/// A freeze that lasts longer than the longest by this or more is an overrun.
pub const OVERRUN: Duration = Duration::from_millis(50);
/// The share of its time that something may be frozen unless another is chosen.
pub const SHARE: f64 = 0.2;

/// Keeps freezes short and rare. Times are since any moment, the same for all calls.
///
/// In any stretch of time of length W the target is frozen for at most `share * W` and one longest
/// freeze, and since the beginning for at most `share` of the time, as long as no freeze is held
/// longer than was asked for. One that was makes the next wait.
///
/// ```
/// use std::time::Duration;
/// use ringfence_system::attach::{Budget, NotYet};
/// let ms = Duration::from_millis;
/// let mut budget = Budget::new(ms(100), 0.2, ms(0)).unwrap();
/// // A freeze of 100 ms is a fifth of 500 ms, of which it is the end.
/// assert_eq!(budget.may_freeze(ms(0), ms(100)), Err(NotYet::Until(ms(400))));
/// assert_eq!(budget.may_freeze(ms(400), ms(100)), Ok(()));
/// budget.froze(ms(400), ms(500));
/// assert_eq!(budget.may_freeze(ms(500), ms(50)), Err(NotYet::Until(ms(700))));
/// assert_eq!((budget.share(ms(500)), budget.longest_frozen()), (0.2, ms(100)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    longest: Duration,
    share: f64,
    begun: Duration,
    // When credit was reckoned last, and how many seconds of freezing there were then.
    at: Duration,
    credit: f64,
    frozen: Duration,
    longest_frozen: Duration,
    overruns: u32,
}

/// Why nothing may be frozen now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotYet {
    /// It may be then.
    #[error("the share of time that it may be frozen is used up for now")]
    Until(Duration),
    /// So long a freeze is never allowed.
    #[error("it may be frozen for at most {} ms at a time", .0.as_millis())]
    TooLong(Duration),
}

/// Why a budget is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the longest freeze must be between 1 ms and 10 s, and the frozen share of time above 0 and at \
     most 0.9"
)]
pub struct BadBudget;

impl Budget {
    /// Nothing is frozen yet. `longest` is from 1 ms to 10 s, `share` above 0 and at most 0.9.
    ///
    /// # Errors
    /// Where they are not.
    pub fn new(longest: Duration, share: f64, now: Duration) -> Result<Self, BadBudget> {
        let fits = (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&longest);
        if !(fits && share > 0.0 && share <= 0.9) {
            return Err(BadBudget);
        }
        Ok(Self {
            longest,
            share,
            begun: now,
            at: now,
            credit: 0.0,
            frozen: Duration::ZERO,
            longest_frozen: Duration::ZERO,
            overruns: 0,
        })
    }

    /// The longest freeze.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    // Never more than one longest freeze takes.
    fn credit(&self, now: Duration) -> f64 {
        let earned = self.credit + self.share * now.saturating_sub(self.at).as_secs_f64();
        earned.min(self.longest.as_secs_f64() * (1.0 - self.share))
    }

    /// Whether a freeze of this length may begin now.
    ///
    /// # Errors
    /// When it may, or that it never may.
    pub fn may_freeze(&self, now: Duration, long: Duration) -> Result<(), NotYet> {
        if long > self.longest {
            return Err(NotYet::TooLong(self.longest));
        }
        // While it is frozen the share goes on being earned.
        let lacking = long.as_secs_f64() * (1.0 - self.share) - self.credit(now);
        // Less than a nanosecond is an error of rounding.
        if lacking < 1e-9 {
            return Ok(());
        }
        Err(NotYet::Until(now + Duration::from_secs_f64(lacking / self.share)))
    }

    /// It was frozen from then until then.
    pub fn froze(&mut self, from: Duration, to: Duration) {
        let long = to.saturating_sub(from);
        let credit = self.credit(from) - long.as_secs_f64() * (1.0 - self.share);
        (self.credit, self.at) = (credit, to);
        self.frozen += long;
        self.longest_frozen = self.longest_frozen.max(long);
        self.overruns += u32::from(long >= self.longest + OVERRUN);
    }

    /// For how long it was frozen at the longest. On a busy machine that may be longer than was
    /// asked for.
    pub fn longest_frozen(&self) -> Duration {
        self.longest_frozen
    }

    /// How many freezes were longer than the longest that is allowed by [`OVERRUN`] or more.
    pub fn overruns(&self) -> u32 {
        self.overruns
    }

    /// For how long it was frozen in all.
    pub fn frozen(&self) -> Duration {
        self.frozen
    }

    /// The share of the time since the beginning that it was frozen; 0 at the beginning.
    pub fn share(&self, now: Duration) -> f64 {
        let all = now.saturating_sub(self.begun).as_secs_f64();
        if all > 0.0 { self.frozen.as_secs_f64() / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn however_it_is_asked_the_share_is_kept() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for share in [0.01, 0.2, 0.5, 0.9] {
            let mut budget = Budget::new(ms(100), share, ms(0)).unwrap();
            let (mut now, mut freezes) = (ms(0), Vec::new());
            while freezes.len() < 500 {
                let long = ms(1 + random(100));
                // Sometimes nothing is asked for a long time.
                now += ms(if random(20) == 0 { random(60_000) } else { random(30) });
                match budget.may_freeze(now, long) {
                    Ok(()) => {
                        budget.froze(now, now + long);
                        freezes.push((now, now + long));
                        now += long;
                        assert!(
                            budget.share(now) <= share + 1e-9,
                            "{share}: {}",
                            budget.share(now)
                        );
                    }
                    Err(NotYet::Until(then)) => {
                        assert!(
                            then > now
                                && budget.may_freeze(then + Duration::from_nanos(2), long).is_ok()
                        );
                        if random(2) == 0 {
                            now = then;
                        }
                    }
                    Err(NotYet::TooLong(_)) => unreachable!(),
                }
            }
            for (from, begin) in freezes.iter().enumerate() {
                let mut frozen = Duration::ZERO;
                for freeze in &freezes[from..] {
                    frozen += freeze.1 - freeze.0;
                    let most = share * (freeze.1 - begin.0).as_secs_f64() + 0.1;
                    assert!(frozen.as_secs_f64() <= most + 1e-6);
                }
            }
        }
    }

    #[test]
    fn one_that_was_held_too_long_makes_the_next_wait() {
        let mut budget = Budget::new(ms(100), 0.2, ms(0)).unwrap();
        assert_eq!(budget.may_freeze(ms(1000), ms(101)), Err(NotYet::TooLong(ms(100))));
        budget.froze(ms(1000), ms(2000));
        // 80 ms of credit, 800 ms used: 720 ms lack, and 40 more for 50 ms.
        assert_eq!(budget.may_freeze(ms(2000), ms(50)), Err(NotYet::Until(ms(5800))));
        assert_eq!((budget.frozen(), budget.overruns()), (ms(1000), 1));
        // What is late by less is not an overrun.
        budget.froze(ms(9000), ms(9149));
        assert_eq!(budget.overruns(), 1);
        budget.froze(ms(20_000), ms(20_150));
        assert_eq!(budget.overruns(), 2);
    }

    #[test]
    fn what_is_no_budget_is_refused() {
        for (longest, share) in
            [(ms(0), 0.2), (ms(10_001), 0.2), (ms(100), 0.0), (ms(100), 0.91), (ms(100), f64::NAN)]
        {
            assert!(Budget::new(longest, share, ms(0)).is_err());
        }
    }
}
