//! Why figures are missing, numbered: many rows may share a reason too long for a cell.

use std::cell::RefCell;

use ringfence_analysis::estimate::NotEstimable;

use crate::numbers::Figure;
use crate::style::Style;
use crate::text::hanging;

/// The reasons in the order in which they turn up.
#[derive(Debug, Default)]
pub(crate) struct Notes(RefCell<Vec<NotEstimable>>);

/// The range over trials where there is one, and the number of the reason for which there is no
/// interval.
pub(crate) fn in_brackets(observed: Option<Figure>, number: String) -> String {
    match observed.map(|observed| observed.interval) {
        Some(range) if !range.is_empty() => format!("{range} {number}"),
        _ => number,
    }
}

impl Notes {
    /// The number that stands for a reason: `(1)`.
    pub(crate) fn number(&self, reason: NotEstimable) -> String {
        let mut reasons = self.0.borrow_mut();
        let index = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        format!("({})", index + 1)
    }

    /// `(1) too few trials: ...`, below the table; empty where nothing is missing.
    pub(crate) fn render(&self, style: &Style) -> String {
        let mut out = String::new();
        for (index, reason) in self.0.borrow().iter().enumerate() {
            hanging(&mut out, &format!("({}) ", index + 1), None, &reason.told(), style);
        }
        out
    }
}
