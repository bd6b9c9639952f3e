//! All samples of an attempt as one table: the columns of its datasets as they are, byte by byte, and what the host is
//! beside them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::columns::{self, Columns, Values};
use crate::error::FleetError;

const SAMPLES: &str = "samples.parquet";

/// A dataset, and what its experiment is called in the table.
pub struct Source {
    pub dir: PathBuf,
    pub experiment: String,
}

/// Writes the table; `beside` makes so many rows of what the host is.
pub fn write(
    path: &Path,
    sources: &[Source],
    beside: &dyn Fn(usize) -> Columns,
) -> std::result::Result<(), FleetError> {
    columns::whole(path, |file| put(file, sources, beside))
}

fn put(to: File, sources: &[Source], beside: &dyn Fn(usize) -> Columns) -> Result<File> {
    let mut to = Some(to);
    let mut writer: Option<(SerializedFileWriter<File>, Vec<TypePtr>)> = None;
    for source in sources {
        let from = File::open(source.dir.join(SAMPLES))?;
        let reader = SerializedFileReader::new(from.try_clone()?)?;
        let metadata = reader.metadata();
        let theirs = metadata.file_metadata().schema().get_fields();
        let own = |rows: usize| {
            let mut own = beside(rows);
            own.push(("experiment", Values::Text(vec![Some(source.experiment.clone()); rows])));
            own
        };
        let (writer, fields) = match &mut writer {
            Some(writer) => writer,
            None => {
                let ours = columns::schema(&own(0));
                let all = [ours.get_fields(), theirs].concat();
                let schema = Arc::new(Type::group_type_builder("samples").with_fields(all).build()?);
                let file = to.take().expect("it is made once");
                let made = SerializedFileWriter::new(file, schema, columns::properties())?;
                writer.insert((made, theirs.to_vec()))
            }
        };
        if fields.as_slice() != theirs {
            let problem = format!("{}: its samples have other columns", source.dir.display());
            return Err(ParquetError::General(problem));
        }
        for group in metadata.row_groups() {
            let mut to = writer.next_row_group()?;
            for (_, values) in own(group.num_rows() as usize) {
                let mut column = to.next_column()?.expect("the schema has a column for each");
                values.write(&mut column)?;
                column.close()?;
            }
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                to.append_column(&from, close)?;
            }
            to.close()?;
        }
    }
    match writer {
        Some((writer, _)) => writer.into_inner(),
        None => Err(ParquetError::General("there is no dataset".into())),
    }
}
