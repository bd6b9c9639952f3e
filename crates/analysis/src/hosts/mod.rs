//! One figure of many hosts: what to expect of the next one, which hosts differ, how many reach a
//! bound, and what an update changed. Pure functions.
//!
//! # The model
//!
//! A host's figure is known with an error of its own, from trial to trial (*within* the host);
//! hosts differ besides (*between* hosts). On the log scale `y = middle + host + error`, where
//! `host` has the variance that is estimated and `error` the one that the host's own interval
//! states: a random-effects summary, as meta-analyses are made.
//!
//! - Each host's own variance is moderated by those of the others, since a dozen trials tell it
//!   badly.
//! - The variance between hosts is estimated by restricted maximum likelihood, and its interval by
//!   the Q profile (Viechtbauer, "Confidence intervals for the amount of heterogeneity in
//!   meta-analysis", Stat. Med. 26, 2007), with Welch's F in place of chi-squared, since hosts' own
//!   variances are estimates.
//! - The interval of the middle is that of Hartung and Knapp (Stat. Med. 20, 2001), never narrower
//!   than if hosts did not differ.
//! - What to expect of the next host is a prediction interval for its true figure, over all
//!   variances between hosts that what was seen allows, each with its confidence; never narrower
//!   than that of the middle. Of one estimate of that variance it would be too narrow wherever
//!   hosts by chance seem not to differ.
//!
//! # Limits
//!
//! All of this supposes that hosts of a kind scatter around one value. Of two kinds in one group
//! the prediction holds neither: that is what grouping by model, kernel or microcode is for. What
//! one machine gives in several runs says nothing of other machines.

mod bound;
mod change;
mod confidence;
mod effects;
mod moderate;
mod outliers;
mod weights;

pub use bound::{Reached, reached};
pub use change::{between_groups, same_hosts};
pub use effects::{Expected, expected};
pub use outliers::{Outlier, outliers};

use crate::estimate::{Interval, t_quantile_at, t_two_sided};

/// Of fewer hosts nothing is said about others.
pub const FEWEST_HOSTS: usize = 4;

/// The figure of one host, on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnHost {
    /// Its logarithm.
    pub log: f64,
    /// The square of its standard error.
    pub variance: f64,
    /// The degrees of freedom that this is known with.
    pub freedom: f64,
}

/// A figure that does not vary from trial to trial, as simulated ones, would have all the weight.
const LEAST_VARIANCE: f64 = 1e-16;

impl OnHost {
    /// From the figure with its interval, as it was told.
    pub fn of(figure: &Interval) -> Self {
        let trials = figure.trials.max(2);
        let error = figure.log_half_width() / t_two_sided(figure.level, trials);
        let variance = (error * error).max(LEAST_VARIANCE);
        Self { log: figure.value.ln(), variance, freedom: f64::from(trials - 1) }
    }

    /// The bounds of its interval at another level.
    pub fn bounds(&self, level: f64) -> (f64, f64) {
        let half = t_quantile_at(0.5 + level / 2.0, self.freedom) * self.variance.sqrt();
        ((self.log - half).exp(), (self.log + half).exp())
    }
}

