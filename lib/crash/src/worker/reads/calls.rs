//! System calls that read files, change mappings, or are given the address of mapped memory.

use std::io;

use super::ptrace::{self, Registers, Task};
use super::space::{self, Mapping, PAGE};
use super::{End, Follower};

const MAP_FIXED: u64 = libc::MAP_FIXED as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

fn arguments(registers: &Registers) -> [u64; 6] {
    let Registers { rdi, rsi, rdx, r10, r8, r9, .. } = *registers;
    [rdi, rsi, rdx, r10, r8, r9]
}

fn pages(length: u64) -> u64 {
    length.saturating_add(PAGE - 1) / PAGE * PAGE
}

impl Follower<'_> {
    /// A task is about to make a call.
    pub(super) fn calls(&mut self, task: Task) -> io::Result<()> {
        self.has_filter = true;
        let registers = ptrace::registers(task)?;
        if space::are_of_32_bits(&registers) {
            self.give_up();
            return ptrace::go_on(task, 0);
        }
        let number = registers.orig_rax as i64;
        let a = arguments(&registers);
        let end = match number {
            libc::SYS_mmap => self.maps(task, a),
            libc::SYS_munmap => {
                self.space(task).forget(a[0], a[0].saturating_add(pages(a[1])));
                None
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                let (start, length, protection) = (a[0], pages(a[1]), a[2]);
                let touches = |one: &Mapping| one.start < start + length && start < one.end;
                let is_ours = self.space(task).mappings.iter().any(touches);
                is_ours.then_some(End::Protects { start, length, protection })
            }
            _ => {
                self.reads_by_descriptor(task, number, a);
                let given = self.given(task, number, a);
                given.map(|(start, end)| End::Again { registers, start, end })
            }
        };
        let Some(end) = end else { return ptrace::go_on(task, 0) };
        if let End::Again { .. } = end {
            // It makes a harmless call instead.
            let orig_rax = libc::SYS_getpid as u64;
            ptrace::set_registers(task, &Registers { orig_rax, ..registers })?;
        }
        self.ends.insert(task, end);
        ptrace::finish_call(task)
    }

    fn maps(&mut self, task: Task, a: [u64; 6]) -> Option<End> {
        let [start, length, protection, flags, descriptor, offset] = a;
        if flags & MAP_FIXED != 0 {
            self.space(task).forget(start, start.saturating_add(pages(length)));
        }
        if flags & MAP_ANONYMOUS != 0 || self.gave_up {
            return None;
        }
        let file = self.file(task, descriptor)?;
        Some(End::Maps { file, offset, length: pages(length), protection })
    }

    // What is read by way of a descriptor.
    fn reads_by_descriptor(&mut self, task: Task, number: i64, a: [u64; 6]) {
        let descriptor = match number {
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2
            | libc::SYS_splice
            | libc::SYS_copy_file_range => a[0],
            libc::SYS_sendfile => a[1],
            libc::SYS_lseek if matches!(a[2] as i32, libc::SEEK_DATA | libc::SEEK_HOLE) => a[0],
            libc::SYS_ioctl => a[0],
            libc::SYS_io_setup | libc::SYS_io_uring_setup | libc::SYS_process_vm_readv => {
                return self.give_up();
            }
            _ => return,
        };
        let Some(file) = self.file(task, descriptor) else { return };
        match number {
            libc::SYS_read => match position(task, descriptor) {
                Some(at) => self.marks.read(file, at, a[2], None),
                None => self.marks.read_file(file),
            },
            libc::SYS_readv => match position(task, descriptor) {
                Some(at) => self.marks.read(file, at, u64::MAX, None),
                None => self.marks.read_file(file),
            },
            libc::SYS_pread64 => self.marks.read(file, a[3], a[2], None),
            _ => self.marks.read_file(file),
        }
    }

    // The first range that a call is given and that has closed pages.
    fn given(&mut self, task: Task, number: i64, a: [u64; 6]) -> Option<(u64, u64)> {
        let space = self.space(task);
        if space.closed.is_empty() {
            return None;
        }
        let mut ranges = Vec::new();
        match number {
            libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_sendto
            | libc::SYS_recvfrom => ranges.push((a[1], a[1].saturating_add(a[2]))),
            libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2 => ranges.extend(buffers(task, a[1], a[2])),
            // Their buffers stand in further lists.
            libc::SYS_sendmsg
            | libc::SYS_recvmsg
            | libc::SYS_sendmmsg
            | libc::SYS_recvmmsg
            | libc::SYS_vmsplice
            | libc::SYS_process_vm_writev => ranges.push((0, u64::MAX)),
            libc::SYS_io_setup | libc::SYS_io_uring_setup | libc::SYS_process_vm_readv => {
                ranges.push((0, u64::MAX));
            }
            libc::SYS_futex => ranges.push((a[0], a[0].saturating_add(4))),
            // How much is not known.
            _ => {
                let rest = |at: u64| space.mapping(at).map(|mapping| (at, mapping.end));
                ranges.extend(pointers(number).iter().filter_map(|one| rest(a[*one])));
            }
        }
        let closed = |(start, end): &(u64, u64)| !space.closed_in(*start, *end).is_empty();
        let first = ranges.iter().find(|range| closed(range)).copied();
        if number == libc::SYS_mremap && first.is_none() {
            // All of it is open: it may move.
            space.forget(a[0], a[0].saturating_add(pages(a[1])));
        }
        first
    }

    /// A system call whose end was waited for has returned.
    pub(super) fn call_ended(&mut self, task: Task, later: &mut Vec<i32>) -> io::Result<()> {
        let Some(end) = self.ends.remove(&task) else { return ptrace::go_on(task, 0) };
        let result = ptrace::registers(task)?.rax;
        let failed = result > u64::MAX - 4096;
        match end {
            End::Maps { file, offset, length, protection } if !failed => {
                let mapping =
                    Mapping { start: result, end: result + length, file, offset, protection };
                let space = self.space(task);
                space.mappings.push(mapping);
                space.install_second(task, later)?;
                self.watch_functions(task)?;
                self.close(task, mapping, later)?;
            }
            End::Protects { start, length, protection } if !failed => {
                let end = start + length;
                let space = self.space(task);
                let changed: Vec<Mapping> = space.mappings.clone();
                space.forget(start, end);
                for one in changed.iter().filter(|one| one.start < end && start < one.end) {
                    let from = one.start.max(start);
                    let offset = one.offset + (from - one.start);
                    let part =
                        Mapping { start: from, end: one.end.min(end), offset, protection, ..*one };
                    self.space(task).mappings.push(part);
                    self.close(task, part, later)?;
                }
            }
            End::Again { registers, start, end } => {
                let number = self.of[&task];
                self.open_all(task, number, (start, end), later)?;
                // Two bytes back is the instruction that made the call.
                let again = Registers {
                    rax: registers.orig_rax,
                    orig_rax: u64::MAX,
                    rip: registers.rip - 2,
                    ..registers
                };
                ptrace::set_registers(task, &again)?;
            }
            End::Maps { .. } | End::Protects { .. } => {}
        }
        ptrace::go_on(task, 0)
    }

    // Closes the pages of a mapping whose words are not all known to be read.
    fn close(&mut self, task: Task, mapping: Mapping, later: &mut Vec<i32>) -> io::Result<()> {
        if self.gave_up || mapping.protection == 0 {
            return Ok(());
        }
        let Mapping { start, end, file, offset, .. } = mapping;
        let pages = self.marks.unread_pages(file, offset, offset + (end - start));
        let at = |(file, page): (usize, u64)| (start + (page * PAGE - offset), (file, page));
        let pages: Vec<_> = pages.into_iter().map(at).collect();
        self.space(task).close(task, &pages, later)
    }
}

