//! Regions that are locked into caches.

use ringfence_lab::lock::{Misses, Region};
use ringfence_machine::units::Bytes;
use ringfence_resctrl::pseudo::RegionPlan;

use crate::numbers::count;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph, plural};

/// A region that was made, or the steps that would make it.
pub fn lock_created(plan: &RegionPlan, tried_out: bool, style: &Style) -> String {
    let mut out = String::new();
    let name = plan.group.name();
    let bytes = Bytes(plan.bytes);
    if tried_out {
        heading(&mut out, &format!("A region of {bytes} would be locked so:"), style);
        plan.steps.iter().for_each(|step| paragraph(&mut out, 2, &step.to_string(), style));
        return out;
    }
    heading(&mut out, &format!("{name}: {bytes} are locked into ways {}", plan.mask), style);
    let cpus = if plan.cpus.is_empty() { "its cache".into() } else { plan.cpus.to_string() };
    let use_it = format!(
        "map /dev/pseudo_lock/{name} shared, from a process that may run on CPUs {cpus} alone; each mapping \
         fills it with zeros"
    );
    for (lead, text) in [
        ("to use it", use_it),
        (
            "mind",
            "flush instructions take lines out of it for good: 'ringfence lock measure' shows how far".into(),
        ),
        ("to undo it", format!("ringfence lock remove {name}")),
    ] {
        hanging(&mut out, &format!("  {lead:<12}"), Some(Paint::Faint), &text, style);
    }
    out
}

/// The regions that there are.
pub fn locked(regions: &[Region], style: &Style) -> String {
    if regions.is_empty() {
        return "no region is locked\n".into();
    }
    let mut table = Table::new(vec![
        Column::text("region", 10),
        Column::left("cache"),
        Column::right("ways"),
        Column::right("size"),
        Column::left("CPUs"),
        Column::text("used by", 8),
        Column::left("made by"),
    ]);
    for region in regions {
        let users: Vec<String> = region.users.iter().map(u32::to_string).collect();
        let users =
            if users.is_empty() { "nobody seen".into() } else { format!("process {}", users.join(", ")) };
        let cells = [
            region.name.as_str(),
            &region.cache,
            &region.mask,
            &Bytes(region.bytes).to_string(),
            &region.cpus,
            &users,
            if region.ours { "lock create" } else { "others" },
        ];
        table.row(cells.map(Cell::new).into());
    }
    table.render(style)
}

/// What the kernel counted in passes over regions of several sizes.
pub fn lock_misses(all: &[Misses], style: &Style) -> String {
    let heads = ["region", "lines", "passes", "fewest", "median", "most"].map(Column::right);
    let mut table = Table::new(heads.into_iter().chain([Column::text("asked for", 10)]).collect());
    for one in all {
        let mut misses = one.misses.clone();
        misses.sort_unstable();
        let at = |index: usize| misses.get(index).map_or("-".into(), |misses| count(*misses));
        let asked: Vec<String> = one.asked.iter().map(|bytes| Bytes(*bytes).to_string()).collect();
        let cells = [
            Bytes(one.bytes).to_string(),
            count(one.lines),
            misses.len().to_string(),
            at(0),
            at(misses.len().saturating_sub(1) / 2),
            at(misses.len().saturating_sub(1)),
            asked.join(", "),
        ];
        table.row(cells.iter().map(Cell::new).collect());
    }
    let mut out = table.render(style);
    let text = format!(
        "misses of one pass over a locked region, as the kernel counts them with prefetchers off; regions are \
         whole ways, so that {} came to {}",
        plural(all.iter().map(|one| one.asked.len()).sum(), "size"),
        plural(all.len(), "region")
    );
    out.push('\n');
    faint(&mut out, &text, style);
    out
}
