//! Whose work something is: which calls led to it, and whether they are the program's own.

use super::key::Key;
use crate::events::Location;
use crate::recording::Reader;

// Folders of libraries that a system has for all programs.
const OF_THE_SYSTEM: [&str; 6] =
    ["/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/lib", "/usr/local/lib"];

// Code that starts programs and threads, or calls back: a call from there explains nothing. In
// older traces, the recorder's own code is the caller of signal handlers.
const RUNTIMES: [&str; 7] = [
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "libstdc++.so",
    "memfd:ringfence-runtime",
];

// Functions of PMDK's libraries that make a pool, by the beginnings of their names.
const POOL_MAKERS: [&str; 4] =
    ["pmemobj_create", "pmemlog_create", "pmemblk_create", "util_pool_create"];

/// The place of a site, and that of the innermost call from outside of the program or library that
/// it is in.
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
    is_own_module(&place.module)
}

/// Whether the path of a program or a library is none of the system's.
pub fn is_own_module(path: &str) -> bool {
    !path.starts_with('[')
        && !OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder))
        && !is_runtime(path)
}

/// Whether a place only starts programs and threads, or calls back.
pub fn starts_programs(place: &Location) -> bool {
    let is_one = |name: &String| name == "_start" || name.starts_with("__libc_start_");
    is_runtime(&place.module) || place.function.as_ref().is_some_and(is_one)
}

/// Whether a place is in a function that copies or sets bytes, which may store some of them twice.
pub fn is_copy(place: &Location) -> bool {
    let is_one =
        |name: &String| ["memcpy", "memmove", "memset"].iter().any(|copy| name.contains(copy));
    is_runtime(&place.module) || place.function.as_ref().is_some_and(is_one)
}

/// Whether what happened at a site, on behalf of a caller, is the program's own work. The C library
/// and libpmem copy and flush what they are given; what other libraries store is theirs.
pub fn is_own_work(site: Option<&Location>, caller: Option<&Location>) -> bool {
    let Some(site) = site else { return false };
    let works_for_caller =
        is_runtime(&site.module) || is_named(&site.module, &["libpmem.so", "libpmem2.so"]);
    is_own(site) || (works_for_caller && caller.is_some_and(is_own))
}

/// Whether calls are those of a library that makes a pool.
pub fn makes_pool(frames: &[Location]) -> bool {
    let is_maker = |name: &String| POOL_MAKERS.iter().any(|maker| name.starts_with(maker));
    frames.iter().any(|frame| frame.function.as_ref().is_some_and(is_maker))
}

fn is_runtime(module: &str) -> bool {
    is_named(module, &RUNTIMES)
}

fn is_named(module: &str, beginnings: &[&str]) -> bool {
    let name = module.rsplit('/').next().unwrap_or_default();
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_the_program_s_own_if_no_library_does_it_for_itself() {
        let at = |module: &str| Location::bare(module, 1);
        let own = |site: &str, caller: &str| is_own_work(Some(&at(site)), Some(&at(caller)));
        let libraries = "/usr/lib/x86_64-linux-gnu";
        let [libc, libpmem, libpmemobj] = ["libc.so.6", "libpmem.so.1.0.0", "libpmemobj.so.1.0.0"]
            .map(|name| format!("{libraries}/{name}"));
        assert!(
            own("/home/me/store", &libc)
                && own("/usr/bin/fio", &libc)
                && own("/home/me/libstore.so", &libc)
        );
        assert!(own(&libc, "/home/me/store") && own(&libpmem, "/usr/bin/fio"));
        assert!(
            !own(&libpmemobj, "/home/me/store")
                && !own(&libpmem, &libpmemobj)
                && !own(&libc, &libpmemobj)
        );
        let recorder = "/memfd:ringfence-runtime (deleted)";
        assert!(!own(recorder, &libc) && !own(&libc, recorder) && own("/home/me/store", recorder));
        assert!(!own("[vdso]", &libc) && !is_own_work(None, Some(&at("/home/me/store"))));
    }

    #[test]
    fn a_pool_is_made_below_functions_of_these_names() {
        let named = |name: Option<&str>| Location {
            function: name.map(Into::into),
            ..Location::bare("/it", 1)
        };
        assert!(makes_pool(&[named(None), named(Some("pmemobj_createU")), named(Some("main"))]));
        assert!(makes_pool(&[named(Some("util_pool_create_uuids"))]));
        assert!(!makes_pool(&[named(Some("pmemobj_open")), named(None)]));
    }
}
