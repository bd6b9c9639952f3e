//! What to do about a refusal: a pure function of the kernel's words and the errno.
//!
//! The words are those of Linux 6.1, `arch/x86/kernel/cpu/resctrl`; those of other versions that
//! are not known fall back to the errno. Where several lines were left, the first that is known
//! counts.

// Parts of the kernel's messages, each with its remedy.
const KNOWN: &[(&str, &str)] = &[
    ("non-consecutive 1-bits", "this processor only accepts masks of adjacent ways, such as f0"),
    ("Need at least", "give the mask more bits: info/*/min_cbm_bits says how many"),
    ("Mask out of range", "a mask has at least one bit and none beyond info/*/cbm_mask"),
    ("Non-hex character", "write the mask in hexadecimal, without a prefix"),
    (
        "Overlaps with exclusive group",
        "choose bits that no exclusive group has: info/*/bit_usage marks those with E",
    ),
    (
        "Overlaps with other group",
        "for exclusive ways, take them from every other group first, the default group included, \
         and choose none of info/*/shareable_bits, which devices use",
    ),
    (
        "Schemata overlaps",
        "an exclusive group shares no way: take its ways from every other group first, the default \
         group included, \
         and leave it none of info/*/shareable_bits, which devices use",
    ),
    (
        "CBM overlaps with pseudo-locked region",
        "choose other bits: info/*/bit_usage marks those with P",
    ),
    (
        "Pseudo-locked region in hierarchy",
        "this cache, or one above or below it, has a pseudo-locked region: remove that group \
         first; after a mistake \
         in this group's own schemata, remove it and make it again",
    ),
    (
        "Cannot be exclusive without CAT/CDP",
        "this machine cannot allocate cache ways, so nothing can be exclusive: keep the group \
         shareable",
    ),
    ("Out of CLOSIDs", "remove a group that is no longer needed; 'ringfence resctrl' lists them"),
    (
        "Out of RMIDs",
        "remove a group or monitor group that is no longer needed: 'ringfence resctrl' lists them",
    ),
    (
        "No space on",
        "exclusive groups and pseudo-locked regions leave no ways for a new group: free some first",
    ),
    (
        "No task",
        "that task has ended, or its ID is from another PID namespace: choose a running one",
    ),
    ("No permission to move task", "move your own tasks, or run as root"),
    (
        "Can't move task to different control group",
        "move it to the group above this monitor group first",
    ),
    ("Can't drop CPUs from default group", "give the CPUs to another group instead"),
    (
        "Can only add CPUs to mongroup that belong to parent",
        "give the CPUs to the group above first",
    ),
    (
        "Can only assign online CPUs",
        "leave out the CPUs that are offline: /sys/devices/system/cpu/online lists the others",
    ),
    (
        "Bad CPU list",
        "write CPUs as 0-3,8, and none that /sys/devices/system/cpu/possible does not list",
    ),
    ("Cannot pseudo-lock default group", "make a group of its own for the region"),
    (
        "CDP enabled",
        "pseudo-locking does not work with CDP: unmount resctrl and mount it without cdp and cdpl2",
    ),
    (
        "Pseudo-locking not supported",
        "only Broadwell-X, Goldmont and Goldmont Plus can; use exclusive ways with preloading \
         instead",
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
        "the kernel found no contiguous memory of that size: try a smaller region, or earlier \
         after boot",
    ),
    ("Cannot pseudo-lock MBA resource", "only cache can be pseudo-locked: write an L2 or L3 line"),
    (
        "Resource group is pseudo-locked",
        "a pseudo-locked region is never changed: remove the group and make it again",
    ),
    ("Cannot change pseudo-locked group", "a pseudo-locked group keeps its mode: remove it"),
    ("Pseudo-locking in progress", LOCKED),
    ("Locking thread interrupted", "a signal came in between: write the schemata again"),
    ("associated with cache not online", "bring the CPUs of that cache online"),
    ("Cache domain offline", "bring a CPU of that cache online"),
    ("Unknown or unsupported resource name", "name a resource that the group's schemata lists"),
    ("Unknown or unsupported mode", "write shareable, exclusive or pseudo-locksetup"),
    ("Missing '=' or non-numeric domain", "write it as L3:0=f;1=ff"),
    ("Missing ':'", "write it as L3:0=f;1=ff"),
    ("' value", "write a value after the resource's name, as L3:0=f"),
    ("Duplicate domain", "name each cache once for a resource"),
    ("out of range [", "write a bandwidth within the range that the kernel names"),
    ("Invalid MB value", "write the bandwidth as a decimal number"),
    (
        "non-linear MB domains",
        "this processor's delays are not linear, and the kernel does not set them: leave MB out",
    ),
    ("Failed to initialize allocations", MEMORY),
    ("Kernel out of memory", MEMORY),
    ("Failure to allocate memory for PM QoS", MEMORY),
    ("Unable to init pseudo-lock region", MEMORY),
    ("kernfs", MEMORY),
    (
        "Unable to obtain a new minor number",
        "remove a pseudo-locked group that is no longer needed",
    ),
    (
        "Failed to create character device",
        "choose a name for the group that is not in /dev/pseudo_lock yet",
    ),
    (
        "Failed to add latency req",
        "the CPUs of that cache cannot be kept from deep sleep states, without which nothing stays \
         locked: try \
         again with all of them online",
    ),
    (
        "Unable to determine cache line size",
        "the kernel does not know this cache: choose another level",
    ),
    (
        "Unable to modify resctrl permissions",
        "unmount resctrl and mount it again: the group's files are inconsistent",
    ),
    ("Locking thread returned error", MEMORY),
];

