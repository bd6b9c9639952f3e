//! Which groups may use which cache ways and how much bandwidth, and which do.

use std::collections::BTreeMap;

use ringfence_machine::units::Bytes;
use ringfence_resctrl::info::{BandwidthInfo, CacheInfo, IoAlloc, ThrottleMode, Unit};
use ringfence_resctrl::monitor::{Reading, Value};
use ringfence_resctrl::transaction::{Left, Pending, Restored};
use ringfence_resctrl::{Domain, GroupOverview, Mask, Overview, Setting};

use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph, plural};

/// Everything that resctrl shows, and what is left behind or kept of this program's changes.
pub fn resctrl(seen: &Overview, left: &[Left], style: &Style) -> String {
    let mut out = String::new();
    let mut line = |lead: &str, text: String| {
        hanging(&mut out, &format!("{lead:<10} "), Some(Paint::Faint), &text, style);
    };
    let options = seen.options.text();
    let with = if options.is_empty() { String::new() } else { format!(", with {options}") };
    line("mounted", format!("at {}{with}", seen.place));
    line("free", free(seen));
    for (name, info) in &seen.info.caches {
        line(name, cache(info));
    }
    for (name, info) in &seen.info.bandwidths {
        line(name, bandwidth(info));
    }
    let features = seen.info.monitoring.as_ref().map(|info| info.mon_features.join(", "));
    let mode = seen.info.monitoring.as_ref().and_then(|info| info.mbm_assign_mode.as_ref());
    let mode =
        mode.map_or(String::new(), |mode| format!("; counters of bandwidth by mode '{mode}'"));
    let monitored =
        features.filter(|features| !features.is_empty()).unwrap_or_else(|| "nothing".into());
    line("monitored", monitored + &mode);
    for left in left {
        let (lead, text) = journal(left);
        hanging(&mut out, &format!("{lead:<10} "), Some(Paint::Caution), &text, style);
    }
    let unread: Vec<&String> = seen.all_unread().collect();
    for why in unread.iter().take(SHOWN) {
        hanging(&mut out, &format!("{:<10} ", "not read"), Some(Paint::Caution), why, style);
    }
    if unread.len() > SHOWN {
        let more = format!("and {} more, which --json lists", unread.len() - SHOWN);
        hanging(&mut out, &format!("{:<10} ", "not read"), Some(Paint::Caution), &more, style);
    }
    out.push('\n');
    out.push_str(&table(seen).render(style));
    if !seen.info.caches.is_empty() {
        out.push('\n');
        faint(&mut out, LEGEND, style);
    }
    out
}

/// Of what could not be read.
const SHOWN: usize = 8;

const LEGEND: &str = "a character for each way, the highest first: # may be used, . may not. In \
                      use by all groups: 0 unused, S by software, X by software and devices, H by \
                      devices, E by one group exclusively, P by a pseudo-locked region. Traffic is \
                      counted from some time on: compare two readings.";

/// What was restored, or would be.
pub fn restored(restored: &Restored, tried_out: bool, style: &Style) -> String {
    let mut out = String::new();
    let mut list = |title: String, lines: Vec<String>| {
        if !lines.is_empty() {
            heading(&mut out, &title, style);
            lines.iter().for_each(|line| paragraph(&mut out, 2, line, style));
        }
    };
    let steps: Vec<String> = restored.steps.iter().map(ToString::to_string).collect();
    let none = steps.is_empty();
    let (purpose, verb) = (&restored.purpose, if tried_out { "would be" } else { "were" });
    list(format!("Changes of '{purpose}' that {verb} undone:"), steps);
    list("Changed by another program since, and left as they are:".into(), restored.left.clone());
    list("Uncertain:".into(), restored.notes.clone());
    list(
        "Cannot be restored yet, and stays in the journal until 'ringfence resctrl recover' can:"
            .into(),
        restored.waiting.clone(),
    );
    if none && restored.waiting.is_empty() {
        let text = format!("Nothing left to undo of '{purpose}'.");
        paragraph(&mut out, 0, &text, style);
    }
    out
}

