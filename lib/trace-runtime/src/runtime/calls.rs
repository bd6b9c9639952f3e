//! System calls that the filter sends to us.

use core::sync::atomic::Ordering::Release;

use super::actions::{deliver, interruptible};
use super::blocks::{block, shared};
use super::buffers::{place, pointing, read, stored};
use super::descriptors::{self, Target};
use super::frame::{Frame, Info};
use super::questions::{ask, give_up};
use super::{filter, lists, mappings, output, signal_calls, syncs, sys, threads};
use crate::layout::{ask, register, stop};

/// SIGSYS.
pub extern "C" fn on_call(signal: u64, info: &mut Info, frame: &mut Frame) {
    const BY_FILTER: i32 = 1;
    if info.code != BY_FILTER {
        return deliver(signal, info, frame);
    }
    threads::rearm(block(), frame);
    const ARGUMENTS: [usize; 6] = [
        register::RDI,
        register::RSI,
        register::RDX,
        register::R8 + 2,
        register::R8,
        register::R8 + 1,
    ];
    let arguments = ARGUMENTS.map(|one| frame.registers.get(one));
    let number = frame.registers.get(register::RAX);
    // SAFETY: the program has made this call, with these arguments, and waits for it.
    let result = unsafe { call(number, arguments, frame) };
    frame.registers.set(register::RAX, result);
}

/// Makes a call for the program, as it has to be made while files are recorded.
///
/// # Safety
/// The program has made this call, with these arguments.
unsafe fn call(number: u64, a: [u64; 6], frame: &mut Frame) -> u64 {
    // SAFETY: the caller's, for each of them.
    unsafe {
        match number {
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
            // What gets this answer takes `clone` in its place.
            sys::CLONE3 => sys::error(sys::ENOSYS),
            sys::EXECVE | sys::EXECVEAT => execute(number, a, frame),
            sys::EXIT => threads::exit(a[0]),
            sys::RT_SIGACTION => signal_calls::action(a),
            sys::RT_SIGPROCMASK => signal_calls::mask(a, frame),
            sys::RT_SIGSUSPEND => signal_calls::suspend(a, frame),
            sys::SIGALTSTACK => signal_calls::stack(a, frame),
            sys::IO_SETUP | sys::IO_URING_SETUP => {
                ask(ask::REFUSED, [number, 0, 0, 0, 0, 0]);
                sys::error(sys::ENOSYS)
            }
            sys::ARCH_PRCTL => give_up(stop::CALL, number, 0),
            sys::OPEN | sys::OPENAT | sys::OPENAT2 | sys::CREAT => open(number, a, frame),
            sys::DUP | sys::DUP2 | sys::DUP3 | sys::FCNTL => {
                let result = sys::call(number, a);
                descriptors::opened(result, false);
                result
            }
            sys::TRUNCATE => truncate(a),
            sys::RENAME
            | sys::RENAMEAT
            | sys::RENAMEAT2
            | sys::LINK
            | sys::LINKAT
            | sys::UNLINK
            | sys::UNLINKAT => change_names(number, a, frame),
            sys::MLOCKALL => {
                // What is ours is large, and mostly never touched: pages are locked once they are
                // there (mlockall(2)).
                const MCL_ONFAULT: u64 = 4;
                sys::call2(number, a[0] | MCL_ONFAULT, 0)
            }
            _ => other(number, a, frame),
        }
    }
}

/// Another program takes this one's place: the recorder makes itself at home there.
///
/// # Safety
/// As for [`call`].
unsafe fn execute(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    ask(ask::EXEC, [0; 6]);
    // The new program has the mask that this one wants, not a handler's.
    let own = sys::set_mask(frame.mask);
    // SAFETY: the program's own call: where it returns, nothing has changed.
    let result = unsafe { sys::call(number, a) };
    sys::set_mask(own);
    ask(ask::NOT_EXEC, [0; 6]);
    result
}

