//! Command lines for people to paste into a shell.

use std::path::Path;

/// A word as a shell reads it back: quoted where it must be. One with `=` is an assignment where it
/// comes first in a command: [`line()`] minds that.
pub fn quote(word: &str) -> String {
    // What shlex would quote as well, to be safe as a first word.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:,+@%=-".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        return word.into();
    }
    // A zero byte cannot be in a word at all.
    shlex::try_quote(word).map_or_else(|_| word.replace('\0', "?"), |quoted| quoted.into_owned())
}

/// Words as one command line.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |(number, word): (usize, &str)| match number {
        0 if word.contains('=') => format!("'{}'", word.replace('\'', "'\\''")),
        _ => quote(word),
    };
    words.into_iter().enumerate().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The command that writes a text to a file of the kernel's.
pub fn write(text: &str, file: &Path) -> String {
    format!("echo {} > {}", quote(text), quote(&file.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_that_were_written() {
        for words in [
            vec!["ringfence", "run", "--resume", "a b"],
            vec!["sh", "-c", "echo $$ > x; exec \"$@\"", "it's"],
            vec!["env", "A=b", "--c=d", "=e"],
            vec!["it's=odd", "A=b"],
            vec!["", "*", "~", "$HOME", "a\nb", "`true`", "é"],
        ] {
            let text = line(words.iter().copied());
            assert_eq!(shlex::split(&text).unwrap(), words, "{text}");
            let script = format!("printf '%s\\0' {text}");
            let said =
                std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
            assert_eq!(String::from_utf8(said).unwrap(), words.join("\0") + "\0", "{text}");
        }
    }
}
