//! Whose work something is: which calls led to it, and whether they are the program's own.

use super::key::Key;
use crate::events::Location;
use crate::recording::Reader;

// Folders of libraries that a system has for all programs.
const OF_THE_SYSTEM: [&str; 6] = ["/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/lib", "/usr/local/lib"];

// Libraries that start programs and threads, or call back: being called from there is no reason for anything.
const RUNTIMES: [&str; 6] = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++.so"];

// Functions of PMDK's libraries that make a pool, by the beginnings of their names.
const POOL_MAKERS: [&str; 4] = ["pmemobj_create", "pmemlog_create", "pmemblk_create", "util_pool_create"];

/// The place of a site, and that of the innermost call from outside of the program or library that it is in.
pub fn places(recording: &Reader, key: Key) -> (Option<Location>, Option<Location>) {
    let Some(site) = recording.site(key.site) else { return (None, None) };
    let mut frames = recording.callers(key.callers).into_iter().flat_map(|callers| &callers.frames);
    let outside = frames.find(|frame| frame.module != site.module && !is_runtime(&frame.module));
    (
        Some(recording.location(&site.module, site.address)),
        outside.map(|frame| recording.location(&frame.module, frame.call())),
    )
}

/// The place of a site, and those of all calls that led to it, the innermost first.
pub fn frames(recording: &Reader, key: Key) -> Vec<Location> {
    let site = recording.site(key.site).map(|site| recording.location(&site.module, site.address));
    let frames = recording.callers(key.callers).into_iter().flat_map(|callers| &callers.frames);
    let calls = frames.map(|frame| recording.location(&frame.module, frame.call()));
    site.into_iter().chain(calls).collect()
}

/// Whether a place is in the program, or in a library that came with it.
pub fn is_own(place: &Location) -> bool {
    let path = &place.module;
    !path.starts_with('[')
        && !OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder))
        && !is_runtime(path)
}

/// Whether a place is in a function that copies or sets bytes, which may store some of them twice.
pub fn is_copy(place: &Location) -> bool {
    let is_one = |name: &String| ["memcpy", "memmove", "memset"].iter().any(|copy| name.contains(copy));
    is_runtime(&place.module) || place.function.as_ref().is_some_and(is_one)
}

/// Whether calls are those of a library that makes a pool.
pub fn makes_pool(frames: &[Location]) -> bool {
    let is_maker = |name: &String| POOL_MAKERS.iter().any(|maker| name.starts_with(maker));
    frames.iter().any(|frame| frame.function.as_ref().is_some_and(is_maker))
}

fn is_runtime(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or_default();
    RUNTIMES.iter().any(|runtime| name.starts_with(runtime))
}
