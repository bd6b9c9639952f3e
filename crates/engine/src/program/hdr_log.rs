//! HDR histogram logs: what many load generators print of each interval, in one line (HdrHistogram's log format, version 1).
//!
//! A line is `Tag=...,start,length,max,histogram` in seconds, of which the tag may be absent and the last is in base64. Comments
//! begin with `#`. The values' unit stands nowhere.

use std::io::Read;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

// Of the encoded form, "inflate me" and what comes out (HdrHistogram's V2 encoding).
const COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
// Bytes between the cookie and the counts, and where among them stands how many bytes of counts there are.
const HEADER: usize = 40;
// More than a histogram of all 64-bit values with five digits takes.
const LARGEST: u64 = 1 << 26;

/// What happened in an interval.
pub struct Interval {
    /// Which of several histograms it is.
    pub tag: String,
    /// How long the interval was.
    pub length: Duration,
    /// The latencies.
    pub latencies: Histogram<u64>,
}

/// Whether a line can only be one of such a log.
pub fn is_of_a_log(line: &str) -> bool {
    let encoded = line.rsplit_once(',').is_some_and(|(_, last)| last.starts_with("HIST"));
    line.starts_with("#[") || line.starts_with("\"StartTimestamp\"") || encoded
}

/// The interval that a line tells of; `None` for headings and comments.
///
/// # Errors
/// Why it cannot be read.
pub fn read(line: &str) -> Result<Option<Interval>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.starts_with("\"StartTimestamp\"") {
        return Ok(None);
    }
    let text = format!("{line}\n");
    let Some(Ok(LogEntry::Interval(entry))) = IntervalLogIterator::new(text.as_bytes()).next() else {
        return Err(
            "it is not of the form start,length,max,histogram, with a Tag=NAME, in front or not".into()
        );
    };
    let bytes = STANDARD
        .decode(entry.encoded_histogram())
        .map_err(|error| format!("its base64 is damaged ({error})"))?;
    Ok(Some(Interval {
        tag: entry.tag().map_or(String::new(), |tag| tag.as_str().into()),
        length: entry.duration(),
        latencies: histogram(&bytes)?,
    }))
}

fn histogram(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let plain = match bytes.get(..4) {
        Some(cookie) if cookie == COMPRESSED => {
            let mut plain = Vec::new();
            let compressed = bytes.get(8..).unwrap_or_default();
            ZlibDecoder::new(compressed)
                .take(LARGEST)
                .read_to_end(&mut plain)
                .map_err(|error| format!("its histogram cannot be inflated ({error})"))?;
            plain
        }
        Some(cookie) if cookie == PLAIN => bytes.to_vec(),
        _ => {
            return Err(
                "its histogram is not of the encoding V2, which HdrHistogram has written since 2.1".into()
            );
        }
    };
    // Whoever reads it makes room for as many bytes as it says.
    let says = plain.get(4..8).and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
    if says.is_none_or(|length| length as usize + HEADER > plain.len()) {
        return Err("its histogram ends too early".into());
    }
    Deserializer::new()
        .deserialize(&mut plain.as_slice())
        .map_err(|error| format!("its histogram cannot be read ({error})"))
}

#[cfg(test)]
#[path = "../../tests/inside/hdr_log.rs"]
mod tests;
