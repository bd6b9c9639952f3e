//! Writing a recording.

mod parts;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use self::parts::{Message, Parts};
use super::error::{RecordingError, io};
use super::manifest::{About, Manifest};
use super::table::Rows;
use super::tables::{CALLERS, EVENTS, IMAGES, LOCATIONS, SITES};
use super::{LARGEST, PAGE, SCHEMA, rows};
use crate::code::build_id;
use crate::events::{
    Action, Callers, Ended, Event, Location, Module, Place, Site, Thread, TracedFile, Unseen,
};
use crate::symbols::locate;

// Rows that are encoded together, and bytes in them: what is in memory at once is a few times that.
const GROUP_ROWS: usize = 1 << 16;
const GROUP_BYTES: usize = 16 << 20;

// A part is closed when it has so many events, or is so old.
const PART_ROWS: u64 = 1 << 20;
const PART_AGE: Duration = Duration::from_secs(2);

// Events between two looks at the clock.
const GLANCE: u64 = 256;

/// Writes a recording to a folder, part by part. What was given to it before the last part was
/// closed can be read even if the program is killed. Encoding has a thread of its own.
pub struct Writer {
    manifest: Manifest,
    began: Instant,
    // The modules' addresses that something is to be known of.
    addresses: HashMap<String, BTreeSet<u64>>,
    // What is known already.
    locations: Vec<Location>,
    events: Rows,
    images: Rows,
    sites: Rows,
    callers: Rows,
    // The last one that an event named, of those that are known.
    file: Option<u32>,
    sequence: Option<u64>,
    // Events in this part, and when its first came.
    count: u64,
    part_began: Instant,
    parts: Parts,
}