/// `open`, `openat`, `openat2` and `creat`.
///
/// # Safety
/// As for [`call`].
unsafe fn open(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    const EMPTIED: u64 = 0o1000;
    let flags = match number {
        sys::OPEN => a[1],
        sys::OPENAT => a[2],
        sys::OPENAT2 => read::<u64>(a[2]).unwrap_or(0),
        _ => EMPTIED,
    };
    // Whatever its kind, it may wait for something at the other end.
    // SAFETY: the program's own call, at the aliases.
    let result = unsafe { interruptible(number, a.map(place), frame) };
    descriptors::opened(result, flags & EMPTIED != 0);
    result
}

/// `truncate`.
///
/// # Safety
/// As for [`call`].
unsafe fn truncate(a: [u64; 6]) -> u64 {
    let path = place(a[0]);
    let file = descriptors::file_at(path);
    // SAFETY: the program's own call, which reads a path.
    let result = unsafe { sys::call2(sys::TRUNCATE, path, a[1]) };
    if let Some(file) = file
        && !sys::is_error(result)
    {
        descriptors::resized(file, a[1]);
    }
    result
}

/// `rename`, `link`, `unlink` and the calls like them.
///
/// # Safety
/// As for [`call`].
unsafe fn change_names(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    // SAFETY: the program's own call, at the aliases.
    let result = unsafe { interruptible(number, a.map(place), frame) };
    // Where a copy is mounted over a file or its folder, the kernel refuses by these numbers.
    let is_mounted = [sys::EBUSY, sys::EXDEV].map(sys::error).contains(&result);
    if !sys::is_error(result) || is_mounted {
        ask(ask::NAMES, [number, a[0], a[1], a[2], a[3], 0]);
    }
    result
}

/// A call with arguments that point into a file, or that writes to one or to the standard output.
///
/// # Safety
/// As for [`call`].
unsafe fn other(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    // SAFETY: the caller's, for each of them.
    unsafe {
        match number {
            sys::READV | sys::PREADV | sys::PREADV2 => return lists::vectors(number, a, frame),
            sys::SENDMSG | sys::RECVMSG => return lists::message(number, a, frame),
            sys::SENDMMSG | sys::RECVMMSG => return lists::messages(number, a, frame),
            sys::PROCESS_VM_WRITEV => return lists::to_process(number, a, frame),
            _ => {}
        }
    }
    // A hole in the file behind a mapping.
    const REMOVE: u64 = 9;
    if number == sys::MADVISE && a[2] == REMOVE {
        // SAFETY: the program's own call, at the aliases.
        let result = unsafe { interruptible(number, a.map(place), frame) };
        if !sys::is_error(result) {
            stored(a[0], a[1]);
        }
        return result;
    }
    let target = filter::written(number, a).and_then(descriptors::target);
    if matches!(target, Some(Target::Output)) && matches!(number, sys::SENDFILE | sys::SPLICE) {
        return output::refuse(number);
    }
    // SAFETY: the caller's.
    let result = unsafe {
        match number {
            sys::WRITEV | sys::PWRITEV | sys::PWRITEV2 => lists::vectors(number, a, frame),
            // They store nothing. A program's own signal stack may be too small for more.
            sys::WRITE | sys::PWRITE => interruptible(number, a.map(place), frame),
            _ => pointing(number, a, frame),
        }
    };
    if !sys::is_error(result) {
        // SAFETY: the kernel has just read what the program had it write.
        unsafe { wrote(number, a, target, result, frame) };
    }
    result
}

/// Records what a call has written, where that is recorded.
///
/// # Safety
/// As for [`call`]; the call has been made, and what it was given can still be read.
unsafe fn wrote(number: u64, a: [u64; 6], target: Option<Target>, result: u64, frame: &Frame) {
    match target {
        Some(Target::Output) => output::wrote(number, a, result),
        Some(Target::File(file)) => {
            // What it points to is where the next one writes.
            let has_offset = matches!(number, sys::SPLICE | sys::COPY_FILE_RANGE) && a[3] != 0;
            let out = if has_offset { read::<u64>(a[3]) } else { None };
            let mut real = a;
            if matches!(number, sys::WRITE | sys::PWRITE) {
                real[1] = place(a[1]);
            }
            // SAFETY: the caller's, at the alias where that is a file's.
            unsafe { descriptors::wrote(number, real, file, out, result, frame) };
        }
        None => {}
    }
}
