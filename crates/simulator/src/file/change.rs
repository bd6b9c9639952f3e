//! A description with some of its values replaced: another machine, which says what was changed.

use std::fmt;

use ringfence_experiment::nearest::nearest;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Description;
use super::leaves::{Leaf, is_at_or_below, leaves};

// Values that a file may leave out.
const OPTIONAL: [&str; 9] = [
    "last_level",
    "classes",
    "mask_bits",
    "l2_classes",
    "l2_mask_bits",
    "cdp",
    "bandwidth_control",
    "pseudo_lock",
    "eadr",
];

/// A value in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MachineChange"))]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its path, such as `llc.ways` and `nodes[1].channels`.
    pub key: String,
    /// What the file says; absent where it says nothing.
    pub was: Option<String>,
    /// What stands there instead.
    pub value: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)
    }
}

/// Why a description cannot be changed like this: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChangeError(pub String);

impl Description {
    /// The description with other values, each given as `KEY=VALUE`: what it says otherwise stays.
    /// Its name, title and sources say what was changed.
    ///
    /// # Errors
    /// What has no such form, a key that the description does not have, and what describes no
    /// machine.
    pub fn with_changes(&self, changes: &[String]) -> Result<(Self, Vec<Change>), ChangeError> {
        let mut table: Table =
            self.text.parse().map_err(|_| ChangeError("this is not TOML".into()))?;
        let mut made: Vec<Change> = Vec::new();
        for text in changes {
            let (key, value) = text
                .split_once('=')
                .filter(|_| !text.contains(char::is_control))
                .map(|(key, value)| (key.trim(), value.trim()))
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                .ok_or_else(|| {
                    ChangeError(format!(
                        "'{}' is not of the form KEY=VALUE, such as llc.size_kib=16384",
                        text.escape_debug()
                    ))
                })?;
            if made.iter().any(|change| change.key == key) {
                return Err(ChangeError(format!("{key} is changed twice")));
            }
            made.push(self.change(&mut table, key, value)?);
        }
        let said = made.iter().map(Change::to_string).collect::<Vec<_>>().join(", ");
        table.insert("name".into(), Value::String(format!("{}-changed", self.name)));
        table.insert("title".into(), Value::String(format!("{}, changed: {said}", self.title)));
        let text =
            toml::to_string(&table).map_err(|error| ChangeError(format!("{said}: {error}")))?;
        // The error's line number is one of a generated text, which no user has written.
        let changed = Self::parse(&text)
            .map_err(|error| ChangeError(format!("with {said}: {}", error.why)))?;
        Ok((changed, made))
    }

    fn change(&self, table: &mut Table, key: &str, value: &str) -> Result<Change, ChangeError> {
        let all = leaves(&self.text).unwrap_or_default();
        let was = all
            .iter()
            .find(|leaf| leaf.path == key && leaf.wants_source())
            .map(|leaf| leaf.value.clone());
        let optional = OPTIONAL.map(|name| format!("processor.{name}"));
        let found = find(table, key, was.is_none() && optional.iter().any(|known| known == key));
        let Some(place) =
            found.filter(|_| was.is_some() || optional.iter().any(|known| known == key))
        else {
            let known =
                all.iter().filter(|leaf| leaf.wants_source()).map(|leaf: &Leaf| leaf.path.as_str());
            let known: Vec<&str> = known.chain(optional.iter().map(String::as_str)).collect();
            let near = nearest(key, &known).map(|near| format!("; did you mean {near}?"));
            return Err(ChangeError(format!(
                "{} has no value '{key}'{}",
                self.name,
                near.unwrap_or_else(|| format!(
                    "; 'ringfence machine {}' lists those that it has",
                    self.name
                ))
            )));
        };
        // A word is a text.
        let parsed = format!("value = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut one| one.remove("value"));
        let parsed = parsed.unwrap_or_else(|| Value::String(value.into()));
        if was.is_some() && same(place, &parsed) {
            return Err(ChangeError(format!(
                "{key} is {value} in {}: give it another value",
                self.name
            )));
        }
        *place = parsed;
        if let Some(Value::Table(sources)) = table.get_mut("sources") {
            sources.retain(|path, _| !is_at_or_below(path, key));
            let before = was.as_ref().map_or("not there".to_owned(), |was| was.clone());
            sources
                .insert(key.into(), Value::String(format!("changed; in {}: {before}", self.name)));
        }
        Ok(Change { key: key.into(), was, value: value.into() })
    }
}

// Whether a value is another one, written in whatever way.
fn same(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

// The value at a path; one that is not there is made, where it may.
fn find<'a>(table: &'a mut Table, path: &str, make: bool) -> Option<&'a mut Value> {
    let (first, rest) =
        path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let (name, place) = match first.strip_suffix(']').and_then(|first| first.split_once('[')) {
        Some((name, place)) => (name, Some(place.parse::<usize>().ok()?)),
        None => (first, None),
    };
    let Some(rest) = rest else {
        if make && place.is_none() && !table.contains_key(name) {
            table.insert(name.into(), Value::Boolean(false));
        }
        return table.get_mut(name).filter(|_| place.is_none());
    };
    let inner = match (table.get_mut(name)?, place) {
        (Value::Array(all), Some(place)) => all.get_mut(place)?,
        (other, None) => other,
        (_, Some(_)) => return None,
    };
    find(inner.as_table_mut()?, rest, make)
}
