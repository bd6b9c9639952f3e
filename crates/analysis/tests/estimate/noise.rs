//! A simulated machine whose rates behave as those of a shared VM were measured to.

use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringfence_analysis::estimate::{Pair, Window};
use ringfence_experiment::class::{Class, classify};

/// How many experiments a claim about coverage rests on.
pub const EXPERIMENTS: u32 = 2_000;

/// Three seeds: one lucky draw is not evidence.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// The coefficient of variation of window rates, and their autocorrelation 500 windows apart.
const RATE_CV: f64 = 0.24;
const LAG: i32 = 500;
const LAG_CORRELATION: f64 = 0.5;

/// Part of that variation that is independent from window to window (standard deviation of the log
/// rate).
const WINDOW_SD: f64 = 0.04;

/// Windows that pass while the victim is started anew.
const RESTART: i32 = 20;

/// The sources of variance that a test may choose; drift and window noise are always there.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The true slowdown: geometric mean over trials.
    pub slowdown: f64,
    /// Pairs of windows in a trial.
    pub pairs: u32,
    /// Standard deviation of the log rate between trials, the same for both sides (memory layout).
    pub level_sd: f64,
    /// Standard deviation of the log slowdown between trials.
    pub effect_sd: f64,
    /// Chance per window that the CPUs move together or apart. The slowdown acts only while they
    /// are together.
    pub toggle: f64,
}

impl Setup {
    /// Trials that differ in level only.
    pub fn of(slowdown: f64) -> Self {
        Self { slowdown, pairs: 6, level_sd: 0.05, effect_sd: 0.0, toggle: 0.0 }
    }

    /// Trials that differ in the effect too.
    pub fn with_varied_effect(slowdown: f64) -> Self {
        Self { effect_sd: 0.02, ..Self::of(slowdown) }
    }
}

/// One machine; time passes from window to window, through trials and experiments.
pub struct Machine {
    rng: Xoshiro256PlusPlus,
    /// Log rate's slow part, an AR(1) process.
    drift: f64,
    together: bool,
}

impl Machine {
    pub fn new(seed: u64) -> Self {
        let mut machine =
            Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), drift: 0.0, together: true };
        machine.drift = drift_sd() * machine.normal();
        machine
    }

    /// The next trial of an experiment.
    pub fn live(&mut self, trial: u32, setup: &Setup) -> Vec<Pair> {
        self.pass(RESTART);
        let level = setup.level_sd * self.normal();
        let effect = setup.slowdown.ln() + setup.effect_sd * self.normal();
        (0..setup.pairs).map(|_| self.pair(trial, level, effect, setup)).collect()
    }

    pub fn trials(&mut self, setup: &Setup, trials: u32) -> Vec<Pair> {
        (0..trials).flat_map(|trial| self.live(trial, setup)).collect()
    }

    /// Log rates of so many adjacent windows in one trial.
    pub fn log_rates(&mut self, windows: usize) -> Vec<f64> {
        (0..windows)
            .map(|_| {
                let window = self.window(0.0, 0.0, &Setup::of(1.0));
                (window.units / window.ns).ln()
            })
            .collect()
    }

    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.rng)
    }

    pub fn uniform(&mut self) -> f64 {
        StandardUniform.sample(&mut self.rng)
    }

    fn pair(&mut self, trial: u32, level: f64, effect: f64, setup: &Setup) -> Pair {
        let before = self.ping_pong();
        let (baseline, arm);
        if self.uniform() < 0.5 {
            baseline = self.window(level, 0.0, setup);
            arm = self.window(level, effect, setup);
        } else {
            arm = self.window(level, effect, setup);
            baseline = self.window(level, 0.0, setup);
        }
        let class =
            if setup.toggle > 0.0 { classify(before, self.ping_pong()) } else { Class::Unprobed };
        Pair { trial, class, baseline, arm }
    }

    /// A window of about 50 ms: never of exactly the length asked for.
    fn window(&mut self, level: f64, effect: f64, setup: &Setup) -> Window {
        self.pass(1);
        if setup.toggle > 0.0 && self.uniform() < setup.toggle {
            self.together = !self.together;
        }
        let effect = if self.together { effect } else { 0.0 };
        let ns = 50e6 * (1.0 + 0.05 * self.uniform());
        let rate = 0.02 * (self.drift + WINDOW_SD * self.normal() + level - effect).exp();
        Window { units: rate * ns, ns }
    }

    fn pass(&mut self, windows: i32) {
        let kept = phi().powi(windows);
        self.drift = kept * self.drift + (1.0 - kept * kept).sqrt() * drift_sd() * self.normal();
    }

    /// Round trips as measured on a VM whose CPUs moved: 66-130 ns together, 358-399 ns apart.
    fn ping_pong(&mut self) -> Option<f64> {
        let along = self.uniform();
        Some(if self.together { 66.0 + 64.0 * along } else { 358.0 + 41.0 * along })
    }
}

/// Variance of the log of a log-normal rate with this coefficient of variation.
fn variance() -> f64 {
    (RATE_CV * RATE_CV).ln_1p()
}

fn drift_sd() -> f64 {
    (variance() - WINDOW_SD * WINDOW_SD).sqrt()
}

/// The drift's correlation between adjacent windows that gives the sum its correlation at the lag.
fn phi() -> f64 {
    let share = 1.0 - WINDOW_SD * WINDOW_SD / variance();
    (LAG_CORRELATION / share).powf(1.0 / f64::from(LAG))
}

#[test]
fn rates_vary_and_correlate_as_measured() {
    let logs = Machine::new(7).log_rates(2_000_000);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
    let lagged =
        logs.iter().zip(&logs[LAG as usize..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let correlation = lagged / (logs.len() - LAG as usize) as f64 / variance;
    let cv = variance.exp_m1().sqrt();
    assert!((cv - RATE_CV).abs() < 0.02, "coefficient of variation {cv}");
    assert!((correlation - LAG_CORRELATION).abs() < 0.05, "correlation {correlation}");
}
