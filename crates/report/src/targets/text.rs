//! The memory that an experiment can name.

use ringfence_machine::targets::Target;
use ringfence_machine::units::Bytes;

use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};

/// A row for each target; those that cannot be used now say why.
pub fn targets(targets: &[Target], style: &Style) -> String {
    if targets.is_empty() {
        return "no memory targets found\n".into();
    }
    let nodes = targets.iter().any(|target| target.node.is_some());
    let domains = targets.iter().any(|target| target.persistence_domain.is_some());
    let mut columns = vec![Column::left("target"), Column::right("size"), Column::right("free")];
    if nodes {
        columns.push(Column::right("node"));
    }
    if domains {
        columns.push(Column::left("domain"));
    }
    columns.push(Column::text("remark", 24));
    let mut table = Table::new(columns);
    for target in targets {
        let cell = |text: String| match target.usable {
            true => Cell::new(text),
            false => Cell::painted(text, Paint::Faint),
        };
        let mut row =
            vec![cell(target.name.clone()), cell(size(target.size)), cell(size(target.free))];
        if nodes {
            row.push(cell(target.node.map(|node| node.to_string()).unwrap_or_default()));
        }
        if domains {
            row.push(cell(target.persistence_domain.as_deref().map(domain).unwrap_or_default()));
        }
        let refusal = if target.usable { "" } else { "not usable: " };
        row.push(cell(format!("{refusal}{}", target.why)));
        table.row(row);
    }
    table.render(style)
}

fn size(size: Option<Bytes>) -> String {
    size.map(|bytes| bytes.to_string()).unwrap_or_default()
}

// The kernel's words for how far a store must get.
fn domain(text: &str) -> String {
    match text {
        "memory_controller" => "ADR".into(),
        "cpu_cache" => "eADR".into(),
        other => other.into(),
    }
}
