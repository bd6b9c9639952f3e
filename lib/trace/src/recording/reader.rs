//! Reading a recording.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::{RecordingError, damaged, io};
use super::manifest::Manifest;
use super::table::{self, Batch, Part, Refusal, Table};
use super::tables::{CALLERS, EVENTS, IMAGES, LOCATIONS, SITES};
use super::{MANIFEST, rows};
use crate::events::{Callers, Event, Frame, Location, Place, Site};
use crate::symbols::locate;

// Rows that are read at once: few enough to stay in a core's own cache.
const BATCH: usize = 1 << 12;

/// A recording. Sites and callers are held in memory, events are not.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    manifest: Manifest,
    sites: HashMap<u32, Site>,
    callers: HashMap<u32, Callers>,
    locations: OnceLock<Locations>,
}

// By module, then by address.
type Locations = HashMap<String, HashMap<u64, Location>>;

impl Reader {
    /// Opens the recording in a folder.
    ///
    /// # Errors
    /// Where the folder holds none, it was written by a later version, or it is damaged.
    pub fn open(folder: &Path) -> Result<Self, RecordingError> {
        let manifest = Manifest::read(folder)?;
        let (sites, callers) = (HashMap::new(), HashMap::new());
        let mut reader =
            Self { folder: folder.into(), manifest, sites, callers, locations: OnceLock::new() };
        reader.read_sites()?;
        reader.read_callers()?;
        if !reader.manifest.locations.is_empty() {
            reader.locations = reader.read_locations()?.into();
        }
        Ok(reader)
    }

    /// Whether a folder claims to hold a recording.
    pub fn is_one(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Events that it has.
    pub fn len(&self) -> u64 {
        self.manifest.events.iter().map(|part| part.rows).sum()
    }

    /// Whether it has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An instruction.
    pub fn site(&self, id: u32) -> Option<&Site> {
        self.sites.get(&id)
    }

    /// All instructions, in any order.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.values()
    }

    /// Frames below an instruction's.
    pub fn callers(&self, id: u32) -> Option<&Callers> {
        self.callers.get(&id)
    }

    /// The location of an instruction, or of a call ([`Frame::call`](crate::events::Frame::call)).
    /// If the recorder was killed before it found that out, it is read from this machine's
    /// programs, if they are the same builds.
    pub fn location(&self, module: &str, address: u64) -> Location {
        let known = self.locations.get_or_init(|| self.locate());
        let location = known.get(module).and_then(|of| of.get(&address));
        location.cloned().unwrap_or_else(|| Location::bare(module, address))
    }