const MEMORY: &str = "the kernel is short of memory: free some, and try again";

/// What to do where a group that is (being) pseudo-locked refuses.
pub const LOCKED: &str = "a group that is (being) pseudo-locked takes no tasks, CPUs or monitor \
                          groups, not even from root: use another group";

/// What to do about a refusal with this status and errno; empty where nothing is known.
pub fn of(status: Option<&str>, errno: Option<i32>) -> String {
    let by_words = status.and_then(|status| {
        status.split("; ").find_map(|line| KNOWN.iter().find(|(words, _)| line.contains(words)))
    });
    let text = match (by_words, errno) {
        (Some(("Out of RMIDs", _)), Some(libc::EBUSY)) => {
            "numbers of recently removed groups stay in use until their lines leave the cache: try \
             again in a second, or raise info/L3_MON/max_threshold_occupancy"
        }
        (Some((_, remedy)), _) => remedy,
        (None, Some(libc::EACCES | libc::EPERM)) => "run as root",
        (None, Some(libc::EROFS)) => "resctrl is mounted read-only: mount it again with rw",
        (None, Some(libc::EEXIST)) => {
            "choose another name, or remove that group if nothing needs it"
        }
        (None, Some(libc::ENOSPC)) => "remove a group that is no longer needed",
        (None, Some(libc::ENOMEM)) => MEMORY,
        (None, Some(libc::ESRCH)) => "that task has ended: choose a running one",
        (None, Some(libc::ENOENT)) => {
            "it has been removed, or resctrl was unmounted, in the meantime"
        }
        (None, Some(libc::E2BIG)) => "write less than a page at once",
        _ => "",
    };
    text.to_owned()
}

/// Which permission is missing, and how it is got.
pub fn forbidden(what: &str, place: &str) -> String {
    format!("run as root, or have root give you permission to {what} {place}: chown YOU {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every rdt_last_cmd_puts and rdt_last_cmd_printf of Linux 6.1, with values put in.
    const SAID: &[&str] = &[
        "Bad CPU list/mask",
        "CBM overlaps with pseudo-locked region",
        "CDP enabled",
        "CPU 3 associated with cache not online",
        "CPUs assigned to resource group",
        "Cache domain offline",
        "Can only add CPUs to mongroup that belong to parent",
        "Can only assign online CPUs",
        "Can't drop CPUs from default group",
        "Can't move task to different control group",
        "Cannot be exclusive without CAT/CDP",
        "Cannot change pseudo-locked group",
        "Cannot pseudo-lock MBA resource",
        "Cannot pseudo-lock default group",
        "Duplicate domain 1",
        "Failed to add latency req CPU2",
        "Failed to create character device: -17",
        "Failed to initialize allocations",
        "Failure to allocate memory for PM QoS",
        "Invalid MB value x",
        "Kernel out of memory",
        "Locking thread interrupted",
        "Locking thread returned error -12",
        "MB value 5 out of range [10,100]",
        "Mask out of range",
        "Missing 'L3' value",
        "Missing ':'",
        "Missing '=' or non-numeric domain",
        "Monitoring in progress",
        "Need at least 2 bits in the mask",
        "No permission to move task 1",
        "No space on L3:0",
        "No support for non-linear MB domains",
        "No task 1",
        "Non-hex character in the mask x",
        "Out of CLOSIDs",
        "Out of RMIDs",
        "Overlaps with exclusive group",
        "Overlaps with other group",
        "Pseudo-locked region in hierarchy",
        "Pseudo-locking in progress",
        "Pseudo-locking not supported",
        "Requested region exceeds maximum size",
        "Resource group is pseudo-locked",
        "Schemata overlaps",
        "Tasks assigned to resource group",
        "The mask 5 has non-consecutive 1-bits",
        "Unable to allocate memory",
        "Unable to determine cache line size",
        "Unable to init pseudo-lock region",
        "Unable to modify resctrl permissions",
        "Unable to obtain a new minor number",
        "Unknown or unsupported mode",
        "Unknown or unsupported resource name 'X'",
        "kernfs create error",
        "kernfs fill error",
        "kernfs perm error",
        "kernfs subdir error",
    ];

    #[test]
    fn everything_that_the_kernel_says_has_a_remedy() {
        for said in SAID {
            let remedy = of(Some(said), Some(libc::EINVAL));
            assert!(!remedy.is_empty(), "{said}");
            assert!(!remedy.contains(['\n', '.']) && !remedy.contains("  "), "{said}: {remedy}");
        }
    }

    #[test]
    fn no_remedy_is_of_words_that_the_kernel_does_not_say_or_hidden_by_others() {
        for (place, (words, remedy)) in KNOWN.iter().enumerate() {
            let about: Vec<&&str> = SAID.iter().filter(|said| said.contains(words)).collect();
            assert!(!about.is_empty(), "{words}");
            for said in about {
                let first = KNOWN.iter().position(|(words, _)| said.contains(words));
                assert_eq!(first, Some(place), "{said}: {remedy}");
            }
        }
    }

    #[test]
    fn without_words_the_errno_counts() {
        assert!(of(None, Some(libc::EROFS)).contains("rw"));
        assert!(of(Some("Out of RMIDs"), Some(libc::EBUSY)).contains("try again in a second"));
        assert!(of(Some("from a newer kernel"), Some(libc::ENOSPC)).contains("remove a group"));
        assert_eq!(of(None, Some(libc::EIO)), "");
    }
}
