//! That windows are in no figure, in a sentence.

use ringfence_analysis::results::CaseResult;
use ringfence_analysis::windows::TooLong;
use ringfence_experiment::sample::LONGEST_WINDOW;

/// That windows lasted too long and are in no figure; none where all count.
pub(crate) fn too_long(missing: TooLong) -> Option<String> {
    let TooLong { steps, of } = missing;
    (steps > 0).then(|| {
        format!(
            "Left out: {steps} of {of} steps hold a window of more than {LONGEST_WINDOW} times the \
             length asked for, or a pause that \
             ended early, because this program was kept from running."
        )
    })
}

/// The same of all cases together.
pub(crate) fn too_long_in(results: &[CaseResult]) -> Option<String> {
    too_long(results.iter().map(|result| result.too_long).fold(TooLong::default(), TooLong::and))
}
