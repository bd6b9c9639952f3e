//! The memory that the recorder shares with the recorded processes.

// Mapped memory that other processes write to.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use object::read::{Object, ObjectSegment};
use ringfence_trace_runtime::layout::{
    self, ANSWERED, ASKED, BLOCK, Block, COUNTS, Head, MOST_FRAMES, MOST_THREADS, Mailbox, RING,
    RUNTIME, SHARED_SIZE, Shared, Site,
};
use rustix::fs::{MemfdFlags, memfd_create};

/// A stretch of the runtime, as it is mapped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) protection: i32,
}

/// Files in memory, and where the first two of them are mapped here.
pub(super) struct Memory {
    /// The runtime as it is mapped, from [`RUNTIME`] on.
    pub(super) runtime: File,
    pub(super) parts: Vec<Part>,
    pub(super) begin: u64,
    pub(super) shared: File,
    pub(super) threads: File,
    at: *mut Shared,
    blocks: *mut u8,
}

fn file_in_memory(name: &str, size: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.set_len(size)?;
    Ok(file)
}

fn map(file: &File, size: u64) -> io::Result<*mut u8> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: a new mapping, wherever the kernel puts it.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), size as usize, protection, flags, file.as_raw_fd(), 0)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

impl Memory {
    /// For a new recording. `output` is the device and inode of the standard output that is
    /// recorded.
    pub(super) fn new(loads: bool, output: Option<[u64; 2]>) -> io::Result<Self> {
        let elf = object::File::parse(ringfence_trace_runtime::ELF).map_err(io::Error::other)?;
        let parts: Vec<Part> = elf.segments().map(|one| part(&one)).collect();
        let end = parts.iter().map(|part| part.address + part.size).max().unwrap_or(RUNTIME);
        let runtime = file_in_memory("ringfence-runtime", end - RUNTIME)?;
        for segment in elf.segments() {
            let bytes = segment.data().map_err(io::Error::other)?;
            runtime.write_all_at(bytes, segment.address() - RUNTIME)?;
        }
        let shared = file_in_memory("ringfence-events", SHARED_SIZE + RING)?;
        let threads = file_in_memory("ringfence-threads", BLOCK * MOST_THREADS)?;
        let at = map(&shared, SHARED_SIZE + RING)?.cast::<Shared>();
        let blocks = map(&threads, BLOCK * MOST_THREADS)?;
        // SAFETY: just mapped, and nothing else has it yet.
        unsafe {
            (*at).recorder = std::process::id();
            (*at).loads = loads.into();
            (*at).output = output.unwrap_or_default();
            for (number, slot) in (*at).state_offsets.iter_mut().enumerate().skip(2) {
                let part = std::arch::x86_64::__cpuid_count(0xd, number as u32);
                *slot = if part.eax == 0 { 0 } else { part.ebx };
            }
        }
        Ok(Self { runtime, parts, begin: elf.entry(), shared, threads, at, blocks })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped as long as this lives; what others write to is atomic.
        unsafe { &*self.at }
    }

    fn block(&self, number: u32) -> *mut Block {
        assert!(u64::from(number) < MOST_THREADS, "a thread has a block");
        self.blocks.wrapping_add(number as usize * BLOCK as usize).cast()
    }

    /// How often a process has changed its mappings.
    pub(super) fn remapped(&self) -> u64 {
        self.shared().remapped.load(Acquire)
    }

    /// Makes a file known to all processes.
    pub(super) fn add_file(&self, (device, inode): (u64, u64)) {
        let shared = self.shared();
        let number = shared.files.load(Relaxed);
        if let Some([one, other]) = shared.identities.get(number as usize) {
            one.store(device, Relaxed);
            other.store(inode, Relaxed);
            shared.files.store(number + 1, Release);
        }
    }

    /// Threads that were given numbers.
    pub(super) fn threads_so_far(&self) -> u32 {
        self.shared().threads.load(Acquire).min(MOST_THREADS as u32)
    }

    /// The system's numbers of a thread and its process.
    pub(super) fn ids(&self, number: u32) -> (u32, u32) {
        let block = self.block(number);
        // SAFETY: mapped; plain numbers that the thread has written before it asked or recorded
        // anything.
        unsafe {
            let read = |number: *const Cell<u32>| number.cast::<u32>().read_volatile();
            (read(&raw const (*block).process), read(&raw const (*block).thread))
        }
    }

    /// The first frames of a thread's stack, innermost first.
    pub(super) fn frames(&self, number: u32, count: usize) -> Vec<u64> {
        let block = self.block(number);
        // SAFETY: mapped; the thread does not write while it waits.
        let frames = unsafe { (&raw const (*block).frames).cast::<[u64; MOST_FRAMES]>().read() };
        frames[..count.min(frames.len())].to_vec()
    }

    fn mailbox(&self, number: u32) -> &Mailbox {
        // SAFETY: mapped as long as this lives; it consists of cells, and the thread does not write
        // while it waits.
        unsafe { &(*self.block(number)).mailbox }
    }

