//! A task as one writes it on a command line: `chase footprint=4MiB`, `write instruction=clwb,nt`,
//! or simply a program's command line, perhaps with variables in front as a shell takes them
//! (`PMEM_NO_CLWB=1 fio ...`). `run:COMMAND` is a program whose runs are timed, `probe:SERVICE`
//! queries a running service, and `pid:N`, `unit:NAME`, `cgroup:PATH` and `container:ID` are
//! running processes.

use std::fmt;

use toml::{Table, Value};

use super::axes::{Axes, WORKLOAD};
use super::{Attached, Attachments, Commands, Probe, ProgramUnit, Tasks, WORKLOADS};
use crate::nearest;

/// The tasks that the text stands for. The first word names a built-in
/// workload, and `key=value` words follow, lists separated by commas; single or double quotes keep
/// a space or a comma in a value, as in `dir='/a b'`. Any other text is a program (see
/// [`program`]).
///
/// # Errors
/// One sentence for an empty text, for words after a workload's name that are no `key=value`, for a
/// quote without its end, and for what looks like a slip in a workload's name.
pub fn parse(text: &str) -> Result<Tasks, String> {
    parse_beside(text, &|_| false)
}

/// As [`parse`], where `is_program` knows the programs that there are: a program's name is not a
/// slip.
///
/// # Errors
/// As [`parse`].
pub fn parse_beside(text: &str, is_program: &dyn Fn(&str) -> bool) -> Result<Tasks, String> {
    let Some(first) = text.split_whitespace().next() else {
        return Err(
            "a task is empty: write a workload such as 'chase footprint=4MiB', or a program".into(),
        );
    };
    if let Some((kind, rest)) = text.trim().split_once(':')
        && let Some(tasks) = of_kind(kind, rest)
    {
        return tasks;
    }
    if !WORKLOADS.contains(&first) {
        // A slip in a workload's name would otherwise be looked for as a program.
        let is_setting =
            |word: &str| word.split_once('=').is_some_and(|(key, _)| is_parameter(key));
        let settings = text.split_whitespace().skip(1).all(is_setting);
        if let (true, Some(near)) = (settings, nearest::nearest(first, WORKLOADS))
            && (text.contains('=') || near.len().abs_diff(first.len()) <= 1)
            && !is_program(first)
        {
            return Err(format!(
                "'{first}' is not a workload or a program; did you mean '{near}'?"
            ));
        }
        without_shell(text)?;
        return Ok(program(text).into());
    }
    if first == "command" {
        return Err("write the command line of a program without the word 'command'".into());
    }
    let table = Table::from_iter([(WORKLOAD.to_owned(), Value::from(first))]);
    let rest = text.trim_start().strip_prefix(first).unwrap_or_default();
    let words = unquoted_parts(rest, char::is_whitespace)?;
    parameters(table, &words)
}

// The task that `kind:rest` stands for, if `kind` is one of the prefixes.
fn of_kind(kind: &str, rest: &str) -> Option<Result<Tasks, String>> {
    Some(match kind {
        "run" if rest.trim().is_empty() => Err("'run:' names no program: write run:COMMAND".into()),
        "run" => without_shell(rest).map(|()| program(rest).unit(ProgramUnit::WholeRun).into()),
        "probe" if rest.trim().is_empty() => Err("'probe:' names no service: write \
             probe:http://HOST:PORT/PATH, probe:redis://HOST, probe:tcp://HOST:PORT, \
             probe:unix:PATH or probe:exec:COMMAND"
            .into()),
        "probe" => unquoted_parts(rest, char::is_whitespace).and_then(|words| {
            // Commas in an address do not make a list.
            let (ask, others) = words.split_first().expect("a text has a first part");
            let probe = (WORKLOAD.to_owned(), Value::from(Probe::WORKLOAD));
            let ask = ("ask".to_owned(), Value::String(without_quotes(ask)));
            parameters(Table::from_iter([probe, ask]), others)
        }),
        kind if Attached::KINDS.contains(&kind) => {
            let attached = Attached::of_target(&format!("{kind}:{}", rest.trim()));
            attached.map(|attached| Attachments::from(attached).into())
        }
        _ => return None,
    })
}

