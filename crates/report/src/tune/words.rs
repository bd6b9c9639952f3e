//! A choice among methods, in words.

use ringfence_analysis::estimate::Verdict;
use ringfence_analysis::results::CaseResult;
use ringfence_studies::tune::Tuned;
use ringfence_studies::tune::choice::Choice;

/// What the fresh trials say of the choice.
pub(super) fn confirmed(tuned: &Tuned) -> &'static str {
    let any = |verdict: Verdict| {
        let findings =
            tuned.confirmed.iter().filter_map(|result| Some(result.effect.as_ref()?.finding));
        findings.into_iter().any(|finding| finding.verdict == verdict)
    };
    let same = |result: &CaseResult| {
        let verdict = result.effect.as_ref().map(|effect| effect.finding.verdict);
        verdict.is_none_or(|verdict| verdict == Verdict::NoChangeLargerThanMargin)
    };
    let all_same = tuned.confirmed.iter().all(same);
    match (tuned.fell_back, any(Verdict::Faster), any(Verdict::Slower)) {
        (true, ..) => "The fresh trials speak against the choice, so the policy is PMDK's rule.",
        (_, true, false) => {
            "The fresh trials confirm that the choice is cheaper where they differ."
        }
        (_, true, true) => {
            "The fresh trials confirm that the choice is cheaper at some sizes, and dearer at \
             others."
        }
        _ if all_same => {
            "The fresh trials show no difference from PMDK's rule that is larger than the margin."
        }
        (_, false, _) => {
            "The fresh trials show neither that the choice is cheaper than PMDK's rule nor that it \
             is dearer: undecided."
        }
    }
}

/// A choice in words.
pub(super) fn words(choice: &Choice) -> String {
    let batch = match choice.batch {
        1 => String::new(),
        batch => format!("; one fence for {batch} blocks of 64 B where that is allowed"),
    };
    match choice.nt_threshold {
        None => format!("{} at every size{batch}", choice.instruction),
        Some(64) => format!("non-temporal stores at every size{batch}"),
        Some(threshold) => {
            format!(
                "{} below {threshold} B, non-temporal stores from there on{batch}",
                choice.instruction
            )
        }
    }
}
