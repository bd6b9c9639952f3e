//! What a process needs to mount copies over files: a mount namespace of its own, and, where only
//! privileged processes may have one, a user namespace for it.

// Namespaces are entered between `fork` and `exec`, for which the standard library has no safe
// call.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags, mkdir};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Signal, chdir, getegid, geteuid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities, unshare_unsafe,
};

use super::copy::{Copies, Layer};

/// Mounts copies over their originals, for this process and its children only. Called between
/// `fork` and `exec`: it allocates nothing.
pub(super) fn mount_over(copies: &Copies) -> io::Result<()> {
    if !copies.is_empty() {
        // SAFETY: no table of descriptors is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    }
    for layer in copies.layers() {
        put(layer)?;
    }
    for (copy, file) in copies.mounts() {
        mount_bind(copy.as_c_str(), file.as_c_str())?;
    }
    if let Some(directory) = copies.directory() {
        chdir(directory)?;
    }
    // The program has no rights that its user lacks: with any, the recorder might not look into it.
    Ok(clear_ambient_capability_set()?)
}

fn put(layer: &Layer) -> io::Result<()> {
    let memory = layer.memory.as_c_str();
    mount(c"ringfence", memory, c"tmpfs", MountFlags::NOSUID, c"mode=755")?;
    for folder in &layer.folders {
        mkdir(folder.as_c_str(), Mode::RWXU | Mode::from_raw_mode(0o055))?;
    }
    let over = |options: &CString| {
        let at = layer.at.as_c_str();
        mount(c"ringfence", at, c"overlay", MountFlags::NOSUID, options.as_c_str())
    };
    let [first, second] = &layer.options;
    over(first).or_else(|_| over(second))?;
    Ok(())
}

// An overlay works in a folder whose permissions are none.
const TO_MOUNT: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::DAC_OVERRIDE];

// Tells a recorder that it has users of its own; the program is not told.
const OWN_USERS: &str = "RINGFENCE_OWN_USERS";

/// Has a command run in a user namespace of its own, in which it has the user that it had, and may
/// mount. A recorder needs that where [`may_mount`] says no.
pub fn with_own_users(command: &mut Command) {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("{user} {user} 1")),
        (c"/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let enter = move || {
        // SAFETY: no table of descriptors is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER)? };
        set_parent_process_death_signal(Some(Signal::KILL))?;
        for (path, text) in &maps {
            write(path, text)?;
        }
        // A process that is not root loses all rights with the next program, unless they are
        // ambient (capabilities(7)).
        let sets = capabilities(None)?;
        let inheritable = sets.inheritable | TO_MOUNT[0] | TO_MOUNT[1];
        set_capabilities(None, CapabilitySets { inheritable, ..sets })?;
        for right in TO_MOUNT {
            configure_capability_in_ambient_set(right, true)?;
        }
        Ok(())
    };
    command.env(OWN_USERS, "1");
    // SAFETY: system calls alone; nothing is allocated between `fork` and `exec`.
    unsafe { command.pre_exec(enter) };
}

fn write(path: &CStr, text: &str) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // These files take a text in one piece or not at all.
    rustix::io::write(&file, text.as_bytes()).map(drop)
}

/// Gives up what [`with_own_users`] has given to this thread: a process may look only into those
/// that have no more rights than itself.
pub(super) fn give_up() -> io::Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}

/// Whether this process may mount: as root, or in the user namespace that [`with_own_users`] has
/// given it.
pub fn may_mount() -> bool {
    geteuid().is_root() || std::env::var_os(OWN_USERS).is_some()
}

/// Leaves out of a command's environment what is the recorder's alone.
pub(super) fn clean(command: &mut Command) {
    command.env_remove(OWN_USERS);
}
