//! `runs.parquet`: a row for each run, warm-up and the shell's starts included.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use ringfence_dataset::{DatasetError, files};

use crate::case::Case;
use crate::findings::{Findings, Measure};
use crate::order::Slot;
use crate::run::{Run, Took};

/// The version of the table, in the key `ringfence.versus` of the file.
pub const VERSION: u32 = 1;

const MESSAGE: &str = "message runs {
    OPTIONAL BYTE_ARRAY label (UTF8);
    REQUIRED BYTE_ARRAY host (UTF8);
    REQUIRED BYTE_ARRAY role (UTF8);
    REQUIRED BYTE_ARRAY name (UTF8);
    REQUIRED BYTE_ARRAY command (UTF8);
    REQUIRED BYTE_ARRAY parameters (UTF8);
    REQUIRED BYTE_ARRAY shell (UTF8);
    REQUIRED INT32 round (INTEGER(32,false));
    REQUIRED INT32 position (INTEGER(32,false));
    REQUIRED BOOLEAN warm_up;
    REQUIRED INT64 began (TIMESTAMP(NANOS,true));
    REQUIRED INT64 wall_ns (INTEGER(64,false));
    REQUIRED INT64 user_ns (INTEGER(64,false));
    REQUIRED INT64 system_ns (INTEGER(64,false));
    REQUIRED INT64 peak_memory_bytes (INTEGER(64,false));
    REQUIRED INT64 memory_floor_bytes (INTEGER(64,false));
    REQUIRED INT64 minor_faults (INTEGER(64,false));
    REQUIRED INT64 major_faults (INTEGER(64,false));
    REQUIRED INT64 voluntary_switches (INTEGER(64,false));
    REQUIRED INT64 involuntary_switches (INTEGER(64,false));
    OPTIONAL INT64 instructions (INTEGER(64,false));
    OPTIONAL INT64 cycles (INTEGER(64,false));
    OPTIONAL INT32 exit_code;
    OPTIONAL INT32 signal;
}";

