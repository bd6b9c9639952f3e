//! What to use of the ways to commit that were measured.

use ringfence_analysis::estimate::Interval;
use ringfence_experiment::task::Task;
use ringfence_studies::findings::Findings;

use crate::cases::words;
use crate::numbers::ns_interval;
use crate::text::listed;

/// The cheapest of those that are durable; nothing where less than two were measured, or where they wrote different
/// amounts or by different numbers of writers, which no program can choose as it likes.
pub(crate) fn advice(found: &Findings) -> Option<String> {
    let mut costs: Vec<(usize, Interval)> = Vec::new();
    let (mut asked, mut without, mut unknown) = (Vec::new(), Vec::new(), 0);
    for result in found.results.iter().filter(|result| result.effect.is_none()) {
        let Task::Commit(task) = found.plan.metric_task(result.case) else { return None };
        asked.push((task.bytes(), task.writers));
        match (task.sync.durable(), result.ns_per_unit) {
            (true, Ok(cost)) => costs.push((result.case, cost)),
            (true, Err(_)) => unknown += 1,
            (false, _) => without.push(task.sync.name()),
        }
    }
    if costs.len() < 2 || asked.windows(2).any(|two| two[0] != two[1]) {
        return None;
    }
    costs.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let high = costs.iter().map(|(_, cost)| cost.high).fold(f64::INFINITY, f64::min);
    let (least, more): (Vec<_>, Vec<_>) = costs.iter().partition(|(_, cost)| cost.low <= high);
    let quantile = found.plan.experiment.measure.quantity.quantile();
    let at = quantile.map_or(String::new(), |quantile| format!(" at {quantile}"));
    let name = |(case, cost): &(usize, Interval)| {
        format!("{} ({}{at})", words(&found.plan, *case), ns_interval(cost))
    };
    let named: Vec<String> = least.iter().map(name).collect();
    let mut text = match named.len() {
        1 => format!("Use {}: no other durable way that was measured is as cheap", named[0]),
        _ => format!("Use {}, which could not be told apart", listed(&named, "or")),
    };
    if let Some(dearest) = more.last() {
        let times = dearest.1.value / least[0].1.value;
        text += &format!(
            "; of the others {} is the dearest, {times:.1} times as much as the first",
            name(dearest)
        );
    }
    text.push('.');
    if unknown > 0 {
        text += &format!(" Of {unknown} durable ways there is no figure.");
    }
    without.dedup();
    if !without.is_empty() {
        text += &format!(" sync={} makes nothing durable, and is there to compare with.", without.join(", "));
    }
    Some(text)
}
