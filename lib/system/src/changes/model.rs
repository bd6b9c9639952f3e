//! A model of files, control groups and processes in memory, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::changes::kernel::{Identity, Kernel, PROCS};
use crate::changes::step::plain;
use crate::changes::thread::Thread;

/// All of it, as tests compare it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    pub files: BTreeMap<PathBuf, String>,
    /// What identifies each, and which processes are in it.
    pub groups: BTreeMap<PathBuf, (u64, BTreeSet<u32>)>,
    /// Processes that live, and when they were started.
    pub living: BTreeMap<u32, u64>,
    /// Those of them that are stopped.
    pub stopped: BTreeSet<u32>,
    next: u64,
}

impl State {
    /// Without the numbers that groups are known by, and blanks between columns.
    #[allow(clippy::type_complexity)]
    pub fn shape(
        &self,
    ) -> (BTreeMap<PathBuf, String>, BTreeMap<PathBuf, BTreeSet<u32>>, BTreeSet<u32>) {
        let groups = self.groups.iter().map(|(path, (_, inside))| (path.clone(), inside.clone()));
        let files = self.files.iter().map(|(path, text)| (path.clone(), plain(text)));
        (files.collect(), groups.collect(), self.stopped.clone())
    }
}

pub struct Model(pub Mutex<State>);

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Model {
    /// The group `/cg` with these processes, and the files given.
    pub fn new(processes: &[u32], files: &[(&str, &str)]) -> Self {
        let mut state = State::default();
        state.groups.insert("/cg".into(), (1, processes.iter().copied().collect()));
        state.living = processes.iter().map(|pid| (*pid, u64::from(*pid) * 10)).collect();
        state.files = files.iter().map(|(path, text)| (path.into(), (*text).into())).collect();
        state.next = 2;
        Self(Mutex::new(state))
    }

    pub fn state(&self) -> State {
        self.0.lock().unwrap().clone()
    }

    pub fn end(&self, pid: u32) {
        let mut state = self.0.lock().unwrap();
        state.living.remove(&pid);
        state.stopped.remove(&pid);
        state.groups.values_mut().for_each(|(_, inside)| {
            inside.remove(&pid);
        });
    }

    /// A process that is born in a group.
    pub fn born(&self, pid: u32, group: &str) {
        let mut state = self.0.lock().unwrap();
        state.living.insert(pid, u64::from(pid) * 10 + 1);
        state.groups.get_mut(Path::new(group)).unwrap().1.insert(pid);
    }
}

// A line of io.max: values that are not named stay, and a device that has no limit has no line
// (block/blk-throttle.c).
fn with_limit(text: &str, line: &str) -> String {
    const NONE: &str = "rbps=max wbps=max riops=max wiops=max";
    let (device, values) = line.split_once(' ').unwrap();
    let mut lines: BTreeMap<&str, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(device, rest)| (device, rest.into()))
        .collect();
    let rest = lines.entry(device).or_insert_with(|| NONE.into());
    for (key, value) in values.split(' ').filter_map(|word| word.split_once('=')) {
        let word = |old: &str| match old.split_once('=') {
            Some((name, _)) if name == key => format!("{key}={value}"),
            _ => old.to_owned(),
        };
        *rest = rest.split(' ').map(word).collect::<Vec<_>>().join(" ");
    }
    let limited = lines.into_iter().filter(|(_, rest)| rest != NONE);
    limited.map(|(device, rest)| format!("{device} {rest}")).collect::<Vec<_>>().join("\n")
}

