//! Writing the table.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::basic::Encoding;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use ringfence_experiment::sample::Sample;
use ringfence_system::checksum::{Checksum, Hashing};

use super::{SCHEMA_KEY, encoding, message};
use crate::columns::{COLUMNS, Kind};
use crate::{DatasetError, SCHEMA, SamplesFile, files};

// Bounds what is held in memory while a journal is converted.
const GROUP: usize = 1 << 17;

/// Writes the file in place of an older one; `source` hands over all samples, step by step.
pub fn write(
    path: &Path,
    source: impl FnOnce(
        &mut dyn FnMut(Vec<Sample>) -> std::result::Result<(), DatasetError>,
    ) -> std::result::Result<(), DatasetError>,
) -> std::result::Result<SamplesFile, DatasetError> {
    let failed = |error| failed(path, error);
    files::replace(path, |file| {
        let mut table = Table::new(file).map_err(failed)?;
        source(&mut |samples| table.push(samples).map_err(failed))?;
        table.finish().map_err(failed)
    })
}

pub fn failed(path: &Path, error: ParquetError) -> DatasetError {
    DatasetError::io("write", path)(plain(error))
}

/// The properties of every table; these columns use this encoding, without a dictionary.
pub fn properties(
    columns: impl IntoIterator<Item = (&'static str, Encoding)>,
    compression: Compression,
) -> WriterProperties {
    let version = KeyValue::new(SCHEMA_KEY.into(), SCHEMA.to_string());
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("ringfence version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![version]))
        .set_compression(compression);
    for (name, encoding) in columns {
        let path = ColumnPath::from(name);
        properties = properties.set_column_dictionary_enabled(path.clone(), false);
        properties = properties.set_column_encoding(path, encoding);
    }
    properties.build()
}

struct Table {
    writer: SerializedFileWriter<Hashing>,
    group: Vec<Sample>,
    count: u64,
}

impl Table {
    fn new(file: File) -> Result<Self> {
        let schema = Arc::new(parse_message_type(&message())?);
        let encoded =
            COLUMNS.iter().filter_map(|column| Some((column.name, encoding(&column.kind)?)));
        let properties = properties(encoded, Compression::SNAPPY);
        let writer = SerializedFileWriter::new(Hashing::new(file), schema, Arc::new(properties))?;
        Ok(Self { writer, group: Vec::new(), count: 0 })
    }

    fn push(&mut self, samples: Vec<Sample>) -> Result<()> {
        self.group.extend(samples);
        if self.group.len() >= GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for column in COLUMNS {
            let mut writer = group.next_column()?.expect("the schema has a column for each");
            write_column(&mut writer, &column.kind, &self.group)?;
            writer.close()?;
        }
        group.close()?;
        self.count += self.group.len() as u64;
        self.group.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(File, SamplesFile)> {
        if !self.group.is_empty() {
            self.write_group()?;
        }
        let (file, checksum) = self.writer.into_inner()?.finish();
        Ok((file, described(checksum, self.count)))
    }
}

fn write_column(
    writer: &mut SerializedColumnWriter,
    kind: &Kind,
    samples: &[Sample],
) -> Result<()> {
    // The format's integers are signed; the annotation says to read the same bits as unsigned.
    match kind {
        Kind::U32(get, _) => all::<Int32Type>(writer, samples, |sample| get(sample) as i32),
        Kind::U64(get, _) => all::<Int64Type>(writer, samples, |sample| get(sample) as i64),
        Kind::OptU64(get, _) => {
            some::<Int64Type>(writer, samples, |sample| get(sample).map(|v| v as i64))
        }
        Kind::OptF64(get, _) => some::<DoubleType>(writer, samples, get),
        Kind::OptBool(get, _) => some::<BoolType>(writer, samples, get),
        Kind::Role => {
            all::<ByteArrayType>(writer, samples, |sample| ByteArray::from(&*sample.role))
        }
        Kind::Class => all::<ByteArrayType>(writer, samples, |sample| {
            sample.class.to_string().into_bytes().into()
        }),
    }
}

fn all<T: DataType>(
    writer: &mut SerializedColumnWriter,
    samples: &[Sample],
    get: impl Fn(&Sample) -> T::T,
) -> Result<()> {
    let values: Vec<T::T> = samples.iter().map(get).collect();
    writer.typed::<T>().write_batch(&values, None, None).map(drop)
}

fn some<T: DataType>(
    writer: &mut SerializedColumnWriter,
    samples: &[Sample],
    get: impl Fn(&Sample) -> Option<T::T>,
) -> Result<()> {
    let values: Vec<T::T> = samples.iter().filter_map(&get).collect();
    let present: Vec<i16> = samples.iter().map(|sample| i16::from(get(sample).is_some())).collect();
    writer.typed::<T>().write_batch(&values, Some(&present), None).map(drop)
}

// The system's error within the library's, where there is one.
pub fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => {
            error.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error)
        }
        other => io::Error::other(other),
    }
}

/// The manifest's entry for a file with `count` rows.
pub fn described(checksum: Checksum, count: u64) -> SamplesFile {
    let Checksum { bytes, xxh64 } = checksum;
    SamplesFile { count, bytes, xxh64 }
}
