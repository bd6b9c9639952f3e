//! Tables other than those of samples: columns of a few types, written and read whole. What is not
//! known is null.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use crate::parquet_file::plain;
use crate::{DatasetError, files};

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Text.
    Text(Vec<Option<String>>),
    /// A figure.
    Number(Vec<Option<f64>>),
    /// A whole number.
    Count(Vec<Option<u32>>),
    /// A longer one.
    Long(Vec<Option<u64>>),
    /// A whole number that may be below zero.
    Signed(Vec<Option<i32>>),
    /// A time, in ns since 1970, UTC.
    Time(Vec<Option<u64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

/// Columns of equal length, with their names.
pub type Columns = Vec<(&'static str, Values)>;

impl Values {
    fn field(&self, name: &str) -> String {
        match self {
            Self::Text(_) => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
            Self::Number(_) => format!("OPTIONAL DOUBLE {name};"),
            Self::Count(_) => format!("OPTIONAL INT32 {name} (INTEGER(32,false));"),
            Self::Long(_) => format!("OPTIONAL INT64 {name} (INTEGER(64,false));"),
            Self::Signed(_) => format!("OPTIONAL INT32 {name};"),
            Self::Time(_) => format!("OPTIONAL INT64 {name} (TIMESTAMP(NANOS,true));"),
            Self::Flag(_) => format!("OPTIONAL BOOLEAN {name};"),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Count(values) => values.len(),
            Self::Long(values) | Self::Time(values) => values.len(),
            Self::Signed(values) => values.len(),
            Self::Flag(values) => values.len(),
        }
    }

    /// Writes them as the next column of a group of rows.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, to: &mut SerializedColumnWriter) -> Result<()> {
        fn some<T: DataType, V>(
            to: &mut SerializedColumnWriter,
            values: &[Option<V>],
            value: impl Fn(&V) -> T::T,
        ) -> Result<()> {
            let present: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            let values: Vec<T::T> = values.iter().flatten().map(value).collect();
            to.typed::<T>().write_batch(&values, Some(&present), None).map(drop)
        }
        match self {
            Self::Text(values) => {
                some::<ByteArrayType, _>(to, values, |text| ByteArray::from(text.as_str()))
            }
            Self::Number(values) => some::<DoubleType, _>(to, values, |number| *number),
            Self::Count(values) => some::<Int32Type, _>(to, values, |count| *count as i32),
            Self::Long(values) | Self::Time(values) => {
                some::<Int64Type, _>(to, values, |count| *count as i64)
            }
            Self::Signed(values) => some::<Int32Type, _>(to, values, |count| *count),
            Self::Flag(values) => some::<BoolType, _>(to, values, |flag| *flag),
        }
    }
}

/// The types of columns, in Parquet's own notation.
pub fn schema(columns: &[(&'static str, Values)]) -> Type {
    let fields: Vec<String> = columns.iter().map(|(name, values)| values.field(name)).collect();
    parse_message_type(&format!("message table {{ {} }}", fields.join(" ")))
        .expect("names are identifiers")
}

/// A table's metadata: the program that wrote it, and its version under `key`.
pub fn properties(key: Option<(&str, u32)>) -> Arc<WriterProperties> {
    let key = key.map(|(key, version)| vec![KeyValue::new(key.into(), version.to_string())]);
    let properties = WriterProperties::builder()
        .set_created_by(format!("ringfence version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(key)
        .set_compression(Compression::SNAPPY);
    Arc::new(properties.build())
}

/// Writes a table in place of an older one. Other hard links to the older file keep its content.
///
/// # Errors
/// Where it cannot be written.
pub fn write(
    path: &Path,
    columns: &Columns,
    key: Option<(&str, u32)>,
) -> std::result::Result<(), DatasetError> {
    whole(path, |file| {
        let mut writer =
            SerializedFileWriter::new(file, Arc::new(schema(columns)), properties(key))?;
        if columns.first().is_some_and(|(_, values)| values.len() > 0) {
            let mut group = writer.next_row_group()?;
            for (_, values) in columns {
                let mut column = group.next_column()?.expect("the schema has a column for each");
                values.write(&mut column)?;
                column.close()?;
            }
            group.close()?;
        }
        writer.into_inner()
    })
}

/// Writes a file of Parquet in place of an older one, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
pub fn whole(
    path: &Path,
    write: impl FnOnce(File) -> Result<File>,
) -> std::result::Result<(), DatasetError> {
    files::replace(path, |file| {
        let file = write(file).map_err(|error| DatasetError::io("write", path)(plain(error)))?;
        Ok((file, ()))
    })
}

/// Reads columns of a table by their names.
///
/// # Errors
/// Where they are not there, or of another type, or the file cannot be read.
pub fn read(path: &Path, names: &[&'static str]) -> std::result::Result<Columns, DatasetError> {
    let all = File::open(path).map_err(ParquetError::from).and_then(|file| {
        let reader = SerializedFileReader::new(file)?;
        names.iter().map(|name| Ok((*name, column(&reader, name)?))).collect::<Result<Columns>>()
    });
    all.map_err(|error| DatasetError::io("read", path)(plain(error)))
}

fn column(reader: &SerializedFileReader<File>, name: &str) -> Result<Values> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let place = (0..schema.num_columns()).find(|index| schema.column(*index).name() == name);
    let place =
        place.ok_or_else(|| ParquetError::General(format!("there is no column '{name}'")))?;
    let mut all: Option<Values> = None;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = group.metadata().num_rows() as usize;
        let next = match group.get_column_reader(place)? {
            ColumnReader::ByteArrayColumnReader(reader) => {
                let text = |value: &ByteArray| String::from_utf8_lossy(value.data()).into_owned();
                Values::Text(values::<ByteArrayType, _>(reader, rows, text)?)
            }
            ColumnReader::DoubleColumnReader(reader) => {
                Values::Number(values::<DoubleType, _>(reader, rows, |value| *value)?)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                Values::Count(values::<Int32Type, _>(reader, rows, |value| *value as u32)?)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                Values::Long(values::<Int64Type, _>(reader, rows, |value| *value as u64)?)
            }
            ColumnReader::BoolColumnReader(reader) => {
                Values::Flag(values::<BoolType, _>(reader, rows, |value| *value)?)
            }
            _ => {
                return Err(ParquetError::General(format!(
                    "'{name}' is of a type that is not ours"
                )));
            }
        };
        all = Some(match (all, next) {
            (None, next) => next,
            (Some(Values::Text(a)), Values::Text(b)) => Values::Text([a, b].concat()),
            (Some(Values::Number(a)), Values::Number(b)) => Values::Number([a, b].concat()),
            (Some(Values::Count(a)), Values::Count(b)) => Values::Count([a, b].concat()),
            (Some(Values::Long(a)), Values::Long(b)) => Values::Long([a, b].concat()),
            (Some(Values::Flag(a)), Values::Flag(b)) => Values::Flag([a, b].concat()),
            (Some(all), _) => all,
        });
    }
    Ok(all.unwrap_or(Values::Text(Vec::new())))
}

fn values<T: DataType, V>(
    reader: ColumnReaderImpl<T>,
    rows: usize,
    value: impl Fn(&T::T) -> V,
) -> Result<Vec<Option<V>>> {
    let mut reader = reader;
    let (mut found, mut present) = (Vec::new(), Vec::new());
    reader.read_records(rows, Some(&mut present), None, &mut found)?;
    // A column in which nothing may be missing says of none that it is there.
    if present.is_empty() {
        return Ok(found.iter().map(|found| Some(value(found))).collect());
    }
    let mut found = found.iter();
    Ok(present
        .iter()
        .map(|level| (*level == 1).then(|| found.next().map(&value)).flatten())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_with_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.parquet");
        let columns: Columns = vec![
            ("a", Values::Text(vec![Some("x".into()), None, Some(String::new())])),
            ("b", Values::Number(vec![None, Some(1.5), Some(f64::MIN_POSITIVE)])),
            ("c", Values::Count(vec![Some(u32::MAX), Some(0), None])),
            ("d", Values::Flag(vec![Some(true), None, Some(false)])),
            ("l", Values::Long(vec![None, Some(u64::MAX), Some(0)])),
        ];
        write(&path, &columns, None).unwrap();
        assert_eq!(read(&path, &["a", "b", "c", "d", "l"]).unwrap(), columns);
        assert_eq!(read(&path, &["d", "a"]).unwrap()[1], columns[0]);
        // Tables of earlier versions have columns in which nothing may be missing.
        let type_of =
            "message table { REQUIRED INT64 n (INTEGER(64,false)); REQUIRED BYTE_ARRAY t (UTF8); }";
        let type_of = Arc::new(parse_message_type(type_of).unwrap());
        let mut writer =
            SerializedFileWriter::new(File::create(&path).unwrap(), type_of, properties(None))
                .unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[7, 8], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&["x".into(), "y".into()], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let required: Columns = vec![
            ("n", Values::Long(vec![Some(7), Some(8)])),
            ("t", Values::Text(vec![Some("x".into()), Some("y".into())])),
        ];
        assert_eq!(read(&path, &["n", "t"]).unwrap(), required);
        let error = read(&path, &["e"]).unwrap_err().to_string();
        assert!(error.contains("there is no column 'e'"), "{error}");
    }
}
