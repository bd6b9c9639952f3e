//! All of it together: from a question to an answer in a folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use ringfence_dataset::Date;
use ringfence_experiment::{Error, ErrorKind};

use crate::files::{begin_journal, check_writable, forget, keep};
use crate::findings::{About, Findings, findings, groups};
use crate::host::{Host, Note, Watch};
use crate::question::Question;
use crate::session;
use crate::shell::{Shell, needs_one};

/// An answer.
pub struct Done {
    /// The findings.
    pub findings: Findings,
    /// Why it ended early.
    pub trouble: Option<Error>,
}

/// Measures, and stores the result in a folder.
///
/// # Errors
/// Where nothing was measured, or it cannot be kept.
pub fn conduct(
    question: &Question,
    dir: &Path,
    stop: &Arc<AtomicBool>,
    watch: &mut dyn Watch,
) -> Result<Done, Error> {
    check_writable(question, dir)?;
    let new = !dir.exists();
    let shell = question.shell != Shell::None;
    let mut about = About {
        label: question.label.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        began: Date::new(SystemTime::now()).rfc3339(),
        shell: question.shell.name(),
        not_counted: None,
    };
    let raw = question
        .cases
        .iter()
        .filter(|case| question.shell == Shell::None && needs_one(&case.command));
    for case in raw {
        watch.note(Note::NoShell(&case.role));
    }
    let mut host = Host::new(question, stop, watch);
    let set_up = host.set_up().and_then(|()| host.same_output());
    let measured = set_up.and_then(|()| {
        host.journal = Some(begin_journal(question, dir, &about)?);
        host.began = Instant::now();
        Ok(session::measure(&groups(&question.cases), shell, &question.settings, &mut host))
    });
    let cleaned = host.clean_up();
    about.not_counted = host.not_counted.take();
    let measured = measured?;
    // A command that fails at its first run leaves nothing to compare.
    let has_run = |case| measured.runs.iter().any(|run| run.slot.case() == Some(case));
    let nothing = match &measured.trouble {
        Some(trouble) if trouble.kind() == ErrorKind::Failed => {
            !(0..question.cases.len()).all(has_run)
        }
        _ => measured.runs.is_empty(),
    };
    match &measured.trouble {
        Some(trouble) if nothing || trouble.is_usage() => {
            forget(dir, new);
            return Err(trouble.clone());
        }
        _ => {}
    }
    let findings = findings(&question.cases, &question.settings, about, &measured);
    // Results are printed even if they cannot be stored.
    let kept = keep(question, dir, &findings, &measured, watch);
    Ok(Done { findings, trouble: kept.err().or(measured.trouble).or(cleaned.err()) })
}
