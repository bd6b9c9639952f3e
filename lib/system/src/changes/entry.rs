//! One value in a file that has a line for each device, such as a control group's `io.max`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::changes::error::Error;
use crate::changes::kernel::Kernel;

/// Which value of such a file: that of a device, and of one of its keys where a line has several.
///
/// Such a file is read whole and written a line at a time, and a device without a line has none of
/// its values. So its text cannot be restored as it was, and lines of other programs must not be
/// taken for a change of one's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// What its line begins with, such as `8:0`.
    pub device: String,
    /// Its key, as `wbps` in `8:0 rbps=max wbps=1048576`; absent: the line is the device and a
    /// value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it is where there is no line, and what is written to have none: `max`, or `0`.
    pub unset: String,
}

impl Entry {
    /// Its value in the text of a file.
    pub fn of(&self, text: &str) -> String {
        let mut lines = text.lines().map(str::split_whitespace);
        let line =
            lines.find_map(|mut words| (words.next() == Some(&self.device)).then_some(words));
        let value = line.and_then(|mut words| match &self.key {
            Some(key) => words.find_map(|word| word.strip_prefix(key.as_str())?.strip_prefix('=')),
            None => words.next(),
        });
        value.unwrap_or(&self.unset).to_owned()
    }

    /// What is written to give it a value.
    pub fn line(&self, value: &str) -> String {
        match &self.key {
            Some(key) => format!("{} {key}={value}", self.device),
            None => format!("{} {value}", self.device),
        }
    }

    /// It in words, such as `8:0 wbps`.
    pub(crate) fn name(&self) -> String {
        let words = [Some(self.device.as_str()), self.key.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn read(&self, kernel: &dyn Kernel, file: &Path) -> io::Result<String> {
        kernel.read(file).map(|text| self.of(&text))
    }

    pub(crate) fn set(&self, kernel: &dyn Kernel, file: &Path, value: &str) -> Result<(), Error> {
        let line = self.line(value);
        kernel
            .write(file, &line)
            .map_err(Error::refused(format!("writing '{line}' to {}", file.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wbps(device: &str) -> Entry {
        Entry { device: device.into(), key: Some("wbps".into()), unset: "max".into() }
    }

    #[test]
    fn a_value_is_that_of_its_device_and_key() {
        let text = "8:0 rbps=max wbps=1048576 riops=max wiops=5\n259:3 rbps=7 wbps=max riops=max \
                    wiops=max\n";
        assert_eq!(wbps("8:0").of(text), "1048576");
        assert_eq!([wbps("259:3"), wbps("8:1"), wbps("8")].map(|entry| entry.of(text)), ["max"; 3]);
        let wiops = Entry { key: Some("wiops".into()), ..wbps("8:0") };
        assert_eq!((wiops.of(text), wiops.line("9")), ("5".into(), "8:0 wiops=9".into()));
        let one = Entry { device: "8:0".into(), key: None, unset: "0".into() };
        assert_eq!(
            (one.of("8:16 3\n8:0 5242880\n"), one.of(""), one.line("0")),
            ("5242880".into(), "0".into(), "8:0 0".into())
        );
    }
}
