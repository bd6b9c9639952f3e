//! What to do about a refusal: a pure function of the kernel's words and the errno.
//!
//! The words are those of Linux 6.1, `arch/x86/kernel/cpu/resctrl`; those of other versions that are not known
//! fall back to the errno. Where several lines were left, the first that is known counts.

// Parts of the kernel's messages, each with its remedy.
const KNOWN: &[(&str, &str)] = &[
    ("non-consecutive 1-bits", "this processor takes masks of neighbouring ways only, such as f0"),
    ("Need at least", "give the mask more bits: info/*/min_cbm_bits says how many"),
    ("Mask out of range", "a mask has at least one bit and none beyond info/*/cbm_mask"),
    ("Non-hex character", "write the mask in hexadecimal, without a prefix"),
    (
        "Overlaps with exclusive group",
        "choose bits that no exclusive group has: info/*/bit_usage marks those with E",
    ),
    (
        "Overlaps with other group",
        "this group is exclusive: take the bits from the others first, the default group included",
    ),
    (
        "Schemata overlaps",
        "take its bits from every other group first, the default group included; an exclusive group shares none",
    ),
    ("CBM overlaps with pseudo-locked region", "choose other bits: info/*/bit_usage marks those with P"),
    (
        "Pseudo-locked region in hierarchy",
        "this cache already has a pseudo-locked region, of this or another level: remove that group first",
    ),
    (
        "Cannot be exclusive without CAT/CDP",
        "this machine cannot allocate cache ways; nothing can be exclusive",
    ),
    ("Out of CLOSIDs", "remove a group that is no longer needed; 'ringfence resctrl' lists them"),
    (
        "Out of RMIDs",
        "remove a group or monitor group; those removed lately are busy until their lines leave the cache",
    ),
    (
        "No space on",
        "exclusive groups and pseudo-locked regions leave no ways for a new group: free some first",
    ),
    ("No task", "the task has ended"),
    ("No permission to move task", "move your own tasks, or run as root"),
    ("Can't move task to different control group", "move it to the group above this monitor group first"),
    ("Can't drop CPUs from default group", "give the CPUs to another group instead"),
    ("Can only add CPUs to mongroup that belong to parent", "give the CPUs to the group above first"),
    (
        "Can only assign online CPUs",
        "leave out the CPUs that are offline: /sys/devices/system/cpu/online lists the others",
    ),
    ("Bad CPU list", "write CPUs as 0-3,8"),
    ("Cannot pseudo-lock default group", "make a group of its own for the region"),
    (
        "CDP enabled",
        "pseudo-locking does not go with CDP: unmount resctrl and mount it without cdp and cdpl2",
    ),
    (
        "Pseudo-locking not supported",
        "only Broadwell-X, Goldmont and Goldmont Plus can; use exclusive ways with preloading instead",
    ),
    ("Monitoring in progress", "remove the monitor groups below this group first"),
    ("Tasks assigned to resource group", "move its tasks to another group first"),
    ("CPUs assigned to resource group", "give its CPUs to another group first"),
    (
        "Requested region exceeds maximum size",
        "ask for at most 4 MiB (the kernel's largest piece of contiguous memory)",
    ),
    (
        "Unable to allocate memory",
        "the kernel found no contiguous memory of that size: try a smaller region, or earlier after boot",
    ),
    ("Cannot pseudo-lock MBA resource", "only cache can be pseudo-locked: write an L2 or L3 line"),
    (
        "Resource group is pseudo-locked",
        "a pseudo-locked region is never changed: remove the group and make it again",
    ),
    ("Cannot change pseudo-locked group", "a pseudo-locked group keeps its mode: remove it"),
    (
        "Pseudo-locking in progress",
        "a group that is (being) pseudo-locked takes no tasks, CPUs or monitor groups",
    ),
    ("Locking thread interrupted", "a signal came in between: write the schemata again"),
    ("associated with cache not online", "bring the CPUs of that cache online"),
    ("Cache domain offline", "bring a CPU of that cache online"),
    ("Unknown or unsupported resource name", "info/ lists the resources that there are"),
    ("Unknown or unsupported mode", "modes are shareable, exclusive and pseudo-locksetup"),
    ("Missing '=' or non-numeric domain", "write it as L3:0=f;1=ff"),
    ("Missing ':'", "write it as L3:0=f;1=ff"),
    ("Missing '", "write a value behind the resource's name, as L3:0=f"),
    ("Duplicate domain", "name each cache once in a line"),
    ("out of range", "info/MB/min_bandwidth is the least, 100 the most"),
    ("Invalid MB value", "write the bandwidth as a decimal number"),
    (
        "non-linear MB domains",
        "this processor's delay values are not linear, and the kernel does not set them",
    ),
    ("Failed to initialize allocations", "the ways left do not hold a group: free some first"),
    ("Out of memory", "free some memory"),
    ("out of memory", "free some memory"),
];

/// What to do about a refusal with this status and errno; empty where nothing is known.
pub fn of(status: Option<&str>, errno: Option<i32>) -> String {
    let by_words = status.and_then(|status| {
        status.split("; ").find_map(|line| KNOWN.iter().find(|(words, _)| line.contains(words)))
    });
    let text = match (by_words, errno) {
        (Some((_, remedy)), _) => remedy,
        (None, Some(libc::EACCES | libc::EPERM)) => {
            "run as root, or have root give you the files: chown below the mounted resctrl"
        }
        (None, Some(libc::EROFS)) => "resctrl is mounted read-only: mount it again with rw",
        (None, Some(libc::EEXIST)) => "choose another name, or remove that group if nothing needs it",
        (None, Some(libc::EBUSY)) => {
            "lines of a removed monitoring group are still in the cache: try again in a while, or raise \
             info/L3_MON/max_threshold_occupancy"
        }
        (None, Some(libc::ENOSPC)) => "remove a group that is no longer needed",
        (None, Some(libc::ESRCH)) => "the task has ended",
        (None, Some(libc::ENOENT)) => "it has been removed, or resctrl was unmounted, in the meantime",
        _ => "",
    };
    text.to_owned()
}
