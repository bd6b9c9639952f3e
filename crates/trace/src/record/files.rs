//! Which files are recorded, and what they hold when their recording begins.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::RecordError;
use super::layout::MOST_FILES;
use super::medium;
use super::service::Service;
use crate::events::TracedFile;

impl Service<'_> {
    // Whether a descriptor is that of a file that is recorded: its number plus one.
    pub(super) fn file(&mut self, process: i32, a: [u64; 6]) -> Result<u64, RecordError> {
        let link = format!("/proc/{process}/fd/{}", a[0]);
        let Ok(about) = std::fs::metadata(&link) else { return Ok(0) };
        let identity = (about.dev(), about.ino());
        if let Some(number) = self.files.iter().position(|one| *one == identity) {
            return Ok(number as u64 + 1);
        }
        let Ok(path) = std::fs::read_link(&link) else { return Ok(0) };
        let is_meant = self.options.files.iter().any(|file| {
            path.starts_with(file)
                || std::fs::metadata(file).is_ok_and(|file| (file.dev(), file.ino()) == identity)
        });
        if !is_meant || a[2] == 0 {
            return Ok(0);
        }
        let number = self.files.len();
        if number >= MOST_FILES {
            self.stop(format!("more than {MOST_FILES} files are recorded"));
            return Ok(0);
        }
        self.files.push(identity);
        let id = number as u32;
        let medium = medium::of(&path, Path::new(&link));
        self.writer.file(TracedFile { id, path: path.display().to_string(), size: about.len(), medium })?;
        let image =
            |source| RecordError::Process { what: format!("{} cannot be read", path.display()), source };
        self.image(id, &File::open(&link).map_err(image)?).map_err(image)?;
        self.memory.add_file(identity);
        Ok(number as u64 + 1)
    }

    // What the file holds now.
    fn image(&mut self, id: u32, file: &File) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let count = file.read_at(&mut buffer, at)?;
            if count == 0 {
                return Ok(());
            }
            self.writer.image(id, at, &buffer[..count]).map_err(io::Error::other)?;
            at += count as u64;
        }
    }
}
