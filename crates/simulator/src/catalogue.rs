//! The machines that come with the program.

use crate::file::Description;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(include_str!(concat!("../../../machines/", $name, ".toml"))),*]
    };
}

const FILES: [&str; 7] = shipped![
    "cascade-lake-optane",
    "ice-lake-optane",
    "sapphire-rapids-cxl",
    "broadwell-x",
    "goldmont-j3455",
    "zen3-epyc",
    "laptop",
];

/// All of them.
///
/// # Panics
/// Never: a test reads every file.
pub fn all() -> Vec<Description> {
    FILES.map(|text| Description::parse(text).expect("a test reads them")).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_machine_file_is_shipped_under_its_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut names: Vec<String> =
            all().into_iter().map(|description| description.name).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
        for text in FILES {
            Description::parse(text).unwrap();
        }
    }
}
