//! Who is charged with what a library does: who called it.

use super::key::Key;
use crate::events::Location;
use crate::recording::Reader;

/// The place of a site, and that of the innermost call from outside of the program or library that it is in.
pub fn places(recording: &Reader, key: Key) -> (Option<Location>, Option<Location>) {
    let Some(site) = recording.site(key.site) else { return (None, None) };
    let mut frames = recording.callers(key.callers).into_iter().flat_map(|callers| &callers.frames);
    let outside = frames.find(|frame| frame.module != site.module);
    (
        Some(recording.location(&site.module, site.address)),
        outside.map(|frame| recording.location(&frame.module, frame.call())),
    )
}
