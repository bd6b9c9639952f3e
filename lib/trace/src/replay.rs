//! The bytes of a file at the end of a recording, from what it held before and what happened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::events::Action;
use crate::recording::{Reader, RecordingError};

/// Why a file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording has no file of this number.
    #[error("the trace has no file {0}")]
    NoFile(u32),
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The system refused.
    #[error("cannot write the file of the replay: {0}")]
    Io(#[from] io::Error),
}

/// Makes `into`, which should be empty, what a file of a recording was at its end as programs saw
/// it: every store, in order, whether or not it would have survived a crash. What was stored beyond
/// the file's end is left out, as mapped memory behind the end is not part of it.
///
/// # Errors
/// Where the recording has no such file or is damaged, or the system refuses.
pub fn replay(recording: &Reader, file: u32, into: &File) -> Result<(), ReplayError> {
    let traced = recording.manifest().files.iter().find(|traced| traced.id == file);
    let mut size = traced.ok_or(ReplayError::NoFile(file))?.size;
    into.set_len(size)?;
    for page in recording.images() {
        let (at, bytes) = page?;
        if at.file == file {
            into.write_all_at(within(&bytes, at.offset, size), at.offset)?;
        }
    }
    for event in recording.events() {
        match event?.action {
            Action::Truncate { file: truncated, size: new } if truncated == file => {
                into.set_len(new)?;
                size = new;
            }
            // What is handed to the kernel makes the file longer; what is stored in memory does
            // not.
            Action::Write { at, bytes } if at.file == file => {
                into.write_all_at(&bytes, at.offset)?;
                size = size.max(at.offset.saturating_add(bytes.len() as u64));
            }
            action => {
                if let Some((at, bytes)) = action.stores().filter(|(at, _)| at.file == file) {
                    into.write_all_at(within(bytes, at.offset, size), at.offset)?;
                }
            }
        }
    }
    Ok(())
}

fn within(bytes: &[u8], offset: u64, size: u64) -> &[u8] {
    let room = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(room)]
}
