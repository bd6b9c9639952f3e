//! Regions that are locked into caches.

use ringfence_analysis::latency::CaseLatencies;
use ringfence_experiment::task::Flush;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::pseudo::RegionPlan;
use ringfence_studies::lock::{Misses, Region, parts};

use crate::latencies::text::quantile;
use crate::numbers::{NO_FIGURE, count, percent};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph, plural};

/// A region that was made, or the steps that would make it.
pub fn lock_created(plan: &RegionPlan, tried_out: bool, style: &Style) -> String {
    let mut out = String::new();
    let name = plan.group.name();
    let bytes = Bytes(plan.bytes);
    if tried_out {
        heading(&mut out, &format!("These steps would lock a region of {bytes}:"), style);
        plan.steps.iter().for_each(|step| paragraph(&mut out, 2, &step.to_string(), style));
        return out;
    }
    heading(&mut out, &format!("{name}: {bytes} are locked into ways {}", plan.mask), style);
    let cpus = if plan.cpus.is_empty() { "its cache".into() } else { plan.cpus.to_string() };
    let use_it = format!(
        "map /dev/pseudo_lock/{name} shared, from a process that may run on CPUs {cpus} only; each \
         mapping \
         fills it with zeros"
    );
    for (lead, text) in [
        ("to use it", use_it),
        (
            "caution",
            "flush instructions evict its lines for good: 'ringfence lock measure' shows how many"
                .into(),
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
        let users = if users.is_empty() {
            "none seen".into()
        } else {
            format!("process {}", users.join(", "))
        };
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
    let mut out = table.render(style);
    if let Some(why) = regions.iter().find_map(|region| region.unseen.as_ref()) {
        faint(&mut out, &format!("There may be users that cannot be seen: {why}."), style);
    }
    out
}

/// How reads fared by what is read and under which condition: the share that missed, or where hits
/// and misses cannot be told apart, the median and the 99th percentile. Empty where nothing was
/// counted.
pub fn lock_table(all: &[CaseLatencies], style: &Style) -> String {
    let conditions = ["idle", "noise"].into_iter().chain(Flush::ALL.map(Flush::name));
    let conditions: Vec<&str> = conditions
        .filter(|condition| all.iter().any(|one| parts(&one.arm).1 == *condition))
        .collect();
    let mut rows: Vec<&str> = Vec::new();
    for one in all {
        let row = parts(&one.arm).0;
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let told = all.iter().any(|one| one.misses.is_some());
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    heading(&mut out, if told { "Reads that missed" } else { "Reads: median, p99" }, style);
    let columns = std::iter::once(Column::text("read from", 14));
    let mut table =
        Table::new(columns.chain(conditions.iter().map(|name| Column::right(*name))).collect());
    for row in rows {
        let cell = |condition: &&str| {
            let one = all.iter().find(|one| parts(&one.arm) == (row, *condition));
            Cell::new(one.map_or_else(|| NO_FIGURE.into(), figure))
        };
        let cells = std::iter::once(Cell::new(row)).chain(conditions.iter().map(cell));
        table.row(cells.collect());
    }
    out += &table.render(style);
    out.push('\n');
    out
}

fn figure(one: &CaseLatencies) -> String {
    match &one.misses {
        Some(misses) => percent(misses.value),
        None => format!("{}, {}", quantile(one, 0.5, false), quantile(one, 0.99, false)),
    }
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
        "misses of one pass over a locked region, as the kernel counts them with prefetchers off; \
         regions are \
         whole ways, so that {} came to {}",
        plural(all.iter().map(|one| one.asked.len()).sum(), "size"),
        plural(all.len(), "region")
    );
    out.push('\n');
    faint(&mut out, &text, style);
    out
}
