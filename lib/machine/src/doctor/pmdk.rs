//! PMDK as it would be loaded and configured: debug builds, logging, and pools whose pages are not
//! touched.

use std::collections::BTreeMap;

use crate::root::FsRoot;
use crate::targets::Target;

use super::finding::{Finding, Severity, View};

/// Where distributions put the debug builds of its libraries (libpmem(7), "DEBUGGING AND ERROR
/// HANDLING"; `pmdk_dbg` on Debian, `nvml_debug` before its name changed).
const DEBUG_FOLDERS: [&str; 3] = ["pmdk_debug", "pmdk_dbg", "nvml_debug"];
const LIBRARIES: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/local/lib64",
    "/usr/local/lib",
];

pub(super) fn find(view: &View) -> Vec<Finding> {
    let environment = environment(view.root);
    let debug = debug_builds(view.root, &environment);
    let loads_debug = !debug.is_empty();
    [debug_finding(&debug), logging(&environment, loads_debug), prefault(view, &environment)]
        .into_iter()
        .flatten()
        .collect()
}

// What this process was started with, proc_pid_environ(5).
fn environment(root: &FsRoot) -> BTreeMap<String, String> {
    let bytes = root.bytes("/proc/self/environ").unwrap_or_default();
    let variables = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables
        .filter_map(|line| line.split_once('=').map(|(k, v)| (k.to_string(), v.to_string())))
        .collect()
}

fn is_debug(path: &str) -> bool {
    path.split('/').any(|part| DEBUG_FOLDERS.contains(&part))
}

// Each way in which the loader would find one, ld.so(8) and ldconfig(8). Only the folder's own name
// is said of a path of the user's.
fn debug_builds(root: &FsRoot, environment: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (variable, separators) in
        [("LD_LIBRARY_PATH", &[':', ';'][..]), ("LD_PRELOAD", &[':', ' '][..])]
    {
        let paths = environment
            .get(variable)
            .map(|value| value.split(separators).filter(|path| is_debug(path)));
        if let Some(path) = paths.and_then(|mut paths| paths.next()) {
            let shown = if path.starts_with("/home/") || path.starts_with("/root/") {
                "a debug build in the user's home"
            } else {
                path
            };
            found.push(format!("{variable} names {shown}"));
        }
    }
    let parts = root
        .list_opt("/etc/ld.so.conf.d")
        .into_iter()
        .map(|name| format!("/etc/ld.so.conf.d/{name}"));
    for file in std::iter::once("/etc/ld.so.conf".to_string()).chain(parts) {
        let text = root.read_opt(&file).unwrap_or_default();
        if let Some(line) =
            text.lines().map(str::trim).find(|line| !line.starts_with('#') && is_debug(line))
        {
            found.push(format!("{file} has {line}"));
        }
    }
    found
}

fn debug_finding(found: &[String]) -> Option<Finding> {
    (!found.is_empty()).then(|| Finding {
        id: "pmdk-debug".into(),
        severity: Severity::Serious,
        title: "Programs that use PMDK would load its debug build".into(),
        cause: "its folder precedes the release build in the library path".into(),
        consequence: "the debug build checks arguments, traces and logs in every call: \
                      measurements do not apply to the release build"
            .into(),
        remedy: "take pmdk_debug out of LD_LIBRARY_PATH, LD_PRELOAD and /etc/ld.so.conf.d (then \
                 run ldconfig)"
            .into(),
        evidence: found.join("; "),
    })
}

// Only debug builds heed the level, 0 to 4 (libpmem(7), libpmemobj(7)).
fn logging(environment: &BTreeMap<String, String>, loads_debug: bool) -> Option<Finding> {
    let set: Vec<String> = environment
        .iter()
        .filter(|(name, _)| name.starts_with("PMEM") && name.ends_with("_LOG_LEVEL"))
        .filter(|(_, level)| level.trim().parse::<i64>().is_ok_and(|level| level > 0))
        .map(|(name, level)| format!("{name}={}", level.trim()))
        .collect();
    (!set.is_empty()).then(|| Finding {
        id: "pmdk-log".into(),
        severity: if loads_debug { Severity::Serious } else { Severity::Info },
        title: "PMDK is set to log".into(),
        cause: format!("{} is set in the environment", set.join(" ")),
        consequence: if loads_debug {
            "its debug build writes lines to a file or to the terminal between stores, which is \
             measured as well"
                .into()
        } else {
            "release builds ignore it, debug builds write lines between stores; no debug build is \
             in the library path here"
                .into()
        },
        remedy: "unset it while measuring".into(),
        evidence: set.join("; "),
    })
}

// pmemobj_ctl_get(3), "CTL NAMESPACE": both off by default, and each for its own call alone.
fn prefault(view: &View, environment: &BTreeMap<String, String>) -> Option<Finding> {
    let installed = LIBRARIES
        .iter()
        .map(|dir| format!("{dir}/libpmemobj.so.1"))
        .find(|library| view.root.exists(library))?;
    let file = environment.get("PMEMOBJ_CONF_FILE").and_then(|path| view.root.read_opt(path));
    let inline = environment.get("PMEMOBJ_CONF").cloned().unwrap_or_default();
    // The variable is read first and the file after it, so that the file has the last word
    // (pmem_ctl(5)).
    let config = format!("{inline};{}", file.as_deref().map_or(String::new(), without_comments));
    let missing: Vec<&str> = ["prefault.at_create", "prefault.at_open"]
        .into_iter()
        .filter(|key| !is_on(&config, key))
        .collect();
    let durable = view.targets.iter().any(Target::is_persistent);
    (!missing.is_empty()).then(|| Finding {
        id: "pmdk-prefault".into(),
        severity: if durable { Severity::Warning } else { Severity::Info },
        title: "PMDK does not touch pools before they are used".into(),
        cause: format!(
            "{} off, as it is by default",
            if missing.len() == 2 {
                "prefault.at_create and prefault.at_open are".to_string()
            } else {
                format!("{} is", missing[0])
            }
        ),
        consequence: "the first store to each page of a pool pays for a page fault: programs with \
                      libpmemobj start slow, and \
                      short runs measure faults"
            .into(),
        remedy: "PMEMOBJ_CONF='prefault.at_create=1;prefault.at_open=1' for programs that you \
                 measure"
            .into(),
        evidence: format!(
            "{installed} is there; PMEMOBJ_CONF and PMEMOBJ_CONF_FILE do not set \
                           {}",
            missing.join(" and ")
        ),
    })
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect()
}

// Queries are separated by semicolons, the last one counts, and of a boolean only a first character
// of 0 says no (pmem_ctl(5), "CTL EXTERNAL CONFIGURATION").
fn is_on(config: &str, key: &str) -> bool {
    let values = config.split(';').filter_map(|query| query.split_once('='));
    let mut own = values.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    own.next_back().is_some_and(|value| !value.is_empty() && !value.starts_with('0'))
}
