//! Writing a part of a table.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use ringfence_system::checksum::{Checksum, Hashing};

use super::rows::{Rows, Values};
use super::{Column, Kind, Part, Table};

/// A part that is being written.
pub struct Writer {
    writer: SerializedFileWriter<Hashing>,
    name: String,
    rows: u64,
}

impl Writer {
    /// A new file of mode 0600.
    pub fn create(folder: &Path, table: &Table, number: usize) -> io::Result<Self> {
        let name = format!("{}-{number:04}.parquet", table.name);
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(&name))?;
        let schema = Arc::new(parse_message_type(&message(table)).map_err(plain)?);
        let writer =
            SerializedFileWriter::new(Hashing::new(file), schema, Arc::new(properties(table)));
        Ok(Self { writer: writer.map_err(plain)?, name, rows: 0 })
    }

    /// Adds rows.
    pub fn add(&mut self, rows: Rows) -> io::Result<()> {
        let count = rows.len() as u64;
        let add = || -> Result<()> {
            let mut group = self.writer.next_row_group()?;
            for (values, present) in rows.into_columns() {
                let mut column = group.next_column()?.expect("the schema has a column for each");
                let present = present.as_deref();
                match values {
                    Values::U32(values) => write::<Int32Type>(&mut column, &values, present),
                    Values::U64(values) => write::<Int64Type>(&mut column, &values, present),
                    Values::Bytes(values) => write::<ByteArrayType>(&mut column, &values, present),
                }?;
                column.close()?;
            }
            group.close().map(drop)
        };
        add().map_err(plain)?;
        self.rows += count;
        Ok(())
    }

    /// Ends the file, durably.
    pub fn finish(self) -> io::Result<Part> {
        let (file, Checksum { bytes, xxh64 }) = self.writer.into_inner().map_err(plain)?.finish();
        file.sync_all()?;
        Ok(Part { name: self.name, rows: self.rows, bytes, xxh64 })
    }
}

fn write<T: DataType>(
    column: &mut SerializedColumnWriter,
    values: &[T::T],
    present: Option<&[i16]>,
) -> Result<()> {
    column.typed::<T>().write_batch(values, present, None).map(drop)
}

// The schema in the format's own notation.
fn message(table: &Table) -> String {
    let field = |Column { name, kind, optional }: &Column| {
        let how = if *optional { "OPTIONAL" } else { "REQUIRED" };
        match kind {
            Kind::U32 => format!("{how} INT32 {name} (INTEGER(32,false));"),
            Kind::U64 | Kind::Rising => format!("{how} INT64 {name} (INTEGER(64,false));"),
            Kind::Text => format!("{how} BYTE_ARRAY {name} (UTF8);"),
            Kind::Bytes => format!("{how} BYTE_ARRAY {name};"),
        }
    };
    let fields: Vec<String> = table.columns.iter().map(field).collect();
    format!("message {} {{ {} }}", table.name, fields.join(" "))
}

// What varies from row to row gets no dictionary, which would only grow until it is given up.
fn properties(table: &Table) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("ringfence version {}", env!("CARGO_PKG_VERSION")))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_compression(Compression::SNAPPY);
    for Column { name, kind, .. } in table.columns {
        let encoding = match kind {
            Kind::U32 | Kind::Text => continue,
            Kind::U64 | Kind::Rising => Encoding::DELTA_BINARY_PACKED,
            Kind::Bytes => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        };
        let path = ColumnPath::from(*name);
        properties = properties.set_column_dictionary_enabled(path.clone(), false);
        if *kind == Kind::Bytes {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::None);
        }
        properties = properties.set_column_encoding(path, encoding);
    }
    properties.build()
}

// The system's error within the library's, where there is one.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => {
            error.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error)
        }
        other => io::Error::other(other),
    }
}
