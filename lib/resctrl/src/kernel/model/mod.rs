//! A model of the kernel's resctrl in memory, for tests of this library and of its users.
//!
//! It refuses what Linux 6.1 refuses, with the same errno and words, in the same order
//! (`rdtgroup.c`, `ctrlmondata.c`, `pseudo_lock.c`, `monitor.c` of `arch/x86/kernel/cpu/resctrl`;
//! the functions are named beside what stands for them). Masks have no effect, since there is no
//! cache; counters are invented.
//!
//! ```
//! use ringfence_resctrl::GroupId;
//! use ringfence_resctrl::kernel::model::{Hardware, Model};
//!
//! let model = Model::new(Hardware::broadwell());
//! let group = model.resctrl().group(&GroupId::control("batch"));
//! group.create()?;
//! group.set_schemata(&"L3:0=f".parse().unwrap())?;
//! let refused = group.set_schemata(&"L3:0=5".parse().unwrap()).unwrap_err();
//! assert_eq!(refused.status(), Some("The mask 5 has non-consecutive 1-bits"));
//! # Ok::<(), ringfence_resctrl::Error>(())
//! ```

mod files;
mod hardware;
mod lock;
mod machine;
mod masks;
mod processes;
mod schemas;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_system::cpulist::CpuSet;

use self::files::parts;
use self::machine::Machine;
use self::processes::Process;
use super::{Held, Identity, Kernel, WriteError};
use crate::fs::Resctrl;
use crate::schemata::Domain;

pub use hardware::{BandwidthSpec, CacheSpec, Hardware};

/// An operation of the kernel, for hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file is read.
    Read(String),
    /// A text is written to a file.
    Write(String, String),
    /// A folder is made.
    MakeDir(String),
    /// A folder is removed.
    RemoveDir(String),
    /// The lock is tried.
    TryLock,
}

impl Operation {
    /// Whether it changes groups.
    pub fn changes(&self) -> bool {
        matches!(self, Operation::Write(..) | Operation::MakeDir(_) | Operation::RemoveDir(_))
    }
}

/// What a hook makes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out.
    Goes,
    /// It fails with this errno, and nothing is done.
    Fails(i32),
}

type Hook = Box<dyn FnMut(&Operation) -> Fate + Send>;

#[derive(Default)]
struct Around {
    journal_folders: Vec<PathBuf>,
    unseen: Option<String>,
    covered: bool,
}

struct Shared {
    machine: Mutex<Machine>,
    // Taken out while it runs, so that it may use the model itself.
    hook: Mutex<Option<Hook>>,
    lock: Arc<Mutex<Holders>>,
    // Of transactions.
    changes: Arc<Mutex<Holders>>,
    boot: Mutex<u32>,
    around: Mutex<Around>,
}

#[derive(Default)]
struct Holders {
    exclusive: bool,
    shared: u32,
}

/// The model. Clones are the same machine.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
}

impl Model {
    /// A machine that has booted and mounted resctrl; process 1 runs.
    pub fn new(hardware: Hardware) -> Self {
        let shared = Shared {
            machine: Mutex::new(Machine::new(hardware)),
            hook: Mutex::default(),
            lock: Arc::default(),
            changes: Arc::default(),
            boot: Mutex::default(),
            around: Mutex::default(),
        };
        let model = Self { shared: Arc::new(shared) };
        model.add(1, None, 0);
        model.machine().current = 1;
        model
    }

    /// As what the library asks.
    pub fn kernel(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }

    /// As the mounted file system.
    pub fn resctrl(&self) -> Resctrl {
        let options = self.machine().hardware.options();
        Resctrl::with_kernel(self.kernel(), options)
    }

    /// What it has.
    pub fn hardware(&self) -> Hardware {
        self.machine().hardware.clone()
    }

    /// The machine loses everything and boots again: resctrl is as at the start, process 1 alone
    /// runs.
    pub fn reboot(&self) {
        let hardware = self.hardware();
        *self.machine() = Machine::new(hardware);
        *lock(&self.shared.boot) += 1;
        *lock(&self.shared.lock) = Holders::default();
        *lock(&self.shared.changes) = Holders::default();
        self.add(1, None, 0);
        self.machine().current = 1;
    }

    /// Starts a process, as a child of process 1.
    pub fn spawn(&self) -> u32 {
        self.fork(1)
    }

    /// Starts a process of a user, as a child of process 1.
    pub fn spawn_of(&self, user: u32) -> u32 {
        let pid = self.fork(1);
        if let Some(process) = self.machine().processes.get_mut(&pid) {
            process.user = user;
        }
        pid
    }

    /// A thread starts a process: it is born into the thread's groups.
    pub fn fork(&self, from: u32) -> u32 {
        let pid = self.machine().next_id;
        self.add(pid, Some(from), 0);
        pid
    }

