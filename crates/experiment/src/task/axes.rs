//! The table of a task in an experiment file, in which any parameter may be a list: each
//! combination of values is a task.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::nearest;
use crate::one_or_many::OneOrMany;
use crate::units::Share;

/// The parameter that every workload has, which is not part of the task itself: the share of a
/// CPU's time that it may use.
pub const QUOTA: &str = "quota";

/// The key of the workload's name.
pub(super) const WORKLOAD: &str = "workload";

/// A workload's parameters with their values, and how they are written.
pub trait Axes {
    /// The workload's name.
    fn workload(&self) -> &'static str;

    /// The table as it is written in a file, in its order.
    fn written(&self) -> &Table;

    /// The same table, to be changed along with a parameter.
    fn written_mut(&mut self) -> &mut Table;

    /// Reads the value of a parameter, or each value of a list.
    ///
    /// # Errors
    /// One sentence naming the parameter, the value and the remedy.
    fn read(&mut self, key: &str, value: &Value) -> Result<(), String>;

    /// Sets a parameter, to the values of a list if it is one.
    ///
    /// # Errors
    /// As for [`Axes::read`].
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        self.read(key, value)?;
        self.written_mut().insert(key.into(), value.clone());
        Ok(())
    }

    /// The parameter without which there is no task, if it is absent.
    fn absent(&self) -> Option<&'static str>;

    /// The share of a CPU that a task may use; of a list, the one at the index `place` returns.
    fn quota(&self, place: &dyn Fn(&str) -> usize) -> Option<Share>;
}

/// Declares the axes of a workload: a field for each parameter of its task.
macro_rules! axes {
    ($task:ident: $name:ident, $word:literal {
        $($field:ident: $type:ty),* $(,)?
    } $(needs $needed:ident)?) => {
        #[doc = concat!("`", $word, "` with its parameters; each value of a list makes a task.")]
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            written: toml::Table,
            quota: Vec<crate::units::Share>,
            $($field: Vec<$type>,)*
        }

        impl Default for $name {
            fn default() -> Self {
                let name = (super::axes::WORKLOAD.to_owned(), toml::Value::from($word));
                Self {
                    written: [name].into_iter().collect(),
                    quota: Vec::new(),
                    $($field: Vec::new(),)*
                }
            }
        }

        impl $name {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                pub fn $field(mut self, values: impl Into<crate::OneOrMany<$type>>) -> Self {
                    let values = values.into();
                    let written = super::axes::written(&values);
                    self.written.insert(stringify!($field).into(), written);
                    self.$field = values.into_vec();
                    self
                }
            )*
        }

        impl $task {
            /// The workload's name, as in a file.
            pub const WORKLOAD: &str = $word;
        }

        impl $name {
            // One task, with the value of each list at the index that `place` returns.
            #[allow(unused, reason = "not every workload has parameters")]
            pub(super) fn task(&self, place: &dyn Fn(&str) -> usize) -> $task {
                let mut task = $task::default();
                $(if let Some(value) = self.$field.get(place(stringify!($field))) {
                    task.$field = value.clone();
                })*
                task
            }
        }

        impl super::axes::Axes for $name {
            fn workload(&self) -> &'static str {
                $word
            }

            fn written(&self) -> &toml::Table {
                &self.written
            }

            fn written_mut(&mut self) -> &mut toml::Table {
                &mut self.written
            }

            fn read(&mut self, key: &str, value: &toml::Value) -> Result<(), String> {
                const KEYS: &[&str] = &[$(stringify!($field)),*];
                match key {
                    super::axes::QUOTA => self.quota = super::axes::quotas(value)?,
                    $(stringify!($field) => {
                        self.$field = super::axes::read($word, key, value)?;
                    })*
                    _ => return Err(super::axes::unknown($word, key, KEYS)),
                }
                Ok(())
            }

            fn absent(&self) -> Option<&'static str> {
                $(if self.$needed.is_empty() {
                    return Some(stringify!($needed));
                })?
                None
            }

            fn quota(&self, place: &dyn Fn(&str) -> usize) -> Option<crate::units::Share> {
                self.quota.get(place(super::axes::QUOTA)).copied()
            }
        }
    };
}
pub(super) use axes;

/// How values are written in a file.
pub(super) fn written<T: Serialize>(values: &OneOrMany<T>) -> Value {
    Value::try_from(values).expect("a parameter is a TOML value by construction")
}

/// The values of a parameter.
///
/// # Errors
/// One sentence naming the workload, the parameter, the value and the remedy.
pub(super) fn read<T: DeserializeOwned + PartialEq>(
    workload: &str,
    key: &str,
    value: &Value,
) -> Result<Vec<T>, String> {
    each(key, value, |one| {
        one_value(one).map_err(|error| match error.contains(&format!("`{key}`")) {
            true => format!("workload {workload}: {}", nearest::improve(&error)),
            false => {
                format!("workload {workload}: {key} = {}: {}", plain(one), nearest::improve(&error))
            }
        })
    })
}

fn one_value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let read = |value: Value| T::deserialize(value).map_err(|error| error.message().to_owned());
    read(value.clone()).map_err(|error| match value {
        // `pace = 50`: the error for the text "50" says what is expected.
        _ if error.contains("expected a string") => {
            read(Value::String(plain(value))).err().unwrap_or(error)
        }
        _ => error,
    })
}

// The values of a list, each read alone, or the single one.
fn each<T: PartialEq>(
    key: &str,
    value: &Value,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let list = match value {
        Value::Array(list) if list.is_empty() => {
            return Err(format!("{key} = [] names no value: give at least one, or leave it out"));
        }
        Value::Array(list) => list.as_slice(),
        single => std::slice::from_ref(single),
    };
    let mut values: Vec<T> = Vec::new();
    for one in list {
        let value = read(one)?;
        if values.contains(&value) {
            return Err(format!("{key} names {} twice: give each value once", plain(one)));
        }
        values.push(value);
    }
    Ok(values)
}

/// The values of a quota.
///
/// # Errors
/// One sentence.
pub(super) fn quotas(value: &Value) -> Result<Vec<Share>, String> {
    each(QUOTA, value, |one| {
        let share: Share = plain(one).parse().map_err(|error| format!("quota: {error}"))?;
        if share.0 < 0.01 || share.0 > 1.0 {
            return Err(format!("quota = {share} must be between 1% and 100% of a CPU"));
        }
        Ok(share)
    })
}

/// The error for a parameter that the workload does not have, with the nearest name.
pub(super) fn unknown(workload: &str, key: &str, known: &'static [&'static str]) -> String {
    let error = <toml::de::Error as serde::de::Error>::unknown_field(key, known);
    format!("workload {workload}: {}", nearest::improve(error.message()))
}

/// A value as labels show it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(table) => {
            let word = |(key, value)| format!("{key}={}", plain(value));
            table.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
