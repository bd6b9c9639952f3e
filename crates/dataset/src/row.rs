//! A sample as a journal has it: an array of its columns' values, with its latencies behind them
//! where it has any, and behind these what the disk did, where that was looked at.

use std::borrow::Cow;
use std::fmt;

use ringfence_experiment::sample::Sample;
use ringfence_experiment::stretch::Stretch;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use super::columns::{COLUMNS, Column, Kind, Known};

/// A sample that is written.
pub struct Row<'a>(pub &'a Sample);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sample) = self;
        let mut row = serializer.serialize_seq(None)?;
        for column in COLUMNS {
            match &column.kind {
                Kind::U32(get, _) => row.serialize_element(&get(sample))?,
                Kind::U64(get, _) => row.serialize_element(&get(sample))?,
                Kind::OptU64(get, _) => row.serialize_element(&get(sample))?,
                // What is not a number becomes null, which says the same.
                Kind::OptF64(get, _) => row.serialize_element(&get(sample))?,
                Kind::OptBool(get, _) => row.serialize_element(&get(sample))?,
                Kind::Role => row.serialize_element(&*sample.role)?,
                Kind::Class => row.serialize_element(&sample.class)?,
            }
        }
        if sample.latencies.is_some() || sample.stretches.is_some() {
            row.serialize_element(&sample.latencies)?;
        }
        if let Some(stretches) = &sample.stretches {
            row.serialize_element(&**stretches)?;
        }
        row.end()
    }
}

/// Reads a step: an array of rows with these columns. What a sample has besides stays at its
/// default.
pub struct Step<'a> {
    pub columns: &'a [&'static Column],
    pub known: &'a Known,
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Vec<Sample>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Sample>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Vec<Sample>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Vec<Sample>, A::Error> {
        let mut samples = Vec::new();
        while let Some(sample) = rows.next_element_seed(One(&self))? {
            samples.push(sample);
        }
        Ok(samples)
    }
}

struct One<'a>(&'a Step<'a>);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Sample;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Sample, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Sample;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of {} columns", self.0.columns.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<Sample, A::Error> {
        let Step { columns, known } = self.0;
        let mut sample = Sample::default();
        for (place, column) in columns.iter().enumerate() {
            let short = || A::Error::invalid_length(place, &self);
            match &column.kind {
                Kind::U32(_, set) => set(&mut sample, row.next_element()?.ok_or_else(short)?),
                Kind::U64(_, set) => set(&mut sample, row.next_element()?.ok_or_else(short)?),
                Kind::OptU64(_, set) => set(&mut sample, row.next_element()?.ok_or_else(short)?),
                Kind::OptF64(_, set) => set(&mut sample, row.next_element()?.ok_or_else(short)?),
                Kind::OptBool(_, set) => set(&mut sample, row.next_element()?.ok_or_else(short)?),
                Kind::Role => {
                    let Text(name) = row.next_element()?.ok_or_else(short)?;
                    sample.role = known.role(name.as_bytes()).map_err(A::Error::custom)?;
                }
                Kind::Class => sample.class = row.next_element()?.ok_or_else(short)?,
            }
        }
        sample.latencies = row.next_element()?.flatten();
        sample.stretches = row.next_element::<Vec<Stretch>>()?.map(Into::into);
        Ok(sample)
    }
}

// Not copied unless it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
