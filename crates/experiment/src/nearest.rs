//! "Did you mean": the library's refusal of an unknown word, with the nearest known one.

/// Rewrites a message of serde's, such as "unknown field `blok`, expected one of `block`, `batch`",
/// with the nearest of the expected words behind; a number's type is put in words. All is on one line.
pub fn improve(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.contains("unknown field") || message.contains("unknown variant");
    let (Some(word), true) = (quoted.next(), unknown) else { return types_in_words(message) };
    let known: Vec<&str> = quoted.collect();
    match nearest(word, &known) {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message,
    }
}

// The library names a number's type as this language does.
fn types_in_words(message: String) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("expected u8", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected usize", "expected a whole number"),
        ("expected f64", "expected a number"),
    ];
    let found = WORDS.iter().find_map(|(type_name, words)| Some((message.strip_suffix(type_name)?, words)));
    found.map_or_else(|| message.clone(), |(before, words)| format!("{before}{words}"))
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
    if let Some(same) =
        known.iter().find(|known| Some(**known) == other || (known.replace(['-', '_'], "") == letters))
    {
        return Some(same);
    }
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_where_there_is_one() {
        let message = "unknown field `blok`, expected one of `block`, `batch`";
        assert!(improve(message).ends_with("did you mean `block`?"));
        let message = "unknown field `zzz`, expected `block` or `batch`";
        assert_eq!(improve(message), message);
        assert_eq!(improve("two\n  lines"), "two lines");
        let message = improve("invalid type: string \"x\", expected u32");
        assert_eq!(message, "invalid type: string \"x\", expected a whole number");
        let known = ["clflush", "clflushopt", "clwb", "nt", "none", "cpu-time"];
        for (word, meant) in [
            ("clflush_opt", "clflushopt"),
            ("clflush-opt", "clflushopt"),
            ("CLWB", "clwb"),
            ("clwbb", "clwb"),
            ("non-temporal", "nt"),
            ("cpu_time", "cpu-time"),
        ] {
            assert_eq!(nearest(word, &known), Some(meant), "{word}");
        }
    }
}
