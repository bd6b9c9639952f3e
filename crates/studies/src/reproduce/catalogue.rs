//! The experiment files and published figures that the program carries with it.

use ringfence_experiment::Experiment;

use super::Published;
use super::figures::parse;

macro_rules! experiments {
    ($($name:literal,)+) => {
        const EXPERIMENTS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../../experiments/", $name, ".toml"))),)+
        ];
    };
}

macro_rules! tables {
    ($($name:literal,)+) => {
        const TABLES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../../experiments/published/", $name, ".csv"))),)+
        ];
    };
}

experiments! {
    "do-more-victims-suffer-more",
    "do-wider-registers-copy-faster",
    "do-writers-to-dram-disturb-more-than-writers-to-pm",
    "does-a-crowd-of-writers-relieve-the-sibling",
    "does-a-log-want-fsync-or-fdatasync",
    "does-a-neighbours-writing-stall-my-commits",
    "does-a-scan-of-files-slow-a-cache-hungry-neighbour",
    "does-a-writer-gain-beside-mcf",
    "does-another-file-system-spare-my-commits",
    "does-clflush-want-chunks-below-4-kib",
    "does-locking-keep-reads-fast-beside-noise",
    "does-mcf-suffer-more-beside-a-writer-than-beside-mcf",
    "does-the-lab-see-two-percent",
    "how-does-bandwidth-depend-on-the-access-size",
    "how-long-do-reads-take-beside-a-noisy-neighbour",
    "how-many-misses-by-region-size",
    "how-many-misses-does-a-locked-region-have",
    "how-much-do-cache-stressors-slow-a-pointer-chase",
    "how-much-do-writers-under-one-cache-slow-mcf",
    "how-much-does-a-writer-slow-a-pointer-chase",
    "how-much-does-fio-slow-a-pointer-chase",
    "how-much-faster-is-clflushopt-by-buffer-size",
    "how-should-a-log-grow",
    "is-io-uring-faster-for-a-durable-write",
    "ring-dax-or-page-cache",
    "ring-entry-size",
    "ring-pinned-or-not",
    "what-does-a-batch-of-commits-save",
    "what-does-a-flush-cost-by-block-size",
    "what-does-a-flush-inside-a-cached-region-do",
    "what-does-failure-atomicity-cost",
    "what-does-ordering-cost-a-flush",
    "what-does-sloppy-measuring-cost",
}

tables! {
    "000-siblings-and-fences",
    "002-flush-cost-victims-and-dram",
    "003-writers-under-one-cache",
    "004-slides",
}

/// The shipped experiments by name, in order of their names.
pub fn experiments() -> Vec<Experiment> {
    let parse = |(name, text): &(&str, &str)| {
        Experiment::parse(text)
            .unwrap_or_else(|error| panic!("the shipped experiment {name}: {error}"))
    };
    EXPERIMENTS.iter().map(parse).collect()
}

/// All published figures, table by table.
pub fn published() -> Vec<Published> {
    let rows = |(name, text): &(&str, &str)| {
        parse(text).unwrap_or_else(|error| panic!("the shipped table {name}: {error}"))
    };
    TABLES.iter().flat_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(folder: &str, extension: &str) -> Vec<String> {
        let folder = format!("{}/../../{folder}", env!("CARGO_MANIFEST_DIR"));
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let of_kind = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
        let mut stems: Vec<String> =
            of_kind.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        stems.sort();
        stems
    }

    #[test]
    fn nothing_in_the_folders_is_left_behind() {
        let names = |list: &[(&str, &str)]| {
            list.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(EXPERIMENTS), stems("experiments", "toml"));
        assert_eq!(names(TABLES), stems("experiments/published", "csv"));
        assert_eq!(experiments().len(), EXPERIMENTS.len());
        assert!(published().len() > 90, "{}", published().len());
    }
}
