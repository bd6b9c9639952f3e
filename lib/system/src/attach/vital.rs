//! Processes that the system or the access to it depends on, which are never a target.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::root::{FsRoot, field};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::attach::process::{self, Process};

/// Programs, by their names, and why they must not be stopped. A star stands for any end.
pub const VITAL: [(&[&str], &str); 16] = [
    (&["systemd", "init", "(sd-pam)"], "it starts and watches services"),
    (&["sshd*", "dropbear", "mosh-server", "telnetd"], "you may be logged in through it"),
    (&["login", "agetty", "su", "sudo", "doas"], "you may be logged in through it"),
    (
        &["systemd-journald", "rsyslogd", "syslog-ng"],
        "programs that log wait for it once its queue is full",
    ),
    (&["auditd"], "audited programs wait for it once the kernel's queue is full"),
    (&["dbus-daemon", "dbus-broker*"], "services wait for its answers"),
    (&["systemd-logind", "elogind"], "logins wait for it"),
    (
        &[
            "systemd-networkd",
            "systemd-resolved",
            "NetworkManager",
            "dhclient",
            "dhcpcd",
            "wpa_supplicant",
            "iwd",
        ],
        "it keeps the network up",
    ),
    (&["systemd-udevd", "udevd"], "devices wait for it"),
    (&["multipathd", "iscsid"], "disks wait for it"),
    (&["dockerd", "containerd", "containerd-shim*", "crio", "podman"], "it runs containers"),
    (&["conmon", "runc", "crun"], "a container's output and exit status go through it"),
    (&["kubelet"], "without it, the cluster considers this node dead"),
    (&["qemu-ga"], "the hypervisor reaches this machine through it"),
    (&["tmux*", "screen", "SCREEN", "zellij"], "it is a terminal that programs run in"),
    (
        &["Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "sway"],
        "it is a screen that programs run on",
    ),
];

// How much of a name the kernel keeps (TASK_COMM_LEN, with the byte at its end).
const NAME: usize = 15;

fn is_named(pattern: &str, name: &str, program: Option<&str>) -> bool {
    let known =
        |pattern: &str| &pattern[..pattern.len().min(NAME)] == name || program == Some(pattern);
    match pattern.strip_suffix('*') {
        Some(begin) => {
            name.starts_with(begin) || program.is_some_and(|program| program.starts_with(begin))
        }
        None => known(pattern),
    }
}

/// Why processes are no targets, on this machine and for this program.
#[derive(Debug, Clone)]
pub struct Guard {
    root: FsRoot,
    own: Option<u32>,
    // Other processes of the same program, such as a guardian.
    program: Option<PathBuf>,
    // Ancestors, and readers of what this program writes.
    ours: HashMap<u32, &'static str>,
}

impl Guard {
    /// Looks at this program's place among the others.
    pub fn new(root: &FsRoot) -> Self {
        let own = process::own(root);
        let mut ours = readers(root, own);
        if let Some(own) = own {
            let above = process::ancestors(root, own);
            ours.extend(above.iter().map(|process| (process.pid(), "this program runs below it")));
        }
        let program = std::fs::read_link(root.path("/proc/self/exe")).ok();
        Self { root: root.clone(), own, program, ours }
    }

    /// Why a process is not a target, if it is none.
    pub fn refuses(&self, process: &Process) -> Option<&'static str> {
        let pid = process.pid();
        if pid == 1 {
            return Some("it is process 1, which everything depends on");
        }
        if self.own == Some(pid) {
            return Some("it is this program itself");
        }
        if process.is_kernel {
            return Some("it is a thread of the kernel");
        }
        if let Some(why) = self.ours.get(&pid) {
            return Some(why);
        }
        let exe = std::fs::read_link(self.root.path(format!("/proc/{pid}/exe"))).ok();
        if exe.is_some() && exe == self.program {
            return Some("it is another process of this program");
        }
        let program = exe.as_deref().and_then(process::program);
        let named = |(names, _): &&(&[&str], _)| {
            names.iter().any(|name| is_named(name, &process.name, program.as_deref()))
        };
        let (_, why) = VITAL.iter().find(named)?;
        // A container has an init, and perhaps an sshd, of its own: this system does not depend on
        // them.
        let status = self.root.read_opt(format!("/proc/{pid}/status")).unwrap_or_default();
        (!process::is_below_namespace(&status)).then_some(why)
    }
}

