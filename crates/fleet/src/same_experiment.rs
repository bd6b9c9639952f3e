//! Whether two fleets measured the same.

use std::path::Path;

use ringfence_dataset::text_file;
use ringfence_experiment::{Error, Experiment, shell};

use crate::folder::{EXPERIMENT, Spec};

/// Refuses to compare fleets whose tasks do not run the same; only the seed may differ.
///
/// # Errors
/// One sentence that says what each ran.
pub fn same_experiment(a: (&Path, &Spec), b: (&Path, &Spec)) -> Result<(), Error> {
    let [before, after] =
        [a, b].map(|(dir, spec)| (dir.display(), shell::line(without_seed(&spec.words))));
    if before.1 != after.1 {
        return Err(Error::usage(format!(
            "these cannot be compared: tasks of {} ran '{}', those of {} '{}'; name a fleet of the \
             same experiment",
            before.0, before.1, after.0, after.1
        )));
    }
    if file(a.0) != file(b.0) {
        return Err(Error::usage(format!(
            "these cannot be compared: {} has another {EXPERIMENT} than {}; name a fleet of the \
             same experiment",
            before.0, after.0
        )));
    }
    Ok(())
}

fn without_seed(words: &[String]) -> Vec<&str> {
    let mut rest = words.iter().map(String::as_str);
    let mut kept = Vec::new();
    while let Some(word) = rest.next() {
        match word {
            "--seed" => _ = rest.next(),
            word if word.starts_with("--seed=") => {}
            word => kept.push(word),
        }
    }
    kept
}

// What is written otherwise, and means the same, is the same.
fn file(dir: &Path) -> Option<Result<Experiment, String>> {
    let text = text_file::read(&dir.join(EXPERIMENT), text_file::LONGEST).ok()?;
    Some(Experiment::parse(&text).map(|parsed| Experiment { seed: 0, ..parsed }).map_err(|_| text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_seed_may_differ() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_seed(&words("survey --seed 7 --quick")), ["survey", "--quick"]);
        assert_eq!(without_seed(&words("survey --seed=7")), ["survey"]);
    }
}