impl Kernel for Model {
    fn read(&self, file: &Path) -> io::Result<String> {
        let state = self.0.lock().unwrap();
        if file.ends_with(PROCS) {
            let (_, inside) =
                state.groups.get(file.parent().unwrap()).ok_or_else(|| errno(libc::ENOENT))?;
            return Ok(inside.iter().map(|pid| format!("{pid}\n")).collect());
        }
        match state.files.get(file).ok_or_else(|| errno(libc::ENOENT))?.as_str() {
            "unreadable" => Err(errno(libc::EIO)),
            text => Ok(format!("{text}\n")),
        }
    }

    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if file.ends_with(PROCS) {
            let pid: u32 = text.parse().map_err(|_| errno(libc::EINVAL))?;
            if !state.living.contains_key(&pid) {
                return Err(errno(libc::ESRCH));
            }
            if !state.groups.contains_key(file.parent().unwrap()) {
                return Err(errno(libc::ENOENT));
            }
            state.groups.values_mut().for_each(|(_, inside)| {
                inside.remove(&pid);
            });
            state.groups.get_mut(file.parent().unwrap()).unwrap().1.insert(pid);
            return Ok(());
        }
        let name = file.file_name().unwrap_or_default().to_str().unwrap_or_default();
        // One of the two is 0, and the bytes cannot be set to that (Linux, mm/page-writeback.c).
        let coupled = match (name, text) {
            ("dirty_background_bytes", "0") => return Err(errno(libc::EINVAL)),
            ("dirty_background_bytes", _) => Some(("dirty_background_ratio", "0")),
            ("dirty_background_ratio", _) => Some(("dirty_background_bytes", "0")),
            // A scheduler begins with as many requests as it likes (block/elevator.c).
            ("scheduler", _) => Some(("nr_requests", "256")),
            _ => None,
        };
        if let Some((other, value)) = coupled {
            state.files.insert(file.with_file_name(other), value.into());
        }
        let value = state.files.get_mut(file).ok_or_else(|| errno(libc::ENOENT))?;
        if name == "io.max" {
            *value = with_limit(value, text);
            return Ok(());
        }
        match text {
            chosen if name == "scheduler" => {
                let words = value.split(' ').map(|word| word.trim_matches(['[', ']']));
                let word =
                    |word| if word == chosen { format!("[{word}]") } else { String::from(word) };
                *value = words.map(word).collect::<Vec<_>>().join(" ");
            }
            // The kernel says so until the last task stands (kernel/cgroup/legacy_freezer.c).
            "FROZEN" => *value = "FREEZING".into(),
            "bad" => return Err(errno(libc::EINVAL)),
            // Rounded up to tens, where the name says so.
            number if file.ends_with("rounding") => {
                *value = (number.parse::<u64>().unwrap().div_ceil(10) * 10).to_string();
            }
            other => *value = other.into(),
        }
        Ok(())
    }

    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.groups.contains_key(folder) {
            return Err(errno(libc::EEXIST));
        }
        if !state.groups.contains_key(folder.parent().unwrap()) {
            return Err(errno(libc::ENOENT));
        }
        let ino = state.next;
        state.next += 1;
        state.groups.insert(folder.to_owned(), (ino, BTreeSet::new()));
        state.files.insert(folder.join("cpu.weight"), "100".into());
        Ok(())
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        if self.has_dirs(folder)? {
            return Err(errno(libc::EBUSY));
        }
        let mut state = self.0.lock().unwrap();
        if !state.groups[folder].1.is_empty() {
            return Err(errno(libc::EBUSY));
        }
        state.groups.remove(folder);
        state.files.retain(|file, _| file.parent() != Some(folder));
        Ok(())
    }

    fn has_dirs(&self, folder: &Path) -> io::Result<bool> {
        let state = self.0.lock().unwrap();
        if !state.groups.contains_key(folder) {
            return Err(errno(libc::ENOENT));
        }
        Ok(state.groups.keys().any(|group| group.parent() == Some(folder)))
    }

    fn exists(&self, path: &Path) -> bool {
        let state = self.0.lock().unwrap();
        let procs = || path.ends_with(PROCS) && state.groups.contains_key(path.parent().unwrap());
        state.files.contains_key(path) || state.groups.contains_key(path) || procs()
    }

    fn identity(&self, folder: &Path) -> io::Result<Identity> {
        let state = self.0.lock().unwrap();
        let (ino, _) = state.groups.get(folder).ok_or_else(|| errno(libc::ENOENT))?;
        Ok(Identity { dev: 1, ino: *ino })
    }

    fn started(&self, pid: u32) -> Option<u64> {
        self.0.lock().unwrap().living.get(&pid).copied()
    }

    fn lives(&self, process: Thread) -> bool {
        self.started(process.tid) == Some(process.start)
    }

    fn stop(&self, process: Thread) -> io::Result<()> {
        if self.lives(process) {
            self.0.lock().unwrap().stopped.insert(process.tid);
        }
        Ok(())
    }

    fn resume(&self, process: Thread) -> io::Result<()> {
        if self.lives(process) {
            self.0.lock().unwrap().stopped.remove(&process.tid);
        }
        Ok(())
    }

    fn boot_id(&self) -> String {
        "this".into()
    }
}
