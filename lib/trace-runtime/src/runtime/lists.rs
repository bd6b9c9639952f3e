//! System calls with lists of buffers, any of which may be in a recorded file.

use super::actions::interruptible;
use super::addresses::alias;
use super::buffers::{place, pointing, put, read, stored};
use super::frame::Frame;
use super::lock::Held;
use super::questions::give_up;
use super::sys;
use crate::layout::stop;

const MOST_BUFFERS: usize = 64;

type Buffers = [[u64; 2]; MOST_BUFFERS];

// The buffers of a list, with aliases in place of the mappings; none where no buffer is in one, or
// the list cannot be read, which the kernel then says.
fn translated(number: u64, list: u64, count: u64) -> Option<Buffers> {
    let mut buffers = [[0; 2]; MOST_BUFFERS];
    let mut any = false;
    // The kernel takes no longer ones.
    const MOST: u64 = 1024;
    if count > MOST {
        return None;
    }
    for at in 0..count {
        let [start, length] = read::<[u64; 2]>(list + 16 * at)?;
        let is_recorded = Held::acquire().touches(start, length);
        any |= is_recorded;
        match buffers.get_mut(at as usize) {
            Some(buffer) => *buffer = [if is_recorded { alias(start) } else { start }, length],
            None if any => give_up(stop::CALL, number, count),
            None => {}
        }
    }
    any.then_some(buffers)
}

// Records what was put into the buffers of a list.
fn scattered(list: u64, mut left: u64) {
    let mut at = list;
    while left > 0 {
        let Some([start, length]) = read::<[u64; 2]>(at) else { return };
        stored(start, length.min(left));
        left -= length.min(left);
        at += 16;
    }
}

/// `readv`, `writev` and the calls like them.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn vectors(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    let [_, list, count, ..] = a;
    let mut real = a;
    let buffers = translated(number, list, count);
    real[1] = buffers.as_ref().map_or_else(|| place(list), |buffers| buffers.as_ptr() as u64);
    // SAFETY: the program's own call, which the caller answers for, at the aliases.
    let result = unsafe { interruptible(number, real, frame) };
    let reads = matches!(number, sys::READV | sys::PREADV | sys::PREADV2);
    if buffers.is_some() && reads && !sys::is_error(result) {
        scattered(list, result);
    }
    result
}

/// `sendmsg` and `recvmsg`.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn message(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    // `struct msghdr`: the list and its length are its third and fourth fields.
    // SAFETY: the caller's.
    let as_it_is = || unsafe { pointing(number, a, frame) };
    let Some(mut message) = read::<[u64; 7]>(a[1]) else { return as_it_is() };
    let (list, count) = (message[2], message[3]);
    let Some(buffers) = translated(number, list, count) else { return as_it_is() };
    message[2] = buffers.as_ptr() as u64;
    let mut real = a;
    real[1] = message.as_ptr() as u64;
    // SAFETY: the program's own call, which the caller answers for, at the aliases.
    let result = unsafe { interruptible(number, real, frame) };
    if number == sys::RECVMSG && !sys::is_error(result) {
        message[2] = list;
        put(a[1], message);
        scattered(list, result);
    }
    result
}

/// `sendmmsg` and `recvmmsg`: as many messages as there is room for, which is as if no more had
/// come.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn messages(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    const MOST: usize = 16;
    // `struct mmsghdr`: a `struct msghdr` and how much of it there was.
    const SIZE: u64 = 64;
    // SAFETY: the caller's.
    let as_it_is = || unsafe { pointing(number, a, frame) };
    let count = (a[2] as usize).min(MOST);
    let mut own = [[0u64; 8]; MOST];
    let mut buffers: [Option<Buffers>; MOST] = [None; MOST];
    let mut real = a.map(place);
    for at in 0..count {
        let Some(header) = read::<[u64; 8]>(a[1] + SIZE * at as u64) else {
            return as_it_is();
        };
        own[at] = header;
        buffers[at] = translated(number, header[2], header[3]);
    }
    if buffers.iter().all(Option::is_none) {
        return as_it_is();
    }
    for (header, buffers) in own.iter_mut().zip(&buffers) {
        if let Some(buffers) = buffers {
            header[2] = buffers.as_ptr() as u64;
        }
    }
    (real[1], real[2]) = (own.as_ptr() as u64, count as u64);
    // SAFETY: the program's own call, which the caller answers for, at the aliases.
    let result = unsafe { interruptible(number, real, frame) };
    if sys::is_error(result) {
        return result;
    }
    for (at, header) in own.iter_mut().enumerate().take(result as usize) {
        let place = a[1] + SIZE * at as u64;
        let Some(program) = read::<[u64; 8]>(place) else { break };
        header[2] = program[2];
        put(place, *header);
        if number == sys::RECVMMSG && buffers[at].is_some() {
            scattered(program[2], header[7] & 0xffff_ffff);
        }
    }
    result
}

/// `process_vm_writev`: a process's mappings of a file take nothing from outside.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn to_process(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    let [process, list, count, remote, remote_count, _] = a;
    if process == sys::process_id() && translated(number, remote, remote_count).is_some() {
        give_up(stop::CALL, number, process);
    }
    let mut real = a;
    let buffers = translated(number, list, count);
    real[1] = buffers.as_ref().map_or_else(|| place(list), |buffers| buffers.as_ptr() as u64);
    real[3] = place(remote);
    // SAFETY: the program's own call, which the caller answers for, at the aliases.
    unsafe { interruptible(number, real, frame) }
}
