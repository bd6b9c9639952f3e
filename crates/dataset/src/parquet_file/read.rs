//! Reading the table.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use ringfence_experiment::class::Class;
use ringfence_experiment::sample::Sample;
use ringfence_system::checksum::{self, Checksum};

use super::SCHEMA_KEY;
use crate::columns::{CLASSES, Column, Kind, Known};
use crate::formats::{self, Format};
use crate::{DatasetError, SamplesFile, files};

// Samples filled at a time: few enough to stay in a core's own cache.
const BATCH: usize = 1 << 12;

/// Reads the file, which must be the one that the manifest describes.
pub fn read(
    path: &Path,
    expected: &SamplesFile,
    known: &Known,
) -> Result<Vec<Sample>, DatasetError> {
    open_checked(path, expected, "samples", |file| parse(file, expected.count, known))
}

/// Hands a file to a parser if it is the one that the manifest describes: a table of `what`.
pub fn open_checked<T>(
    path: &Path,
    expected: &SamplesFile,
    what: &str,
    parse: impl FnOnce(File) -> Result<T, String>,
) -> Result<T, DatasetError> {
    let mut file = files::open(path)?;
    let Checksum { bytes, xxh64 } =
        checksum::of(&mut file).map_err(DatasetError::io("read", path))?;
    if bytes != expected.bytes || xxh64 != expected.xxh64 {
        let problem = format!(
            "the file is damaged ({bytes} bytes with checksum {xxh64}, but {} with {} in the \
             manifest): restore both",
            expected.bytes, expected.xxh64
        );
        return Err(DatasetError::damaged(path, problem));
    }
    // The parser asserts some of what it reads; the checksum lets nothing get there but a forgery.
    let parsed = catch_unwind(AssertUnwindSafe(|| parse(file)));
    parsed.unwrap_or_else(|_| Err("it contradicts itself".into())).map_err(|problem| {
        DatasetError::damaged(
            path,
            format!("this is not a table of {what} ({problem}): restore the original"),
        )
    })
}

/// The version that a file states; the file must have `count` rows.
pub fn format_of(
    reader: &SerializedFileReader<File>,
    count: u64,
) -> Result<Box<dyn Format>, String> {
    let metadata = reader.metadata().file_metadata();
    let stated = metadata
        .key_value_metadata()
        .and_then(|all| all.iter().find(|entry| entry.key == SCHEMA_KEY));
    let stated = stated.and_then(|entry| entry.value.as_deref()).unwrap_or_default();
    let format = formats::of(stated.parse().ok())
        .map_err(|_| format!("its {SCHEMA_KEY} is '{stated}', which this program does not know"))?;
    if u64::try_from(metadata.num_rows()).ok() != Some(count) {
        return Err(format!("it has {} rows, not {count}", metadata.num_rows()));
    }
    Ok(format)
}

fn parse(file: File, count: u64, known: &Known) -> Result<Vec<Sample>, String> {
    let reader = SerializedFileReader::new(file).map_err(text)?;
    let format = format_of(&reader, count)?;
    samples(&reader, &format.columns(), format.version(), count, known)
}

// What a sample has besides these columns stays at its default.
fn samples(
    reader: &SerializedFileReader<File>,
    columns: &[&'static Column],
    version: u32,
    count: u64,
    known: &Known,
) -> Result<Vec<Sample>, String> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let place =
        |column: &&'static Column| Ok::<_, String>((*column, place(schema, column, version)?));
    let places = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;

    let blank = blank(known)?;
    let mut samples =
        Vec::with_capacity(usize::try_from(count).map_err(|error| error.to_string())?);
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(text)?;
        let rows =
            usize::try_from(group.metadata().num_rows()).map_err(|error| error.to_string())?;
        let first = samples.len();
        // The sum may not exceed what the file as a whole declares.
        if rows as u64 > count - first as u64 {
            return Err("its row groups have more rows than the file".into());
        }
        samples.resize(first + rows, blank.clone());
        let mut fillers = Vec::new();
        for (column, index) in &places {
            let reader = group.get_column_reader(*index).map_err(text)?;
            fillers.push((column.name, filler(reader, &column.kind, known)));
        }
        // Batch by batch rather than column by column: a batch stays in the cache until it is
        // complete.
        for batch in samples[first..].chunks_mut(BATCH) {
            for (name, fill) in &mut fillers {
                fill(batch).map_err(|problem| format!("column {name}: {problem}"))?;
            }
        }
    }
    if samples.len() as u64 != count {
        return Err("its row groups have fewer rows than the file".into());
    }
    Ok(samples)
}

// Where the file has a column.
fn place(schema: &SchemaDescriptor, column: &Column, version: u32) -> Result<usize, String> {
    let name = column.name_in(version);
    let mut all = (0..schema.num_columns()).filter(|index| schema.column(*index).name() == name);
    match (all.next(), all.next()) {
        (Some(index), None) if fits(&schema.column(index), &column.kind) => Ok(index),
        (Some(_), Some(_)) => Err(format!("column {name} comes twice")),
        _ => Err(format!("column {name} is missing or of another type")),
    }
}

