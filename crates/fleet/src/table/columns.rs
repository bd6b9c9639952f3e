//! Tables of a few types, written and read column by column.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use ringfence_dataset::{DatasetError, files};

use crate::error::FleetError;
use crate::facts::Fact;

/// The values of a column; what is not known is null.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Text.
    Text(Vec<Option<String>>),
    /// A figure.
    Number(Vec<Option<f64>>),
    /// A whole number.
    Count(Vec<Option<u32>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

/// Columns of equal length, with their names.
pub type Columns = Vec<(&'static str, Values)>;

impl Values {
    /// The same fact in so many rows.
    pub fn repeated(fact: &Fact, rows: usize) -> Self {
        match fact {
            Fact::Text(value) => Self::Text(vec![value.clone(); rows]),
            Fact::Number(value) => Self::Count(vec![*value; rows]),
            Fact::Flag(value) => Self::Flag(vec![*value; rows]),
        }
    }

    fn field(&self, name: &str) -> String {
        match self {
            Self::Text(_) => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
            Self::Number(_) => format!("OPTIONAL DOUBLE {name};"),
            Self::Count(_) => format!("OPTIONAL INT32 {name} (INTEGER(32,false));"),
            Self::Flag(_) => format!("OPTIONAL BOOLEAN {name};"),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Count(values) => values.len(),
            Self::Flag(values) => values.len(),
        }
    }

    /// Writes them as the next column of a group of rows.
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
            Self::Text(values) => some::<ByteArrayType, _>(to, values, |text| ByteArray::from(text.as_str())),
            Self::Number(values) => some::<DoubleType, _>(to, values, |number| *number),
            Self::Count(values) => some::<Int32Type, _>(to, values, |count| *count as i32),
            Self::Flag(values) => some::<BoolType, _>(to, values, |flag| *flag),
        }
    }
}

/// The types of columns, in Parquet's own notation.
pub fn schema(columns: &[(&'static str, Values)]) -> Type {
    let fields: Vec<String> = columns.iter().map(|(name, values)| values.field(name)).collect();
    parse_message_type(&format!("message table {{ {} }}", fields.join(" "))).expect("names are identifiers")
}

/// What every table says of itself.
pub fn properties() -> Arc<WriterProperties> {
    let properties = WriterProperties::builder()
        .set_created_by(format!("ringfence version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY);
    Arc::new(properties.build())
}

/// Writes a table, whole; one of that name that somebody still has by another name stays as it is.
pub fn write(path: &Path, columns: &Columns) -> std::result::Result<(), FleetError> {
    whole(path, |file| {
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema(columns)), properties())?;
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

/// Writes a file in place of an older one.
pub fn whole(path: &Path, write: impl FnOnce(File) -> Result<File>) -> std::result::Result<(), FleetError> {
    let written = files::replace(path, |file| {
        let file = write(file).map_err(|error| DatasetError::io("write", path)(plain(error)))?;
        Ok((file, ()))
    });
    written.map_err(|error| match error {
        DatasetError::Io { source, .. } => FleetError::io("write", path)(source),
        other => other.into(),
    })
}

/// Reads columns of a table by their names.
pub fn read(path: &Path, names: &[&'static str]) -> std::result::Result<Columns, FleetError> {
    let all = File::open(path).map_err(ParquetError::from).and_then(|file| {
        let reader = SerializedFileReader::new(file)?;
        names.iter().map(|name| Ok((*name, column(&reader, name)?))).collect::<Result<Columns>>()
    });
    all.map_err(|error| FleetError::io("read", path)(plain(error)))
}

fn column(reader: &SerializedFileReader<File>, name: &str) -> Result<Values> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let place = (0..schema.num_columns()).find(|index| schema.column(*index).name() == name);
    let place = place.ok_or_else(|| ParquetError::General(format!("there is no column '{name}'")))?;
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
            ColumnReader::BoolColumnReader(reader) => {
                Values::Flag(values::<BoolType, _>(reader, rows, |value| *value)?)
            }
            _ => return Err(ParquetError::General(format!("'{name}' is of a type that is not ours"))),
        };
        all = Some(match (all, next) {
            (None, next) => next,
            (Some(Values::Text(a)), Values::Text(b)) => Values::Text([a, b].concat()),
            (Some(Values::Number(a)), Values::Number(b)) => Values::Number([a, b].concat()),
            (Some(Values::Count(a)), Values::Count(b)) => Values::Count([a, b].concat()),
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
    let mut found = found.iter();
    Ok(present.iter().map(|level| (*level == 1).then(|| found.next().map(&value)).flatten()).collect())
}

// The system's error within the library's, where there is one.
fn plain(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(error) => {
            error.downcast::<std::io::Error>().map_or_else(std::io::Error::other, |error| *error)
        }
        other => std::io::Error::other(other),
    }
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
        ];
        write(&path, &columns).unwrap();
        assert_eq!(read(&path, &["a", "b", "c", "d"]).unwrap(), columns);
        assert_eq!(read(&path, &["d", "a"]).unwrap()[1], columns[0]);
        let error = read(&path, &["e"]).unwrap_err().to_string();
        assert!(error.contains("there is no column 'e'"), "{error}");
    }
}
