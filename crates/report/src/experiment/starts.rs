//! Starts of a chase, before any other task runs.

use ringfence_experiment::start::{Start, Unlike};

/// That trials of a task began unlike the others, as a sentence.
pub fn unlike(found: &Unlike) -> String {
    format!(
        "The chase of {} took {:.1} ns a load alone at its start in the median, but {}: {} of {} \
         trials began unlike the others.",
        found.footprint,
        found.median_ns,
        listed(&found.outside),
        found.outside.len(),
        found.starts
    )
}

/// Such as `95.0 ns in trial 3, 110.2 ns in trial 7`, the first few.
pub(crate) fn listed(starts: &[Start]) -> String {
    const SHOWN: usize = 3;
    let some: Vec<String> = starts
        .iter()
        .take(SHOWN)
        .map(|start| format!("{:.1} ns in trial {}", start.ns, start.trial))
        .collect();
    match starts.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", some.join(", ")),
        _ => some.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_starts_are_listed() {
        let start = |trial: u32, ns: f64| Start { trial, instance: 0, variant: 0, ns };
        let found = Unlike {
            footprint: "4MiB".parse().unwrap(),
            median_ns: 40.0,
            outside: vec![start(3, 120.0)],
            starts: 10,
        };
        assert_eq!(
            unlike(&found),
            "The chase of 4MiB took 40.0 ns a load alone at its start in the median, but 120.0 ns \
             in trial 3: 1 of 10 trials began unlike the others."
        );
        let many: Vec<Start> = (0..5).map(|trial| start(trial, 95.0)).collect();
        assert_eq!(
            listed(&many),
            "95.0 ns in trial 0, 95.0 ns in trial 1, 95.0 ns in trial 2 and 2 more"
        );
    }
}