fn free(seen: &Overview) -> String {
    let of = |name: &str, free: Option<u32>, all: Option<u32>| match (free, all) {
        (Some(free), Some(all)) => format!("{free} of {all} {name}"),
        _ if !seen.unread.is_empty() => format!("{name} not known"),
        _ => format!("no {name}"),
    };
    let rmids = seen.info.monitoring.as_ref().map(|monitoring| monitoring.num_rmids);
    let most = if seen.rmids_free().is_some_and(|free| free > 0) { " at most" } else { "" };
    format!(
        "{}, {}{most}",
        of("CLOSIDs (groups)", seen.closids_free(), seen.info.num_closids()),
        of("RMIDs (groups and monitor groups)", seen.rmids_free(), rmids)
    )
}

fn cache(info: &CacheInfo) -> String {
    let mut text = format!(
        "{}, masks of {} or more",
        plural(info.cbm_mask.count() as usize, "way"),
        plural(info.min_cbm_bits as usize, "bit")
    );
    text += if info.sparse_masks { ", with gaps or without" } else { " without gaps" };
    if info.shareable_bits.is_empty() {
        text += "; none shared with devices";
    } else {
        text += &format!("; devices use {} too", info.shareable_bits);
    }
    match &info.io_alloc {
        IoAlloc::Unsupported => {}
        IoAlloc::Disabled => {
            text += "; which ways devices use can be chosen (io_alloc), and is not"
        }
        IoAlloc::Enabled(masks) => {
            let masks: Vec<String> =
                masks.iter().map(|(domain, mask)| format!("{domain}={mask}")).collect();
            text += &format!("; devices were given {} (io_alloc), and a CLOSID", masks.join(", "));
        }
    }
    text
}

fn bandwidth(info: &BandwidthInfo) -> String {
    let threads = match info.throttle {
        ThrottleMode::Max => "; threads of a core are throttled alike, by the smaller amount",
        ThrottleMode::PerThread => "; each thread of a core is throttled by itself",
        ThrottleMode::Unknown => "",
    };
    info.choice() + threads
}

fn journal(left: &Left) -> (&'static str, String) {
    let (purpose, folder) = (&left.purpose, left.folder.display());
    if left.unreadable {
        return ("unreadable", purpose.clone());
    }
    if let Some(past) = &left.past {
        let text = format!(
            "{purpose}: of {past}, and nothing of it is left; 'ringfence resctrl {}' removes its \
             journal ({folder})",
            match (left.what, &left.name) {
                (Pending::Kept, None) => "undo",
                _ => "recover",
            }
        );
        return ("gone", text);
    }
    if left.is_others()
        && matches!(left.what, Pending::Unfinished | Pending::Lent)
        && !left.under_way
    {
        return ("left over", left.others());
    }
    match left.what {
        Pending::Waiting => (
            "waiting",
            format!(
                "{purpose}: 'ringfence resctrl recover' restores settings of a CPU or cache that \
                 was offline, once it is online ({folder})"
            ),
        ),
        Pending::Damaged => (
            "damaged",
            format!(
                "{purpose}: some lines of its journal are invalid; 'ringfence resctrl forget' \
                 removes it ({folder})"
            ),
        ),
        Pending::Kept => (
            "kept",
            format!("{purpose}: '{}' restores the earlier state ({folder})", left.undone_by()),
        ),
        Pending::Lent if left.under_way => {
            ("in force", format!("{purpose}: until it ends ({folder})"))
        }
        Pending::Unfinished if left.under_way => {
            ("changing", format!("{purpose}: in progress, {} so far", plural(left.steps, "step")))
        }
        Pending::Unfinished | Pending::Lent => {
            let text = format!(
                "{purpose}, killed after {}: 'ringfence resctrl recover' restores the earlier \
                 state ({folder})",
                plural(left.steps, "step")
            );
            ("left over", text)
        }
    }
}

// What a row shows besides its group.
#[derive(Default)]
struct Row {
    what: String,
    ways: String,
    size: String,
    holds: String,
    total: String,
    local: String,
}