/// Writes the table, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
pub fn write(
    path: &Path,
    findings: &Findings,
    cases: &[Case],
    runs: &[Run],
) -> std::result::Result<(), DatasetError> {
    files::replace(path, |file| {
        let written = table(file, findings, cases, runs);
        let file = written.map_err(|error| DatasetError::io("write", path)(plain(error)))?;
        Ok((file, ()))
    })
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

fn table(file: File, findings: &Findings, cases: &[Case], runs: &[Run]) -> Result<File> {
    let properties = WriterProperties::builder()
        .set_created_by(format!("ringfence version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new("ringfence.versus".into(), VERSION.to_string())]))
        .set_compression(Compression::SNAPPY)
        .build();
    let schema = Arc::new(parse_message_type(MESSAGE)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let rows = &mut Rows { group: &mut group, runs };
    let case = |run: &Run| match run.slot {
        Slot::Case(case) => Some(&cases[case]),
        Slot::Shell => None,
    };
    let bytes = |text: &str| ByteArray::from(text);
    rows.some::<ByteArrayType>(|_| findings.label.as_deref().map(bytes))?;
    rows.all::<ByteArrayType>(|_| bytes(&findings.host))?;
    rows.all::<ByteArrayType>(|run| bytes(case(run).map_or("shell", |case| &case.role)))?;
    rows.all::<ByteArrayType>(|run| bytes(case(run).map_or("", |case| &case.name)))?;
    rows.all::<ByteArrayType>(|run| bytes(case(run).map_or("", |case| &case.command)))?;
    rows.all::<ByteArrayType>(|run| bytes(&case(run).map_or(String::new(), parameters)))?;
    rows.all::<ByteArrayType>(|_| bytes(&findings.shell))?;
    rows.all::<Int32Type>(|run| run.round as i32)?;
    rows.all::<Int32Type>(|run| run.place as i32)?;
    rows.all::<BoolType>(|run| run.warm_up)?;
    rows.all::<Int64Type>(|run| run.began_unix_ns as i64)?;
    let counts: [fn(&Took) -> u64; 9] = [
        |took| took.wall_ns,
        |took| took.user_ns,
        |took| took.system_ns,
        |took| took.peak_memory,
        |took| took.memory_floor,
        |took| took.minor_faults,
        |took| took.major_faults,
        |took| took.voluntary_switches,
        |took| took.involuntary_switches,
    ];
    for count in counts {
        rows.all::<Int64Type>(|run| count(&run.took) as i64)?;
    }
    rows.some::<Int64Type>(|run| run.took.instructions.map(|count| count as i64))?;
    rows.some::<Int64Type>(|run| run.took.cycles.map(|count| count as i64))?;
    rows.some::<Int32Type>(|run| run.took.code)?;
    rows.some::<Int32Type>(|run| run.took.signal)?;
    group.close()?;
    writer.into_inner()
}

/// As one writes them: `threads=2 size=4`.
pub fn parameters(case: &Case) -> String {
    let each = case.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    each.collect::<Vec<_>>().join(" ")
}

struct Rows<'a, 'b> {
    group: &'a mut SerializedRowGroupWriter<'b, File>,
    runs: &'a [Run],
}

impl Rows<'_, '_> {
    fn all<T: DataType>(&mut self, get: impl Fn(&Run) -> T::T) -> Result<()> {
        let values: Vec<T::T> = self.runs.iter().map(get).collect();
        let mut writer = self.group.next_column()?.expect("the schema has a column for each");
        writer.typed::<T>().write_batch(&values, None, None)?;
        writer.close()
    }

    fn some<T: DataType>(&mut self, get: impl Fn(&Run) -> Option<T::T>) -> Result<()> {
        let values: Vec<Option<T::T>> = self.runs.iter().map(get).collect();
        let present: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
        let there: Vec<T::T> = values.into_iter().flatten().collect();
        let mut writer = self.group.next_column()?.expect("the schema has a column for each");
        writer.typed::<T>().write_batch(&there, Some(&present), None)?;
        writer.close()
    }
}

/// The runs of a table again, with the commands of the answer that it belongs to.
///
/// # Errors
/// One sentence where it cannot be read.
pub fn read(path: &Path, commands: &[Measure]) -> std::result::Result<Vec<Run>, String> {
    let read = File::open(path).map_err(|error| error.to_string()).and_then(|file| {
        SerializedFileReader::new(file)
            .and_then(|file| runs(&Columns(file), commands))
            .map_err(|error| plain(error).to_string())
    });
    read.map_err(|error| format!("{}: {error}: restore it as it was written", path.display()))
}

fn runs(table: &Columns, commands: &[Measure]) -> Result<Vec<Run>> {
    let roles = table.all::<ByteArrayType>("role")?;
    let settings = table.all::<ByteArrayType>("parameters")?;
    let known: Vec<_> = commands.iter().map(|one| (one.case.role.clone(), parameters(&one.case))).collect();
    let slot = |row: usize| {
        let wanted = |(role, setting): &(String, String)| {
            (role.as_bytes(), setting.as_bytes()) == (roles[row].data(), settings[row].data())
        };
        match known.iter().position(wanted) {
            Some(number) => Ok(Slot::Case(number)),
            None if roles[row].data() == b"shell" => Ok(Slot::Shell),
            None => Err(ParquetError::General(format!("row {} is of no command of the answer", row + 1))),
        }
    };
    let (rounds, places) = (table.all::<Int32Type>("round")?, table.all::<Int32Type>("position")?);
    let warm_up = table.all::<BoolType>("warm_up")?;
    let count = |name| table.all::<Int64Type>(name);
    let (began, wall, user, system) =
        (count("began")?, count("wall_ns")?, count("user_ns")?, count("system_ns")?);
    let (peak, floor) = (count("peak_memory_bytes")?, count("memory_floor_bytes")?);
    let (minor, major) = (count("minor_faults")?, count("major_faults")?);
    let (waited, made) = (count("voluntary_switches")?, count("involuntary_switches")?);
    let (instructions, cycles) =
        (table.some::<Int64Type>("instructions")?, table.some::<Int64Type>("cycles")?);
    let (codes, signals) = (table.some::<Int32Type>("exit_code")?, table.some::<Int32Type>("signal")?);
    let run = |row: usize| {
        let took = Took {
            wall_ns: wall[row] as u64,
            user_ns: user[row] as u64,
            system_ns: system[row] as u64,
            peak_memory: peak[row] as u64,
            memory_floor: floor[row] as u64,
            minor_faults: minor[row] as u64,
            major_faults: major[row] as u64,
            voluntary_switches: waited[row] as u64,
            involuntary_switches: made[row] as u64,
            instructions: instructions[row].map(|count| count as u64),
            cycles: cycles[row].map(|count| count as u64),
            code: codes[row],
            signal: signals[row],
        };
        Ok(Run {
            slot: slot(row)?,
            round: rounds[row] as u32,
            place: places[row] as u32,
            warm_up: warm_up[row],
            began_unix_ns: began[row] as u64,
            took,
        })
    };
    (0..roles.len()).map(run).collect()
}

struct Columns(SerializedFileReader<File>);

impl Columns {
    // A null is an error.
    fn all<T: DataType>(&self, name: &str) -> Result<Vec<T::T>> {
        let known = self.some::<T>(name)?.into_iter();
        let all: Option<Vec<T::T>> = known.collect();
        all.ok_or_else(|| ParquetError::General(format!("column '{name}' has nulls")))
    }

    fn some<T: DataType>(&self, name: &str) -> Result<Vec<Option<T::T>>> {
        let schema = self.0.metadata().file_metadata().schema_descr();
        let place = (0..schema.num_columns()).find(|place| schema.column(*place).name() == name);
        let place = place
            .filter(|place| schema.column(*place).physical_type() == T::get_physical_type())
            .ok_or_else(|| ParquetError::General(format!("column '{name}' is missing or of another type")))?;
        let optional = schema.column(place).max_def_level() > 0;
        let mut all = Vec::new();
        for number in 0..self.0.num_row_groups() {
            let group = self.0.get_row_group(number)?;
            let rows = group.metadata().num_rows() as usize;
            let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
            let (mut present, mut values) = (Vec::new(), Vec::new());
            let levels = optional.then_some(&mut present);
            let (read, ..) = reader.read_records(rows, levels, None, &mut values)?;
            if read != rows {
                return Err(ParquetError::General(format!("column '{name}' ends early")));
            }
            let mut values = values.into_iter();
            if optional {
                all.extend(present.iter().map(|level| if *level > 0 { values.next() } else { None }));
            } else {
                all.extend(values.map(Some));
            }
        }
        Ok(all)
    }
}
