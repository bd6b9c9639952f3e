//! The rows of datasets as one table: their columns, copied byte by byte, and columns about the
//! host.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use ringfence_dataset::table::{self, Columns, Values};
use ringfence_experiment::Error;

/// A table that is copied.
pub struct Copied {
    /// Its name, and that of its files.
    pub name: &'static str,
    /// A column that is left out.
    pub without: Option<&'static str>,
    /// Whether rows get their number, as other tables refer to it.
    pub numbered: bool,
}

/// The windows.
pub const SAMPLES: Copied = Copied { name: "samples", without: None, numbered: true };

/// What refers to windows, where datasets have it.
pub const OF_SAMPLES: [Copied; 2] = [
    Copied { name: "latencies", without: None, numbered: false },
    Copied { name: "disk", without: None, numbered: false },
];

/// Runs of whole commands. Their host's name is beside them, and would be mistaken for the
/// folder's.
pub const RUNS: Copied = Copied { name: "runs", without: Some("host"), numbered: false };

/// All of these, by their names.
pub const NAMES: [&str; 4] = [SAMPLES.name, OF_SAMPLES[0].name, OF_SAMPLES[1].name, RUNS.name];

/// The folder of a dataset, and what its experiment is called in the table.
#[derive(Debug, Clone)]
pub struct Source {
    pub dir: PathBuf,
    pub experiment: String,
}

/// The file of a table.
pub fn file(table: &str) -> String {
    format!("{table}.parquet")
}

/// Writes the table; `beside` returns the given number of rows about the host.
pub fn write(
    path: &Path,
    what: &Copied,
    sources: &[&Source],
    beside: &dyn Fn(usize) -> Columns,
) -> std::result::Result<(), Error> {
    table::whole(path, |to| put(to, what, sources, beside)).map_err(error::table("write", path))
}

fn put(
    to: File,
    what: &Copied,
    sources: &[&Source],
    beside: &dyn Fn(usize) -> Columns,
) -> Result<File> {
    let mut to = Some(to);
    let mut writer: Option<(SerializedFileWriter<File>, Vec<TypePtr>)> = None;
    let stays = |name: &str| what.without != Some(name);
    for source in sources {
        let from = File::open(source.dir.join(file(what.name)))?;
        let reader = SerializedFileReader::new(from.try_clone()?)?;
        let metadata = reader.metadata();
        let theirs = metadata.file_metadata().schema().get_fields().iter();
        let theirs: Vec<TypePtr> = theirs.filter(|field| stays(field.name())).cloned().collect();
        let own = |begin: u64, rows: usize| {
            let mut own = beside(rows);
            own.push(("experiment", Values::Text(vec![Some(source.experiment.clone()); rows])));
            if what.numbered {
                own.push(("sample", Values::Long((begin..).take(rows).map(Some).collect())));
            }
            own
        };
        let (writer, fields) = match &mut writer {
            Some(writer) => writer,
            None => {
                let ours = table::schema(&own(0, 0));
                let all = [ours.get_fields(), &theirs].concat();
                let schema =
                    Arc::new(Type::group_type_builder(what.name).with_fields(all).build()?);
                let file = to.take().expect("it is made once");
                let made = SerializedFileWriter::new(file, schema, table::properties(None))?;
                writer.insert((made, theirs.clone()))
            }
        };
        if *fields != theirs {
            let problem =
                format!("{}: its {} have different columns", source.dir.display(), what.name);
            return Err(ParquetError::General(problem));
        }
        let mut begin = 0;
        for group in metadata.row_groups() {
            let mut to = writer.next_row_group()?;
            let rows = group.num_rows() as usize;
            for (_, values) in own(begin, rows) {
                let mut column = to.next_column()?.expect("the schema has a column for each");
                values.write(&mut column)?;
                column.close()?;
            }
            for column in
                group.columns().iter().filter(|column| stays(column.column_descr().name()))
            {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: rows as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                to.append_column(&from, close)?;
            }
            to.close()?;
            begin += rows as u64;
        }
    }
    match writer {
        Some((writer, _)) => writer.into_inner(),
        None => Err(ParquetError::General("there is no dataset".into())),
    }
}