fn table(seen: &Overview) -> Table {
    let mut columns = vec![Column::text("group", 14), Column::left(""), Column::left("may use")];
    columns.extend(["size", "holds", "traffic", "local"].map(Column::right));
    let mut table = Table::new(columns);
    let mut put = |facts: Vec<Cell>, rows: Vec<Row>| {
        let (mut facts, mut rows) = (facts.into_iter(), rows.into_iter());
        loop {
            let (fact, row) = (facts.next(), rows.next());
            if fact.is_none() && row.is_none() {
                break;
            }
            let row = row.unwrap_or_default();
            let cells = [row.what, row.ways, row.size, row.holds, row.total, row.local];
            let cells = cells.iter().map(Cell::new);
            table.row(std::iter::once(fact.unwrap_or_default()).chain(cells).collect());
        }
    };
    let used = seen.info.caches.iter().flat_map(|(name, cache)| {
        let row = move |(domain, usage): (&Domain, &ringfence_resctrl::info::BitUsage)| Row {
            what: format!("{name}:{domain}"),
            ways: usage.0.clone(),
            ..Row::default()
        };
        cache.bit_usage.iter().map(row)
    });
    let used: Vec<Row> = used.collect();
    if !used.is_empty() {
        put(vec![Cell::painted("all together", Paint::Faint)], used);
    }
    for group in &seen.groups {
        put(facts(group), rows(seen, group));
    }
    table
}

fn facts(group: &GroupOverview) -> Vec<Cell> {
    let mut facts = vec![Cell::painted(group.group.to_string(), Paint::Strong)];
    let faint = |text: String| Cell::painted(format!("  {text}"), Paint::Faint);
    facts.extend(group.mode.map(|mode| faint(mode.word().into())));
    let cpus = match &group.cpus {
        None => ", CPUs not known".into(),
        Some(cpus) if cpus.is_empty() => String::new(),
        Some(cpus) if cpus.len() == 1 => format!(", CPU {cpus}"),
        Some(cpus) => format!(", CPUs {cpus}"),
    };
    let tasks = group.tasks.map_or("tasks not known".into(), |tasks| plural(tasks, "task"));
    facts.push(faint(tasks + &cpus));
    facts
}

fn rows(seen: &Overview, group: &GroupOverview) -> Vec<Row> {
    let mut readings: BTreeMap<(String, Domain), Vec<&Reading>> = BTreeMap::new();
    for reading in &group.readings {
        readings.entry((reading.resource.clone(), reading.domain)).or_default().push(reading);
    }
    let mut rows = Vec::new();
    for (resource, domain, setting) in group.schemata.settings() {
        let mut row = Row { what: format!("{resource}:{domain}"), ..Row::default() };
        match setting {
            Setting::Mask(mask) => {
                row.ways =
                    seen.info.cache(resource).map_or(mask.to_string(), |cache| drawn(*mask, cache));
                row.size = group
                    .bytes(resource.name(), domain)
                    .map_or(String::new(), |bytes| Bytes(bytes).to_string());
            }
            Setting::Amount(amount) => {
                let unit = seen
                    .info
                    .bandwidths
                    .get(resource.name())
                    .map_or(Unit::Percent, |info| info.unit);
                row.ways = unit.say(*amount);
            }
            Setting::Text(text) => row.ways = text.clone(),
        }
        if let Some(level) = resource.cache_level() {
            monitored(&mut row, readings.remove(&(format!("L{level}"), domain)));
        }
        rows.push(row);
    }
    for ((resource, domain), readings) in readings {
        let mut row = Row { what: format!("{resource}:{domain}"), ..Row::default() };
        monitored(&mut row, Some(readings));
        rows.push(row);
    }
    rows
}

fn drawn(mask: Mask, cache: &CacheInfo) -> String {
    let ways = 64 - cache.cbm_mask.or(mask).0.leading_zeros();
    (0..ways).rev().map(|way| if mask.0 >> way & 1 == 1 { '#' } else { '.' }).collect()
}

fn monitored(row: &mut Row, readings: Option<Vec<&Reading>>) {
    for reading in readings.unwrap_or_default() {
        let text = match &reading.value {
            Value::Bytes(bytes) => Bytes(*bytes).to_string(),
            Value::Unavailable => "unavailable".into(),
            Value::Error => "error".into(),
            Value::Unassigned => "unassigned".into(),
            Value::Other(text) => text.clone(),
        };
        match reading.event.as_str() {
            "llc_occupancy" => row.holds = text,
            "mbm_total_bytes" => row.total = text,
            "mbm_local_bytes" => row.local = text,
            _ => {}
        }
    }
}