    /// A thread starts another one of its process.
    pub fn start_thread(&self, from: u32) -> u32 {
        let mut machine = self.machine();
        let tid = machine.next_id;
        let task = machine.start(tid, Some(from));
        let pid = machine.task(from).map_or(from, |(pid, _)| pid);
        if let Some(process) = machine.processes.get_mut(&pid) {
            process.threads.insert(tid, task);
        }
        tid
    }

    /// A thread ends; with the first one, the process.
    pub fn end(&self, tid: u32) {
        let mut machine = self.machine();
        if machine.processes.remove(&tid).is_none() {
            machine.processes.values_mut().for_each(|process| {
                process.threads.remove(&tid);
            });
        }
    }

    /// A number that has ended is given to another process, which starts later.
    pub fn reuse(&self, pid: u32) {
        self.end(pid);
        self.add(pid, Some(1), 0);
    }

    fn add(&self, pid: u32, from: Option<u32>, user: u32) {
        let mut machine = self.machine();
        let parent = from.and_then(|from| machine.task(from)).map_or(0, |(pid, _)| pid);
        let user = machine.processes.get(&parent).map_or(user, |parent| parent.user);
        let task = machine.start(pid, from);
        machine
            .processes
            .insert(pid, Process { parent, user, threads: BTreeMap::from([(pid, task)]) });
    }

    /// The user that asks from now on, and whether root has given that user the files.
    pub fn ask_as(&self, user: u32, owns_files: bool) {
        self.machine().user = (user, owns_files);
    }

    /// A process has a locked region's device open, or no longer.
    pub fn use_device(&self, group: &str, pids: &[u32]) {
        self.machine().device_users.insert(group.to_owned(), pids.to_vec());
    }

    /// Resctrl is unmounted and mounted again: every group goes, and all is as at the start.
    pub fn remount(&self) {
        self.machine().remount();
    }

    /// Something else is mounted over resctrl, or no longer. Here only the identity of folders
    /// shows that: a caller that only reads sees resctrl.
    pub fn cover(&self, covered: bool) {
        lock(&self.shared.around).covered = covered;
    }

    /// Why not all processes can be seen that may have a device open.
    pub fn set_unseen(&self, why: Option<&str>) {
        lock(&self.shared.around).unseen = why.map(str::to_owned);
    }

    /// Sets the folders with journals of other users of this resctrl.
    pub fn set_journal_folders(&self, folders: &[&Path]) {
        lock(&self.shared.around).journal_folders =
            folders.iter().map(|folder| folder.into()).collect();
    }

    /// A CPU goes offline, which takes it from every group, or online, into the default group. A
    /// cache goes with its last one, and comes back as all of every group's.
    pub fn set_online(&self, cpu: u32, online: bool) {
        self.machine().set_online(cpu, online);
    }

    /// Whether the kernel finds memory for regions.
    pub fn set_contiguous_memory(&self, there: bool) {
        self.machine().no_contiguous_memory = !there;
    }

    /// Whether numbers for monitoring, when given back, are held until [`Model::drain_limbo`].
    pub fn set_limbo(&self, on: bool) {
        self.machine().limbo_on = on;
    }

    /// The lines of removed groups leave the cache: their numbers are free.
    pub fn drain_limbo(&self) {
        let mut machine = self.machine();
        let freed = std::mem::take(&mut machine.limbo);
        machine.free_rmids.extend(freed);
    }

    /// What a counter says from now on, such as `Unavailable`; `group` is its path below the mount.
    pub fn set_reading(&self, group: &str, domain: Domain, event: &str, text: &str) {
        self.machine()
            .readings
            .insert((group.to_owned(), domain, event.to_owned()), text.to_owned());
    }

    /// Asks a hook before each operation. It may use the model (its own operations do not come to
    /// it), and may panic: then nothing was done, and it is gone.
    pub fn set_hook(&self, hook: impl FnMut(&Operation) -> Fate + Send + 'static) {
        *lock(&self.shared.hook) = Some(Box::new(hook));
    }

    /// No hook any more.
    pub fn clear_hook(&self) {
        *lock(&self.shared.hook) = None;
    }

    /// The `n`-th operation from now on that changes something, counted from 0, fails with this
    /// errno.
    pub fn fail_at(&self, n: usize, errno: i32) {
        let mut seen = 0;
        self.set_hook(move |operation| {
            seen += usize::from(operation.changes());
            if operation.changes() && seen == n + 1 { Fate::Fails(errno) } else { Fate::Goes }
        });
    }

