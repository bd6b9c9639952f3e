//! Values and sources of a machine file's text.

use ringfence_simulator::{Description, MachineFileError};

/// The same machine with another value, and where that comes from.
pub fn set(
    description: &Description,
    path: &str,
    value: &str,
    source: &str,
) -> Result<Description, MachineFileError> {
    let changed = description.changed(path, value)?;
    Description::parse(&sourced(&changed.text, path, source))
}

// The text with a source of one value, in place of an older one of just that.
fn sourced(text: &str, path: &str, source: &str) -> String {
    let line = format!("{} = {}", toml::Value::from(path), toml::Value::from(source));
    let own = format!("\"{path}\" =");
    let mut in_sources = false;
    let mut found = false;
    let mut lines: Vec<String> = Vec::new();
    for old in text.lines() {
        if old.starts_with('[') {
            in_sources = old.trim() == "[sources]";
        }
        if in_sources && old.trim_start().starts_with(&own) {
            found = true;
            lines.push(line.clone());
        } else {
            lines.push(old.into());
        }
    }
    if !found {
        let place =
            lines.iter().position(|old| old.trim() == "[sources]").map_or(lines.len(), |at| at + 1);
        lines.insert(place, line);
    }
    lines.join("\n") + "\n"
}

/// A number as a file has it: whole ones stay whole.
pub fn number(value: f64, whole: bool) -> String {
    if whole {
        return format!("{}", value.round() as i64);
    }
    // Three digits that count, and a point, or it would be a whole number.
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(1, 6) as usize;
    let text = format!("{value:.digits$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.into() }
}

/// A value of a file as a number, and whether it is a whole one.
pub fn parse(value: &str) -> Option<(f64, bool)> {
    let plain = value.replace('_', "");
    Some((plain.parse().ok()?, plain.parse::<i64>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_simulator::catalogue;

    #[test]
    fn a_value_is_changed_with_its_source() {
        let one = catalogue::all().remove(0);
        let changed = set(&one, "core.store_buffer", "60", "measured 'here'").unwrap();
        let changed = set(&changed, "core.store_buffer", "61", "measured \"there\"").unwrap();
        let values = changed.values();
        let own = values.iter().find(|value| value.path == "core.store_buffer").unwrap();
        assert_eq!((own.value.as_str(), own.source.as_str()), ("61", "measured \"there\""));
        let others = |description: &Description| {
            description
                .values()
                .into_iter()
                .filter(|value| value.path != "core.store_buffer")
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&one), others(&changed));
        assert!(set(&one, "core.nothing", "1", "s").is_err());
    }

    #[test]
    fn numbers_keep_their_kind() {
        for (value, whole, text) in [
            (7.6, true, "8"),
            (7.64321, false, "7.64"),
            (120.0, false, "120.0"),
            (0.0123, false, "0.0123"),
            (0.0, false, "0.0"),
        ] {
            assert_eq!(number(value, whole), text);
            assert_eq!(parse(text).unwrap().1, whole);
        }
        assert_eq!(parse("\"lru\""), None);
    }
}
