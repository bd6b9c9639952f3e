//! Recorded programs, read for the engine of a described machine.

use std::path::Path;

use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::task::{self, Task};
use ringfence_simulator::{Bytes, Did, Recorded, Recordings};
use ringfence_trace::events::{Action, Event, LINE, Place};
use ringfence_trace::recording::Reader;

/// All that an experiment plays.
///
/// # Errors
/// One sentence about the first that cannot be played.
pub fn read(experiment: &Experiment) -> Result<Recordings, Error> {
    let mut recordings = Recordings::default();
    for role in &experiment.roles {
        // What makes no sense is refused where it is planned.
        for variant in task::variants(role, &experiment.arms).unwrap_or_default() {
            let Task::Trace(trace) = &variant.task else { continue };
            if !recordings.has(&trace.file) {
                recordings.add(&trace.file, one(&trace.file)?);
            }
        }
    }
    Ok(recordings)
}

fn one(folder: &Path) -> Result<Recorded, Error> {
    let this = format!("the recording {} cannot be replayed", folder.display());
    let refused = |why: &str| Error::usage(why).within(&this);
    if !Reader::is_one(folder) {
        return Err(refused(
            "there is no trace.json in it; name a folder that 'ringfence trace' wrote",
        ));
    }
    let reader = Reader::open(folder).map_err(|error| Error::usage_by(error).within(&this))?;
    let (mut recorded, mut seen) = (Recorded::default(), Seen::default());
    for event in reader.events() {
        let event = event.map_err(|error| Error::usage_by(error).within(&this))?;
        seen.see(&event.action);
        push(&mut recorded, &event).map_err(|why| refused(&why))?;
    }
    match seen {
        Seen { msync: true, durable: false } => Err(refused(
            "it makes its stores durable with msync only, and the page cache is not simulated; \
             record a run that flushes cache lines (with libpmem: PMEM_IS_PMEM_FORCE=1)",
        )),
        _ if recorded.events() == 0 => Err(refused(
            "it contains no accesses; name the file that the program maps with 'ringfence trace \
             --file'",
        )),
        _ => Ok(recorded),
    }
}

#[derive(Default)]
struct Seen {
    msync: bool,
    durable: bool,
}

impl Seen {
    fn see(&mut self, action: &Action) {
        match action {
            Action::Msync { .. } => self.msync = true,
            Action::Flush { .. } | Action::NonTemporal { .. } => self.durable = true,
            _ => {}
        }
    }
}

// What the kernel wrote is stored as by a string instruction; what else is a system call is left
// out.
fn push(recorded: &mut Recorded, event: &Event) -> Result<(), String> {
    let thread = event.thread;
    let bytes = |at: &Place, size: u64| -> Result<Option<Bytes>, String> {
        let file = u16::try_from(at.file).map_err(|_| "it has too many files".to_owned())?;
        Ok(Some(Bytes { file, offset: at.offset, size }))
    };
    match &event.action {
        Action::Store { at, bytes: stored } | Action::Write { at, bytes: stored } => {
            recorded.push(thread, Did::Store, bytes(at, stored.len() as u64)?)
        }
        Action::NonTemporal { at, bytes: stored } => {
            recorded.push(thread, Did::NonTemporal, bytes(at, stored.len() as u64)?)
        }
        Action::Load { at, size } => recorded.push(thread, Did::Load, bytes(at, (*size).into())?),
        Action::Flush { flush, at } => {
            recorded.push(thread, Did::Flush(*flush), bytes(&at.line(), LINE)?)
        }
        Action::Sfence => recorded.push(thread, Did::Sfence, None),
        Action::Mfence => recorded.push(thread, Did::Mfence, None),
        // A locked instruction is on one line, as good as always.
        Action::Locked { stores: Some((at, stored)) } if !stored.is_empty() => recorded.push(
            thread,
            Did::Locked,
            bytes(at, (stored.len() as u64).min(LINE - at.offset % LINE))?,
        ),
        Action::Locked { .. } => recorded.push(thread, Did::Locked, None),
        Action::Msync { .. } | Action::SyncRange { .. } | Action::Truncate { .. } => Ok(()),
        Action::Map { .. } | Action::Unmap { .. } | Action::Output { .. } => Ok(()),
    }
}
