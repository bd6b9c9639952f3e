//! Tasks as a file has them, where any parameter may be a list.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::{Table, Value};

use super::axes::WORKLOAD;
use super::{Settings, Task, Tasks, WORKLOADS};
use crate::nearest;
use crate::units::Share;

impl Tasks {
    /// From a table of a file: the workload's name, and its parameters.
    ///
    /// # Errors
    /// One sentence naming the parameter, the value and the remedy.
    pub fn parse(table: &Table) -> Result<Self, String> {
        let workload = match table.get(WORKLOAD) {
            Some(Value::String(name)) => name,
            Some(_) => return Err("workload must be a name, such as workload = \"write\"".into()),
            None => {
                return Err(format!("workload is missing: it is one of {}", WORKLOADS.join(", ")));
            }
        };
        let mut tasks = Self::named(workload).ok_or_else(|| {
            let error = <toml::de::Error as de::Error>::unknown_variant(workload, WORKLOADS);
            format!("workload: {}", nearest::improve(error.message()))
        })?;
        tasks.set_all(table)?;
        tasks.axes_mut().written_mut().clone_from(table);
        if let Some(key) = tasks.axes().absent() {
            return Err(format!("workload {workload}: '{key}' is missing: give it"));
        }
        Ok(tasks)
    }

    /// Sets a parameter, to the values of a list if it is one.
    ///
    /// # Errors
    /// As for [`Tasks::parse`].
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        self.axes_mut().set(key, value)
    }

    /// The same tasks with other parameters.
    ///
    /// # Errors
    /// As for [`Tasks::parse`].
    pub fn with(&self, settings: &Settings) -> Result<Self, String> {
        let mut tasks = self.clone();
        tasks.set_all(settings.written())?;
        Ok(tasks)
    }

    fn set_all(&mut self, table: &Table) -> Result<(), String> {
        table
            .iter()
            .filter(|(key, _)| *key != WORKLOAD)
            .try_for_each(|(key, value)| self.set(key, value))
    }

    /// The workload's name.
    pub fn workload(&self) -> &'static str {
        self.axes().workload()
    }

    /// The table as it is written in a file.
    pub fn written(&self) -> &Table {
        self.axes().written()
    }

    /// Every task, with the share of a CPU that it may use; the last list varies fastest. Each is
    /// checked.
    ///
    /// # Errors
    /// One sentence naming the parameter, the value and the remedy.
    pub fn each(&self) -> Result<Vec<(Task, Option<Share>)>, String> {
        let axes = self.axes();
        let lengths: Vec<(&str, usize)> = axes
            .written()
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_array().map_or(1, Vec::len)))
            .collect();
        let all = lengths.iter().fold(1_usize, |all, (_, length)| all.saturating_mul(*length));
        if all > 10_000 {
            return Err("the lists combine to more than 10000 cases: shorten some of them".into());
        }
        let task = |number: usize| {
            let place = |wanted: &str| {
                let mut places = lengths.iter().rev().scan(number, |rest, (key, length)| {
                    let place = *rest % length;
                    *rest /= length;
                    Some((*key, place))
                });
                places.find(|(key, _)| *key == wanted).map_or(0, |(_, place)| place)
            };
            let task = self.task(&place);
            task.check().map_err(|error| format!("workload {}: {error}", task.name()))?;
            Ok((task, axes.quota(&place)))
        };
        (0..all).map(task).collect()
    }
}

impl Serialize for Tasks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Table::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A task with all its parameters decided, as a file has it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Tasks"))]
pub struct OneTask {
    tasks: Tasks,
    task: Task,
}

impl OneTask {
    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// As a role may have it.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}

impl fmt::Display for OneTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tasks.fmt(f)
    }
}

impl TryFrom<Tasks> for OneTask {
    type Error = String;

    fn try_from(tasks: Tasks) -> Result<Self, String> {
        match <[_; 1]>::try_from(tasks.each()?) {
            Ok([(task, _)]) => Ok(Self { tasks, task }),
            Err(several) => Err(format!(
                "one task is needed, and this list makes {}; 'ringfence neighbours' compares \
                 several",
                several.len()
            )),
        }
    }
}

