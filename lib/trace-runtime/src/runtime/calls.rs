//! System calls that the filter sends to us.

use core::sync::atomic::Ordering::Release;

use crate::layout;
use crate::layout::{Head, ask, kind, register};
use crate::runtime::entry::safe_copy;
use crate::runtime::questions::{ask, give_up};
use crate::runtime::ring::{block, lock, push, shared, unlock};
use crate::runtime::signals::{
    Info, OURS, bit, install, interruptible, mask_of, on_signal, registers_of,
};
use crate::runtime::state::state;
use crate::runtime::stubs::alias;
use crate::runtime::sys::{self, Action};
use crate::runtime::{descriptors, lists, mappings, syncs, threads};

// Pages are locked once they are there (mlockall(2)).
const MCL_ONFAULT: u64 = 4;

/// SIGSYS.
pub extern "C" fn on_call(signal: u64, info: &mut Info, frame: *mut u64) {
    const BY_FILTER: i32 = 1;
    if info.code != BY_FILTER {
        return crate::runtime::signals::deliver(signal, info, frame);
    }
    threads::rearm(block(), frame);
    let mut registers = registers_of(frame);
    let a = [
        register::RDI,
        register::RSI,
        register::RDX,
        register::R8 + 2,
        register::R8,
        register::R8 + 1,
    ]
    .map(|one| registers.get(one));
    let number = registers.get(register::RAX);
    let result = match number {
        sys::MMAP | sys::MUNMAP | sys::MPROTECT | sys::PKEY_MPROTECT | sys::MREMAP => {
            let result = mappings::change(number, a);
            shared().remapped.fetch_add(1, Release);
            result
        }
        sys::MSYNC
        | sys::FSYNC
        | sys::FDATASYNC
        | sys::SYNC
        | sys::SYNCFS
        | sys::SYNC_FILE_RANGE => syncs::call(number, a, frame),
        sys::CLONE | sys::FORK | sys::VFORK => threads::clone(number, a, frame),
        // Whoever gets this answer takes `clone` in its place.
        sys::CLONE3 => sys::error(sys::ENOSYS),
        sys::EXECVE | sys::EXECVEAT => execute(number, a, frame),
        sys::EXIT => threads::exit(a[0]),
        sys::RT_SIGACTION => action(a),
        sys::RT_SIGPROCMASK => mask(a, frame),
        sys::RT_SIGSUSPEND => suspend(a, frame),
        sys::SIGALTSTACK => signal_stack(a, frame),
        sys::IO_SETUP | sys::IO_URING_SETUP => {
            ask(ask::REFUSED, [number, 0, 0, 0, 0, 0]);
            sys::error(sys::ENOSYS)
        }
        sys::ARCH_PRCTL => give_up(layout::stop::CALL, number, 0),
        sys::OPEN | sys::OPENAT | sys::OPENAT2 | sys::CREAT => open(number, a, frame),
        sys::DUP | sys::DUP2 | sys::DUP3 | sys::FCNTL => {
            let result = sys::call(number, a);
            descriptors::opened(result, false);
            result
        }
        sys::TRUNCATE => truncate(a),
        // What is ours is large, and mostly never touched.
        sys::MLOCKALL => sys::call2(number, a[0] | MCL_ONFAULT, 0),
        _ => other(number, a, frame),
    };
    registers.set(register::RAX, result);
}

// Another program takes this one's place: the recorder makes itself at home there.
fn execute(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    ask(ask::EXEC, [0; 6]);
    // The new program has the mask that this one wants, not a handler's.
    let mask = *mask_of(frame);
    let own = crate::runtime::signals::set_mask(mask);
    let result = sys::call(number, a);
    crate::runtime::signals::set_mask(own);
    ask(ask::NOT_EXEC, [0; 6]);
    result
}

fn open(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    const EMPTIED: u64 = 0o1000;
    let flags = match number {
        sys::OPEN => a[1],
        sys::OPENAT => a[2],
        sys::OPENAT2 => read::<u64>(a[2]).unwrap_or(0),
        _ => EMPTIED,
    };
    // Whatever its kind, it may wait for somebody at the other end.
    let result = interruptible(number, a.map(place), frame);
    descriptors::opened(result, flags & EMPTIED != 0);
    result
}

fn truncate(a: [u64; 6]) -> u64 {
    let path = place(a[0]);
    let file = descriptors::file_at(path);
    let result = sys::call2(sys::TRUNCATE, path, a[1]);
    if let Some(file) = file
        && !sys::is_error(result)
    {
        descriptors::resized(file, a[1]);
    }
    result
}

