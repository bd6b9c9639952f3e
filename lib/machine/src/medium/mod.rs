//! From a file to what it is stored on: the file system and its mount, the block devices below it,
//! where a flush goes, and so what each sync call guarantees there.
//!
//! [`Medium::of`] reads the kernel's files; the rest are functions of its findings. They are the
//! kernel's statements. Whether a hypervisor, a drive or a server conforms to them is unknown, and
//! [`Medium::unknown`] says so.
//!
//! ```
//! use std::os::unix::fs::MetadataExt;
//! use ringfence_machine::{medium::Medium, root::FsRoot};
//!
//! let dir = std::env::current_dir().unwrap();
//! let device = std::fs::metadata(&dir).unwrap().dev();
//! let medium = Medium::of(&FsRoot::host(), &dir, device);
//! for promise in &medium.promises {
//!     println!("{}: {}", promise.call, promise.how);
//! }
//! ```

mod device;
mod file_system;
mod findings;
mod flush;
mod load;
mod model;
mod options;
mod promise;
mod text;
mod unknowns;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::root::FsRoot;

pub use flush::Reach;
pub use load::{Load, Reading};
pub use model::{
    Below, Device, DeviceKind, FileSystem, FileSystemKind, Queue, Setting, WriteCache,
};
pub use promise::{Durable, Promise};
pub use text::Lines;

impl Device {
    /// Its number, `MAJOR:MINOR`, by which control groups know it; `None` where sysfs does not say.
    pub fn number(&self, root: &FsRoot) -> Option<String> {
        root.read_opt(format!("/sys/class/block/{}/dev", self.name))
    }
}

/// The layers below a file, and their guarantees.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Medium {
    /// The file system, with the devices below it.
    pub file_system: FileSystem,
    /// Where a flush goes that a sync call causes.
    pub flush: Reach,
    /// The promises of each method to sync, the strongest first.
    pub promises: Vec<Promise>,
    /// What cannot be known from here, a sentence each.
    pub unknown: Vec<String>,
    /// What the disks did while they were watched; nothing where they were not.
    pub load: Vec<Load>,
}

impl Medium {
    /// Follows a file or folder of this machine to its devices, as [`of`](Self::of) does.
    ///
    /// # Errors
    /// What stat(2) reports of it, or realpath(3).
    pub fn at(root: &FsRoot, path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        Ok(Self::of(root, &path, fs::metadata(&path)?.dev()))
    }

    /// Follows the file or folder `path`, resolved and absolute, whose `st_dev` is `device`
    /// (stat(2)), to its devices.
    ///
    /// A part that is missing or cannot be read is marked as such ([`Below::Unseen`]), or a field
    /// that is `None`.
    pub fn of(root: &FsRoot, path: &Path, device: u64) -> Self {
        let file_system = file_system::find(root, path, device);
        let flush = flush::of(&file_system);
        Self {
            promises: promise::all(root, &file_system, &flush),
            unknown: unknowns::all(root, &file_system, &flush),
            file_system,
            flush,
            load: Vec::new(),
        }
    }

    /// The devices that get a task's own requests, each once: the disks, and loop devices instead
    /// of the devices below their files, whose requests come from a kernel thread that belongs to
    /// no task.
    pub fn asked(&self) -> Vec<&Device> {
        let mut asked: Vec<&Device> = Vec::new();
        self.file_system.devices_down_to(DeviceKind::Loop, &mut |device| {
            let last = device.below.is_empty() || device.kind == DeviceKind::Loop;
            if last && !asked.iter().any(|known| known.name == device.name) {
                asked.push(device);
            }
        });
        asked
    }

    /// The devices at the bottom, each once: disks, and nothing that is made of other devices or of
    /// files.
    pub fn disks(&self) -> Vec<&Device> {
        let mut disks: Vec<&Device> = Vec::new();
        self.file_system.devices(&mut |device| {
            let bottom = device.below.is_empty() && device.kind != DeviceKind::Loop;
            if bottom && !disks.iter().any(|known| known.name == device.name) {
                disks.push(device);
            }
        });
        disks
    }
}
