//! Reading a part of a table, a batch of rows at a time.

use std::fs::File;
use std::io::{self, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use ringfence_system::checksum::{self, Checksum};

use super::{Column, Kind, Part, Table};

/// A part that is being read.
pub struct Reader {
    file: SerializedFileReader<File>,
    table: &'static Table,
    wanted: Vec<bool>,
    next_group: usize,
    group: Vec<Typed>,
    // Rows of the group that are still to be read.
    left: usize,
}

enum Typed {
    U32(ColumnReaderImpl<Int32Type>),
    U64(ColumnReaderImpl<Int64Type>),
    Bytes(ColumnReaderImpl<ByteArrayType>),
    // Not wanted, or not there.
    Skipped,
}

/// Some rows. Columns are taken from it by their place in the table.
#[derive(Debug)]
pub struct Batch {
    pub rows: usize,
    columns: Vec<Filled>,
}

#[derive(Debug)]
struct Filled {
    values: Found,
    present: Option<Vec<i16>>,
}

#[derive(Debug)]
enum Found {
    U32(Vec<i32>),
    U64(Vec<i64>),
    Bytes(Vec<ByteArray>),
    Nothing,
}

/// Why a part cannot be read.
#[derive(Debug)]
pub enum Refusal {
    /// The system refused.
    Io(io::Error),
    /// It is not what was written.
    Damaged(String),
}

impl Reader {
    /// Opens a file, which must be what the manifest says it is. Columns that are `skipped` are not
    /// read.
    pub fn open(
        folder: &Path,
        part: &Part,
        table: &'static Table,
        skipped: &[&str],
    ) -> Result<Self, Refusal> {
        let mut file = open(&folder.join(&part.name))?;
        let Checksum { bytes, xxh64 } = checksum::of(&mut file).map_err(Refusal::Io)?;
        if bytes != part.bytes || xxh64 != part.xxh64 {
            return Err(Refusal::Damaged(format!(
                "it has {bytes} bytes with checksum {xxh64}, but {} with {} were written",
                part.bytes, part.xxh64
            )));
        }
        file.rewind().map_err(Refusal::Io)?;
        // The library asserts some of what it reads; the checksum lets nothing get there but a
        // forgery.
        guarded(|| Self::begin(file, part, table, skipped)).map_err(Refusal::Damaged)
    }

    fn begin(
        file: File,
        part: &Part,
        table: &'static Table,
        skipped: &[&str],
    ) -> Result<Self, String> {
        let file = SerializedFileReader::new(file).map_err(text)?;
        let metadata = file.metadata();
        let schema = metadata.file_metadata().schema_descr();
        // Earlier versions lack some of the last columns.
        let there = schema.num_columns();
        if there > table.columns.len()
            || table.columns.iter().skip(there).any(|column| !column.optional)
        {
            return Err(format!("it has {there} columns"));
        }
        for (number, column) in table.columns.iter().enumerate().take(there) {
            let found = schema.column(number);
            let fits = found.name() == column.name
                && found.physical_type() == physical(column.kind)
                && found.max_def_level() == i16::from(column.optional)
                && found.max_rep_level() == 0;
            if !fits {
                return Err(format!("column {} is missing or of another type", column.name));
            }
        }
        let groups = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()));
        let rows = groups.sum::<Result<u64, _>>().map_err(|error| error.to_string())?;
        if rows != part.rows {
            return Err(format!("it has {rows} rows, not {}", part.rows));
        }
        let is_wanted =
            |(number, column): (usize, &Column)| number < there && !skipped.contains(&column.name);
        let wanted = table.columns.iter().enumerate().map(is_wanted).collect();
        Ok(Self { file, table, wanted, next_group: 0, group: Vec::new(), left: 0 })
    }

    /// The next rows, at most so many; `None` at the end.
    pub fn batch(&mut self, most: usize) -> Result<Option<Batch>, Refusal> {
        guarded(|| self.next(most)).map_err(Refusal::Damaged)
    }

    fn next(&mut self, most: usize) -> Result<Option<Batch>, String> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
            }
            self.begin_group()?;
        }
        let rows = most.min(self.left);
        let mut columns = Vec::new();
        for (reader, column) in self.group.iter_mut().zip(self.table.columns) {
            let filled = match reader {
                Typed::U32(reader) => read(reader, rows, column, Found::U32),
                Typed::U64(reader) => read(reader, rows, column, Found::U64),
                Typed::Bytes(reader) => read(reader, rows, column, Found::Bytes),
                Typed::Skipped => Ok(Filled { values: Found::Nothing, present: None }),
            };
            columns.push(filled.map_err(|problem| format!("column {}: {problem}", column.name))?);
        }
        self.left -= rows;
        Ok(Some(Batch { rows, columns }))
    }

    fn begin_group(&mut self) -> Result<(), String> {
        let group = self.file.get_row_group(self.next_group).map_err(text)?;
        self.next_group += 1;
        self.left =
            usize::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
        self.group.clear();
        for (number, column) in self.table.columns.iter().enumerate() {
            let reader = || group.get_column_reader(number).map_err(text);
            self.group.push(match (self.wanted[number], column.kind) {
                (false, _) => Typed::Skipped,
                (true, Kind::U32) => Typed::U32(typed(reader()?)),
                (true, Kind::U64 | Kind::Rising) => Typed::U64(typed(reader()?)),
                (true, Kind::Text | Kind::Bytes) => Typed::Bytes(typed(reader()?)),
            });
        }
        Ok(())
    }
}

