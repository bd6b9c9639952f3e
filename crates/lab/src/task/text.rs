//! A task as one writes it on a command line: `chase footprint=4MiB`, `write instruction=clwb,nt`,
//! or simply a program's command line.

use toml::{Table, Value};

use crate::experiment::nearest;

const WORKLOADS: [&str; 7] = ["write", "chase", "stream", "alu", "mcf", "command", "idle"];

/// The table of an experiment file that the text stands for. The first word names a built-in
/// workload, and `key=value` words follow, lists separated by commas; any other text is a program
/// with its arguments.
///
/// # Errors
/// One sentence for an empty text, and for words after a workload's name that are no `key=value`.
pub fn parse(text: &str) -> Result<Table, String> {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return Err("a task is empty: write a workload such as 'chase footprint=4MiB', or a program".into());
    };
    let mut table = Table::new();
    if !WORKLOADS.contains(&first) {
        // A slip in a workload's name would otherwise be looked for as a program.
        let settings = text.split_whitespace().skip(1).all(|word| word.contains('='));
        if let (true, Some(near)) = (settings, nearest::nearest(first, &WORKLOADS))
            && (text.contains('=') || near.len().abs_diff(first.len()) <= 1)
            && which(first).is_none()
        {
            return Err(format!("'{first}' is no workload and no program; did you mean '{near}'?"));
        }
        table.insert("workload".into(), Value::String("command".into()));
        table.insert("run".into(), Value::String(text.trim().into()));
        return Ok(table);
    }
    table.insert("workload".into(), Value::String(first.into()));
    if first == "command" {
        return Err("a program is given by its command line alone, without the word 'command'".into());
    }
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "'{word}' is no key=value: write parameters as in '{first} key=value,value'"
            ));
        };
        table.insert(key.into(), list(value));
    }
    Ok(table)
}

/// The text that a task's table stands for, as [`parse`] reads it. A program's other parameters
/// have no place in it.
pub fn print(table: &Table) -> String {
    let workload = table.get("workload").and_then(Value::as_str).unwrap_or_default();
    if workload == "command" {
        return table.get("run").and_then(Value::as_str).unwrap_or_default().into();
    }
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let word = |(key, value): (&String, &Value)| match value {
        Value::Array(values) => format!(" {key}={}", values.iter().map(plain).collect::<Vec<_>>().join(",")),
        one => format!(" {key}={}", plain(one)),
    };
    let words: String = table.iter().filter(|(key, _)| *key != "workload").map(word).collect();
    format!("{workload}{words}")
}

/// A parameter's value on a command line: one, or a list separated by commas.
pub fn list(text: &str) -> Value {
    let mut values: Vec<Value> = text.split(',').map(scalar).collect();
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

fn scalar(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<bool>()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(truth)) => Value::Boolean(truth),
        _ => Value::String(text.into()),
    }
}

fn which(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_and_programs_are_told_apart() {
        let write = parse("write instruction=clwb,nt  block=4KiB batch=2").unwrap();
        assert_eq!(
            write.to_string(),
            "workload = \"write\"\ninstruction = [\"clwb\", \"nt\"]\nblock = \"4KiB\"\nbatch = 2\n"
        );
        assert_eq!(parse("chase histogram=true").unwrap()["histogram"], Value::Boolean(true));
        for text in ["write instruction=clwb,nt block=4KiB batch=2", "alu", "sh -c 'exit 1'"] {
            assert_eq!(print(&parse(text).unwrap()), text);
        }
        let program = parse("stress-ng --cache 1").unwrap();
        assert_eq!(program["workload"].as_str(), Some("command"));
        assert_eq!(program["run"].as_str(), Some("stress-ng --cache 1"));
        assert_eq!(parse("sh -c 'exit 1'").unwrap()["run"].as_str(), Some("sh -c 'exit 1'"));
    }

    #[test]
    fn slips_are_named() {
        for (text, part) in [
            ("", "is empty"),
            ("write clwb", "'clwb' is no key=value"),
            ("wirte instruction=clwb", "did you mean 'write'"),
            ("chas", "did you mean 'chase'"),
            ("command run=x", "without the word"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