/// Where the program's memory can be accessed: a file's, at its alias.
pub fn place(at: u64) -> u64 {
    let block = block();
    lock(block);
    let is_recorded = state().region(at).is_some();
    unlock();
    if is_recorded { alias(at) } else { at }
}

/// What the program has given the address of. There may be nothing.
pub fn read<T: Copy>(at: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: there is room for as much; all that is read here are numbers.
    unsafe {
        let is_there = safe_copy(value.as_mut_ptr().cast(), place(at) as *const u8, size_of::<T>());
        is_there.then(|| value.assume_init())
    }
}

/// The result of a call that puts something where the program wants it, if it wants it at all.
pub fn put<T>(at: u64, value: T) -> u64 {
    if at == 0 {
        return 0;
    }
    // SAFETY: where it cannot be written, that is all that happens.
    let is_done =
        unsafe { safe_copy(place(at) as *mut u8, (&raw const value).cast(), size_of::<T>()) };
    if !is_done {
        return sys::error(sys::EFAULT);
    }
    stored(at, size_of::<T>() as u64);
    0
}

fn action(a: [u64; 6]) -> u64 {
    let [signal, new, old, size, ..] = a;
    if size != 8 || signal == 0 || signal > 64 {
        return sys::call(sys::RT_SIGACTION, a);
    }
    let wanted = if new == 0 { None } else { read::<Action>(new) };
    if new != 0 && wanted.is_none() {
        return sys::error(sys::EFAULT);
    }
    lock(block());
    let slot = &mut state().actions[signal as usize];
    let was = *slot;
    let mut result = 0;
    if let Some(wanted) = wanted {
        if OURS & bit(signal) == 0 {
            result = if wanted.handler > 1 {
                let flags = wanted.flags & !sys::SA_RESETHAND;
                install(signal, on_signal as *const () as u64, flags, wanted.mask & !OURS)
            } else {
                let wanted = (&raw const wanted) as u64;
                sys::call(sys::RT_SIGACTION, [signal, wanted, 0, 8, 0, 0])
            };
        }
        if result == 0 {
            *slot = wanted;
        }
    }
    unlock();
    if result == 0 { put(old, was) } else { result }
}

fn mask(a: [u64; 6], frame: *mut u64) -> u64 {
    let [how, new, old, size, ..] = a;
    if size != 8 || new != 0 && how > 2 {
        return sys::error(sys::EINVAL);
    }
    let mask = mask_of(frame);
    let was = *mask;
    if new != 0 {
        let Some(change) = read::<u64>(new) else { return sys::error(sys::EFAULT) };
        let wanted = match how {
            0 => was | change,
            1 => was & !change,
            _ => change,
        };
        *mask = wanted & !OURS;
    }
    put(old, was)
}

fn suspend(a: [u64; 6], frame: *mut u64) -> u64 {
    // The handler of the signal that ends it runs here, before the program's mask is back: it may be blocked there.
    let Some(wanted) = read::<u64>(a[0]) else { return sys::error(sys::EFAULT) };
    let wanted = wanted & !OURS;
    interruptible(sys::RT_SIGSUSPEND, [(&raw const wanted) as u64, a[1], 0, 0, 0, 0], frame)
}

fn signal_stack(a: [u64; 6], frame: *mut u64) -> u64 {
    const SMALLEST: u64 = 2048;
    let [new, old, ..] = a;
    let block = block();
    let [at, flags, size] = block.signal_stack;
    let is_in_use = threads::is_on_signal_stack(block, registers_of(frame).get(register::RSP));
    let disarms = flags & sys::SS_AUTODISARM != 0;
    let was = match (block.has_signal_stack != 0, is_in_use) {
        (false, _) => [0, sys::SS_DISABLE, 0],
        (true, true) if disarms => [0, sys::SS_DISABLE, 0],
        (true, true) => [at, sys::SS_ONSTACK, size],
        (true, false) => [at, flags & sys::SS_AUTODISARM, size],
    };
    if new != 0 {
        let Some(wanted) = read::<[u64; 3]>(new) else { return sys::error(sys::EFAULT) };
        if is_in_use && !disarms {
            return sys::error(sys::EPERM);
        }
        // Four bytes of flags, and four of nothing.
        let wanted = [wanted[0], wanted[1] & 0xffff_ffff, wanted[2]];
        let off = wanted[1] & sys::SS_DISABLE != 0;
        if !off && wanted[2] < SMALLEST {
            return sys::error(sys::ENOMEM);
        }
        block.has_signal_stack = u32::from(!off);
        block.signal_stack = wanted;
        // SAFETY: the kernel's frame, where `uc_stack` stands; the kernel puts that back at its end.
        unsafe { frame.add(2).cast::<[u64; 3]>().write(threads::signal_stack(block)) };
    }
    put(old, was)
}

