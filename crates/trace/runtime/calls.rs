//! System calls that the filter sends to us.

use crate::layout::{Head, ask, kind, register};
use crate::questions::{ask, give_up};
use crate::ring::{block, lock, push, unlock};
use crate::signals::{Info, OURS, bit, install, mask_of, on_signal, registers_of};
use crate::state::state;
use crate::stubs::alias;
use crate::sys::{self, Action};
use crate::{layout, mappings, threads};

/// SIGSYS.
pub extern "C" fn on_call(signal: u64, info: &mut Info, frame: *mut u64) {
    const BY_FILTER: i32 = 1;
    if info.code != BY_FILTER {
        return crate::signals::deliver(signal, info, frame);
    }
    let mut registers = registers_of(frame);
    let a = [register::RDI, register::RSI, register::RDX, register::R8 + 2, register::R8, register::R8 + 1]
        .map(|one| registers.get(one));
    let number = registers.get(register::RAX);
    let result = match number {
        sys::MMAP => mappings::map(a),
        sys::MUNMAP => mappings::unmap(a),
        sys::MPROTECT | sys::PKEY_MPROTECT => mappings::protect(number, a),
        sys::MREMAP => mappings::remap(a),
        sys::MSYNC => mappings::sync(a),
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
        _ => other(number, a),
    };
    registers.set(register::RAX, result);
}

// Another program takes this one's place: the recorder makes itself at home there.
fn execute(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    ask(ask::EXEC, [0; 6]);
    // The new program has the mask that this one wants, not a handler's.
    let mask = *mask_of(frame);
    let own = crate::signals::set_mask(mask);
    let result = sys::call(number, a);
    crate::signals::set_mask(own);
    ask(ask::NOT_EXEC, [0; 6]);
    result
}

fn read<T: Copy>(at: u64) -> T {
    // SAFETY: an address that the program gave to the kernel; a wrong one fails here as it would there.
    unsafe { (at as *const T).read_unaligned() }
}

fn write<T>(at: u64, value: T) {
    // SAFETY: as above.
    unsafe { (at as *mut T).write_unaligned(value) }
}

fn action(a: [u64; 6]) -> u64 {
    let [signal, new, old, size, ..] = a;
    if size != 8 || signal == 0 || signal > 64 {
        return sys::call(sys::RT_SIGACTION, a);
    }
    lock(block());
    let slot = &mut state().actions[signal as usize];
    let was = *slot;
    let mut result = 0;
    if new != 0 {
        let wanted: Action = read(new);
        let handled = wanted.handler > 1;
        if OURS & bit(signal) == 0 {
            result = if handled {
                let flags = wanted.flags & !sys::SA_RESETHAND;
                install(signal, on_signal as *const () as u64, flags, wanted.mask & !OURS)
            } else {
                sys::call(sys::RT_SIGACTION, [signal, new, 0, 8, 0, 0])
            };
        }
        if result == 0 {
            *slot = wanted;
        }
    }
    unlock();
    if result == 0 && old != 0 {
        write(old, was);
    }
    result
}

fn mask(a: [u64; 6], frame: *mut u64) -> u64 {
    let [how, new, old, size, ..] = a;
    if size != 8 {
        return sys::error(sys::EINVAL);
    }
    let mask = mask_of(frame);
    let was = *mask;
    if new != 0 {
        let change: u64 = read(new);
        *mask = match how {
            0 => was | change,
            1 => was & !change,
            2 => change,
            _ => return sys::error(sys::EINVAL),
        } & !OURS;
    }
    if old != 0 {
        write(old, was);
    }
    0
}

fn suspend(a: [u64; 6], frame: *mut u64) -> u64 {
    // The signal that ends it is delivered with the mask from before, which is the program's only once we are out of
    // this handler. So it waits here with that mask, and is delivered here.
    let wanted: u64 = read::<u64>(a[0]) & !OURS;
    let own = crate::signals::set_mask(*mask_of(frame));
    let result = sys::call2(sys::RT_SIGSUSPEND, (&raw const wanted) as u64, 8);
    crate::signals::set_mask(own);
    result
}

