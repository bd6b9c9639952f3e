//! What a value should be, in words, where the library refuses it in its own.

/// Rewrites a message of serde's, such as "unknown field `blok`, expected one of `block`, `batch`":
/// what was given, what is expected, and the nearest of the expected words. All is on one line.
pub fn improve(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((word, known)) = quoted.split_first() else {
        return of_a_value(&message).unwrap_or(message);
    };
    let near =
        nearest(word, known).map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let listed = known.join(", ");
    if message.starts_with("unknown variant") {
        format!("'{word}' is not one of {listed}{near}")
    } else if message.starts_with("unknown field") && known.is_empty() {
        format!("there is no '{word}' here, and nothing can be set")
    } else if message.starts_with("unknown field") {
        format!("there is no '{word}' here, only {listed}{near}")
    } else if message.starts_with("missing field") {
        format!("'{word}' is missing: give it")
    } else {
        of_a_value(&message).unwrap_or(message)
    }
}

// `invalid type: string "x", expected u32`, in which the library names types as this language does.
fn of_a_value(message: &str) -> Option<String> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (given, expected) = rest.rsplit_once(", expected ")?;
    let expected = match expected {
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        table if table.starts_with("struct ") => "a table",
        told => told,
    };
    let given = match given {
        "sequence" => "a list".into(),
        "map" => "a table".into(),
        told => {
            let value = told.split_once(['`', '"']).map_or(told, |(_, value)| value);
            format!("'{}'", value.trim_end_matches(['`', '"']))
        }
    };
    Some(format!("{given} is not {expected}"))
}

/// What others call it.
const SYNONYMS: [(&str, &str); 6] = [
    ("nontemporal", "nt"),
    ("ntstore", "nt"),
    ("movnti", "nt"),
    ("movntdq", "nt"),
    ("store", "none"),
    ("plainstore", "none"),
];

/// The known word most like `word`, where one is like it at all.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters: String =
        word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let other = SYNONYMS.iter().find(|(synonym, _)| *synonym == letters).map(|(_, word)| *word);
    // Hyphens, underscores and capitals make no difference.
    if let Some(same) = known
        .iter()
        .find(|known| Some(**known) == other || (known.replace(['-', '_'], "") == letters))
    {
        return Some(same);
    }
    known
        .iter()
        .map(|candidate| (likeness(word, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

// Two letters that changed places are a slip, however short the word is.
fn likeness(word: &str, candidate: &str) -> f64 {
    let letters = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all
    };
    let swapped = strsim::osa_distance(word, candidate) == 1 && letters(word) == letters(candidate);
    let likeness = strsim::jaro_winkler(word, candidate);
    if swapped { likeness.max(0.9) } else { likeness }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_where_there_is_one() {
        let message = "unknown field `blok`, expected one of `block`, `batch`";
        let told = "there is no 'blok' here, only block, batch; did you mean 'block'?";
        assert_eq!(improve(message), told);
        for (message, told) in [
            (
                "unknown field `zzz`, expected `block` or `batch`",
                "there is no 'zzz' here, only block, batch",
            ),
            (
                "unknown field `zzz`, there are no fields",
                "there is no 'zzz' here, and nothing can be set",
            ),
            (
                "unknown variant `noone`, expected `none` or `x`",
                "'noone' is not one of none, x; did you mean 'none'?",
            ),
            ("missing field `run`", "'run' is missing: give it"),
            ("two\n  lines", "two lines"),
            ("invalid type: string \"x\", expected u32", "'x' is not a whole number of 0 or more"),
            (
                "invalid value: integer `-1`, expected u64",
                "'-1' is not a whole number of 0 or more",
            ),
            ("invalid type: integer `5`, expected a boolean", "'5' is not true or false"),
            (
                "invalid type: floating point `0.5`, expected a size such as 4KiB",
                "'0.5' is not a size such as 4KiB",
            ),
            ("invalid type: sequence, expected struct Measure", "a list is not a table"),
        ] {
            assert_eq!(improve(message), told);
        }
        let known = ["clflush", "clflushopt", "clwb", "nt", "none", "cpu-time"];
        for (word, meant) in [
            ("clflush_opt", "clflushopt"),
            ("clflush-opt", "clflushopt"),
            ("CLWB", "clwb"),
            ("clwbb", "clwb"),
            ("non-temporal", "nt"),
            ("cpu_time", "cpu-time"),
            ("tn", "nt"),
        ] {
            assert_eq!(nearest(word, &known), Some(meant), "{word}");
        }
    }
}
