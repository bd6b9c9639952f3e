//! `latencies.parquet`: the histograms of the samples that have one, a row for each bucket that
//! holds anything.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `sample` | u64 | the row of the window in `samples.parquet`, from 0 |
//! | `trial`, `case` | u32 | the same as there, so that no join is needed to add up a case |
//! | `role` | text | the same |
//! | `floor_ns` | u64 | the least latency of the bucket, ns: it reaches up to the next boundary |
//! | `count` | u64 | how many latencies |
//! | `parts` | u32 | how many boundaries there are in every power of two: 64 |
//!
//! The rows of one window lie together, ascending. What was measured before version 8 has 8
//! boundaries in every power of two, and no such column.

use std::fs::File;
use std::path::Path;

use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use ringfence_experiment::histogram::{Grid, Histogram};
use ringfence_experiment::sample::Sample;

use super::read::{format_of, open_checked, text};
use ringfence_system::checksum::Hashing;

use super::write::{described, failed, properties};
use crate::{DatasetError, SamplesFile, files};

const MESSAGE: &str = "message latencies {
    REQUIRED INT64 sample (INTEGER(64,false));
    REQUIRED INT32 trial (INTEGER(32,false));
    REQUIRED INT32 case (INTEGER(32,false));
    REQUIRED BYTE_ARRAY role (UTF8);
    REQUIRED INT64 floor_ns (INTEGER(64,false));
    REQUIRED INT64 count (INTEGER(64,false));
    REQUIRED INT32 parts (INTEGER(32,false));
}";
// Those that are read again, and their places; the others say again what the samples say.
const READ: [(&str, usize); 3] = [("sample", 0), ("floor_ns", 4), ("count", 5)];
const PARTS: (&str, usize) = ("parts", 6);

/// What was counted in one window.
pub struct Counted {
    sample: u64,
    trial: u32,
    case: u32,
    role: std::sync::Arc<str>,
    latencies: Histogram,
}

impl Counted {
    /// That of the sample in a row of the table, if it counted any.
    pub fn of(row: u64, sample: &Sample) -> Option<Self> {
        let latencies = sample.latencies.clone()?;
        Some(Self {
            sample: row,
            trial: sample.trial,
            case: sample.case,
            role: sample.role.clone(),
            latencies,
        })
    }
}

/// Writes the file in place of an older one.
pub fn write(path: &Path, all: &[Counted]) -> std::result::Result<SamplesFile, DatasetError> {
    files::replace(path, |file| table(file, all).map_err(|error| failed(path, error)))
}

fn table(file: File, all: &[Counted]) -> Result<(File, SamplesFile)> {
    let plain = ["sample", "floor_ns", "count"].map(|name| (name, Encoding::DELTA_BINARY_PACKED));
    let mut writer = SerializedFileWriter::new(
        Hashing::new(file),
        std::sync::Arc::new(parquet::schema::parser::parse_message_type(MESSAGE)?),
        std::sync::Arc::new(properties(plain, Compression::SNAPPY)),
    )?;
    let rows = || {
        all.iter().flat_map(|one| one.latencies.buckets().iter().map(move |bucket| (one, bucket)))
    };
    let count = rows().count() as u64;
    let mut group = writer.next_row_group()?;
    column::<Int64Type>(&mut group, rows().map(|(one, _)| one.sample as i64).collect())?;
    column::<Int32Type>(&mut group, rows().map(|(one, _)| one.trial as i32).collect())?;
    column::<Int32Type>(&mut group, rows().map(|(one, _)| one.case as i32).collect())?;
    column::<ByteArrayType>(
        &mut group,
        rows().map(|(one, _)| ByteArray::from(&*one.role)).collect(),
    )?;
    column::<Int64Type>(&mut group, rows().map(|(_, bucket)| bucket.0 as i64).collect())?;
    column::<Int64Type>(&mut group, rows().map(|(_, bucket)| bucket.1 as i64).collect())?;
    let parts = |one: &Counted| one.latencies.grid().parts() as i32;
    column::<Int32Type>(&mut group, rows().map(|(one, _)| parts(one)).collect())?;
    group.close()?;
    let (file, checksum) = writer.into_inner()?.finish();
    Ok((file, described(checksum, count)))
}

pub(super) fn column<T: DataType>(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, Hashing>,
    values: Vec<T::T>,
) -> Result<()> {
    let mut writer = group.next_column()?.expect("the schema has a column for each");
    writer.typed::<T>().write_batch(&values, None, None)?;
    writer.close()
}