    /// What a thread asks, if it does.
    pub(super) fn question(&self, number: u32) -> Option<(u32, [u64; 6])> {
        let mailbox = self.mailbox(number);
        let is_asked = mailbox.state.load(Acquire) == ASKED;
        is_asked.then(|| (mailbox.kind.get(), mailbox.arguments.get()))
    }

    /// Answers it.
    pub(super) fn answer(&self, number: u32, answer: [u64; 4], site: Option<&Site>) {
        let mailbox = self.mailbox(number);
        mailbox.answer.set(answer);
        if let Some(site) = site {
            mailbox.site.set(*site);
        }
        mailbox.state.store(ANSWERED, Release);
        // SAFETY: the word is mapped.
        unsafe {
            libc::syscall(libc::SYS_futex, mailbox.state.as_ptr(), libc::FUTEX_WAKE, i32::MAX)
        };
    }

    /// Puts sites where a thread that asks for them looks.
    pub(super) fn pass(&self, sites: &[Site]) {
        assert!(sites.len() <= layout::MOST_PASSED, "they fit");
        let place = self.at.cast::<u8>().wrapping_add(layout::PASSED as usize);
        // SAFETY: within the shared memory, and the thread that asked waits.
        unsafe { std::ptr::copy_nonoverlapping(sites.as_ptr(), place.cast(), sites.len()) };
    }

    /// The bell's count, to be given to [`Memory::wait`].
    pub(super) fn bell(&self) -> u32 {
        self.shared().bell.load(Acquire)
    }

    /// Waits until the bell rings, for a short time at most.
    pub(super) fn wait(&self, seen: u32, nanoseconds: i64) {
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let word = self.shared().bell.as_ptr();
        // SAFETY: the word is mapped, and the time is ours.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const timeout) };
    }

    /// Takes the next event out of the ring, with its data, if there is one.
    pub(super) fn next_event(&self) -> Option<Taken<'_>> {
        let shared = self.shared();
        loop {
            let (tail, head) = (shared.tail.load(Relaxed), shared.head.load(Acquire));
            if tail == head {
                return None;
            }
            let left = RING - tail % RING;
            if left < size_of::<Head>() as u64 {
                shared.tail.store(tail + left, Release);
                continue;
            }
            let place = self.at.cast::<u8>().wrapping_add((SHARED_SIZE + tail % RING) as usize);
            // SAFETY: between tail and head, events are whole.
            let event = unsafe { place.cast::<Head>().read() };
            let length = event.length();
            if event.kind == layout::kind::SKIP {
                shared.tail.store(tail + length, Release);
                continue;
            }
            // SAFETY: as above; no thread or process writes there before the tail is behind it.
            let data = unsafe {
                let length = length as usize - size_of::<Head>();
                std::slice::from_raw_parts(place.add(size_of::<Head>()), length)
            };
            return Some(Taken { memory: self, event, data, end: tail + length });
        }
    }

    /// How often a thread has executed the locked instruction of each site, by the first sites'
    /// numbers. Read from the file: that does not allocate memory that was never touched.
    pub(super) fn counts(&self, thread: u32, sites: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * sites];
        self.threads.read_exact_at(&mut bytes, u64::from(thread) * BLOCK + COUNTS)?;
        Ok(bytes
            .chunks_exact(8)
            .map(|one| u64::from_le_bytes(one.try_into().expect("of eight")))
            .collect())
    }

    /// Takes the lock away from a thread that has ended.
    pub(super) fn unlock_dead(&self) {
        let holder = self.shared().lock.load(Relaxed);
        if holder != 0 && !super::process::is_alive(self.ids(holder - 1).1 as i32) {
            let _ = self.shared().lock.compare_exchange(holder, 0, Relaxed, Relaxed);
        }
    }
}

fn part(segment: &object::read::Segment<'_, '_>) -> Part {
    let object::SegmentFlags::Elf { p_flags } = segment.flags() else {
        unreachable!("our runtime is an ELF file")
    };
    let flag = |bit: u32, protection: i32| if p_flags & bit != 0 { protection } else { 0 };
    let protection =
        flag(4, libc::PROT_READ) | flag(2, libc::PROT_WRITE) | flag(1, libc::PROT_EXEC);
    Part { address: segment.address(), size: segment.size().next_multiple_of(4096), protection }
}

/// An event in the ring; dropping this frees its place.
pub(super) struct Taken<'a> {
    memory: &'a Memory,
    pub(super) event: Head,
    pub(super) data: &'a [u8],
    end: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.memory.shared().tail.store(self.end, Release);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing of it is borrowed any more.
        unsafe {
            libc::munmap(self.at.cast(), (SHARED_SIZE + RING) as usize);
            libc::munmap(self.blocks.cast(), (BLOCK * MOST_THREADS) as usize);
        }
    }
}
