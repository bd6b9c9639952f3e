//! What is recorded as rows of the tables, and back.

use parquet::data_type::ByteArray;
use ringfence_persist::Flush;

use super::table::{Batch, Rows};
use crate::events::{Action, Callers, Event, Frame, Location, Place, Site};

// What a row says of an action.
struct Row<B> {
    name: &'static str,
    file: Option<u32>,
    offset: Option<u64>,
    size: Option<u64>,
    address: Option<u64>,
    bytes: Option<B>,
    began: Option<u64>,
}

impl<'a> Row<&'a [u8]> {
    fn of(action: &'a Action) -> Self {
        let plain = |name| {
            let (offset, size, address, began) = (None, None, None, None);
            Row { name, file: None, offset, size, address, bytes: None, began }
        };
        let placed =
            |name, at: &Place| Row { file: Some(at.file), offset: Some(at.offset), ..plain(name) };
        let stored = |name, at, bytes: &'a [u8]| {
            let size = Some(bytes.len() as u64);
            Row { size, bytes: Some(bytes), ..placed(name, at) }
        };
        match action {
            Action::Store { at, bytes } => stored("store", at, bytes),
            Action::NonTemporal { at, bytes } => stored("nt store", at, bytes),
            Action::Load { at, size } => Row { size: Some((*size).into()), ..placed("load", at) },
            Action::Flush { flush, at } => placed(flush.name(), at),
            Action::Sfence => plain("sfence"),
            Action::Mfence => plain("mfence"),
            Action::Locked { stores: None } => plain("locked"),
            Action::Locked { stores: Some((at, bytes)) } => stored("locked", at, bytes),
            Action::Msync { at, size, began } => {
                Row { size: Some(*size), began: *began, ..placed("msync", at) }
            }
            Action::SyncRange { at, size } => {
                Row { size: Some(*size), ..placed("sync_file_range", at) }
            }
            Action::Map { at, address, size } => {
                Row { size: Some(*size), address: Some(*address), ..placed("map", at) }
            }
            Action::Unmap { at, address, size } => {
                Row { size: Some(*size), address: Some(*address), ..placed("unmap", at) }
            }
            Action::Write { at, bytes } => stored("write", at, bytes),
            Action::Truncate { file, size } => {
                Row { file: Some(*file), size: Some(*size), ..plain("truncate") }
            }
            Action::Output { bytes } => {
                Row { size: Some(bytes.len() as u64), bytes: Some(bytes), ..plain("output") }
            }
        }
    }
}

// The action that a row says, or what is wrong with it. Bytes that were not read are empty.
fn action(name: &[u8], row: Row<ByteArray>, skipped: bool) -> Result<Action, String> {
    let missing = |what: &str| format!("'{}' has no {what}", String::from_utf8_lossy(name));
    let file = || row.file.ok_or_else(|| missing("file"));
    let at = || {
        Ok::<_, String>(Place {
            file: file()?,
            offset: row.offset.ok_or_else(|| missing("offset"))?,
        })
    };
    let size = || row.size.ok_or_else(|| missing("size"));
    let address = || row.address.ok_or_else(|| missing("address"));
    let bytes = || match &row.bytes {
        Some(bytes) if row.size == Some(bytes.len() as u64) => Ok(bytes.data().to_vec()),
        Some(_) => Err("it stores more or fewer bytes than its size".into()),
        None if skipped => Ok(Vec::new()),
        None => Err(missing("bytes")),
    };
    Ok(match name {
        b"store" => Action::Store { at: at()?, bytes: bytes()? },
        b"nt store" => Action::NonTemporal { at: at()?, bytes: bytes()? },
        b"load" => {
            let size =
                u32::try_from(size()?).map_err(|_| "a load is larger than any".to_string())?;
            Action::Load { at: at()?, size }
        }
        b"sfence" => Action::Sfence,
        b"mfence" => Action::Mfence,
        b"locked" if row.file.is_none() => Action::Locked { stores: None },
        b"locked" => Action::Locked { stores: Some((at()?, bytes()?)) },
        b"msync" => Action::Msync { at: at()?, size: size()?, began: row.began },
        b"sync_file_range" => Action::SyncRange { at: at()?, size: size()? },
        b"map" => Action::Map { at: at()?, address: address()?, size: size()? },
        b"unmap" => Action::Unmap { at: at()?, address: address()?, size: size()? },
        b"write" => Action::Write { at: at()?, bytes: bytes()? },
        b"truncate" => Action::Truncate { file: file()?, size: size()? },
        b"output" => Action::Output { bytes: bytes()? },
        other => match Flush::ALL.into_iter().find(|flush| flush.name().as_bytes() == other) {
            Some(flush) => Action::Flush { flush, at: at()? },
            None => return Err(format!("'{}' is no action", String::from_utf8_lossy(other))),
        },
    })
}

/// Adds an event.
pub fn push_event(rows: &mut Rows, event: &Event) {
    let row = Row::of(&event.action);
    rows.u64(0, event.sequence);
    rows.u32(1, event.thread);
    rows.u32(2, event.site);
    rows.u32(3, event.callers);
    rows.blob(4, row.name.as_bytes());
    rows.u32(5, row.file);
    rows.u64(6, row.offset);
    rows.u64(7, row.size);
    rows.u64(8, row.address);
    rows.blob(9, row.bytes);
    rows.u64(10, row.began);
}