    /// All events, in order. Behind an error there is nothing more.
    pub fn events(&self) -> impl Iterator<Item = Result<Event, RecordingError>> + '_ {
        self.some_events(&[])
    }

    /// All events, in order, with no bytes in them, which are as many as `size` in the table: this
    /// takes half the time.
    fn some_events(
        &self,
        skipped: &'static [&'static str],
    ) -> impl Iterator<Item = Result<Event, RecordingError>> + '_ {
        let mut last = None;
        let events = self.rows(&EVENTS, &self.manifest.events, skipped, move |batch| {
            rows::events(batch, !skipped.is_empty())
        });
        events.map(move |event| {
            let (event, part) = event?;
            if last.is_some_and(|last| last >= event.sequence) {
                let problem = format!("event {} is not in order", event.sequence);
                return Err(damaged(&self.folder.join(&part.name), problem));
            }
            last = Some(event.sequence);
            Ok(event)
        })
    }

    /// The contents of files when their recording began: positions and bytes of pages that are not
    /// all zeros.
    pub fn images(&self) -> impl Iterator<Item = Result<(Place, Vec<u8>), RecordingError>> + '_ {
        self.rows(&IMAGES, &self.manifest.images, &[], rows::pages).map(|page| Ok(page?.0))
    }

    // The rows of all parts of a table, each with its part.
    fn rows<'r, T, I>(
        &'r self,
        table: &'static Table,
        parts: &'r [Part],
        skipped: &'static [&'static str],
        of: impl Fn(Batch) -> I + 'r,
    ) -> impl Iterator<Item = Result<(T, &'r Part), RecordingError>> + 'r
    where
        T: 'r,
        I: Iterator<Item = Result<T, String>> + 'r,
    {
        let mut parts = parts.iter();
        let mut open: Option<(table::Reader, &Part)> = None;
        let mut batch: Option<I> = None;
        let mut next = move || -> Result<Option<(T, &'r Part)>, RecordingError> {
            loop {
                let Some((reader, part)) = &mut open else {
                    let Some(part) = parts.next() else { return Ok(None) };
                    let reader = table::Reader::open(&self.folder, part, table, skipped);
                    open = Some((reader.map_err(|refusal| self.refused(part, refusal))?, part));
                    continue;
                };
                if let Some(row) = batch.as_mut().and_then(Iterator::next) {
                    let damaged = |problem| damaged(&self.folder.join(&part.name), problem);
                    return row.map(|row| Some((row, *part))).map_err(damaged);
                }
                match reader.batch(BATCH).map_err(|refusal| self.refused(part, refusal))? {
                    Some(rows) => batch = Some(of(rows)),
                    None => (open, batch) = (None, None),
                }
            }
        };
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let row = next();
            failed = row.is_err();
            row.transpose()
        })
    }

    fn refused(&self, part: &Part, refusal: Refusal) -> RecordingError {
        let path = self.folder.join(&part.name);
        match refusal {
            Refusal::Io(error) => io("read", &path)(error),
            Refusal::Damaged(problem) => damaged(&path, problem),
        }
    }

    fn read_sites(&mut self) -> Result<(), RecordingError> {
        let mut sites = HashMap::new();
        for site in self.rows(&SITES, &self.manifest.sites, &[], |batch| flat(rows::sites(batch))) {
            let (site, part) = site?;
            if let Some(twice) = sites.insert(site.id, site) {
                let problem = format!("site {} appears twice", twice.id);
                return Err(damaged(&self.folder.join(&part.name), problem));
            }
        }
        self.sites = sites;
        Ok(())
    }

    fn read_locations(&self) -> Result<Locations, RecordingError> {
        let of = |batch| flat(rows::locations(batch));
        let all = self.rows(&LOCATIONS, &self.manifest.locations, &[], of);
        all.map(|location| Ok(location?.0)).collect::<Result<Vec<_>, _>>().map(by_module)
    }

    fn locate(&self) -> Locations {
        let mut addresses: HashMap<&str, BTreeSet<u64>> = HashMap::new();
        let frames = self.callers.values().flat_map(|callers| &callers.frames);
        let calls = frames.map(|frame| (&*frame.module, frame.call()));
        let sites = self.sites.values().map(|site| (&*site.module, site.address));
        for (module, address) in sites.chain(calls) {
            addresses.entry(module).or_default().insert(address);
        }
        let modules = self.manifest.modules.iter();
        let known = modules.filter_map(|module| Some((module, addresses.get(&*module.path)?)));
        by_module(
            known
                .flat_map(|(module, addresses)| locate(Path::new("/"), module, addresses))
                .collect(),
        )
    }

    fn read_callers(&mut self) -> Result<(), RecordingError> {
        let mut callers: HashMap<u32, Callers> = HashMap::new();
        for row in
            self.rows(&CALLERS, &self.manifest.callers, &[], |batch| flat(rows::frames(batch)))
        {
            let ((id, depth, frame), part) = row?;
            let frames: &mut Vec<Frame> =
                &mut callers.entry(id).or_insert_with(|| Callers { id, frames: Vec::new() }).frames;
            if depth as usize != frames.len() {
                let problem = format!("the frames of callers {id} are not in order");
                return Err(damaged(&self.folder.join(&part.name), problem));
            }
            frames.push(frame);
        }
        self.callers = callers;
        Ok(())
    }
}

fn by_module(all: Vec<Location>) -> Locations {
    let mut locations = Locations::new();
    for location in all {
        locations.entry(location.module.clone()).or_default().insert(location.address, location);
    }
    locations
}

// The rows, or the one thing that is wrong with them.
fn flat<T>(rows: Result<Vec<T>, String>) -> impl Iterator<Item = Result<T, String>> {
    let (rows, problem) = match rows {
        Ok(rows) => (rows, None),
        Err(problem) => (Vec::new(), Some(Err(problem))),
    };
    rows.into_iter().map(Ok).chain(problem)
}
