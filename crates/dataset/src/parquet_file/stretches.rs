//! `disk.parquet`: what the disk did in the windows of the samples that have such stretches, a row
//! each.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `sample` | u64 | the row of the window in `samples.parquet`, from 0 |
//! | `trial`, `case` | u32 | the same as there |
//! | others | u64 | the fields of [`Stretch`], of which the last five may be null |
//!
//! The rows of one window lie together, ascending.

use std::fs::File;
use std::path::Path;

use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::stretch::Stretch;
use ringfence_system::checksum::Hashing;

use super::latencies::{column, maybe, numbers, optional};
use super::read::{format_of, open_checked, text};
use super::write::{described, failed, properties};
use crate::{DatasetError, SamplesFile, files};

const MESSAGE: &str = "message disk {
    REQUIRED INT64 sample (INTEGER(64,false));
    REQUIRED INT32 trial (INTEGER(32,false));
    REQUIRED INT32 case (INTEGER(32,false));
    REQUIRED INT64 start_ns (INTEGER(64,false));
    REQUIRED INT64 length_ns (INTEGER(64,false));
    REQUIRED INT64 units (INTEGER(64,false));
    OPTIONAL INT64 longest_ns (INTEGER(64,false));
    OPTIONAL INT64 dirty_bytes (INTEGER(64,false));
    OPTIONAL INT64 writeback_bytes (INTEGER(64,false));
    OPTIONAL INT64 disk_busy_ns (INTEGER(64,false));
    OPTIONAL INT64 disk_writes (INTEGER(64,false));
}";
// Those that are read again, and their places.
const ALWAYS: [(&str, usize); 4] = [("sample", 0), ("start_ns", 3), ("length_ns", 4), ("units", 5)];
const MAYBE: [(&str, usize); 5] = [
    ("longest_ns", 6),
    ("dirty_bytes", 7),
    ("writeback_bytes", 8),
    ("disk_busy_ns", 9),
    ("disk_writes", 10),
];

/// The stretches of one window.
pub struct Watched {
    sample: u64,
    trial: u32,
    case: u32,
    stretches: std::sync::Arc<[Stretch]>,
}

impl Watched {
    /// Those of the sample in a row of the table, if it has any.
    pub fn of(row: u64, sample: &Sample) -> Option<Self> {
        let stretches = sample.stretches.clone().filter(|all| !all.is_empty())?;
        Some(Self { sample: row, trial: sample.trial, case: sample.case, stretches })
    }
}

/// Writes the file in place of an older one.
pub fn write(path: &Path, all: &[Watched]) -> std::result::Result<SamplesFile, DatasetError> {
    files::replace(path, |file| table(file, all).map_err(|error| failed(path, error)))
}

fn table(file: File, all: &[Watched]) -> Result<(File, SamplesFile)> {
    let plain = ALWAYS.iter().chain(&MAYBE).map(|(name, _)| (*name, Encoding::DELTA_BINARY_PACKED));
    let mut writer = SerializedFileWriter::new(
        Hashing::new(file),
        std::sync::Arc::new(parquet::schema::parser::parse_message_type(MESSAGE)?),
        std::sync::Arc::new(properties(plain, Compression::SNAPPY)),
    )?;
    let rows =
        || all.iter().flat_map(|one| one.stretches.iter().map(move |stretch| (one, stretch)));
    let count = rows().count() as u64;
    let mut group = writer.next_row_group()?;
    column::<Int64Type>(&mut group, rows().map(|(one, _)| one.sample as i64).collect())?;
    column::<Int32Type>(&mut group, rows().map(|(one, _)| one.trial as i32).collect())?;
    column::<Int32Type>(&mut group, rows().map(|(one, _)| one.case as i32).collect())?;
    for get in
        [|one: &Stretch| one.start_ns, |one: &Stretch| one.length_ns, |one: &Stretch| one.units]
    {
        column::<Int64Type>(&mut group, rows().map(|(_, stretch)| get(stretch) as i64).collect())?;
    }
    let fields: [fn(&Stretch) -> Option<u64>; 5] = [
        |one| one.longest_ns,
        |one| one.dirty_bytes,
        |one| one.writeback_bytes,
        |one| one.disk_busy_ns,
        |one| one.disk_writes,
    ];
    for get in fields {
        optional(&mut group, rows().map(|(_, stretch)| get(stretch)).collect())?;
    }
    group.close()?;
    let (file, checksum) = writer.into_inner()?.finish();
    Ok((file, described(checksum, count)))
}

/// Reads the file, which must be the one that the manifest describes, into its samples.
pub fn read(
    path: &Path,
    expected: &SamplesFile,
    samples: &mut [Sample],
) -> std::result::Result<(), DatasetError> {
    open_checked(path, expected, "what the disk did", |file| fill(file, expected.count, samples))
}

fn fill(file: File, count: u64, samples: &mut [Sample]) -> std::result::Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(text)?;
    format_of(&reader, count)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    for (levels, (name, index)) in
        ALWAYS.iter().map(|column| (0, column)).chain(MAYBE.iter().map(|column| (1, column)))
    {
        let fits = *index < schema.num_columns() && {
            let column = schema.column(*index);
            column.name() == *name
                && column.physical_type() == Physical::INT64
                && column.max_def_level() == levels
        };
        if !fits {
            return Err(format!("column {name} is missing or of another type"));
        }
    }
    let mut rows: Vec<(u64, Stretch)> = Vec::new();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(text)?;
        let declared =
            u64::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
        if declared > count - rows.len() as u64 {
            return Err("its row groups have more rows than the file".into());
        }
        let [sample, start, length, units] = ALWAYS.map(|(_, place)| numbers(&*group, place));
        let [longest, dirty, writeback, busy, writes] =
            MAYBE.map(|(_, place)| maybe(&*group, place));
        let (sample, start, length, units) = (sample?, start?, length?, units?);
        let (longest, dirty, writeback, busy, writes) =
            (longest?, dirty?, writeback?, busy?, writes?);
        rows.extend((0..sample.len()).map(|row| {
            let stretch = Stretch {
                start_ns: start[row],
                length_ns: length[row],
                units: units[row],
                longest_ns: longest[row],
                dirty_bytes: dirty[row],
                writeback_bytes: writeback[row],
                disk_busy_ns: busy[row],
                disk_writes: writes[row],
            };
            (sample[row], stretch)
        }));
    }
    if rows.len() as u64 != count {
        return Err("its row groups have fewer rows than the file".into());
    }
    for window in rows.chunk_by(|a, b| a.0 == b.0) {
        let row = window[0].0;
        let sample = usize::try_from(row).ok().and_then(|row| samples.get_mut(row));
        let sample = sample.filter(|sample| sample.stretches.is_none());
        let sample =
            sample.ok_or_else(|| format!("there is no sample {row}, or it comes twice"))?;
        sample.stretches = Some(window.iter().map(|(_, stretch)| *stretch).collect());
    }
    Ok(())
}
