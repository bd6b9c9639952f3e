//! One value in a file that has a line for each device, such as a control group's `io.max`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kernel::Kernel;

/// Which value of such a file: that of a device, and of one of its keys where a line has several.
///
/// Such a file is read whole and written a line at a time, and a device without a line has none of its values. So
/// neither can its text be put back as it was, nor may somebody else's lines be taken for a change of one's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// What its line begins with, such as `8:0`.
    pub device: String,
    /// Its key, as `wbps` in `8:0 rbps=max wbps=1048576`; absent: the line is the device and a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it is where there is no line, and what is written to have none: `max`, or `0`.
    pub unset: String,
}

impl Entry {
    /// Its value in the text of a file.
    pub fn of(&self, text: &str) -> String {
        let mut lines = text.lines().map(str::split_whitespace);
        let line = lines.find_map(|mut words| (words.next() == Some(&self.device)).then_some(words));
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
        kernel.write(file, &line).map_err(Error::refused(format!("writing '{line}' to {}", file.display())))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use ringfence_sysfs::root::FsRoot;

    use super::*;
    use crate::changes::Changes;
    use crate::left::{Whose, put_back_on};
    use crate::model::Model;
    use crate::options::Options;

    const OWNER: u32 = 7;
    const FILE: &str = "/cg/io.max";

    fn wbps(device: &str) -> Entry {
        Entry { device: device.into(), key: Some("wbps".into()), unset: "max".into() }
    }

    #[test]
    fn a_value_is_that_of_its_device_and_key() {
        let text = "8:0 rbps=max wbps=1048576 riops=max wiops=5\n259:3 rbps=7 wbps=max riops=max wiops=max\n";
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

    struct World {
        model: Arc<Model>,
        folder: tempfile::TempDir,
    }

    impl World {
        fn new(text: &str) -> Self {
            let model = Arc::new(Model::new(&[OWNER], &[(FILE, text)]));
            Self { model, folder: tempfile::tempdir().unwrap() }
        }

        fn changes(&self) -> Changes {
            let options = Options { folder: Some(self.folder.path().into()), ..Options::default() };
            Changes::begin_on(self.model.clone(), OWNER, "a test", &options).unwrap()
        }

        fn now(&self) -> String {
            self.model.read(Path::new(FILE)).unwrap().trim().to_owned()
        }

        fn recover(&self) -> Vec<String> {
            self.model.end(OWNER);
            let kernel: Arc<dyn Kernel> = self.model.clone();
            let options = Options { folder: Some(self.folder.path().into()), ..Options::default() };
            let done = put_back_on(&kernel, &FsRoot::host(), Whose::Anybody, &options);
            done.into_iter().flat_map(|one| one.result.unwrap().left).collect()
        }
    }

    #[test]
    fn others_lines_are_neither_changed_nor_in_the_way() {
        let before = "8:0 rbps=max wbps=77 riops=max wiops=max\n8:16 rbps=1 wbps=max riops=max wiops=max";
        let world = World::new(before);
        let mut changes = world.changes();
        for device in ["8:0", "8:16", "8:32"] {
            changes.set_entry(FILE, wbps(device), "1024").unwrap();
            assert_eq!(wbps(device).of(&world.now()), "1024");
        }
        // Another value of the same line, by somebody else.
        world.model.write(Path::new(FILE), "8:16 rbps=2").unwrap();
        changes.set_back_entry(Path::new(FILE), &wbps("8:0")).unwrap();
        assert_eq!(wbps("8:0").of(&world.now()), "77");
        let restored = changes.put_back().unwrap();
        assert_eq!(restored.left, [""; 0]);
        assert_eq!(world.now(), before.replace("rbps=1", "rbps=2"));
    }

    #[test]
    fn whoever_comes_next_puts_each_back_wherever_it_was_killed() {
        for entries in 0..3 {
            let world = World::new("8:0 rbps=max wbps=77 riops=max wiops=max");
            let before = world.now();
            let mut changes = world.changes();
            for device in ["8:0", "8:16"].into_iter().take(entries) {
                changes.set_entry(FILE, wbps(device), "1024").unwrap();
            }
            changes.abandon();
            assert_eq!(world.recover(), [""; 0]);
            assert_eq!(world.now(), before);
        }
    }

    #[test]
    fn what_somebody_else_has_set_meanwhile_stays_and_is_told() {
        let world = World::new("");
        let mut changes = world.changes();
        changes.set_entry(FILE, wbps("8:0"), "1024").unwrap();
        world.model.write(Path::new(FILE), "8:0 wbps=5").unwrap();
        changes.abandon();
        assert_eq!(world.recover(), ["8:0 wbps in /cg/io.max is 5 by now, was max before"]);
        assert_eq!(wbps("8:0").of(&world.now()), "5");
        assert_eq!(PathBuf::from(FILE).file_name().unwrap(), "io.max");
    }
}