// Where a call puts what it returns: which argument points there. The result says how much.
const fn output(number: u64) -> Option<usize> {
    match number {
        sys::READ | sys::PREAD | sys::RECVFROM | sys::READLINK | sys::GETDENTS64 => Some(1),
        sys::GETCWD | sys::GETRANDOM => Some(0),
        sys::READLINKAT => Some(2),
        _ => None,
    }
}

// A call with arguments that point into a file, or that writes to one.
fn other(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    match number {
        sys::READV | sys::PREADV | sys::PREADV2 => return lists::vectors(number, a, frame),
        sys::SENDMSG | sys::RECVMSG => return lists::message(number, a, frame),
        sys::SENDMMSG | sys::RECVMMSG => return lists::messages(number, a, frame),
        sys::PROCESS_VM_WRITEV => return lists::to_process(number, a, frame),
        _ => {}
    }
    // A hole in the file behind a mapping.
    const REMOVE: u64 = 9;
    if number == sys::MADVISE && a[2] == REMOVE {
        let result = interruptible(number, a.map(place), frame);
        if !sys::is_error(result) {
            stored(a[0], a[1]);
        }
        return result;
    }
    let file = crate::runtime::filter::written(number, a).and_then(descriptors::file);
    let result = match number {
        sys::WRITEV | sys::PWRITEV | sys::PWRITEV2 => lists::vectors(number, a, frame),
        _ => pointing(number, a, frame),
    };
    if let Some(file) = file
        && !sys::is_error(result)
    {
        // What it points to is where the next one writes.
        let has_offset = matches!(number, sys::SPLICE | sys::COPY_FILE_RANGE) && a[3] != 0;
        let out = if has_offset { read::<u64>(a[3]) } else { None };
        let mut real = a;
        if matches!(number, sys::WRITE | sys::PWRITE) {
            real[1] = place(a[1]);
        }
        descriptors::wrote(number, real, file, out, result);
    }
    result
}

/// A call with arguments that may point into a file.
pub fn pointing(number: u64, program: [u64; 6], frame: *mut u64) -> u64 {
    let a = program.map(place);
    if let Some(at) = output(number) {
        let result = interruptible(number, a, frame);
        if !sys::is_error(result) {
            stored(program[at], result);
        }
        return result;
    }
    // Who knows what it stores: what has changed behind its pointers.
    const MOST: usize = 4096;
    let mut before = [[0u8; MOST]; 6];
    let mut lengths = [0usize; 6];
    lock(block());
    for at in 0..6 {
        if let Some(region) = state().region(program[at]) {
            let length = ((region.end - program[at]) as usize).min(MOST);
            // SAFETY: there is room for as much, and what is beyond the file's end is not read.
            let is_there =
                unsafe { safe_copy(before[at].as_mut_ptr(), a[at] as *const u8, length) };
            lengths[at] = if is_there { length } else { 0 };
        }
    }
    unlock();
    let result = interruptible(number, a, frame);
    for at in 0..6 {
        let mut byte = 0;
        while byte < lengths[at] {
            let from = byte;
            while byte < lengths[at]
                && read::<u8>(program[at] + byte as u64) != Some(before[at][byte])
            {
                byte += 1;
            }
            if from < byte {
                stored(program[at] + from as u64, (byte - from) as u64);
            }
            byte += 1;
        }
    }
    result
}

/// Records what the kernel has stored in a mapping.
pub fn stored(start: u64, length: u64) {
    lock(block());
    let (mut at, end) = (start, start.saturating_add(length));
    while at < end {
        let Some(region) = state().region(at) else { break };
        let size = region.end.min(end) - at;
        let offset = region.offset + (at - region.start);
        let head = Head { file: region.file, size, offset, ..Head::of(kind::WRITE, 0) };
        push(block(), &head, alias(at) as *const u8);
        at += size;
    }
    unlock();
}
