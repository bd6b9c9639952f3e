//! Files with their checksums: XXH64 with seed 0, as 16 hexadecimal digits.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Write};

use twox_hash::XxHash64;

/// How long a file is, and its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// Bytes.
    pub bytes: u64,
    /// XXH64 with seed 0, in hexadecimal digits.
    pub xxh64: String,
}

/// The checksum of a file, from its current position to its end.
///
/// # Errors
/// Where it cannot be read.
pub fn of(file: &mut File) -> io::Result<Checksum> {
    let mut hasher = XxHash64::with_seed(0);
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(told(bytes, &hasher)),
            Ok(length) => {
                hasher.write(&buffer[..length]);
                bytes += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn told(bytes: u64, hasher: &XxHash64) -> Checksum {
    Checksum { bytes, xxh64: format!("{:016x}", hasher.finish()) }
}

/// A file, and the checksum of what is written to it.
pub struct Hashing {
    file: File,
    hasher: XxHash64,
    bytes: u64,
}

impl Hashing {
    /// Of an empty file.
    pub fn new(file: File) -> Self {
        Self { file, hasher: XxHash64::with_seed(0), bytes: 0 }
    }

    /// The file, and what was written to it.
    pub fn finish(self) -> (File, Checksum) {
        let checksum = told(self.bytes, &self.hasher);
        (self.file, checksum)
    }
}

impl Write for Hashing {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.hasher.write(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_what_is_read() {
        let path = std::env::temp_dir().join(format!("ringfence-checksum-{}", std::process::id()));
        let mut hashing = Hashing::new(File::create(&path).unwrap());
        hashing.write_all(&[7; 300_000]).unwrap();
        let (_, written) = hashing.finish();
        let read = of(&mut File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((written.bytes, &written), (300_000, &read));
        // Of nothing, by the specification of XXH64.
        assert_eq!(told(0, &XxHash64::with_seed(0)).xxh64, "ef46db3751d8e999");
    }
}
