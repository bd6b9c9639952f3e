//! The columns of a table of samples: one per field of [`Sample`], in its order.

use std::sync::Arc;

use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;

/// A column: its name, and how a sample's value is taken and set.
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

type Get<T> = fn(&Sample) -> T;
type Set<T> = fn(&mut Sample, T);

/// What a column holds.
pub enum Kind {
    U32(Get<u32>, Set<u32>),
    U64(Get<u64>, Set<u64>),
    OptU64(Get<Option<u64>>, Set<Option<u64>>),
    OptF64(Get<Option<f64>>, Set<Option<f64>>),
    Role,
    Class,
}

macro_rules! column {
    ($kind:ident, $field:ident) => {
        Column {
            name: stringify!($field),
            kind: Kind::$kind(|sample| sample.$field, |sample, value| sample.$field = value),
        }
    };
}

pub const COLUMNS: [Column; 19] = [
    column!(U32, life),
    column!(U32, block),
    column!(U32, step),
    column!(U32, position),
    column!(U32, step_case),
    column!(U32, case),
    Column { name: "role", kind: Kind::Role },
    column!(U32, instance),
    column!(U32, cpu),
    Column { name: "class", kind: Kind::Class },
    column!(OptF64, ping_before_ns),
    column!(OptF64, ping_after_ns),
    column!(U64, start_ns),
    column!(U64, length_ns),
    column!(U64, busy_ns),
    column!(U64, units),
    column!(OptU64, cycles),
    column!(OptU64, instructions),
    column!(OptU64, llc_misses),
];

/// The classes by the names that they have in files.
pub const CLASSES: [(&str, Class); 5] = [
    ("sharing", Class::Sharing),
    ("apart", Class::Apart),
    ("unclear", Class::Unclear),
    ("mixed", Class::Mixed),
    ("unprobed", Class::Unprobed),
];

/// What samples may refer to.
#[derive(Debug)]
pub struct Known {
    /// The roles' names, which samples share.
    pub roles: Vec<Arc<str>>,
    /// How many cases there are.
    pub cases: usize,
}

impl Known {
    /// Those of a plan.
    pub fn new(plan: &Plan) -> Self {
        let roles = plan.experiment.roles.iter().map(|role| role.name.as_str().into());
        Self { roles: roles.collect(), cases: plan.cases.len() }
    }

    /// The shared name of a role.
    pub fn role(&self, name: &[u8]) -> Result<Arc<str>, String> {
        let known = self.roles.iter().find(|role| role.as_bytes() == name);
        known
            .cloned()
            .ok_or_else(|| format!("'{}' is no role of the experiment", String::from_utf8_lossy(name)))
    }

    /// Checks that samples name cases that exist.
    pub fn check(&self, samples: &[Sample]) -> Result<(), String> {
        let unknown = |case: u32| case as usize >= self.cases;
        match samples.iter().position(|sample| unknown(sample.case) || unknown(sample.step_case)) {
            Some(number) => {
                let Sample { case, step_case, .. } = samples[number];
                let cases = self.cases;
                Err(format!("sample {number} names case {} of {cases}", case.max(step_case)))
            }
            None => Ok(()),
        }
    }
}
