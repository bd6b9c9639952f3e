//! Running processes that this program did not start, as an engine uses them.

use ringfence_experiment::task::Attached;
use ringfence_experiment::{FreezeBy, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::{Found, Method, Refusal, Target, find};

/// Finds it.
///
/// # Errors
/// Where it is not there, or not to be attached to, in one sentence.
pub fn found(attached: &Attached) -> Result<Found, String> {
    let target: Target = attached.target().parse().map_err(|error| format!("{error}"))?;
    find(&FsRoot::host(), &target).map_err(|refusal: Refusal| match refusal {
        Refusal::Vital { .. } => format!("{refusal}; name the process of one service"),
        other => other.to_string(),
    })
}

/// Why it cannot be a task here.
pub fn missing(attached: &Attached) -> Option<Reason> {
    found(attached).err().map(Reason::from)
}

/// The method to freeze it.
///
/// # Errors
/// One sentence where that way is not there.
pub fn method(found: &Found, by: Option<FreezeBy>) -> Result<Method, String> {
    if by == Some(FreezeBy::Ptrace) {
        return Ok(Method::Ptrace);
    }
    let is_wanted = |method: &&Method| match by {
        None | Some(FreezeBy::Ptrace) => true,
        Some(FreezeBy::Signals) => **method == Method::Signals,
        Some(FreezeBy::Group) => **method != Method::Signals,
    };
    found.methods.iter().find(is_wanted).cloned().ok_or_else(|| {
        format!(
            "{} has no control group of its own that could be frozen: pause it with signals \
             (--freeze signals)",
            found.target
        )
    })
}

/// Its processes at this moment; none where it is no more.
pub fn processes(attached: &Attached) -> Vec<u32> {
    found(attached)
        .map(|found| found.processes.iter().map(|one| one.pid()).collect())
        .unwrap_or_default()
}