impl Writer {
    /// A new recording. The folder may exist if it is empty; it gets mode 0700, and files in it
    /// 0600.
    ///
    /// # Errors
    /// Where the folder holds something, or cannot be made.
    pub fn create(folder: &Path, about: About) -> Result<Self, RecordingError> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(folder).map_err(io("read the folder", folder))?;
                if entries.next().is_some() {
                    return Err(RecordingError::NotEmpty { path: folder.into() });
                }
                fs::set_permissions(folder, Permissions::from_mode(0o700))
                    .map_err(io("set the mode of", folder))?;
            }
            made => made.map_err(io("make the folder", folder))?,
        }
        let since_1970 =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let manifest = Manifest {
            schema: SCHEMA,
            about,
            started_unix_ns: nanoseconds(since_1970),
            recorded_ns: 0,
            ended: None,
            files: Vec::new(),
            threads: Vec::new(),
            modules: Vec::new(),
            locked_in_all: None,
            unseen: Vec::new(),
            unrecorded: Vec::new(),
            name_change: None,
            notes: Vec::new(),
            events: Vec::new(),
            images: Vec::new(),
            sites: Vec::new(),
            callers: Vec::new(),
            locations: Vec::new(),
        };
        // From now on the folder is a recording, if an empty one.
        manifest.write(folder)?;
        Ok(Self {
            manifest,
            began: Instant::now(),
            addresses: HashMap::new(),
            locations: Vec::new(),
            events: Rows::new(&EVENTS),
            images: Rows::new(&IMAGES),
            sites: Rows::new(&SITES),
            callers: Rows::new(&CALLERS),
            file: None,
            sequence: None,
            count: 0,
            part_began: Instant::now(),
            parts: Parts::start(folder),
        })
    }

    /// A file whose accesses will follow.
    ///
    /// # Errors
    /// Where there is one of this number.
    pub fn file(&mut self, file: TracedFile) -> Result<(), RecordingError> {
        if self.manifest.files.iter().any(|known| known.id == file.id) {
            return Err(RecordingError::Refused(format!("file {} exists already", file.id)));
        }
        self.manifest.files.push(file);
        Ok(())
    }

    /// What a file held from an offset on, before its first event. Pages of zeros take no room.
    /// What is not given is zeros.
    ///
    /// # Errors
    /// Where the file is not known, or an earlier part could not be written.
    pub fn image(&mut self, file: u32, offset: u64, bytes: &[u8]) -> Result<(), RecordingError> {
        self.known(file)?;
        for (number, page) in (0..).zip(bytes.chunks(PAGE)) {
            if page.iter().any(|byte| *byte != 0) {
                rows::push_page(
                    &mut self.images,
                    Place { file, offset: offset + number * PAGE as u64 },
                    page,
                );
            }
            if self.images.bytes() >= GROUP_BYTES {
                let full = std::mem::replace(&mut self.images, Rows::new(&IMAGES));
                self.parts.send(Message::Images(full))?;
            }
        }
        Ok(())
    }

    /// An instruction that events will name.
    pub fn site(&mut self, site: &Site) {
        self.address(&site.module, site.address);
        rows::push_site(&mut self.sites, site);
    }

    /// Frames that events will name.
    pub fn callers(&mut self, callers: &Callers) {
        callers.frames.iter().for_each(|frame| self.address(&frame.module, frame.call()));
        rows::push_callers(&mut self.callers, callers);
    }

    /// What is known of a place that a site or callers name; of others, it is found out at the end.
    pub fn location(&mut self, location: Location) {
        self.locations.push(location);
    }

    /// Locked instructions that were executed in all, as far as the recorder counts them.
    pub fn locked_in_all(&mut self, count: u64) {
        self.manifest.locked_in_all = Some(count);
    }

    /// Notes a module with instructions that are not recorded.
    pub fn unseen(&mut self, unseen: Unseen) {
        self.manifest.unseen.push(unseen);
    }

    /// A program that runs and cannot be recorded.
    pub fn unrecorded(&mut self, program: &str) {
        if !self.manifest.unrecorded.iter().any(|known| known == program) {
            self.manifest.unrecorded.push(program.to_owned());
        }
    }

    /// A change of a requested file's name, of which the first is kept.
    pub fn name_change(&mut self, change: String) {
        self.manifest.name_change.get_or_insert(change);
    }

    /// Something that readers ought to know, a sentence.
    pub fn note(&mut self, note: &str) {
        self.manifest.notes.push(note.to_owned());
    }

    /// A thread that events will name.
    pub fn thread(&mut self, thread: Thread) {
        self.manifest.threads.push(thread);
    }

    /// The next event.
    ///
    /// # Errors
    /// Where its number is not greater than the last one's, it names a file that is not known, or
    /// stores more than [`LARGEST`] bytes; and where an earlier part could not be written.
    pub fn push(&mut self, event: &Event) -> Result<(), RecordingError> {
        if self.sequence.is_some_and(|last| last >= event.sequence) {
            return Err(RecordingError::Refused(format!(
                "event {} comes after event {}",
                event.sequence,
                self.sequence.unwrap_or_default()
            )));
        }
        if let Some(at) = event.action.at() {
            self.known(at.file)?;
        }
        let bytes = match &event.action {
            Action::Output { bytes } => Some(&bytes[..]),
            action => action.stores().map(|(_, bytes)| bytes),
        };
        if bytes.is_some_and(|bytes| bytes.len() > LARGEST) {
            return Err(RecordingError::Refused(format!(
                "event {} stores more than {LARGEST} bytes: split it",
                event.sequence
            )));
        }
        self.sequence = Some(event.sequence);
        rows::push_event(&mut self.events, event);
        if self.count == 0 {
            self.part_began = Instant::now();
        }
        self.count += 1;
        let old = self.count.is_multiple_of(GLANCE) && self.part_began.elapsed() >= PART_AGE;
        if self.count >= PART_ROWS || old {
            return self.close_part();
        }
        if self.events.len() >= GROUP_ROWS || self.events.bytes() >= GROUP_BYTES {
            self.send_events()?;
        }
        Ok(())
    }

    /// Closes the part if it is old. Call this every now and then: by itself, a part is closed when
    /// it is large, and where many events come.
    ///
    /// # Errors
    /// As those of [`Writer::close_part`].
    pub fn close_old_part(&mut self) -> Result<(), RecordingError> {
        if self.count > 0 && self.part_began.elapsed() >= PART_AGE {
            self.close_part()
        } else {
            Ok(())
        }
    }

    /// Closes the part, so that what it has can be read whatever happens.
    ///
    /// # Errors
    /// Where an earlier part could not be written. Whether this one can be turns out later.
    pub fn close_part(&mut self) -> Result<(), RecordingError> {
        if self.count == 0 {
            return Ok(());
        }
        self.manifest.recorded_ns = nanoseconds(self.began.elapsed());
        self.send_rest()
    }

    /// Ends the recording. Sites and callers get functions, source files and lines, so that the
    /// trace can be read where the program is not; separate debug files are looked for below `/`.
    ///
    /// # Errors
    /// Where anything of it could not be written.
    pub fn finish(mut self, ended: Ended) -> Result<(), RecordingError> {
        // What takes long comes behind what would be lost.
        self.manifest.recorded_ns = nanoseconds(self.began.elapsed());
        let sent = self.send_rest();
        self.manifest.ended = Some(ended);
        let sent = sent.and_then(|()| {
            self.locate();
            self.send_rest()
        });
        let written = self.parts.finish();
        sent.and(written)
    }

    fn send_events(&mut self) -> Result<(), RecordingError> {
        let full = std::mem::replace(&mut self.events, Rows::new(&EVENTS));
        self.parts.send(Message::Events(full))
    }

    fn locate(&mut self) {
        for known in &self.locations {
            if let Some(addresses) = self.addresses.get_mut(&known.module) {
                addresses.remove(&known.address);
            }
        }
        for module in &self.manifest.modules {
            let addresses = &self.addresses[&module.path];
            self.locations.extend(locate(Path::new("/"), module, addresses));
        }
    }

    fn send_rest(&mut self) -> Result<(), RecordingError> {
        self.send_events()?;
        let images = std::mem::replace(&mut self.images, Rows::new(&IMAGES));
        self.parts.send(Message::Images(images))?;
        let sites = std::mem::replace(&mut self.sites, Rows::new(&SITES));
        let callers = std::mem::replace(&mut self.callers, Rows::new(&CALLERS));
        let mut locations = Rows::new(&LOCATIONS);
        // At the end alone, when all are known.
        if self.manifest.ended.is_some() {
            self.locations
                .iter()
                .for_each(|location| rows::push_location(&mut locations, location));
        }
        self.count = 0;
        let manifest = Box::new(self.manifest.clone());
        self.parts.send(Message::Close { sites, callers, locations, manifest })
    }

    fn known(&mut self, file: u32) -> Result<(), RecordingError> {
        if self.file == Some(file) {
            return Ok(());
        }
        if self.manifest.files.iter().all(|known| known.id != file) {
            return Err(RecordingError::Refused(format!("file {file} is not known")));
        }
        self.file = Some(file);
        Ok(())
    }

    fn address(&mut self, module: &str, address: u64) {
        if let Some(known) = self.addresses.get_mut(module) {
            known.insert(address);
            return;
        }
        self.addresses.insert(module.into(), BTreeSet::from([address]));
        let build_id = build_id(Path::new(module));
        self.manifest.modules.push(Module { path: module.into(), build_id });
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