/// A column of u64 that may be null.
pub(super) fn optional(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, Hashing>,
    values: Vec<Option<u64>>,
) -> Result<()> {
    let mut writer = group.next_column()?.expect("the schema has a column for each");
    let present: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<i64> = values.into_iter().flatten().map(|value| value as i64).collect();
    writer.typed::<Int64Type>().write_batch(&there, Some(&present), None)?;
    writer.close()
}

/// Reads the file, which must be the one that the manifest describes, into its samples.
pub fn read(
    path: &Path,
    expected: &SamplesFile,
    samples: &mut [Sample],
) -> std::result::Result<(), DatasetError> {
    open_checked(path, expected, "latencies", |file| fill(file, expected.count, samples))
}

fn fill(file: File, count: u64, samples: &mut [Sample]) -> std::result::Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(text)?;
    format_of(&reader, count)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let has = |(name, index): (&str, usize), kind| {
        index < schema.num_columns() && {
            let column = schema.column(index);
            column.name() == name && column.physical_type() == kind && column.max_def_level() == 0
        }
    };
    if let Some((name, _)) = READ.into_iter().find(|column| !has(*column, Physical::INT64)) {
        return Err(format!("column {name} is missing or of another type"));
    }
    // The file tells by itself which it is.
    let of_eighths = schema.num_columns() <= PARTS.1;
    if !of_eighths && !has(PARTS, Physical::INT32) {
        return Err(format!("column {} is of another type", PARTS.0));
    }
    let mut rows: Vec<(u64, (u64, u64), Grid)> = Vec::new();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(text)?;
        let declared =
            u64::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
        if declared > count - rows.len() as u64 {
            return Err("its row groups have more rows than the file".into());
        }
        let [sample, floor, count] = [0, 1, 2].map(|column| numbers(&*group, READ[column].1));
        let buckets = floor?.into_iter().zip(count?);
        let sample = sample?;
        let grids = match of_eighths {
            true => vec![Grid::EIGHTHS; sample.len()],
            false => grids(&*group)?,
        };
        rows.extend(
            sample
                .into_iter()
                .zip(buckets)
                .zip(grids)
                .map(|((row, bucket), grid)| (row, bucket, grid)),
        );
    }
    if rows.len() as u64 != count {
        return Err("its row groups have fewer rows than the file".into());
    }
    for window in rows.chunk_by(|a, b| a.0 == b.0) {
        let (row, _, grid) = window[0];
        if window.iter().any(|(.., other)| *other != grid) {
            return Err(format!("the buckets of sample {row} are not of one kind"));
        }
        let sample = usize::try_from(row).ok().and_then(|row| samples.get_mut(row));
        let sample = sample.filter(|sample| sample.latencies.is_none());
        let sample =
            sample.ok_or_else(|| format!("there is no sample {row}, or it comes twice"))?;
        sample.latencies =
            Some(Histogram::new(grid, window.iter().map(|(_, bucket, _)| *bucket).collect()));
    }
    Ok(())
}

fn grids(group: &dyn RowGroupReader) -> std::result::Result<Vec<Grid>, String> {
    let grid = |parts: i32| {
        let grid = u32::try_from(parts).ok().and_then(Grid::of_parts);
        grid.ok_or_else(|| {
            format!("it says that latencies are counted in {parts} parts of a power of two")
        })
    };
    required::<Int32Type>(group, PARTS.1)?.into_iter().map(grid).collect()
}

pub(super) fn numbers(
    group: &dyn RowGroupReader,
    column: usize,
) -> std::result::Result<Vec<u64>, String> {
    Ok(required::<Int64Type>(group, column)?.into_iter().map(|value| value as u64).collect())
}

fn required<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
) -> std::result::Result<Vec<T::T>, String> {
    let rows = usize::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column).map_err(text)?);
    let mut values = Vec::new();
    let read = reader.read_records(rows, None, None, &mut values).map_err(text)?;
    if read.0 != rows || values.len() != rows {
        return Err("a column ends too early".into());
    }
    Ok(values)
}

/// The same where values may be null.
pub(super) fn maybe(
    group: &dyn RowGroupReader,
    column: usize,
) -> std::result::Result<Vec<Option<u64>>, String> {
    let rows = usize::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
    let mut reader =
        get_typed_column_reader::<Int64Type>(group.get_column_reader(column).map_err(text)?);
    let (mut values, mut present) = (Vec::new(), Vec::new());
    let read = reader.read_records(rows, Some(&mut present), None, &mut values).map_err(text)?;
    let there = present.iter().filter(|level| **level == 1).count();
    if read.0 != rows || present.len() != rows || values.len() != there {
        return Err("a column ends too early".into());
    }
    let mut values = values.into_iter();
    Ok(present
        .iter()
        .map(|level| if *level == 1 { values.next().map(|value| value as u64) } else { None })
        .collect())
}
