//! Which files are recorded, and what they hold when their recording begins.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ringfence_system::sparse;
use ringfence_trace_runtime::layout::MOST_FILES;

use super::RecordError;
use super::medium;
use super::service::Service;
use crate::events::TracedFile;
use crate::recording::Writer;

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
        self.writer.file(TracedFile {
            id,
            path: path.display().to_string(),
            size: about.len(),
            medium,
        })?;
        let unread = |source| RecordError::Process {
            what: format!("{} cannot be read", path.display()),
            source,
        };
        image(self.writer, id, &File::open(&link).map_err(unread)?).map_err(unread)?;
        self.memory.add_file(identity);
        Ok(number as u64 + 1)
    }
}

// What the file holds now. Holes are zeros, as is what a recording does not say.
fn image(writer: &mut Writer, id: u32, file: &File) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    sparse::parts(file, |part| {
        sparse::read(file, part, &mut buffer, |at, bytes| {
            writer.image(id, at, bytes).map_err(io::Error::other)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::events::{Ended, Place};
    use crate::recording::{About, Reader};

    // To read all of it would take an hour.
    #[test]
    fn holes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (size, middle) = (1 << 42, 1 << 41);
        let file = File::create_new(&path).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(&[7; 100], middle).unwrap();
        file.write_all_at(&[8], size - 1).unwrap();
        let trace = folder.path().join("trace");
        let mut writer = Writer::create(&trace, About::default()).unwrap();
        writer
            .file(TracedFile { id: 0, path: path.display().to_string(), size, medium: None })
            .unwrap();
        image(&mut writer, 0, &File::open(&path).unwrap()).unwrap();
        writer.finish(Ended::Exited(0)).unwrap();
        let pages: Vec<(Place, Vec<u8>)> =
            Reader::open(&trace).unwrap().images().map(|page| page.unwrap()).collect();
        let at = |offset| Place { file: 0, offset };
        assert_eq!(
            pages.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [at(middle), at(size - 4096)]
        );
        assert_eq!((pages[0].1[99], pages[0].1[100], pages[1].1[4095]), (7, 0, 8));
    }
}
