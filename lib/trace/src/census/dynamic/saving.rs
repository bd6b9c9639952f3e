//! What the flushes and fences of a run would cost with other instructions, and without those that
//! were needless.
//!
//! A line that is written back costs what the instruction costs on a line. A fence costs by the
//! lines that it waits for: between what one after each line and one after each 64 lines were
//! measured to cost, in proportion. Both were measured in a row of thousands of the same, and what
//! a program does in between may hide some of it. The bounds are sums of bounds, so that they hold
//! where all of those hold. What stores cost by themselves is left out: reading lines before they
//! are stored to, which non-temporal stores spare, is not counted for either.

use ringfence_persist::policy::Prices;
use serde::Serialize;

use super::Run;
use super::counts::Executed;
use super::waits::Waits;

/// Lines of the larger one of the two batches that fences are measured after.
pub const MANY: u64 = 64;

/// A time with bounds, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ExecutionCost"))]
pub struct Cost {
    /// The time.
    pub ns: f64,
    /// Lower bound. Where a difference was measured it may be below 0.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Cost {
    fn times(self, count: f64) -> Self {
        Self { ns: self.ns * count, low: self.low * count, high: self.high * count }
    }

    fn plus(self, other: Self) -> Self {
        Self { ns: self.ns + other.ns, low: self.low + other.low, high: self.high + other.high }
    }
}

/// What a method to write lines back costs on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodCosts {
    /// The instruction, as in [`Flush::name`](ringfence_persist::Flush::name); `nt` for
    /// non-temporal stores.
    pub name: String,
    /// A line.
    pub line: Cost,
    /// A fence after each line.
    pub fence: Cost,
    /// A fence after each [`MANY`] lines.
    pub fence_of_many: Cost,
}

impl MethodCosts {
    fn fence_of(&self, lines: u64) -> Cost {
        let share = (lines.clamp(1, MANY) - 1) as f64 / (MANY - 1) as f64;
        self.fence.times(1.0 - share).plus(self.fence_of_many.times(share))
    }

    fn all(&self, lines: u64, waits: &[Waits]) -> Cost {
        let fences = waits.iter().map(|wait| self.fence_of(wait.lines).times(wait.fences as f64));
        fences.fold(self.line.times(lines as f64), Cost::plus)
    }
}

/// The time of all lines and fences of a run that were not needless.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Predicted {
    /// By this method; `None`: by those that were recorded.
    pub method: Option<String>,
    /// The time.
    #[serde(flatten)]
    pub cost: Cost,
}

/// What would be saved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saving {
    /// Where the costs were measured, such as `dram, 1GiB`.
    pub measured_on: String,
    /// Lines that were written back, or stored to past the caches.
    pub lines: u64,
    /// Fences that had something to wait for.
    pub fences: u64,
    /// As it was recorded, then by each method that was measured, the cheapest first. Needless
    /// flushes and fences are left out.
    pub predicted: Vec<Predicted>,
    /// Needless flushes: of clean lines, and again of lines that were as before.
    pub needless_flushes: u64,
    /// Needless fences.
    pub needless_fences: u64,
    /// What the needless ones cost, ns, without bounds; `None` where that was not measured.
    pub needless_ns: Option<f64>,
}

/// Predicts the time of a run's flushes and fences by these costs; prices are those of a policy
/// file.
///
/// # Errors
/// In a sentence, where the costs of what was recorded are not among them.
pub fn predict(
    run: &Run,
    measured_on: String,
    methods: &[MethodCosts],
    prices: &Prices,
) -> Result<Saving, String> {
    let find = |name: &str| {
        let not_measured = || format!("what {name} costs was not measured");
        methods.iter().find(|method| method.name == name).ok_or_else(not_measured)
    };
    let mut recorded = Cost::default();
    let mut most: Option<(u64, &MethodCosts)> = None;
    let mut lines = 0;
    for (name, useful) in useful(run) {
        let method = find(name)?;
        recorded = recorded.plus(method.line.times(useful as f64));
        lines += useful;
        if most.is_none_or(|(before, _)| before < useful) {
            most = Some((useful, method));
        }
    }
    let mut predicted = Vec::new();
    if let Some((_, method)) = most {
        // Fences wait for what there is most of.
        let cost = recorded.plus(method.all(0, &run.waits));
        predicted.push(Predicted { method: None, cost });
        let other = |method: &MethodCosts| Predicted {
            method: Some(method.name.clone()),
            cost: method.all(lines, &run.waits),
        };
        let mut others: Vec<Predicted> = methods.iter().map(other).collect();
        others.sort_by(|a, b| a.cost.ns.total_cmp(&b.cost.ns));
        predicted.extend(others);
    }
    let (flushes, fences) = (run.total.needless_flushes(), run.total.idle_fences);
    let price = |count: u64, price: Option<f64>| match count {
        0 => Some(0.0),
        count => price.map(|ns| ns * count as f64),
    };
    let needless_ns = price(flushes, prices.clean_flush_ns).zip(price(fences, prices.fence_ns));
    Ok(Saving {
        measured_on,
        lines,
        fences: run.waits.iter().map(|wait| wait.fences).sum(),
        predicted,
        needless_flushes: flushes,
        needless_fences: fences,
        needless_ns: needless_ns.map(|(flushes, fences)| flushes + fences),
    })
}

// Lines by method, of those that were not needless.
fn useful(run: &Run) -> Vec<(&'static str, u64)> {
    let mut lines = [("clflush", 0), ("clflushopt", 0), ("clwb", 0), ("nt", run.nt_lines)];
    for row in &run.sites {
        let Executed { clflush, clflushopt, clwb, .. } = row.executed;
        // A site is one instruction. Where it is not known, the needless ones are of the
        // instruction that is most frequent.
        let counts = [clflush, clflushopt, clwb];
        let most = (0..counts.len()).max_by_key(|kind| counts[*kind]).unwrap_or(0);
        for (kind, count) in counts.into_iter().enumerate() {
            let needless = if kind == most { row.executed.needless_flushes() } else { 0 };
            lines[kind].1 += count.saturating_sub(needless);
        }
    }
    lines.into_iter().filter(|(_, lines)| *lines > 0).collect()
}
