//! The order table of the model, as data.

use ringfence_crashcheck::Profile;

/// Instructions as far as the table tells them apart; with the lines that they concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Write(usize),
    Stream,
    Locked,
    Mfence,
    Sfence,
    Flushopt(usize),
    Flush(usize),
    /// Of no concern to memory.
    #[allow(dead_code)] // Not every oracle has such.
    Nothing,
}

// Rows and columns: write, locked or mfence, sfence, clwb, clflush. '+' yes, '-' no, '=' on the
// same line.
const INTEL: [&str; 5] = ["+++=+", "+++++", "+++++", "-++-=", "+++=+"];
// clflush as weak as clwb, and not ordered by locked instructions.
const AMD: [&str; 5] = ["+++==", "+++++", "+++++", "-++-=", "-m+=="];
// Nor by sfence.
const OLD_AMD: [&str; 5] = ["+++==", "+++++", "+++++", "-++-=", "-m-=="];

/// Whether the first takes place before the second, which comes later in the program.
pub fn ordered(profile: Profile, first: Class, second: Class) -> bool {
    let place = |class: Class| match class {
        Class::Write(line) => Some((0, line)),
        Class::Locked | Class::Mfence => Some((1, usize::MAX)),
        Class::Sfence => Some((2, usize::MAX)),
        Class::Flushopt(line) => Some((3, line)),
        Class::Flush(line) => Some((4, line)),
        Class::Stream | Class::Nothing => None,
    };
    if first == Class::Nothing || second == Class::Nothing {
        return false;
    }
    let fence = |class: Class| matches!(class, Class::Sfence | Class::Mfence | Class::Locked);
    // Non-temporal stores are ordered by fences alone.
    let (Some((row, one)), Some((column, other))) = (place(first), place(second)) else {
        return fence(first) || fence(second);
    };
    let table = match profile {
        Profile::IntelAdr | Profile::Eadr => INTEL,
        Profile::Amd => AMD,
        Profile::OldAmd => OLD_AMD,
    };
    match table[row].as_bytes()[column] {
        b'+' => true,
        b'=' => one == other,
        b'm' => second == Class::Mfence,
        _ => false,
    }
}
