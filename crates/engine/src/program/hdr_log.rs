//! HDR histogram logs: what many load generators print of each interval, in one line
//! (HdrHistogram's log format, version 1).
//!
//! A line is `Tag=...,start,length,max,histogram` in seconds, of which the tag may be absent and
//! the last is in base64. Comments begin with `#`. The values' unit stands nowhere.

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
// Bytes between the cookie and the counts, and where among them stands how many bytes of counts
// there are.
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

/// The interval of a line; `None` for headings and comments.
///
/// # Errors
/// Why it cannot be read.
pub fn read(line: &str) -> Result<Option<Interval>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.starts_with("\"StartTimestamp\"") {
        return Ok(None);
    }
    let text = format!("{line}\n");
    let Some(Ok(LogEntry::Interval(entry))) = IntervalLogIterator::new(text.as_bytes()).next()
    else {
        return Err(
            "it does not have the form start,length,max,histogram, optionally after Tag=NAME,"
                .into(),
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
                "its histogram does not have the encoding V2, which HdrHistogram writes since \
                 version 2.1"
                    .into(),
            );
        }
    };
    // The decoder allocates as many bytes as the header says.
    let says = plain.get(4..8).and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
    if says.is_none_or(|length| length as usize + HEADER > plain.len()) {
        return Err("its histogram ends too early".into());
    }
    Deserializer::new()
        .deserialize(&mut plain.as_slice())
        .map_err(|error| format!("its histogram cannot be read ({error})"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

    use super::*;

    // Of two intervals, by the crate's own writer: with a tag, without one.
    fn written(serializer: &mut impl Serializer) -> String {
        let mut log = Vec::new();
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .with_start_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .with_max_value_divisor(1e6)
            .begin_log_with(&mut log, serializer)
            .unwrap();
        let mut latencies = Histogram::<u64>::new(3).unwrap();
        latencies.record_n(310_000, 90).unwrap();
        latencies.record_n(2_000_000, 10).unwrap();
        let second = Duration::from_secs(1);
        writer.write_histogram(&latencies, second, second, Tag::new("get")).ok().unwrap();
        writer.write_histogram(&latencies, second * 2, second / 10, None).ok().unwrap();
        String::from_utf8(log).unwrap()
    }

    #[test]
    fn intervals_are_read_as_they_were_written() {
        for log in [written(&mut V2DeflateSerializer::new()), written(&mut V2Serializer::new())] {
            let lines: Vec<&str> = log.lines().collect();
            assert!(lines.iter().all(|line| is_of_a_log(line)), "{log}");
            let read: Vec<Interval> = lines.iter().filter_map(|line| read(line).unwrap()).collect();
            let told: Vec<_> =
                read.iter().map(|one| (one.tag.as_str(), one.length.as_millis())).collect();
            assert_eq!(told, [("get", 1000), ("", 100)]);
            for Interval { latencies, .. } in &read {
                assert_eq!((latencies.len(), latencies.count_at(310_000)), (100, 90));
                assert!(latencies.max().abs_diff(2_000_000) < 2000);
            }
        }
    }

    // As jHiccup wrote it (HdrHistogram's src/test/resources/jHiccup-2.0.7S.logV2.hlog); its
    // longest pause is 2.769 ms.
    #[test]
    fn what_java_has_written_is_read() {
        for heading in [
            "#[Histogram log format version 1.2]",
            "#[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]",
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
             \"Interval_Compressed_Histogram\"",
            "",
        ] {
            assert!(read(heading).unwrap().is_none(), "{heading}");
        }
        let line = "0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEu\
                    ATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=";
        let interval = read(&format!("{line}\r")).unwrap().unwrap();
        assert_eq!(interval.length, Duration::from_millis(1007));
        assert!(
            interval.latencies.max().abs_diff(2_769_000) < 3000,
            "{}",
            interval.latencies.max()
        );
    }

    #[test]
    fn damaged_lines_are_refused_and_never_panic() {
        let log = written(&mut V2DeflateSerializer::new());
        let line = log.lines().last().unwrap();
        let refused = |line: &str| read(line).err().unwrap();
        assert!(refused("hello").contains("does not have the form"));
        assert!(refused("0.1,1.0,2.7").contains("does not have the form"));
        assert!(refused("0.1,1.0,2.7,HIST*").contains("base64 is damaged"));
        assert!(refused("0.1,1.0,2.7,AAAA").contains("does not have the encoding V2"));
        let fields: Vec<&str> = line.split(',').collect();
        let bytes = STANDARD.decode(fields[3]).unwrap();
        let with = |bytes: &[u8]| {
            let encoded = STANDARD.encode(bytes);
            read(&[fields[0], fields[1], fields[2], &encoded].join(","))
        };
        // Cut anywhere, and with any byte changed: refused, or another histogram.
        for length in 0..bytes.len() {
            assert!(with(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let _ = with(&changed);
        }
        // One that says of itself that it is larger than memory.
        let mut plain = STANDARD
            .decode(
                written(&mut V2Serializer::new())
                    .lines()
                    .last()
                    .unwrap()
                    .split(',')
                    .nth(3)
                    .unwrap(),
            )
            .unwrap();
        plain[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(with(&plain).err().unwrap(), "its histogram ends too early");
    }
}