fn fits(descriptor: &ColumnDescriptor, kind: &Kind) -> bool {
    let (physical, levels) = match kind {
        Kind::U32(..) => (Physical::INT32, 0),
        Kind::U64(..) => (Physical::INT64, 0),
        Kind::OptU64(..) => (Physical::INT64, 1),
        Kind::OptF64(..) => (Physical::DOUBLE, 1),
        Kind::OptBool(..) => (Physical::BOOLEAN, 1),
        Kind::Role | Kind::Class => (Physical::BYTE_ARRAY, 0),
    };
    descriptor.physical_type() == physical
        && descriptor.max_def_level() == levels
        && descriptor.max_rep_level() == 0
        && descriptor.path().parts().len() == 1
}

type Filler<'a> = Box<dyn FnMut(&mut [Sample]) -> Result<(), String> + 'a>;

fn filler<'a>(reader: ColumnReader, kind: &Kind, known: &'a Known) -> Filler<'a> {
    match *kind {
        Kind::U32(_, set) => each::<Int32Type>(reader, move |sample, value| {
            set(sample, *value as u32);
            Ok(())
        }),
        Kind::U64(_, set) => each::<Int64Type>(reader, move |sample, value| {
            set(sample, *value as u64);
            Ok(())
        }),
        Kind::OptU64(_, set) => each::<Int64Type>(reader, move |sample, value| {
            set(sample, Some(*value as u64));
            Ok(())
        }),
        Kind::OptF64(_, set) => each::<DoubleType>(reader, move |sample, value| {
            set(sample, Some(*value));
            Ok(())
        }),
        Kind::OptBool(_, set) => each::<BoolType>(reader, move |sample, value| {
            set(sample, Some(*value));
            Ok(())
        }),
        Kind::Role => each::<ByteArrayType>(reader, |sample, value| {
            if sample.role.as_bytes() != value.data() {
                sample.role = known.role(value.data())?;
            }
            Ok(())
        }),
        Kind::Class => each::<ByteArrayType>(reader, |sample, value| {
            sample.class = class(value.data())?;
            Ok(())
        }),
    }
}

// Reads the next values, one per sample, and hands each that is there to `set`.
fn each<'a, T: DataType>(
    reader: ColumnReader,
    set: impl Fn(&mut Sample, &T::T) -> Result<(), String> + 'a,
) -> Filler<'a> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut values, mut present) = (Vec::new(), Vec::new());
    Box::new(move |samples| {
        values.clear();
        present.clear();
        let read = reader.read_records(samples.len(), Some(&mut present), None, &mut values);
        if read.map_err(text)?.0 != samples.len() {
            return Err("it ends too early".into());
        }
        let mut values = values.iter();
        for (i, sample) in samples.iter_mut().enumerate() {
            // A column that cannot be null has no levels at all.
            if present.get(i).is_none_or(|level| *level == 1) {
                set(sample, values.next().ok_or("it has too few values")?)?;
            }
        }
        Ok(())
    })
}

fn class(name: &[u8]) -> Result<Class, String> {
    let known = CLASSES.iter().find(|(class, _)| class.as_bytes() == name);
    known
        .map(|(_, class)| *class)
        .ok_or_else(|| format!("'{}' is not a class", String::from_utf8_lossy(name)))
}

fn blank(known: &Known) -> Result<Sample, String> {
    let role = known.roles.first().cloned().ok_or("the experiment has no role")?;
    Ok(Sample { role, ..Sample::default() })
}

pub fn text(error: ParquetError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::COLUMNS;
    use crate::version::SCHEMA;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    #[test]
    fn a_column_has_the_name_of_its_version_and_comes_once() {
        let at = |names: &[&str], version| {
            let columns: String =
                names.iter().map(|name| format!("REQUIRED INT32 {name};")).collect();
            let schema = parse_message_type(&format!("message samples {{ {columns} }}")).unwrap();
            place(&SchemaDescriptor::new(Arc::new(schema)), &COLUMNS[0], version)
        };
        let missing = |name: &str| Err(format!("column {name} is missing or of another type"));
        for (version, place) in [(1, 0), (2, 0), (3, 1), (SCHEMA, 1)] {
            assert_eq!(at(&["life", "trial"], version), Ok(place));
        }
        assert_eq!(at(&["life"], 3), missing("trial"));
        for version in [1, 2] {
            assert_eq!(at(&["trial"], version), missing("life"));
            assert_eq!(at(&["life", "life"], version), Err("column life comes twice".into()));
        }
    }

    // As an earlier version left it, which had none of the columns that may be null.
    #[test]
    fn columns_that_a_version_lacks_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let known = Known { roles: vec!["victim".into()], cases: 1 };
        let older = Sample { role: "victim".into(), units: 7, ..Sample::default() };
        let sample = Sample { cycles: Some(5), ping_before_ns: Some(66.5), ..older.clone() };
        crate::parquet_file::write(&path, |step| step(vec![sample.clone()])).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let all: Vec<&Column> = COLUMNS.iter().collect();
        assert_eq!(samples(&reader, &all, SCHEMA, 1, &known).unwrap(), [sample]);
        let fewer: Vec<&Column> = COLUMNS.iter().filter(|column| !column.kind.nullable()).collect();
        assert_eq!(samples(&reader, &fewer, SCHEMA, 1, &known).unwrap(), [older]);
    }
}
