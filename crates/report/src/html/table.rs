//! Tables of numbers.

use maud::{Markup, html};

use crate::text::clean;

/// A column: figures are aligned to the right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table that scrolls where it is wider than the page.
pub(super) fn table<C: AsRef<str>>(heads: &[(&str, Align)], rows: &[Vec<C>]) -> Markup {
    let class = |column: usize| match heads.get(column) {
        Some((_, Align::Right)) => Some("number"),
        _ => None,
    };
    html! {
        div class="scroll" {
            table {
                thead {
                    tr { @for (column, (head, _)) in heads.iter().enumerate() { th class=[class(column)] scope="col" { (head) } } }
                }
                tbody {
                    @for row in rows {
                        tr { @for (column, cell) in row.iter().enumerate() { td class=[class(column)] { (clean(cell.as_ref())) } } }
                    }
                }
            }
        }
    }
}
