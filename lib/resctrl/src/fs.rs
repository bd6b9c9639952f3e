//! The file system as a whole: found, mounted, listed.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ringfence_system::mounts::{self, Mount};
use ringfence_system::root::FsRoot;
use rustix::mount::{MountFlags, UnmountFlags};
use serde::{Deserialize, Serialize};

use crate::error::{Absent, Error, Refused};
use crate::info::{self, Info, Spelling};
use crate::kernel::{self, HostKernel, Kernel};

/// Where resctrl is mounted unless a user mounts it elsewhere.
pub const DEFAULT_MOUNT: &str = "/sys/fs/resctrl";

/// How resctrl is mounted (kernel documentation, x86/resctrl, "mount options").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MountOptions {
    /// Separate ways for code and data in the L3.
    pub cdp: bool,
    /// The same in the L2.
    pub cdpl2: bool,
    /// Bandwidth in MB/s, kept by software.
    pub mba_mbps: bool,
}

impl MountOptions {
    fn of(mount: &Mount) -> Self {
        Self { cdp: mount.has("cdp"), cdpl2: mount.has("cdpl2"), mba_mbps: mount.has("mba_MBps") }
    }

    /// As `mount -o` takes them; empty for none.
    pub fn text(self) -> String {
        let all = [(self.cdp, "cdp"), (self.cdpl2, "cdpl2"), (self.mba_mbps, "mba_MBps")];
        all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }
}

/// The mounted file system. Cheap to clone.
#[derive(Clone)]
pub struct Resctrl {
    kernel: Arc<dyn Kernel>,
    options: MountOptions,
    amd: bool,
    mounted_here: bool,
}

impl fmt::Debug for Resctrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resctrl")
            .field("place", &self.kernel.place())
            .field("options", &self.options)
            .finish()
    }
}

impl Resctrl {
    /// The resctrl that is mounted below this root.
    ///
    /// # Errors
    /// Why there is none: no hardware, no kernel support, or not mounted.
    #[doc(alias = "pqos_init")]
    pub fn find(root: &FsRoot) -> Result<Self, Absent> {
        let mounts = root.read_opt("/proc/mounts");
        let mut all = mounts::of_table(mounts.as_deref().unwrap_or_default());
        all.retain(|mount| mount.fs == "resctrl");
        let covered =
            |mount: &Mount| root.is_host() && kernel::is_resctrl(&mount.point).is_ok_and(|is| !is);
        let found = all.iter().find(|mount| !covered(mount)).cloned();
        if let (None, Some(mount)) = (&found, all.first()) {
            return Err(Absent::Covered(mount.point.display().to_string()));
        }
        let cpuinfo = root.cpuinfo();
        if let Some(mount) = found {
            // Hygon's processors are AMD's in this, too (Linux, `rdt_init_res_defs_amd`).
            let is_amd = |line: &str| {
                ["AuthenticAMD", "HygonGenuine"].iter().any(|vendor| line.ends_with(vendor))
            };
            let amd = cpuinfo.lines().any(|line| line.starts_with("vendor_id") && is_amd(line));
            return Ok(Self {
                options: MountOptions::of(&mount),
                kernel: Arc::new(HostKernel::new(root, mount.point)),
                amd,
                mounted_here: false,
            });
        }
        if let Some(name) = root.other_processor() {
            return Err(Absent::OtherProcessor(name));
        }
        let known = root.read_opt("/proc/filesystems");
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let shown = flags
            .unwrap_or_default()
            .split_whitespace()
            .any(|flag| ["rdt_a", "cqm", "cat_l3", "cat_l2", "mba"].contains(&flag));
        let has = |known: &String| {
            known.lines().any(|line| line.trim_start_matches("nodev").trim() == "resctrl")
        };
        Err(match known.as_ref().map(has) {
            Some(true) if mounts.is_none() => Absent::Unknown("/proc/mounts"),
            Some(true) => Absent::NotMounted,
            _ if flags.is_none() => Absent::Unknown("/proc/cpuinfo"),
            None if shown => Absent::Unknown("/proc/filesystems"),
            Some(false) if shown => Absent::NoKernel,
            _ => Absent::NoHardware,
        })
    }

    /// A resctrl that is accessed through another kernel than this machine's files.
    pub fn with_kernel(kernel: Arc<dyn Kernel>, options: MountOptions) -> Self {
        Self { kernel, options, amd: false, mounted_here: false }
    }

