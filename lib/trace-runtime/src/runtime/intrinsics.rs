//! What compilers call by name, as they do in C.
//!
//! Loops that look like one of these are made into calls of it: hence the volatile accesses.

use core::arch::asm;

/// `memcpy`.
///
/// # Safety
/// As in C.
#[cfg_attr(executable, unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        if count <= 32 {
            let (mut at, words) = (0, count & !7);
            while at < words {
                to.add(at)
                    .cast::<u64>()
                    .write_unaligned(from.add(at).cast::<u64>().read_unaligned());
                at += 8;
            }
            while at < count {
                to.add(at).write_volatile(from.add(at).read_volatile());
                at += 1;
            }
        } else {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
        }
    }
    to
}

/// `memmove`.
///
/// # Safety
/// As in C.
#[cfg_attr(executable, unsafe(no_mangle))]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= count {
            return memcpy(to, from, count);
        }
        let mut at = count;
        while at > 0 {
            at -= 1;
            to.add(at).write_volatile(from.add(at).read_volatile());
        }
    }
    to
}

/// `memset`.
///
/// # Safety
/// As in C.
#[cfg_attr(executable, unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") value as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// `memcmp`.
///
/// # Safety
/// As in C.
#[cfg_attr(executable, unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: the caller's.
        let (a, b) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// `bcmp`.
///
/// # Safety
/// As in C.
#[cfg_attr(executable, unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { memcmp(one, other, count) }
}

// Named by the core library, and never called: panics end the process.
#[cfg(executable)]
core::arch::global_asm!(".global rust_eh_personality", "rust_eh_personality:", "ud2");
