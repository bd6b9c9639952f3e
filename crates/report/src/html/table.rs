//! Tables of numbers.

use maud::{Markup, html};

use crate::text::clean;

/// A column: figures are aligned to the right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Bytes of a figure with its interval and unit; what is longer is words.
const LONGEST_FIGURE: usize = 44;

/// A table that scrolls where it is wider than the page. Its caption is for users who cannot see
/// what is around it; the first column says what a row is.
pub fn table<C: AsRef<str>>(caption: &str, heads: &[(&str, Align)], rows: &[Vec<C>]) -> Markup {
    let right = |column: usize| heads.get(column).is_some_and(|(_, align)| *align == Align::Right);
    // A reason in place of a figure may take several lines.
    let class = |column: usize, text: &str| match right(column) {
        true if text.len() > LONGEST_FIGURE => Some("number long"),
        right => right.then_some("number"),
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(clean(caption)) {
            table {
                caption class="unseen" { (clean(caption)) }
                thead {
                    tr {
                        @for (column, (head, _)) in heads.iter().enumerate() {
                            th class=[class(column, "")] scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @let cells = row.iter().map(|cell| clean(cell.as_ref()));
                            @for (column, cell) in cells.enumerate() {
                                @if column == 0 {
                                    th class=[class(column, &cell)] scope="row" { (cell) }
                                } @else {
                                    td class=[class(column, &cell)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
