//! Names that people give to bytes.

use std::fmt::Write as _;
use std::ops::Range;

#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    arrays: Vec<Array>,
}

#[derive(Debug, Clone)]
struct Array {
    at: usize,
    stride: usize,
    count: usize,
    name: String,
    fields: Vec<(Range<usize>, String)>,
}

impl Names {
    pub(crate) fn add(&mut self, range: Range<usize>, name: &str) {
        let whole = vec![(0..range.len(), String::new())];
        self.arrays.push(Array {
            at: range.start,
            stride: range.len().max(1),
            count: 1,
            name: name.into(),
            fields: whole,
        });
    }

    pub(crate) fn add_array(
        &mut self,
        at: usize,
        stride: usize,
        count: usize,
        name: &str,
        fields: &[(Range<usize>, &str)],
    ) {
        let fields = fields.iter().map(|(range, name)| (range.clone(), (*name).into())).collect();
        self.arrays.push(Array { at, stride: stride.max(1), count, name: name.into(), fields });
    }

    /// Where in the range the next name begins or ends, from `from` on; the range's end if none
    /// does.
    pub(crate) fn next_edge(&self, from: usize, end: usize) -> usize {
        let mut edge = end;
        for array in &self.arrays {
            for index in array.near(from) {
                for (field, _) in &array.fields {
                    let start = array.at + index * array.stride;
                    for at in [start + field.start, start + field.end] {
                        if at > from && at < edge {
                            edge = at;
                        }
                    }
                }
            }
        }
        edge
    }

    /// The name of the byte, as of the field that it is in.
    pub(crate) fn of(&self, at: usize) -> Option<String> {
        self.arrays.iter().rev().find_map(|array| {
            let index = (at.checked_sub(array.at)?) / array.stride;
            let within = (at - array.at) % array.stride;
            let (field, name) = array
                .fields
                .iter()
                .find(|(field, _)| index < array.count && field.contains(&within))?;
            let mut text = array.name.clone();
            if array.count > 1 {
                _ = write!(text, "[{index}]");
            }
            if !name.is_empty() {
                _ = write!(text, ".{name}");
            }
            if within > field.start {
                _ = write!(text, "+{}", within - field.start);
            }
            Some(text)
        })
    }
}

impl Array {
    // Records that a byte or the one behind it may lie in.
    fn near(&self, at: usize) -> Range<usize> {
        let index = at.saturating_sub(self.at) / self.stride;
        index.min(self.count)..(index + 2).min(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_names_of_their_fields() {
        let mut names = Names::default();
        names.add(0..8, "count");
        names.add_array(64, 32, 2, "slot", &[(0..8, "key"), (8..24, "value")]);
        let of = |at| names.of(at).unwrap_or_default();
        assert_eq!([of(0), of(4), of(8)], ["count", "count+4", ""]);
        assert_eq!(
            [of(64), of(72), of(90), of(96)],
            ["slot[0].key", "slot[0].value", "", "slot[1].key"]
        );
        assert_eq!(of(128), "");
        assert_eq!(
            [names.next_edge(0, 100), names.next_edge(64, 100), names.next_edge(72, 100)],
            [8, 72, 88]
        );
        assert_eq!(names.next_edge(20, 40), 40);
    }
}
