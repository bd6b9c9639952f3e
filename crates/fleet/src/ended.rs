//! Why a task that Slurm no longer runs has no figures, and what to do about it.

use std::path::Path;

use crate::attempt::{Attempt, Outcome, Started};
use crate::slurm_tasks::Asked;
use crate::state::State;
use crate::submission;

pub(crate) const DIED: &str = "it ended without a record: it was killed, or its machine went down";

/// The state of a lost task, from its last attempt, Slurm's state of its last job (perhaps of
/// another attempt), and the last line of its log.
pub(crate) fn lost(
    dir: &Path,
    number: u32,
    last: Option<&Attempt>,
    slurm: Option<&Asked>,
) -> (State, Option<String>) {
    let same = |(started, slurm): (&Started, &Asked)| {
        started.job.as_ref().is_none_or(|job| *job == slurm.job)
    };
    let of_this = last.and_then(|last| last.started.as_ref()).zip(slurm).is_none_or(same);
    let said = slurm.filter(|slurm| !ended_by_itself(slurm)).map(told);
    let failed = |why: String| (State::Failed, Some(why));
    match (last.map(|last| (&last.outcome, &last.damaged)), said) {
        // That its node died, or that it was taken back, it only saw as a signal.
        (Some((Some(Outcome { reason: Some(own), stopped: false, .. }), _)), Some(said))
            if of_this =>
        {
            failed(format!("{said}; {own}"))
        }
        // An attempt that ended by itself tells more than Slurm, which saw its exit code.
        (Some((Some(outcome), _)), None) if of_this => (State::Failed, outcome.reason.clone()),
        // What it came to was there, and cannot be read.
        (Some((None, Some(damaged))), None) if of_this => failed(damaged.clone()),
        (_, Some(said)) => failed(said),
        (_, None) => match (words(dir, number, slurm), last, slurm) {
            (Some(words), ..) => failed(words),
            (None, Some(_), _) => failed(DIED.into()),
            (None, None, Some(slurm)) => {
                failed(format!("Slurm reports {}, and it wrote no files", slurm.state))
            }
            (None, None, None) => {
                (State::Missing, Some("Slurm does not know it, and it wrote no files".into()))
            }
        },
    }
}

fn ended_by_itself(slurm: &Asked) -> bool {
    ["COMPLETED", "FAILED"].contains(&slurm.state.as_str())
}

// Slurm's word for it, and what it means.
fn told(slurm: &Asked) -> String {
    let Asked { state, node, reason, limit, .. } = slurm;
    let on = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let because = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match state.as_str() {
        "TIMEOUT" => {
            let limit = limit.as_ref().map(|limit| format!(" of {limit}")).unwrap_or_default();
            format!(
                "it reached its time limit{limit}{on}: give 'ringfence fleet retry' a longer \
                 --limit"
            )
        }
        "CANCELLED" => {
            format!("it was cancelled in Slurm{on}: 'ringfence fleet retry' submits it again")
        }
        "NODE_FAIL" | "BOOT_FAIL" => {
            let node = node.as_deref().unwrap_or("its node");
            format!("{node} failed (Slurm reports {state}{because}): retry when it is back")
        }
        "OUT_OF_MEMORY" => {
            format!(
                "Slurm ended it because it used too much memory{on}: allow more with 'ringfence \
                 fleet retry DIR --slurm --mem=...'"
            )
        }
        "PREEMPTED" => {
            format!("Slurm gave its node to other jobs{on}: retry when there are fewer")
        }
        _ => format!("Slurm reports {state}{on}{because}"),
    }
}

// What stands at the end of its log: why it could not begin, or not record anything.
fn words(dir: &Path, number: u32, slurm: Option<&Asked>) -> Option<String> {
    let log = submission::log(dir, number)?;
    let on = slurm
        .and_then(|slurm| slurm.node.as_ref())
        .map(|node| format!(" on {node}"))
        .unwrap_or_default();
    let Some(said) = submission::last_line(&log) else {
        // One that Slurm has forgotten may just have been removed.
        return slurm.map(|_| {
            let log = log.display();
            format!(
                "it wrote no files{on}, not even {log}: check that the folder is on a file system \
                 that the nodes share, with free space"
            )
        });
    };
    let code = slurm.and_then(|slurm| slurm.code.as_deref());
    // As a shell says that it found no program, or could not run it.
    let program = match code {
        Some("127" | "126") => {
            ": the fleet's own copy of the program is missing, or cannot run there; restore it"
        }
        _ => "",
    };
    let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    Some(format!(
        "it ended{on}{code} before it could record anything{program}; its log ends with: {said}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_says_is_told_with_what_to_do() {
        let asked = |state: &str, node: Option<&str>| Asked {
            state: state.into(),
            reason: None,
            node: node.map(str::to_owned),
            since: None,
            job: "7".into(),
            code: None,
            limit: Some("00:10:00".into()),
        };
        let told = |state, node| lost(Path::new("/none"), 1, None, Some(&asked(state, node)));
        for (state, node, text) in [
            (
                "TIMEOUT",
                Some("n1"),
                "it reached its time limit of 00:10:00 on n1: give 'ringfence fleet retry' a \
                 longer --limit",
            ),
            (
                "CANCELLED",
                None,
                "it was cancelled in Slurm: 'ringfence fleet retry' submits it again",
            ),
            ("NODE_FAIL", Some("n1"), "n1 failed (Slurm reports NODE_FAIL): retry when it is back"),
            ("DEADLINE", None, "Slurm reports DEADLINE"),
        ] {
            assert_eq!(told(state, node), (State::Failed, Some(text.into())));
        }
    }
}
