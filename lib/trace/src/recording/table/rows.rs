//! Rows that are yet to be written, column by column.

use parquet::data_type::ByteArray;

use super::{Column, Kind, Table};

/// Rows of one table. Each column gets one value for each row, in any order of the columns.
#[derive(Debug)]
pub struct Rows {
    columns: Vec<Filling>,
    bytes: usize,
}

/// What a column gets: only what is present. The format's integers are signed; the annotation says
/// to read the same bits as unsigned.
#[derive(Debug)]
pub(super) enum Values {
    U32(Vec<i32>),
    U64(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

#[derive(Debug)]
struct Filling {
    values: Filled,
    // Whether each row has a value, where the column is optional.
    present: Option<Vec<i16>>,
}

#[derive(Debug)]
enum Filled {
    U32(Vec<i32>),
    U64(Vec<i64>),
    // All of them behind each other, and where each ends.
    Bytes(Vec<u8>, Vec<usize>),
}

impl Rows {
    pub fn new(table: &Table) -> Self {
        let filling = |column: &Column| Filling {
            values: match column.kind {
                Kind::U32 => Filled::U32(Vec::new()),
                Kind::U64 | Kind::Rising => Filled::U64(Vec::new()),
                Kind::Text | Kind::Bytes => Filled::Bytes(Vec::new(), Vec::new()),
            },
            present: column.optional.then(Vec::new),
        };
        Self { columns: table.columns.iter().map(filling).collect(), bytes: 0 }
    }

    /// Rows: values of the first column, which is never optional.
    pub fn len(&self) -> usize {
        match &self.columns[0].values {
            Filled::U32(values) => values.len(),
            Filled::U64(values) => values.len(),
            Filled::Bytes(_, ends) => ends.len(),
        }
    }

    /// Bytes of text and bytes in them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn u32(&mut self, column: usize, value: impl Into<Option<u32>>) {
        let value = value.into();
        let Filling { values: Filled::U32(values), present } = &mut self.columns[column] else {
            unreachable!("column {column} has no 32-bit numbers")
        };
        note(present, value.is_some());
        values.extend(value.map(|value| value as i32));
    }

    pub fn u64(&mut self, column: usize, value: impl Into<Option<u64>>) {
        let value = value.into();
        let Filling { values: Filled::U64(values), present } = &mut self.columns[column] else {
            unreachable!("column {column} has no 64-bit numbers")
        };
        note(present, value.is_some());
        values.extend(value.map(|value| value as i64));
    }

    pub fn blob<'v>(&mut self, column: usize, value: impl Into<Option<&'v [u8]>>) {
        let value = value.into();
        let Filling { values: Filled::Bytes(all, ends), present } = &mut self.columns[column]
        else {
            unreachable!("column {column} has no bytes")
        };
        note(present, value.is_some());
        if let Some(value) = value {
            all.extend_from_slice(value);
            ends.push(all.len());
            self.bytes += value.len();
        }
    }

    /// What a file gets of them.
    pub(super) fn into_columns(self) -> Vec<(Values, Option<Vec<i16>>)> {
        let columns = self.columns.into_iter().map(|Filling { values, present }| {
            let values = match values {
                Filled::U32(values) => Values::U32(values),
                Filled::U64(values) => Values::U64(values),
                Filled::Bytes(all, ends) => Values::Bytes(pieces(all, &ends)),
            };
            (values, present)
        });
        columns.collect()
    }
}

fn note(present: &mut Option<Vec<i16>>, is: bool) {
    match present {
        Some(present) => present.push(i16::from(is)),
        None => debug_assert!(is, "only optional columns lack values"),
    }
}

fn pieces(all: Vec<u8>, ends: &[usize]) -> Vec<ByteArray> {
    let all = ByteArray::from(all);
    let mut start = 0;
    let piece = |end: &usize| {
        let piece = all.slice(start, end - start);
        start = *end;
        piece
    };
    ends.iter().map(piece).collect()
}