impl Batch {
    /// A column of 32-bit numbers, row by row.
    pub fn u32s(&mut self, column: usize) -> impl Iterator<Item = Option<u32>> + use<> {
        let (found, present) = self.take(column);
        let Found::U32(values) = found else {
            unreachable!("column {column} has no 32-bit numbers")
        };
        spread(values, present).map(|value| value.map(|value| value as u32))
    }

    /// A column of 64-bit numbers, row by row; nothing at all where it is not there.
    pub fn u64s(&mut self, column: usize) -> impl Iterator<Item = Option<u64>> + use<> {
        let (found, present) = self.take(column);
        let (values, present) = match found {
            Found::U64(values) => (values, present),
            Found::Nothing => (Vec::new(), Some(vec![0; self.rows])),
            _ => unreachable!("column {column} has no 64-bit numbers"),
        };
        spread(values, present).map(|value| value.map(|value| value as u64))
    }

    /// A column of text or bytes, row by row; nothing at all where it was skipped.
    pub fn bytes(&mut self, column: usize) -> impl Iterator<Item = Option<ByteArray>> + use<> {
        let (found, present) = self.take(column);
        match found {
            Found::Bytes(values) => spread(values, present),
            _ => spread(Vec::new(), Some(vec![0; self.rows])),
        }
    }

    fn take(&mut self, column: usize) -> (Found, Option<Vec<i16>>) {
        let Filled { values, present } = &mut self.columns[column];
        (std::mem::replace(values, Found::Nothing), present.take())
    }
}

// A column that cannot be null has no levels.
fn spread<T>(values: Vec<T>, present: Option<Vec<i16>>) -> impl Iterator<Item = Option<T>> {
    let rows = present.as_ref().map_or(values.len(), Vec::len);
    let mut values = values.into_iter();
    (0..rows).map(move |row| match &present {
        Some(present) if present[row] == 0 => None,
        _ => values.next(),
    })
}

fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    column: &Column,
    found: fn(Vec<T::T>) -> Found,
) -> Result<Filled, String> {
    let mut values = Vec::new();
    let mut present = column.optional.then(Vec::new);
    let (read, _, _) =
        reader.read_records(rows, present.as_mut(), None, &mut values).map_err(text)?;
    let there =
        present.as_ref().map_or(rows, |all| all.iter().filter(|level| **level == 1).count());
    if read != rows
        || values.len() != there
        || present.as_ref().is_some_and(|all| all.len() != rows)
    {
        return Err("it ends too early".into());
    }
    Ok(Filled { values: found(values), present })
}

fn typed<T: DataType>(reader: ColumnReader) -> ColumnReaderImpl<T> {
    get_typed_column_reader(reader)
}

fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::U32 => Physical::INT32,
        Kind::U64 | Kind::Rising => Physical::INT64,
        Kind::Text | Kind::Bytes => Physical::BYTE_ARRAY,
    }
}

fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it contradicts itself".into()))
}

// A pipe would block forever.
fn open(path: &Path) -> Result<File, Refusal> {
    let is_file = std::fs::metadata(path).map_err(Refusal::Io)?.is_file();
    if !is_file {
        return Err(Refusal::Damaged("it is not an ordinary file".into()));
    }
    File::open(path).map_err(Refusal::Io)
}

fn text(error: ParquetError) -> String {
    error.to_string()
}