fn signal_stack(a: [u64; 6], frame: *mut u64) -> u64 {
    const DISABLED: u64 = 2;
    const SMALLEST: u64 = 2048;
    let [new, old, ..] = a;
    let block = block();
    let was = if block.has_signal_stack != 0 { block.signal_stack } else { [0, DISABLED, 0] };
    if new != 0 {
        let wanted: [u64; 3] = read(new);
        let off = wanted[1] & DISABLED != 0;
        if !off && wanted[2] < SMALLEST {
            return sys::error(sys::ENOMEM);
        }
        block.has_signal_stack = u32::from(!off);
        block.signal_stack = wanted;
        // The kernel refuses while it is in use, and puts the frame's back at its end.
        let chosen = if off { block.own_signal_stack } else { [wanted[0], 0, wanted[2]] };
        // SAFETY: the kernel's frame, where `uc_stack` stands.
        unsafe { frame.add(2).cast::<[u64; 3]>().write(chosen) };
    }
    if old != 0 {
        write(old, was);
    }
    0
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
fn other(number: u64, mut a: [u64; 6]) -> u64 {
    match number {
        sys::WRITE | sys::PWRITE | sys::FTRUNCATE | sys::FALLOCATE => return to_file(number, a),
        sys::READV | sys::WRITEV | sys::PREADV | sys::PWRITEV | sys::PREADV2 | sys::PWRITEV2 => {
            return vectors(number, a);
        }
        sys::SENDMSG | sys::RECVMSG => return messages(number, a),
        _ => {}
    }
    let program = a;
    lock(block());
    let places = program.map(|one| state().region(one).is_some());
    unlock();
    for (at, in_file) in places.into_iter().enumerate() {
        if in_file {
            a[at] = alias(a[at]);
        }
    }
    if let Some(at) = output(number) {
        let result = sys::call(number, a);
        if !sys::is_error(result) {
            stored(program[at], result);
        }
        return result;
    }
    // Who knows what it stores: what has changed behind its pointers.
    const MOST: usize = 512;
    let mut before = [[0u8; MOST]; 6];
    let mut lengths = [0usize; 6];
    lock(block());
    for at in 0..6 {
        if let Some(region) = state().region(program[at]) {
            lengths[at] = ((region.end - program[at]) as usize).min(MOST);
            // SAFETY: the alias of a mapping.
            unsafe {
                core::ptr::copy_nonoverlapping(a[at] as *const u8, before[at].as_mut_ptr(), lengths[at])
            };
        }
    }
    unlock();
    let result = sys::call(number, a);
    for at in 0..6 {
        let mut byte = 0;
        while byte < lengths[at] {
            let from = byte;
            while byte < lengths[at] && read::<u8>(a[at] + byte as u64) != before[at][byte] {
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
fn stored(start: u64, length: u64) {
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

// Writes to a descriptor that was mapped once.
fn to_file(number: u64, a: [u64; 6]) -> u64 {
    let [descriptor, buffer, length, position, ..] = a;
    const LSEEK: u64 = 8;
    const CURRENT: u64 = 1;
    let mut real = a;
    lock(block());
    let in_file = matches!(number, sys::WRITE | sys::PWRITE) && state().region(buffer).is_some();
    unlock();
    if in_file {
        real[1] = alias(buffer);
    }
    let [file, ..] = ask(ask::FILE, [descriptor, 0, 0, 0, 0, 0]);
    let result = sys::call(number, real);
    if file == 0 || sys::is_error(result) {
        return result;
    }
    let head = Head { file: (file - 1) as u8, ..Head::of(kind::WRITE, 0) };
    lock(block());
    match number {
        sys::WRITE => {
            let end = sys::call3(LSEEK, descriptor, 0, CURRENT);
            let head = Head { offset: end.wrapping_sub(result), size: result, ..head };
            push(block(), &head, real[1] as *const u8);
        }
        sys::PWRITE => push(block(), &Head { offset: position, size: result, ..head }, real[1] as *const u8),
        sys::FTRUNCATE => {
            push(block(), &Head { kind: kind::TRUNCATE, size: buffer, ..head }, core::ptr::null());
        }
        _ => {
            // Zeros, a hole, or only room: the file's size is what it is now.
            let mode = buffer;
            if mode != 0 && mode != 1 {
                give_up(layout::stop::CALL, number, mode);
            }
            if mode == 0 {
                let size = length + position;
                push(block(), &Head { kind: kind::TRUNCATE, size, more: 1, ..head }, core::ptr::null());
            }
        }
    }
    unlock();
    result
}

const MOST_BUFFERS: usize = 64;

// The buffers of a list, with aliases in place of the mappings.
fn translated(list: u64, count: u64) -> ([[u64; 2]; MOST_BUFFERS], bool) {
    let mut buffers = [[0; 2]; MOST_BUFFERS];
    let mut any = false;
    lock(block());
    for (at, buffer) in buffers.iter_mut().enumerate().take(count as usize) {
        *buffer = read::<[u64; 2]>(list + 16 * at as u64);
        if state().touches(buffer[0], buffer[1]) {
            any = true;
            buffer[0] = alias(buffer[0]);
        }
    }
    unlock();
    (buffers, any)
}

// Records what was put into the buffers of a list.
fn scattered(list: u64, mut left: u64) {
    let mut at = list;
    while left > 0 {
        let [start, length] = read::<[u64; 2]>(at);
        stored(start, length.min(left));
        left -= length.min(left);
        at += 16;
    }
}

fn vectors(number: u64, a: [u64; 6]) -> u64 {
    let mut real = a;
    lock(block());
    let list_in_file = state().region(a[1]).is_some();
    unlock();
    let list = if list_in_file { alias(a[1]) } else { a[1] };
    let (buffers, any) = translated(list, a[2].min(MOST_BUFFERS as u64));
    if any && a[2] as usize > MOST_BUFFERS {
        give_up(layout::stop::CALL, number, a[2]);
    }
    real[1] = if any { buffers.as_ptr() as u64 } else { list };
    let result = sys::call(number, real);
    let reads = matches!(number, sys::READV | sys::PREADV | sys::PREADV2);
    if any && reads && !sys::is_error(result) {
        scattered(list, result);
    }
    result
}

fn messages(number: u64, a: [u64; 6]) -> u64 {
    // `struct msghdr`: the list and its length are its third and fourth fields.
    let mut message: [u64; 7] = read(a[1]);
    let (list, count) = (message[2], message[3]);
    let (buffers, any) = translated(list, count.min(MOST_BUFFERS as u64));
    if !any {
        return sys::call(number, a);
    }
    if count as usize > MOST_BUFFERS {
        give_up(layout::stop::CALL, number, count);
    }
    message[2] = buffers.as_ptr() as u64;
    let result = sys::call3(number, a[0], message.as_ptr() as u64, a[2]);
    if number == sys::RECVMSG && !sys::is_error(result) {
        message[2] = list;
        write(a[1], message);
        scattered(list, result);
    }
    result
}
