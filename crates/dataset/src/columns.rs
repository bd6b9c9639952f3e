//! The columns of a table of samples: one per field of [`Sample`], in its order.
//!
//! A new one takes a line here, a field there, and the engine that fills it in: what is written and
//! read follows, and so does the version of the format.

use std::sync::Arc;

use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;

// The version since which columns are called as they are today.
const RENAMED: u32 = 3;

/// A column: its name, and how a sample's value is taken and set.
pub struct Column {
    pub name: &'static str,
    /// What it was called before version 3, if otherwise. No name is ever given to another column.
    pub before: Option<&'static str>,
    pub kind: Kind,
    /// The first version of the format that has it.
    pub since: u32,
}

type Get<T> = fn(&Sample) -> T;
type Set<T> = fn(&mut Sample, T);

/// What a column holds.
pub enum Kind {
    U32(Get<u32>, Set<u32>),
    U64(Get<u64>, Set<u64>),
    OptU64(Get<Option<u64>>, Set<Option<u64>>),
    OptF64(Get<Option<f64>>, Set<Option<f64>>),
    OptBool(Get<Option<bool>>, Set<Option<bool>>),
    Role,
    Class,
}

impl Kind {
    /// What a journal calls it; a question mark says that the value may be null.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::U32(..) => "u32",
            Self::U64(..) => "u64",
            Self::OptU64(..) => "u64?",
            Self::OptF64(..) => "f64?",
            Self::OptBool(..) => "bool?",
            Self::Role | Self::Class => "text",
        }
    }

    pub const fn nullable(&self) -> bool {
        matches!(self, Self::OptU64(..) | Self::OptF64(..) | Self::OptBool(..))
    }
}

macro_rules! column {
    ($kind:ident, $field:ident) => {
        column!($kind, $field, since 1)
    };
    ($kind:ident, $field:ident, since $version:literal) => {
        column!($kind, $field, since $version, before None)
    };
    ($kind:ident, $field:ident, before $name:literal) => {
        column!($kind, $field, since 1, before Some($name))
    };
    ($kind:ident, $field:ident, since $version:literal, before $before:expr) => {
        Column {
            name: stringify!($field),
            before: $before,
            kind: Kind::$kind(|sample| sample.$field, |sample, value| sample.$field = value),
            since: $version,
        }
    };
}

impl Column {
    /// What a version of the format calls it.
    pub fn name_in(&self, version: u32) -> &'static str {
        self.before.filter(|_| version < RENAMED).unwrap_or(self.name)
    }
}

/// A column that is added says `since` the version after [`SCHEMA`](crate::SCHEMA), which rises to
/// it.
pub const COLUMNS: &[Column] = &[
    column!(U32, trial, before "life"),
    column!(U32, round, before "block"),
    column!(U32, step),
    column!(U32, position),
    column!(U32, step_case),
    column!(U32, case),
    Column { name: "role", before: None, kind: Kind::Role, since: 1 },
    column!(U32, instance),
    column!(U32, cpu),
    Column { name: "class", before: None, kind: Kind::Class, since: 1 },
    column!(OptF64, ping_before_ns),
    column!(OptF64, ping_after_ns),
    column!(U64, start_ns),
    column!(U64, length_ns),
    column!(U64, busy_ns),
    column!(U64, units),
    column!(OptU64, cycles),
    column!(OptU64, instructions),
    column!(OptU64, llc_misses),
    column!(OptU64, late_ns, since 4),
    column!(OptBool, simulated, since 5),
    column!(OptU64, tail_units, since 6),
    column!(OptU64, tail_busy_ns, since 6),
];

/// The newest version of the format: that of the newest column, or `layout`, since which the files
/// are laid out as they are.
pub const fn newest(layout: u32) -> u32 {
    let (mut newest, mut i) = (layout, 0);
    while i < COLUMNS.len() {
        let Column { kind, since, .. } = &COLUMNS[i];
        assert!(
            *since == 1 || kind.nullable(),
            "older data lacks this column: it must be nullable"
        );
        if *since > newest {
            newest = *since;
        }
        i += 1;
    }
    newest
}

/// The columns that a version of the format has.
pub fn of_version(version: u32) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| column.since <= version).collect()
}

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
        known.cloned().ok_or_else(|| {
            format!("'{}' is not a role of the experiment", String::from_utf8_lossy(name))
        })
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::journal::{self, Journal};
    use crate::parquet_file;

    // A value of its own in every column.
    fn filled() -> Sample {
        let mut sample = Sample { role: "victim".into(), class: Class::Mixed, ..Sample::default() };
        for (number, column) in (1..).zip(COLUMNS) {
            match column.kind {
                Kind::U32(_, set) => set(&mut sample, number),
                Kind::U64(_, set) => set(&mut sample, u64::from(number)),
                Kind::OptU64(_, set) => set(&mut sample, Some(u64::from(number))),
                Kind::OptF64(_, set) => set(&mut sample, Some(f64::from(number))),
                Kind::OptBool(_, set) => set(&mut sample, Some(true)),
                Kind::Role | Kind::Class => {}
            }
        }
        sample
    }

    #[test]
    fn every_field_has_the_column_of_its_name() {
        let Value::Object(mut fields) = serde_json::to_value(filled()).unwrap() else {
            panic!("no object")
        };
        for (number, column) in (1_u32..).zip(COLUMNS) {
            let value = fields
                .remove(column.name)
                .unwrap_or_else(|| panic!("{} is not a field", column.name));
            let expected = match column.kind {
                Kind::U32(..) | Kind::U64(..) | Kind::OptU64(..) => json!(number),
                Kind::OptF64(..) => json!(f64::from(number)),
                Kind::OptBool(..) => json!(true),
                Kind::Role => json!("victim"),
                Kind::Class => json!("mixed"),
            };
            assert_eq!(value, expected, "{}", column.name);
        }
        // Latencies, where there are any, have a table of their own.
        assert!(fields.is_empty(), "{fields:?} have no column");
    }

    #[test]
    fn every_column_is_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let known = Known { roles: vec!["other".into(), "victim".into()], cases: 100 };
        let samples =
            vec![filled(), Sample { role: "victim".into(), ..Sample::default() }, filled()];
        let path = dir.path().join("journal");
        Journal::create(&path).unwrap().append(&samples).unwrap();
        journal::read(&path, &known, |step| {
            assert_eq!(step, samples);
            Ok(())
        })
        .unwrap();
        let path = dir.path().join("table");
        let written = parquet_file::write(&path, |step| step(samples.clone())).unwrap();
        assert_eq!(parquet_file::read(&path, &written, &known).unwrap(), samples);
    }
}