/// The level at which each of so many independent intervals must be told so that all hold together
/// (Šidák).
pub fn together(level: f64, how_many: usize) -> f64 {
    level.powf(1.0 / how_many.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use rand_distr::{ChiSquared, Distribution, Normal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;
    use statrs::distribution::ContinuousCDF;

    use super::*;
    use crate::estimate::NotEstimable;

    const LEVEL: f64 = 0.95;

    // A fleet of which everything is known: hosts scatter by `between`, and each is measured in so
    // many trials that scatter by `within`, or from that over the root of `unequal` on the quietest
    // host to that times it on the noisiest.
    struct Fleet {
        random: Xoshiro256PlusPlus,
        between: f64,
        within: f64,
        unequal: f64,
        trials: u32,
    }

    impl Fleet {
        fn new(seed: u64, between: f64, within: f64, trials: u32) -> Self {
            Self {
                random: Xoshiro256PlusPlus::seed_from_u64(seed),
                between,
                within,
                unequal: 1.0,
                trials,
            }
        }

        fn normal(&mut self, sd: f64) -> f64 {
            if sd == 0.0 { 0.0 } else { Normal::new(0.0, sd).unwrap().sample(&mut self.random) }
        }

        // A host's true figure, by its logarithm.
        fn truth(&mut self) -> f64 {
            1.0 + self.normal(self.between)
        }

        // What is measured on a host: the mean of its trials, and their variance as they show it.
        fn measure(&mut self, truth: f64) -> OnHost {
            self.measure_noisier(truth, 1.0)
        }

        fn measure_noisier(&mut self, truth: f64, times: f64) -> OnHost {
            let (n, within) = (f64::from(self.trials), self.within * times);
            let chi: f64 = ChiSquared::new(n - 1.0).unwrap().sample(&mut self.random);
            let log = truth + self.normal(within / n.sqrt());
            OnHost { log, variance: within.powi(2) * chi / (n - 1.0) / n, freedom: n - 1.0 }
        }

        fn hosts(&mut self, count: usize) -> Vec<OnHost> {
            let noisier = |nth: usize| self.unequal.powf(nth as f64 / (count - 1) as f64 - 0.5);
            let noise: Vec<f64> = (0..count).map(noisier).collect();
            let mut host = |times: f64| {
                let truth = self.truth();
                self.measure_noisier(truth, times)
            };
            noise.into_iter().map(&mut host).collect()
        }
    }

    // Between and within, hosts, trials.
    const WORLDS: [(f64, f64, usize, u32); 6] = [
        (0.0, 0.05, 10, 12),
        (0.02, 0.05, 10, 12),
        (0.1, 0.05, 8, 12),
        (0.1, 0.05, 40, 6),
        (0.02, 0.05, 40, 12),
        (0.3, 0.01, 20, 12),
    ];

    // Hosts, by how many of their standard errors they differ, how many times one's is another's,
    // and trials.
    const FLEETS_TO_EXPECT: [(usize, f64, f64, u32); 10] = [
        (4, 0.0, 1.0, 12),
        (4, 0.5, 4.0, 6),
        (4, 3.0, 4.0, 100),
        (6, 0.5, 1.0, 100),
        (6, 1.0, 4.0, 12),
        (10, 0.5, 4.0, 100),
        (10, 1.0, 1.0, 6),
        (10, 3.0, 1.0, 12),
        (40, 0.5, 1.0, 12),
        (40, 1.0, 4.0, 6),
    ];

    #[test]
    fn the_middle_the_next_host_and_the_spread_are_where_they_are_said_to_be() {
        const FLEETS: u32 = 500;
        for (world, (count, differ, unequal, trials)) in FLEETS_TO_EXPECT.into_iter().enumerate() {
            let within = 0.05;
            let between = differ * within / f64::from(trials).sqrt();
            let mut fleet =
                Fleet { unequal, ..Fleet::new(7 + world as u64, between, within, trials) };
            let standard = statrs::distribution::Normal::standard();
            let (mut middle, mut next, mut spread) = (0, 0.0, 0);
            for _ in 0..FLEETS {
                let told = expected(&fleet.hosts(count), LEVEL).unwrap();
                let held = told.low <= 1f64.exp() && 1f64.exp() <= told.high;
                middle += u32::from(held);
                assert!(told.next_low <= told.low && told.next_high >= told.high, "{told:?}");
                let below = |bound: f64| standard.cdf((bound.ln() - 1.0) / between);
                let holds_next = told.next_low <= 1f64.exp() && 1f64.exp() <= told.next_high;
                next += if between > 0.0 {
                    below(told.next_high) - below(told.next_low)
                } else {
                    f64::from(u8::from(holds_next))
                };
                spread += u32::from(told.between_low <= between && between <= told.between_high);
            }
            let world = format!("{FLEETS}: {count} {differ} {unequal} {trials}");
            let next = next / f64::from(FLEETS);
            println!("middle {middle}, next {next:.4}, spread {spread} of {world}");
            // 475 with a standard deviation of 4.9; more where hosts differ less than each is
            // uncertain.
            assert!(middle >= 460, "{middle} of {world}");
            assert!(spread >= 460, "{spread} of {world}");
            // 0.93 to 0.99 of many more fleets, with a standard deviation of up to 0.007 of so few.
            // Where hosts do not differ at all it holds each next one or none.
            let most = if between > 0.0 { 0.995 } else { 1.0 };
            assert!((0.92..=most).contains(&next), "{next} of {world}");
        }
    }

    #[test]
    fn hosts_that_are_alike_are_no_outliers() {
        const FLEETS: u32 = 1000;
        for (world, (between, within, count, trials)) in WORLDS.into_iter().enumerate() {
            let mut fleet = Fleet::new(70 + world as u64, between, within, trials);
            let alarms =
                (0..FLEETS).filter(|_| !outliers(&fleet.hosts(count), LEVEL).is_empty()).count();
            // 50 with a standard deviation of 6.9.
            assert!(alarms <= 71, "{alarms} of {FLEETS}: {between} {within} {count} {trials}");
        }
    }

    // Eight of forty that are half as slow again would hide each other from a rule that looks at
    // one at a time.
    #[test]
    fn outliers_are_found_also_where_there_are_several() {
        let mut fleet = Fleet::new(11, 0.03, 0.05, 12);
        for count in [1, 3, 8] {
            let mut hosts = fleet.hosts(40);
            hosts[..count].iter_mut().for_each(|host| host.log += 0.5);
            let found = outliers(&hosts, LEVEL);
            assert_eq!(
                found.iter().map(|outlier| outlier.host).collect::<Vec<_>>(),
                (0..count).collect::<Vec<_>>()
            );
            for outlier in found {
                assert!(
                    outlier.low > 1.2 && outlier.low < outlier.value && outlier.high < 2.2,
                    "{outlier:?}"
                );
            }
        }
    }

    #[test]
    fn one_host_that_is_known_badly_is_no_outlier() {
        let mut hosts = Fleet::new(12, 0.03, 0.02, 12).hosts(20);
        hosts[3] = OnHost { log: 1.5, variance: 0.09, freedom: 3.0 };
        assert!(outliers(&hosts, LEVEL).is_empty());
        hosts[3].variance = 0.0004;
        assert_eq!(outliers(&hosts, LEVEL).len(), 1);
    }

    // Figures 1, 2 and 4 twice each, each known to within nothing: middle 2, variance of logs 0.8
    // (ln 2)^2.
    #[test]
    fn a_summary_by_hand() {
        let on = |figure: f64| OnHost { log: figure.ln(), variance: 1e-16, freedom: 9.0 };
        let hosts: Vec<OnHost> = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0].map(on).into();
        let told = expected(&hosts, LEVEL).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-3 * b, "{a} {b}");
        let deviation = 2f64.ln() * 0.8f64.sqrt();
        close(told.value, 2.0);
        close(told.between, deviation);
        // t(0.975, 5) = 2.570582: of figures that are known, the next one's interval is Student's.
        close(told.high, 2.0 * (2.570_582 * deviation / 6f64.sqrt()).exp());
        close(told.next_high, 2.0 * (2.570_582 * deviation * (1.0 + 1.0 / 6.0f64).sqrt()).exp());
        // Chi-squared with 5 degrees of freedom: 12.8325 and 0.831212.
        close(told.between_low, deviation * (5.0 / 12.8325f64).sqrt());
        close(told.between_high, deviation * (5.0 / 0.831_212f64).sqrt());
        assert!(told.share_between > 0.999);
        assert_eq!(expected(&hosts[..3], LEVEL), None);
        assert_eq!(expected(&[hosts[0], hosts[1], hosts[2], on(f64::NAN)], LEVEL), None);
    }

    #[test]
    fn a_summary_of_whatever_numbers_is_none_or_in_order() {
        let ends = |least: f64, most: f64| [least, most, most / 3.0, 1e-9];
        for log in ends(-709.0, 709.0).into_iter().chain([f64::INFINITY, f64::NAN, 1e300]) {
            for variance in ends(1e-16, 1e6).into_iter().chain([0.0, -1.0, 5e-324, 1e300, f64::NAN])
            {
                for freedom in [0.0, 1.0, 1e9] {
                    let one = |nth: usize| OnHost {
                        log: if nth == 0 { log } else { nth as f64 },
                        variance: if nth < 2 { variance } else { 0.01 },
                        freedom,
                    };
                    for count in [4, 7, 100] {
                        let hosts: Vec<OnHost> = (0..count).map(one).collect();
                        let Some(told) = expected(&hosts, LEVEL) else { continue };
                        let Expected { next_low, low, value, high, next_high, .. } = told;
                        assert!(
                            next_low <= low && low <= value && value <= high && high <= next_high,
                            "{told:?}"
                        );
                        assert!(told.between_low <= told.between_high, "{told:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_variance_within_is_that_of_the_told_interval() {
        let figure = Interval::over_trials(&[0.1, 0.2, 0.3, 0.4], 0.9).unwrap();
        let host = OnHost::of(&figure);
        assert!(
            (host.variance - figure.spread.powi(2) / 4.0).abs() < 1e-12 && host.freedom == 3.0,
            "{host:?}"
        );
        let (low, high) = host.bounds(0.9);
        assert!((low / figure.low - 1.0).abs() < 1e-9 && (high / figure.high - 1.0).abs() < 1e-9);
    }

    // Where a bound is the truth of every host, a host is wrongly said to be above it, or below, in
    // at most 5 % of fleets.
    #[test]
    fn counts_of_hosts_that_reach_a_bound_hold_together() {
        let mut fleet = Fleet::new(13, 0.0, 0.05, 10);
        let wrong = (0..1000).filter(|_| {
            let found = reached(&fleet.hosts(40), 1f64.exp(), LEVEL);
            found.undecided.len() < 40
        });
        let wrong = wrong.count();
        assert!((20..=71).contains(&wrong), "{wrong}");
        let clear = |log: f64| OnHost { log, variance: 1e-4, freedom: 9.0 };
        let found = reached(&[clear(0.0), clear(0.9), clear(2f64.ln()), clear(-1.0)], 2.0, LEVEL);
        assert_eq!((found.above, found.below, found.undecided), (vec![1], vec![0, 3], vec![2]));
    }

    #[test]
    fn a_change_is_found_and_none_is_not() {
        const FLEETS: u32 = 1000;
        let mut fleet = Fleet::new(14, 0.1, 0.03, 10);
        let (mut apart, mut paired, mut found) = (0, 0, 0);
        for _ in 0..FLEETS {
            let (before, after) = (fleet.hosts(12), fleet.hosts(9));
            apart += u32::from(between_groups(&before, &after, LEVEL).unwrap().contains(1.0));
            let truths: Vec<f64> = (0..12).map(|_| fleet.truth()).collect();
            let mut both = |change: f64| -> Vec<(OnHost, OnHost)> {
                truths
                    .iter()
                    .map(|truth| (fleet.measure(*truth), fleet.measure(truth + change)))
                    .collect()
            };
            paired += u32::from(same_hosts(&both(0.0), LEVEL).unwrap().contains(1.0));
            // Far less than hosts differ, and seen all the same where they are the same hosts.
            found += u32::from(same_hosts(&both(0.02), LEVEL).unwrap().low > 1.0);
        }
        assert!((930..=985).contains(&apart) && (930..=990).contains(&paired), "{apart} {paired}");
        assert!(found > 900, "{found}");
        let one = [OnHost { log: 0.0, variance: 1.0, freedom: 3.0 }; 3];
        assert_eq!(
            between_groups(&one, &one, LEVEL),
            Err(NotEstimable::TooFewTrials { trials: 3 })
        );
        assert_eq!(same_hosts(&[], LEVEL), Err(NotEstimable::NothingMeasured));
    }
}