// An open file of a process that is a pipe or a terminal's other end.
struct End {
    pid: u32,
    fd: u32,
    // `pipe:[7]`, `fifo:[8:1:7]` for one with a path, or `tty:[3]` for what is shown on /dev/pts/3.
    name: String,
    reads: bool,
    writes: bool,
}

// Processes that read what this program writes, those that read what they write, and so on: if one
// stands still, so does every process before it once the pipe is full.
fn readers(root: &FsRoot, own: Option<u32>) -> HashMap<u32, &'static str> {
    let Some(own) = own else { return HashMap::new() };
    let outputs = |ends: &[End], pid: u32| -> Vec<String> {
        let of = ends.iter().filter(|end| end.pid == pid && end.writes && matches!(end.fd, 1 | 2));
        of.map(|end| end.name.clone()).collect()
    };
    let written = outputs(&ends(root, own), own);
    let mut found = HashMap::new();
    if written.is_empty() {
        return found;
    }
    let all: Vec<End> = process::all(root).into_iter().flat_map(|pid| ends(root, pid)).collect();
    let mut next = written;
    while let Some(name) = next.pop() {
        for end in all.iter().filter(|end| end.reads && end.name == name && end.pid != own) {
            if found.insert(end.pid, "it reads what this program writes").is_none() {
                next.extend(outputs(&all, end.pid));
            }
        }
    }
    found
}

fn ends(root: &FsRoot, pid: u32) -> Vec<End> {
    let mut found = Vec::new();
    for fd in root.numbered(format!("/proc/{pid}/fd"), "") {
        let Ok(link) = std::fs::read_link(root.path(format!("/proc/{pid}/fd/{fd}"))) else {
            continue;
        };
        let Some(name) = link.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        let info = || root.read_opt(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let pipe = if name.starts_with("pipe:[") {
            Some(name.clone())
        } else {
            named_pipe(root, pid, fd, &link)
        };
        if let Some(name) = pipe {
            // O_WRONLY is 1, O_RDWR 2 (proc_pid_fdinfo(5): flags are octal).
            let flags =
                field(&info(), "flags").and_then(|flags| u64::from_str_radix(flags, 8).ok());
            // Closed meanwhile, or its process has ended: it belongs to no process.
            if flags.is_none()
                && std::fs::read_link(root.path(format!("/proc/{pid}/fd/{fd}"))).is_err()
            {
                continue;
            }
            let [reads, writes] = [
                flags.is_none_or(|flags| flags & 3 != 1),
                flags.is_some_and(|flags| flags & 3 != 0),
            ];
            found.push(End { pid, fd, name, reads, writes });
        } else if name == "ptmx" {
            if let Some(index) = field(&info(), "tty-index") {
                found.push(End {
                    pid,
                    fd,
                    name: format!("tty:[{index}]"),
                    reads: true,
                    writes: false,
                });
            }
        } else if link.parent().is_some_and(|folder| folder.ends_with("pts")) && matches!(fd, 1 | 2)
        {
            found.push(End { pid, fd, name: format!("tty:[{name}]"), reads: false, writes: true });
        }
    }
    found
}

// What an open file is called if it is a pipe with a path (fifo(7)). No file server is asked.
fn named_pipe(root: &FsRoot, pid: u32, fd: u32, link: &Path) -> Option<String> {
    if !link.is_absolute() || link.starts_with("/dev") {
        return None;
    }
    let path = root.path(format!("/proc/{pid}/fd/{fd}"));
    let asked = StatxFlags::TYPE | StatxFlags::INO;
    let found = statx(CWD, &path, AtFlags::STATX_DONT_SYNC, asked).ok()?;
    let is_pipe = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Fifo;
    is_pipe.then(|| {
        format!("fifo:[{}:{}:{}]", found.stx_dev_major, found.stx_dev_minor, found.stx_ino)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_however_much_the_kernel_keeps_of_them() {
        assert!(is_named("systemd-journald", "systemd-journal", None));
        assert!(is_named("containerd-shim*", "containerd-shim", None));
        assert!(is_named("tmux*", "tmux: server", None));
        assert!(is_named("kubelet", "renamed", Some("kubelet")));
        assert!(!is_named("systemd", "systemd-oomd", Some("systemd-oomd")));
        assert!(!is_named("init", "initdb", Some("initdb")));
    }

    #[test]
    fn every_name_has_a_reason_and_stands_once() {
        let mut names: Vec<&str> =
            VITAL.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        assert!(VITAL.iter().all(|(names, why)| !names.is_empty() && !why.is_empty()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