/// Adds a part of what a file held.
pub fn push_page(rows: &mut Rows, at: Place, bytes: &[u8]) {
    rows.u32(0, at.file);
    rows.u64(1, at.offset);
    rows.blob(2, bytes);
}

/// Adds an instruction.
pub fn push_site(rows: &mut Rows, site: &Site) {
    rows.u32(0, site.id);
    rows.blob(1, site.module.as_bytes());
    rows.u64(2, site.address);
    rows.blob(3, &site.bytes[..]);
}

/// Adds frames. Callers without any are not written: a lookup finds none for them.
pub fn push_callers(rows: &mut Rows, callers: &Callers) {
    for (depth, frame) in (0..).zip(&callers.frames) {
        rows.u32(0, callers.id);
        rows.u32(1, depth);
        rows.blob(2, frame.module.as_bytes());
        rows.u64(3, frame.address);
    }
}

/// Adds what is known of a place.
pub fn push_location(rows: &mut Rows, location: &Location) {
    rows.blob(0, location.module.as_bytes());
    rows.u64(1, location.address);
    rows.blob(2, location.function.as_deref().map(str::as_bytes));
    rows.u64(3, location.offset);
    rows.blob(4, location.inlined.as_deref().map(str::as_bytes));
    rows.blob(5, location.file.as_deref().map(str::as_bytes));
    rows.u32(6, location.line);
}

/// The events of a batch.
pub fn events(mut batch: Batch, skipped: bool) -> impl Iterator<Item = Result<Event, String>> {
    let rows = batch.rows;
    let (mut sequence, mut thread) = (batch.u64s(0), batch.u32s(1));
    let (mut site, mut callers, mut name) = (batch.u32s(2), batch.u32s(3), batch.bytes(4));
    let (mut file, mut offset, mut size) = (batch.u32s(5), batch.u64s(6), batch.u64s(7));
    let (mut address, mut bytes, mut began) = (batch.u64s(8), batch.bytes(9), batch.u64s(10));
    (0..rows).map(move |_| {
        let (file, offset, size) =
            (file.next().flatten(), offset.next().flatten(), size.next().flatten());
        let (address, bytes) = (address.next().flatten(), bytes.next().flatten());
        let began = began.next().flatten();
        let name = required(name.next())?;
        Ok(Event {
            sequence: required(sequence.next())?,
            thread: required(thread.next())?,
            site: required(site.next())?,
            callers: required(callers.next())?,
            action: action(
                name.data(),
                Row { name: "", file, offset, size, address, bytes, began },
                skipped,
            )?,
        })
    })
}

/// The pages of a batch.
pub fn pages(mut batch: Batch) -> impl Iterator<Item = Result<(Place, Vec<u8>), String>> {
    let rows = batch.rows;
    let (mut file, mut offset, mut bytes) = (batch.u32s(0), batch.u64s(1), batch.bytes(2));
    (0..rows).map(move |_| {
        let at = Place { file: required(file.next())?, offset: required(offset.next())? };
        Ok((at, required(bytes.next())?.data().to_vec()))
    })
}

/// The instructions of a batch.
pub fn sites(mut batch: Batch) -> Result<Vec<Site>, String> {
    let (mut id, mut module) = (batch.u32s(0), batch.bytes(1));
    let (mut address, mut bytes) = (batch.u64s(2), batch.bytes(3));
    let site = |_| {
        Ok(Site {
            id: required(id.next())?,
            module: text(&required(module.next())?)?,
            address: required(address.next())?,
            bytes: required(bytes.next())?.data().to_vec(),
        })
    };
    (0..batch.rows).map(site).collect()
}

/// The frames of a batch, each with the number of its callers and its depth.
pub fn frames(mut batch: Batch) -> Result<Vec<(u32, u32, Frame)>, String> {
    let (mut id, mut depth) = (batch.u32s(0), batch.u32s(1));
    let (mut module, mut address) = (batch.bytes(2), batch.u64s(3));
    let frame = |_| {
        let (id, depth) = (required(id.next())?, required(depth.next())?);
        let module = text(&required(module.next())?)?;
        Ok((id, depth, Frame { module, address: required(address.next())? }))
    };
    (0..batch.rows).map(frame).collect()
}

/// What a batch knows of places.
pub fn locations(mut batch: Batch) -> Result<Vec<Location>, String> {
    let (mut module, mut address, mut function) = (batch.bytes(0), batch.u64s(1), batch.bytes(2));
    let (mut offset, mut inlined) = (batch.u64s(3), batch.bytes(4));
    let (mut file, mut line) = (batch.bytes(5), batch.u32s(6));
    let location = |_| {
        let maybe =
            |value: Option<Option<ByteArray>>| value.flatten().as_ref().map(text).transpose();
        Ok(Location {
            module: text(&required(module.next())?)?,
            address: required(address.next())?,
            function: maybe(function.next())?,
            offset: required(offset.next())?,
            inlined: maybe(inlined.next())?,
            file: maybe(file.next())?,
            line: line.next().flatten(),
        })
    };
    (0..batch.rows).map(location).collect()
}

fn required<T>(value: Option<Option<T>>) -> Result<T, String> {
    value.flatten().ok_or_else(|| "it has too few values".into())
}

fn text(bytes: &ByteArray) -> Result<String, String> {
    bytes.as_utf8().map(str::to_owned).map_err(|error| error.to_string())
}
