//! What stands behind the `=` of a line.

use std::fmt;
use std::str::FromStr;

pub(super) fn once<T>(key: &str, field: &mut Option<T>, value: T) -> Result<(), String> {
    if field.replace(value).is_some() { Err(format!("'{key}' is there twice")) } else { Ok(()) }
}

pub(super) fn word<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    string(text)?.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn batch(text: &str) -> Result<u32, String> {
    let batch = u32::try_from(number(text)?).ok().filter(|batch| *batch > 0);
    batch.ok_or_else(|| format!("batch = {text} must be at least 1"))
}

pub(super) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number"))
}

pub(super) fn nanoseconds(key: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ns) if ns.is_finite() && ns > 0.0 => Ok(ns),
        Ok(_) => Err(format!(
            "{key} = {text} is not a price: it must be finite and above 0, or left out"
        )),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

// A TOML basic string; the few escapes that the writer uses.
pub(super) fn string(text: &str) -> Result<String, String> {
    let bad = || format!("{text} is not a text in quotes");
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(bad)?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Err(bad()),
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => out.push(escaped),
                _ => return Err(bad()),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}