    /// Calls a closure before the `n`-th operation from now on that changes something, counted from
    /// 0.
    pub fn before(&self, n: usize, call: impl FnOnce() + Send + 'static) {
        let (mut seen, mut call) = (0, Some(call));
        self.set_hook(move |operation| {
            seen += usize::from(operation.changes());
            if seen == n + 1
                && let Some(call) = call.take()
            {
                call();
            }
            Fate::Goes
        });
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.shared.machine)
    }

    fn ask(&self, operation: Operation) -> io::Result<()> {
        let taken = lock(&self.shared.hook).take();
        let Some(mut hook) = taken else { return Ok(()) };
        let fate = hook(&operation);
        lock(&self.shared.hook).get_or_insert(hook);
        match fate {
            Fate::Goes => Ok(()),
            Fate::Fails(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

// What a panicking hook leaves is whole: it runs while nothing is locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Kernel for Model {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.ask(Operation::Read(path.display().to_string()))?;
        self.machine().read(&parts(path)).map_err(error)
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), WriteError> {
        let asked = self.ask(Operation::Write(path.display().to_string(), text.to_owned()));
        asked.map_err(|source| WriteError { opened: false, source })?;
        let written = self.machine().write(&parts(path), text);
        written.map_err(|(opened, errno)| WriteError { opened, source: error(errno) })
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Operation::MakeDir(path.display().to_string()))?;
        self.machine().make_dir(&parts(path)).map_err(error)
    }

    fn make_marked_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Operation::MakeDir(path.display().to_string()))?;
        let mut machine = self.machine();
        machine.make_dir(&parts(path)).map_err(error)?;
        let ino = machine.inode(&parts(path)).ok_or_else(|| error(libc::ENOENT))?;
        machine.marked.insert(ino);
        Ok(())
    }

    fn is_marked(&self, path: &Path) -> io::Result<bool> {
        let machine = self.machine();
        let ino = machine.inode(&parts(path)).ok_or_else(|| error(libc::ENOENT))?;
        Ok(machine.marked.contains(&ino))
    }

    fn unmark(&self, path: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        let ino = machine.inode(&parts(path)).ok_or_else(|| error(libc::ENOENT))?;
        machine.marked.remove(&ino);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Operation::RemoveDir(path.display().to_string()))?;
        self.machine().remove_dir(&parts(path)).map_err(error)
    }

    fn dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        self.ask(Operation::Read(path.display().to_string()))?;
        let mut names = self.machine().folders(&parts(path)).ok_or_else(|| error(libc::ENOENT))?;
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let (machine, parts) = (self.machine(), parts(path));
        machine.is_folder(&parts) || machine.is_file(&parts)
    }

    fn try_lock(&self, exclusive: bool) -> io::Result<Option<Held>> {
        self.ask(Operation::TryLock)?;
        Ok(hold(&self.shared.lock, exclusive))
    }

    fn try_lock_changes(&self) -> io::Result<Option<Held>> {
        Ok(hold(&self.shared.changes, true))
    }

    fn holder_of_changes(&self) -> Option<u32> {
        lock(&self.shared.changes).exclusive.then(std::process::id)
    }

    fn journal_folders(&self) -> Vec<PathBuf> {
        lock(&self.shared.around).journal_folders.clone()
    }

    fn place(&self) -> String {
        crate::fs::DEFAULT_MOUNT.to_owned()
    }

    fn started(&self, tid: u32) -> Option<u64> {
        self.machine().task(tid).map(|(_, task)| task.start)
    }

    fn threads(&self, pid: u32) -> Vec<u32> {
        let machine = self.machine();
        machine
            .processes
            .get(&pid)
            .map_or(Vec::new(), |process| process.threads.keys().copied().collect())
    }

    fn process_and_parent(&self, tid: u32) -> Option<(u32, u32)> {
        let machine = self.machine();
        let (pid, _) = machine.task(tid)?;
        Some((pid, machine.processes.get(&pid)?.parent))
    }

    fn users_of(&self, path: &Path) -> Vec<u32> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.machine().device_users.get(&name).cloned().unwrap_or_default()
    }

    fn unseen(&self) -> Option<String> {
        lock(&self.shared.around).unseen.clone()
    }

    fn online(&self) -> Option<CpuSet> {
        Some(self.machine().hardware.online())
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        if lock(&self.shared.around).covered {
            return Err(error(libc::ENOTSUP));
        }
        let ino = self.machine().inode(&parts(path)).ok_or_else(|| error(libc::ENOENT))?;
        Ok(Identity { fs: 0, ino })
    }

    fn boot_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", *lock(&self.shared.boot))
    }
}

fn hold(of: &Arc<Mutex<Holders>>, exclusive: bool) -> Option<Held> {
    let mut holders = lock(of);
    if holders.exclusive || exclusive && holders.shared > 0 {
        return None;
    }
    if exclusive {
        holders.exclusive = true;
    } else {
        holders.shared += 1;
    }
    Some(Box::new(Guard { lock: of.clone(), exclusive }))
}

struct Guard {
    lock: Arc<Mutex<Holders>>,
    exclusive: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut holders = lock(&self.lock);
        if self.exclusive {
            holders.exclusive = false;
        } else {
            holders.shared = holders.shared.saturating_sub(1);
        }
    }
}
