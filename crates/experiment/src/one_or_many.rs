//! One value or several, as a file may have either.

use serde::{Deserialize, Serialize};

/// A value, or a list of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OneOrMany_{T}"))]
#[serde(untagged, expecting = "a value or a list of values")]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several.
    Many(#[cfg_attr(feature = "schema", schemars(length(min = 1)))] Vec<T>),
}

impl<T> OneOrMany<T> {
    /// All of them.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(value) => std::slice::from_ref(value),
            OneOrMany::Many(values) => values,
        }
    }

    /// All of them, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            OneOrMany::One(value) => std::slice::from_mut(value),
            OneOrMany::Many(values) => values,
        }
    }

    /// All of them, by value.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(value) => vec![value],
            OneOrMany::Many(values) => values,
        }
    }
}

impl<T> From<T> for OneOrMany<T> {
    fn from(value: T) -> Self {
        OneOrMany::One(value)
    }
}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(values: Vec<T>) -> Self {
        OneOrMany::Many(values)
    }
}

impl<T, const N: usize> From<[T; N]> for OneOrMany<T> {
    fn from(values: [T; N]) -> Self {
        OneOrMany::Many(values.into())
    }
}

impl Default for OneOrMany<u32> {
    fn default() -> Self {
        OneOrMany::One(1)
    }
}

impl OneOrMany<u32> {
    /// Whether it is 1, the default, which is not written.
    pub fn is_default_count(&self) -> bool {
        self.as_slice() == [1]
    }
}
