//! Tasks' tables as values, as an experiment file has them.

use toml::{Table, Value};

/// A task's table, its parameters in this order.
///
/// ```
/// use ringfence_experiment::task::{table, words};
/// let task = table([("workload", "write".into()), ("instruction", words(["clwb", "nt"]))]);
/// assert_eq!(task.to_string(), "workload = \"write\"\ninstruction = [\"clwb\", \"nt\"]\n");
/// ```
pub fn table<const N: usize>(parameters: [(&str, Value); N]) -> Table {
    parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A list of words: each makes a case.
pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(words.into_iter().map(Value::from).collect())
}
