//! What Intel's `clflush` ties together, from the first one behind a fence to the next fence.

// After the `clflush` nothing reaches memory before `need` stores of `line` did. It came behind
// `time` stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tie {
    pub line: usize,
    pub need: u32,
    pub time: u32,
}

/// Ties, and when the stores came that they may concern.
#[derive(Debug)]
pub(super) struct Ties {
    pub ties: Vec<Tie>,
    // Of lines in order: the number of the first store behind the first tie, and when it and the
    // next ones came.
    pub times: Vec<(usize, u32, Vec<u32>)>,
}

impl Ties {
    // How many stores of the line came before: all, or as many as were counted.
    pub(super) fn stores_before(&self, line: usize, time: u32) -> u32 {
        match self.times.binary_search_by_key(&line, |(line, ..)| *line) {
            Ok(at) => {
                let (_, first, times) = &self.times[at];
                first + times.partition_point(|other| *other < time) as u32
            }
            Err(_) => u32::MAX,
        }
    }
}