    /// Mounts it on this machine at [`DEFAULT_MOUNT`], where it is not mounted yet.
    ///
    /// # Errors
    /// As [`Resctrl::find`]; or the kernel's refusal, which needs root.
    pub fn mount(options: MountOptions) -> Result<Self, Error> {
        let root = FsRoot::host();
        match Self::find(&root) {
            Err(Absent::NotMounted) => {}
            other => return Ok(other?),
        }
        let text = options.text();
        mount(&text).map_err(|source| {
            let with = if text.is_empty() { String::new() } else { format!(" with {text}") };
            let remedy = |errno| match errno {
                libc::EINVAL => Some(
                    "this machine does not support an option: cdp and cdpl2 need code and data \
                     prioritization, mba_MBps needs linear bandwidth allocation and mbm_local_bytes"
                        .to_owned(),
                ),
                libc::EBUSY => Some(
                    "it is mounted elsewhere: find it in /proc/mounts of other namespaces".into(),
                ),
                _ => None,
            };
            Refused::new(
                format!(
                    "mounting resctrl at \
                                  {DEFAULT_MOUNT}{with}"
                ),
                source,
                None,
            )
            .unless_said(remedy)
        })?;
        Ok(Self { mounted_here: true, ..Self::find(&root)? })
    }

    /// Whether [`Resctrl::mount`] has mounted it, rather than found it mounted.
    pub fn mounted_here(&self) -> bool {
        self.mounted_here
    }

    /// How it is mounted.
    pub fn options(&self) -> MountOptions {
        self.options
    }

    /// Where it is mounted.
    pub fn place(&self) -> String {
        self.kernel.place()
    }

    /// The kernel that it uses.
    pub fn kernel(&self) -> &dyn Kernel {
        &*self.kernel
    }

    /// What can be shared out.
    ///
    /// # Errors
    /// Where `info/` cannot be read or holds something unknown in a file that is known.
    #[doc(alias("pqos_cap_get", "pqos_cap_get_type"))]
    pub fn info(&self) -> Result<Info, Error> {
        info::read(&*self.kernel, self.spelling())
    }

    /// The same as far as it can be read and understood, and why not the rest.
    pub(crate) fn known_info(&self) -> (Info, Vec<Error>) {
        info::read_known(&*self.kernel, self.spelling())
    }

    fn spelling(&self) -> Spelling {
        Spelling { software_controller: self.options.mba_mbps, amd: self.amd }
    }

    /// The kernel's status of the last command: `None` for `ok`, and where it cannot be read. Lines
    /// are joined by `; `.
    pub fn last_status(&self) -> Option<String> {
        joined(&self.status_lines())
    }

    fn status_lines(&self) -> Vec<String> {
        let text = self.kernel.read(Path::new("info/last_cmd_status")).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "ok");
        lines.map(str::to_owned).collect()
    }

    /// Runs an operation, and adds the kernel's explanation to a failure.
    ///
    /// The status is not about the operation just because it is there (Linux 6.1,
    /// `rdt_last_cmd_clear` and its callers): [`Says`] tells how the two belong together.
    pub(crate) fn run(
        &self,
        tried: impl Fn() -> String,
        says: Says,
        operation: impl FnOnce(&dyn Kernel) -> Result<(), Failed>,
    ) -> Result<(), Refused> {
        let mut before = if says == Says::More { self.status_lines() } else { Vec::new() };
        // It takes 512 bytes, and nothing more until it is cleared. Moving a task of a number that
        // no task can have clears it and does nothing else.
        if before.iter().map(|line| line.len() + 1).sum::<usize>() > 256 {
            let _ = self.kernel.write(Path::new("tasks"), &format!("{}\n", i32::MAX));
            before = self.status_lines();
        }
        let Err(Failed { heard, source }) = operation(&*self.kernel) else { return Ok(()) };
        let after = self.status_lines();
        let status = match (heard, says) {
            (false, _) | (_, Says::Nothing) => None,
            (true, Says::Anew) => joined(&after),
            (true, Says::More) => match after.strip_prefix(&before[..]) {
                // Nothing was added: the kernel had nothing to say, or cleared it and said the same
                // again.
                Some([]) if source.raw_os_error() != Some(libc::EINVAL) => None,
                Some([]) | None => joined(&after),
                Some(more) => joined(more),
            },
        };
        Err(Refused::new(tried(), source, status))
    }
}

fn joined(lines: &[String]) -> Option<String> {
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// What `last_cmd_status` has to do with a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing: the operation leaves it as it is (`rmdir`).
    Nothing,
    /// All of it is about this operation, which clears it first (`tasks`, `schemata`, `mode`).
    Anew,
    /// What was added is (`mkdir`, `cpus`, `cpus_list`).
    More,
}

/// An operation that was refused.
pub(crate) struct Failed {
    /// Whether resctrl itself refused, rather than a layer above it.
    pub heard: bool,
    pub source: io::Error,
}

fn mount(options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    Ok(rustix::mount::mount("resctrl", DEFAULT_MOUNT, "resctrl", MountFlags::empty(), &*options)?)
}

pub(crate) fn unmount(place: &str) -> io::Result<()> {
    Ok(rustix::mount::unmount(place, UnmountFlags::empty())?)
}