// Adds `key=value` words.
fn parameters(mut table: Table, words: &[&str]) -> Result<Tasks, String> {
    let first = table[WORKLOAD].as_str().unwrap_or_default().to_owned();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            // What came before may have lost its end to a space.
            let quotes = match table.iter().rfind(|(key, _)| *key != "workload") {
                Some((key, Value::String(before))) => {
                    format!("; a value with a space needs quotes, as in {key}='{before} {word}'")
                }
                _ => String::new(),
            };
            return Err(format!(
                "'{word}' is not key=value: write parameters as in '{first} \
                 key=value,value'{quotes}"
            ));
        };
        let values = unquoted_parts(value, |c| c == ',')?.into_iter().map(quoted_scalar);
        let mut values: Vec<Value> = values.collect();
        let read = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
        if let Some(before) = table.insert(key.into(), read) {
            return Err(format!(
                "'{key}' is given twice: give it once; separate several values by commas, as in \
                 {key}={},{value}",
                plain(&before)
            ));
        }
    }
    Tasks::parse(&table)
}

// The parts of a text between separators that are in no quotes.
fn unquoted_parts(text: &str, separates: impl Fn(char) -> bool) -> Result<Vec<&str>, String> {
    let (mut quote, mut from, mut parts) = (None, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if separates(c) => {
                parts.push(&text[from..at]);
                from = at + c.len_utf8();
            }
            None => {}
        }
    }
    parts.push(&text[from..]);
    match quote {
        Some(open) => Err(format!("{} has a {open} that is not closed: close it", text.trim())),
        None => Ok(parts),
    }
}

// What is in quotes is text, whatever it looks like.
fn quoted_scalar(word: &str) -> Value {
    let inside = without_quotes(word);
    if inside == word { scalar(word) } else { Value::String(inside) }
}

fn without_quotes(word: &str) -> String {
    let (mut quote, mut inside) = (None, String::new());
    for c in word.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => inside.push(c),
        }
    }
    inside
}

// Whether it could be the name of one: an address with a query has an equals sign, too.
fn is_parameter(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Refuses a command line that only a shell would understand: words are split as a shell does, but
/// none runs, and a program would take `>` for an argument.
///
/// # Errors
/// One sentence with the command line that runs a shell.
pub fn without_shell(text: &str) -> Result<(), String> {
    let mut rest = text.trim();
    while let Some((_, after)) = first_word(rest) {
        let word = rest[..rest.len() - after.len()].trim_end();
        if let Some(sign) = shell_sign(word) {
            return Err(format!(
                "'{sign}' needs a shell, and none runs here: write {}, or quote '{sign}' to pass \
                 it to the program",
                crate::shell::line(["sh", "-c", text.trim()])
            ));
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    Ok(())
}

// What a shell would take a word, or an end of it, for: a redirection, a pipe, the end of a
// command.
fn shell_sign(word: &str) -> Option<&'static str> {
    // A descriptor may stand in front of a redirection.
    let sign = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
    let signs = [">>", ">", "<<", "<", "||", "|", "&&", ";"];
    let begins = signs.into_iter().find(|known| sign.starts_with(known));
    let ends = || {
        [";", "&"]
            .into_iter()
            .find(|known| word == *known || word.strip_suffix(known).is_some_and(unquoted))
    };
    begins.or_else(ends)
}

// Whether the end of what a word begins with is outside of quotes, and not escaped.
fn unquoted(word: &str) -> bool {
    !word.ends_with('\\') && shlex::split(word).is_some()
}

/// The program that a command line starts; words `NAME=value` in front of it are its environment.
pub fn program(text: &str) -> Commands {
    let (env, run) = environment(text);
    let mut program = Commands::default().run(run.to_owned());
    if !env.is_empty() {
        // In the order in which they were given.
        let env: Table = env.into_iter().map(|(name, value)| (name, value.into())).collect();
        program.set("env", &env.into()).expect("variables are texts");
    }
    program
}

/// Splits a command line into the variables in front of it and the command.
pub fn environment(text: &str) -> (Vec<(String, String)>, &str) {
    let (mut env, mut rest) = (Vec::new(), text.trim());
    while let Some((word, after)) = first_word(rest)
        && let Some((name, value)) = assignment(&word)
        && !after.is_empty()
    {
        env.push((name, value));
        rest = after;
    }
    (env, rest)
}

// The first word of a command line without its quotes, and what follows it as it is written.
fn first_word(text: &str) -> Option<(String, &str)> {
    let (mut quote, mut escaped) = (None, false);
    let end = text.char_indices().find(|(_, c)| match (quote, *c) {
        _ if std::mem::take(&mut escaped) => false,
        (None | Some('"'), '\\') => {
            escaped = true;
            false
        }
        (None, '"' | '\'') => {
            quote = Some(*c);
            false
        }
        (Some(open), c) => {
            if open == c {
                quote = None;
            }
            false
        }
        (None, c) => c.is_whitespace(),
    });
    let end = end.map_or(text.len(), |(index, _)| index);
    let word = shlex::split(&text[..end])?.into_iter().next()?;
    Some((word, text[end..].trim_start()))
}

// A word that a shell would take as a variable's value.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let fits = |(index, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (index > 0 && c.is_ascii_digit())
    };
    (!name.is_empty() && name.chars().enumerate().all(fits)).then(|| (name.into(), value.into()))
}

