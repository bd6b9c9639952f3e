//! The thread that encodes, and writes to files.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::recording::error::{RecordingError, io};
use crate::recording::manifest::Manifest;
use crate::recording::table::{self, Part, Rows, Table};
use crate::recording::tables::{CALLERS, EVENTS, IMAGES, LOCATIONS, SITES};

// Messages that may wait: a recorder that is faster than this encodes waits, too, rather than
// filling the memory.
const WAITING: usize = 4;

pub enum Message {
    Events(Rows),
    Images(Rows),
    /// The part ends with these, and the manifest says so; of its lists of files it has none yet.
    Close {
        sites: Rows,
        callers: Rows,
        locations: Rows,
        manifest: Box<Manifest>,
    },
}

/// The thread, from the outside.
pub struct Parts {
    // `None` once it has been told to end.
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<(), RecordingError>>>,
}

impl Parts {
    pub fn start(folder: &Path) -> Self {
        let (messages, received) = sync_channel(WAITING);
        let mut files = Files::new(folder.into());
        let thread = std::thread::spawn(move || files.write(&received));
        Self { messages: Some(messages), thread: Some(thread) }
    }

    /// Hands something over; an error is that of something before.
    pub fn send(&mut self, message: Message) -> Result<(), RecordingError> {
        let taken = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if taken { Ok(()) } else { self.finish() }
    }

    /// Waits until all is written.
    pub fn finish(&mut self) -> Result<(), RecordingError> {
        self.messages = None;
        match self.thread.take() {
            // A thread that panicked has found a bug of ours: so does this one, then.
            Some(thread) => thread.join().expect("writing does not panic"),
            None => Err(RecordingError::Refused("an earlier part could not be written".into())),
        }
    }
}

// Also when a recording is given up.
impl Drop for Parts {
    fn drop(&mut self) {
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            // Nothing waits for its result.
            let _ = thread.join();
        }
    }
}

struct Files {
    folder: PathBuf,
    events: Open,
    images: Open,
    sites: Open,
    callers: Open,
    locations: Open,
}

// A table, the part of it that is being written, and those that were.
struct Open {
    table: &'static Table,
    part: Option<table::Writer>,
    done: Vec<Part>,
}

impl Open {
    fn new(table: &'static Table) -> Self {
        Self { table, part: None, done: Vec::new() }
    }

    fn add(&mut self, folder: &Path, rows: Rows) -> Result<(), RecordingError> {
        if rows.len() == 0 {
            return Ok(());
        }
        let failed = || io("write a part of the trace in", folder);
        if self.part.is_none() {
            let part = table::Writer::create(folder, self.table, self.done.len() + 1);
            self.part = Some(part.map_err(failed())?);
        }
        self.part.as_mut().map_or(Ok(()), |part| part.add(rows)).map_err(failed())
    }

    fn close(&mut self, folder: &Path) -> Result<Vec<Part>, RecordingError> {
        if let Some(part) = self.part.take() {
            self.done.push(part.finish().map_err(io("write a part of the trace in", folder))?);
        }
        Ok(self.done.clone())
    }
}

impl Files {
    fn new(folder: PathBuf) -> Self {
        let tables = [&EVENTS, &IMAGES, &SITES, &CALLERS, &LOCATIONS];
        let [events, images, sites, callers, locations] = tables.map(Open::new);
        Self { folder, events, images, sites, callers, locations }
    }

    // Until nothing sends any more. An error ends it, which the sender notices.
    fn write(&mut self, messages: &Receiver<Message>) -> Result<(), RecordingError> {
        let folder = self.folder.clone();
        while let Ok(message) = messages.recv() {
            match message {
                Message::Events(rows) => self.events.add(&folder, rows)?,
                Message::Images(rows) => self.images.add(&folder, rows)?,
                Message::Close { sites, callers, locations, mut manifest } => {
                    self.sites.add(&folder, sites)?;
                    self.callers.add(&folder, callers)?;
                    self.locations.add(&folder, locations)?;
                    manifest.events = self.events.close(&folder)?;
                    manifest.images = self.images.close(&folder)?;
                    manifest.sites = self.sites.close(&folder)?;
                    manifest.callers = self.callers.close(&folder)?;
                    manifest.locations = self.locations.close(&folder)?;
                    manifest.write(&folder)?;
                }
            }
        }
        Ok(())
    }
}
