//! `histograms.json`: latencies that tasks counted, where a task was asked to. An optional file: a dataset
//! is complete without it.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::DatasetError;
use super::{HISTOGRAMS, SCHEMA, files};

/// The latencies that one role counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The role.
    pub role: String,
    /// What was timed, in words.
    pub what: String,
    /// Buckets that hold anything as (least latency in ns, count), ascending; a bucket reaches up to the
    /// next boundary, of which there are eight in every power of two.
    pub buckets: Vec<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    histograms: Vec<Histogram>,
}

/// Puts the histograms into a dataset's folder, in place of those that were there; without any, nothing
/// is written.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_histograms(dir: &Path, histograms: &[Histogram]) -> Result<(), DatasetError> {
    if histograms.is_empty() {
        return Ok(());
    }
    let file = File { schema: SCHEMA, histograms: histograms.into() };
    let text = serde_json::to_string(&file).expect("histograms have text keys only") + "\n";
    let path = dir.join(HISTOGRAMS);
    files::replace(&path, |mut file| {
        file.write_all(text.as_bytes()).map_err(DatasetError::io("write", &path))?;
        Ok((file, ()))
    })
}

/// The histograms of a dataset; none where nothing was counted.
///
/// # Errors
/// Where there is a file that is not what [`write_histograms`] writes.
pub fn histograms(dir: &Path) -> Result<Vec<Histogram>, DatasetError> {
    let path = dir.join(HISTOGRAMS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let damaged = |problem: String| {
        let problem = format!("{problem}: restore it as it was written, or remove it");
        DatasetError::damaged(&path, problem)
    };
    let file: File = serde_json::from_str(&files::read(&path)?)
        .map_err(|error| damaged(format!("these are no histograms ({error})")))?;
    if file.schema != SCHEMA {
        return Err(damaged(format!("schema {} is not the one that this program reads", file.schema)));
    }
    Ok(file.histograms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(histograms(dir.path()).unwrap(), []);
        write_histograms(dir.path(), &[]).unwrap();
        assert!(!dir.path().join(HISTOGRAMS).exists());
        let one = Histogram { role: "a".into(), what: "loads".into(), buckets: vec![(64, 3), (1 << 40, 1)] };
        for all in [vec![one.clone(), one.clone()], vec![one]] {
            write_histograms(dir.path(), &all).unwrap();
            assert_eq!(histograms(dir.path()).unwrap(), all);
        }
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{}", r#"{"schema":9,"histograms":[]}"#, r#"{"schema":1,"histograms":[1]}"#] {
            std::fs::write(dir.path().join(HISTOGRAMS), text).unwrap();
            let error = histograms(dir.path()).unwrap_err();
            assert!(!error.is_usage() && error.to_string().contains("histograms.json"), "{error}");
        }
    }
}