/// As [`parse`] reads it. Of a program's parameters only its environment has a place in it.
impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.written();
        let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Tasks::Command(_) = self {
            let env = table.get("env").and_then(Value::as_table);
            for (name, value) in env.into_iter().flatten() {
                write!(f, "{name}={} ", crate::shell::quote(value.as_str().unwrap_or_default()))?;
            }
            f.write_str(text("run"))?;
            let server = table.get("server").and_then(|server| server.get("run")?.as_str());
            return server.map_or(Ok(()), |run| write!(f, ", of the server {run}"));
        }
        f.write_str(self.workload())?;
        let parameters = table.iter().filter(|(key, _)| *key != WORKLOAD);
        parameters.into_iter().try_for_each(|(key, value)| write!(f, " {key}={}", plain(value)))
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains(|c: char| c.is_whitespace() || ",'\"".contains(c)) => {
            format!("'{}'", text.replace('\'', "'\"'\"'"))
        }
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_and_programs_are_told_apart() {
        let write = parse("write instruction=clwb,nt  block=4KiB batch=2").unwrap();
        assert_eq!(
            write.written().to_string(),
            "workload = \"write\"\ninstruction = [\"clwb\", \"nt\"]\nblock = \"4KiB\"\nbatch = 2\n"
        );
        assert_eq!(
            parse("chase histogram=true").unwrap().written()["histogram"],
            Value::Boolean(true)
        );
        for text in [
            "write instruction=clwb,nt block=4KiB batch=2",
            "ring variant=naive,ringfence entry=2KiB,4KiB",
            "read size=256KiB,512KiB interval=1s flush=clwb memory=locked:/dev/pseudo_lock/a",
            "alu",
            "dirty dir='/a b' io=wait,direct",
            "churn dir='/a,b','/it'\"'\"'s\"' size=5",
            "sh -c 'exit 1'",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let quoted = parse("dirty dir=\"/a b\" io='wait',direct block='5'  limit=6").unwrap();
        let expected = "workload = \"dirty\"\ndir = \"/a b\"\nio = [\"wait\", \"direct\"]\nblock = \
                        \"5\"\nlimit = 6\n";
        assert_eq!(quoted.written().to_string(), expected);
        let text = "PMEM_NO_CLWB=1 B='x y' fio --name=w";
        let program = parse(text).unwrap();
        assert_eq!(program.written()["run"].as_str(), Some("fio --name=w"));
        assert_eq!(program.written()["env"]["B"].as_str(), Some("x y"));
        assert_eq!(program.to_string(), text);
        assert!(!parse("./x --a=b C=d").unwrap().written().contains_key("env"));
        let program = parse("stress-ng --cache 1").unwrap();
        assert_eq!(program.written()["workload"].as_str(), Some("command"));
        assert_eq!(program.written()["run"].as_str(), Some("stress-ng --cache 1"));
        assert_eq!(
            parse("sh -c 'exit 1'").unwrap().written()["run"].as_str(),
            Some("sh -c 'exit 1'")
        );
    }

    #[test]
    fn a_word_with_a_colon_says_what_the_rest_is() {
        let said = |text: &str| parse(text).unwrap().written().to_string();
        for (text, written) in [
            (
                "run:./sort 'a b'",
                "workload = \"command\"\nrun = \"./sort 'a b'\"\nunit = \"whole-run\"\n",
            ),
            ("probe:http://h/?a=1,2", "workload = \"probe\"\nask = \"http://h/?a=1,2\"\n"),
            (
                "probe:tcp://h:1 rate=5 of=unit:x",
                "workload = \"probe\"\nask = \"tcp://h:1\"\nrate = 5\nof = \"unit:x\"\n",
            ),
            ("probe:'exec:cat -u'", "workload = \"probe\"\nask = \"exec:cat -u\"\n"),
            ("pid:12", "workload = \"attached\"\npid = 12\n"),
            ("cgroup:/a:b", "workload = \"attached\"\ncgroup = \"/a:b\"\n"),
            ("unit:x.service", "workload = \"attached\"\nunit = \"x.service\"\n"),
            ("container:4f2a", "workload = \"attached\"\ncontainer = \"4f2a\"\n"),
        ] {
            assert_eq!(said(text), written, "{text}");
        }
        for (text, part) in [
            ("run:", "names no program"),
            ("probe:", "names no service"),
            ("run:a > b", "needs a shell"),
            ("pid:x", "does not name a running process"),
            ("unit:", "does not name a running process"),
            ("probe:exec:cat -u", "'-u' is not key=value"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn slips_are_named() {
        for (text, part) in [
            ("", "is empty"),
            ("write clwb", "'clwb' is not key=value"),
            ("wirte instruction=clwb", "did you mean 'write'"),
            ("chas", "did you mean 'chase'"),
            ("rin entry=4KiB", "did you mean 'ring'"),
            ("command run=x", "without the word"),
            ("dirty dir=/a b", "as in dir='/a b'"),
            ("dirty dir='/a b", "has a ' that is not closed"),
            ("chase footprint=4MiB footprint=8MiB", "as in footprint=4MiB,8MiB"),
            ("write block=64B,4KiB block=1MiB", "as in block=64B,4KiB,1MiB"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_only_a_shell_understands_is_sent_to_one() {
        for text in [
            "a > b",
            "a >b",
            "a 2>/dev/null",
            "a &> b",
            "a >> b",
            "a < b",
            "a | b",
            "a || b",
            "a && b",
            "a; b",
            "a ; b",
            "a &",
            "a b&",
            "X=1 a > b",
        ] {
            let error = parse(text).expect_err(text);
            let remedy = crate::shell::line(["sh", "-c", text]);
            assert!(error.contains(&remedy), "{text}: {error}");
            // What is advised does what was meant.
            assert_eq!(shlex::split(&remedy).unwrap(), ["sh", "-c", text]);
            assert_eq!(parse(&remedy).unwrap().written()["run"].as_str(), Some(remedy.as_str()));
        }
        for text in [
            "a '>' b",
            "a \\> b",
            "a 'x > y'",
            "sh -c 'a > b; c &'",
            "curl http://x/?a=b&c=d",
            "find . -exec ls {} \\;",
            "find . -exec ls {} ';'",
            "grep --when=x>y",
            "a 2",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }
}