/// As [`parse`](super::text::parse) reads it.
impl FromStr for OneTask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        super::text::parse(text)?.try_into()
    }
}

impl Serialize for OneTask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tasks.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OneTask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Tasks::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use ringfence_machine::units::Bytes;

    use super::super::Writes;
    use super::*;

    fn each(text: &str) -> Result<Vec<(Task, Option<Share>)>, String> {
        Tasks::parse(&text.parse().unwrap())?.each()
    }

    #[test]
    fn tasks_are_written_as_they_were_given() {
        for text in [
            "block = 4096\nworkload = \"write\"\ninstruction = [\"clwb\"]\n",
            "workload = \"command\"\nrun = \"x\"\nquota = \"50%\"\n\n[env]\nA = \"b\"\n",
        ] {
            let tasks = Tasks::parse(&text.parse().unwrap()).unwrap();
            assert_eq!(toml::to_string(&tasks).unwrap(), text);
        }
        let set = Settings::from(Writes::default().block(Bytes::kib(4)));
        let tasks = Tasks::parse(&"workload = 'write'\nbatch = 2".parse().unwrap()).unwrap();
        assert_eq!(
            tasks.with(&set).unwrap().written().to_string(),
            "workload = \"write\"\nbatch = 2\nblock = \"4KiB\"\n"
        );
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_right_word() {
        let cases = [
            ("block = '4KiB'", "workload is missing"),
            ("workload = 'wirte'", "did you mean 'write'"),
            ("workload = 'write'\ninstrution = 'clwb'", "did you mean 'instruction'"),
            ("workload = 'write'\ninstruction = 'clwbb'", "did you mean 'clwb'"),
            ("workload = 'write'\nblock = 'big'", "'big' is not a size"),
            ("workload = 'write'\nblock = []", "names no value"),
            ("workload = 'write'\nblock = 65", "multiple of 64B"),
            (
                "workload = 'write'\nbatch = -1",
                "batch = -1: '-1' is not a whole number of 0 or more",
            ),
            ("workload = 'write'\ntarget = 'disk'", "is not a target"),
            ("workload = 'write'\npace = 'fast'", "pace = fast: 'fast' is not a rate"),
            (
                "workload = 'write'\npace = 50",
                "pace = 50: '50' is not a rate: write a size per second, such as 50MiB/s",
            ),
            (
                "workload = 'chase'\nhistogram = 'maybe'",
                "histogram = maybe: 'maybe' is not true or false",
            ),
            ("workload = 'dirty'\nio = 5", "io = 5: '5' is not one of buffered, wait, "),
            (
                "workload = 'dirty'\nio = ['wait', 'wait']",
                "io names wait twice: give each value once",
            ),
            ("workload = 'write'\nblock = ['4KiB', 4096]", "block names 4096 twice"),
            ("workload = 'chase'\nfootprint = '1B'", "too small"),
            ("workload = 'read'\naccess = '8B'", "must be 16B, 32B or 64B"),
            ("workload = 'read'\nmemory = '/dev/pseudo_lock/a'", "is not memory to read"),
            ("workload = 'read'\nflush = 'clflsh'", "did you mean 'clflush'"),
            ("workload = 'ring'\nvariant = 'optimized'", "did you mean 'optimised'"),
            ("workload = 'ring'\nsize = '512B'", "too small for entry"),
            ("workload = 'ring'\nvariant = 'naive'\nbatch = 2", "only with variant"),
            ("workload = 'command'", "'run' is missing"),
            ("workload = 'command'\nrun = \"a 'b\"", "unclosed quote"),
            ("workload = 'command'\nrun = ''", "run is empty"),
            ("workload = 7", "must be a name"),
            ("workload = 'alu'\nquota = '0%'", "between 1% and 100%"),
            ("workload = 'alu'\nquota = 'half'", "quota: 'half' is not"),
            ("workload = 'command'\nrun = 'x'\nenv = { 'A=B' = '1' }", "cannot be the name"),
            ("workload = 'command'\nrun = 'x'\nwarm_up = '11min'", "at most 10min"),
        ];
        for (text, part) in cases {
            let error = each(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "one sentence: {error}");
        }
    }
}