// Which arguments of a call are addresses. Registers of other arguments may hold old addresses.
fn pointers(number: i64) -> &'static [usize] {
    match number {
        libc::SYS_fstat
        | libc::SYS_openat
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_unlinkat
        | libc::SYS_mkdirat
        | libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_getdents64
        | libc::SYS_fstatfs
        | libc::SYS_getrlimit
        | libc::SYS_setrlimit => &[1],
        libc::SYS_newfstatat
        | libc::SYS_readlinkat
        | libc::SYS_rt_sigaction
        | libc::SYS_rt_sigprocmask => &[1, 2],
        libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_statfs
        | libc::SYS_readlink
        | libc::SYS_rename
        | libc::SYS_nanosleep
        | libc::SYS_gettimeofday => &[0, 1],
        libc::SYS_statx => &[1, 4],
        libc::SYS_prlimit64 | libc::SYS_clock_nanosleep => &[2, 3],
        libc::SYS_wait4 => &[1, 3],
        libc::SYS_ioctl | libc::SYS_fcntl => &[2],
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_access
        | libc::SYS_unlink
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_chdir
        | libc::SYS_getcwd
        | libc::SYS_getrandom
        | libc::SYS_uname
        | libc::SYS_sysinfo
        | libc::SYS_times
        | libc::SYS_pipe
        | libc::SYS_pipe2
        | libc::SYS_poll
        | libc::SYS_mremap
        | libc::SYS_mlock
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list
        | libc::SYS_rseq => &[0],
        libc::SYS_flock
        | libc::SYS_fadvise64
        | libc::SYS_fallocate
        | libc::SYS_kill
        | libc::SYS_tgkill
        | libc::SYS_umask
        | libc::SYS_socket
        | libc::SYS_arch_prctl => &[],
        _ => &[0, 1, 2, 3, 4, 5],
    }
}

// Where a descriptor is in its file.
fn position(task: Task, descriptor: u64) -> Option<u64> {
    let path = format!("/proc/{task}/fdinfo/{}", descriptor as i32);
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

// The buffers of a list (`struct iovec`).
fn buffers(task: Task, at: u64, count: u64) -> Vec<(u64, u64)> {
    let mut bytes = vec![0; 16 * count.min(1024) as usize];
    // Where there is no list, the call fails.
    let Ok(length) = space::read(task, at, &mut bytes) else { return Vec::new() };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let range = |one: &[u8]| {
        let (at, length) = (number(&one[..8]), number(&one[8..]));
        (at, at.saturating_add(length))
    };
    bytes[..length].chunks_exact(16).map(range).collect()
}
