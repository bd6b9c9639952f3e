//! The parameters of records.

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::Target;
use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;

/// Small records, each written so that a crash leaves all of it or none, and durable before the
/// next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// How a record is made failure-atomic.
    pub method: RecordMethod,
    /// Bytes of a record's payload: 56B, which fit into a line together with a flag, or 128B, two
    /// lines.
    pub payload: Bytes,
    /// Bytes of memory that records are written to, one behind the other, and again from the start:
    /// 4 KiB at least.
    pub size: Bytes,
    /// Where the memory comes from.
    pub target: Target,
}

/// How a record is made failure-atomic. All but the last are from Piotr Balcer's talk on Optane
/// persistent memory, and write a record where none was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RecordMethod {
    /// Payload, flush, fence; then a flag in a line of its own, flush, fence. The talk's "BAD
    /// example".
    Flag,
    /// Payload and checksum, padded to whole lines, by non-temporal stores under one fence. Its
    /// "GOOD example".
    Checksum,
    /// Payload and flag in one line, by ordinary stores, the flag last; flush, fence.
    SameLine,
    /// As the talk has it: payload by ordinary stores and a flush, then the flag in the same line
    /// by a non-temporal store, which nothing orders behind them; fence.
    SameLineNt,
    /// [`ringfence_persist::record::Record`], which replaces a value that was there: two slots,
    /// checksummed, one fence.
    Slots,
}

impl RecordMethod {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Flag, Self::Checksum, Self::SameLine, Self::SameLineNt, Self::Slots];

    /// Whether payload and flag must fit into one line.
    pub fn in_one_line(self) -> bool {
        matches!(self, Self::SameLine | Self::SameLineNt)
    }
}

/// The payloads there are, bytes.
pub const PAYLOADS: [u64; 2] = [56, 128];

impl Default for Record {
    fn default() -> Self {
        Self {
            method: RecordMethod::Slots,
            payload: Bytes(56),
            size: Bytes::mib(16),
            target: Target::Dram,
        }
    }
}

axes!(Record: Records, "record" {
    method: RecordMethod,
    payload: Bytes,
    size: Bytes,
    target: Target,
});

impl Parameters for Record {
    fn unit(&self) -> &'static str {
        "records"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(self.payload.0)
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.size)
    }

    fn check(&self) -> Result<(), String> {
        if !PAYLOADS.contains(&self.payload.0) {
            return Err(format!(
                "payload = {} is neither 56B nor 128B: choose one of these",
                self.payload
            ));
        }
        if self.method.in_one_line() && self.payload.0 > 56 {
            return Err(format!(
                "payload = {} does not fit into one line together with its flag: take 56B, or \
                 another method",
                self.payload
            ));
        }
        if self.size < Bytes::kib(4) {
            return Err(format!("size = {} is too small for records: at least 4KiB", self.size));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_records_are_refused_with_the_remedy() {
        let two_lines = Record { payload: Bytes(128), ..Record::default() };
        let cases = [
            (Record { payload: Bytes(64), ..Record::default() }, "neither 56B nor 128B"),
            (Record { method: RecordMethod::SameLine, ..two_lines.clone() }, "take 56B"),
            (Record { method: RecordMethod::SameLineNt, ..two_lines.clone() }, "take 56B"),
            (Record { size: Bytes(64), ..Record::default() }, "at least 4KiB"),
        ];
        for (record, part) in cases {
            let error = record.check().expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert_eq!((Record::default().check(), two_lines.check()), (Ok(()), Ok(())));
    }
}
