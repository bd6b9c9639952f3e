//! The identity of a build of a program.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;

use object::Object;
use object::read::ReadCache;

/// The GNU build ID of an ELF file, in hexadecimal digits; `None` where it has none, or cannot be
/// read.
pub fn build_id(path: &Path) -> Option<String> {
    // What is not an ordinary file could block forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    file.build_id().ok()?.map(digits)
}

/// Bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // A string takes whatever is written to it.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
