//! Heat: processors that throttled.

use super::finding::{Finding, Severity, View};

const DIR: &str = "/sys/devices/system/cpu";

pub(super) fn find(view: &View) -> Vec<Finding> {
    processor(view).into_iter().collect()
}

/// What one of the two kinds of counters says, the worst CPU first: those of a package are the same
/// on each of its CPUs.
struct Throttled {
    what: &'static str,
    count: u64,
    ms: Option<u64>,
    cpu: u32,
}

// Events since boot or since the CPU came online, and ms spent throttled (kernel,
// Documentation/ABI/testing/sysfs-devices-system-cpu; the times since Linux 5.6). Only Intel's
// processors have the folder, and guests have none.
fn processor(view: &View) -> Option<Finding> {
    let worst = |what: &'static str| {
        view.topology
            .online
            .iter()
            .filter_map(|cpu| {
                let file =
                    |name: &str| format!("{DIR}/cpu{cpu}/thermal_throttle/{what}_throttle_{name}");
                let count = view.root.parse_opt::<u64>(file("count")).filter(|count| *count > 0)?;
                Some(Throttled { what, count, ms: view.root.parse_opt(file("total_time_ms")), cpu })
            })
            .max_by_key(|throttled| (throttled.ms, throttled.count))
    };
    let found: Vec<Throttled> = ["package", "core"].into_iter().filter_map(worst).collect();
    let evidence: Vec<String> = found
        .iter()
        .map(|Throttled { what, count, ms, cpu }| {
            let time = ms.map_or(String::new(), |ms| format!(", for {ms} ms in all"));
            format!("{DIR}/cpu{cpu}/thermal_throttle/{what}_throttle_count is {count}{time}")
        })
        .collect();
    (!evidence.is_empty()).then(|| Finding {
        id: "thermal-throttling".into(),
        severity: Severity::Warning,
        title: "The processor has been throttled because it was too hot".into(),
        cause: "the cooling does not keep up with the load, or failed earlier: the counts are \
                since boot"
            .into(),
        consequence: "a hot processor lowers its clock by itself: later windows are slower than \
                      earlier ones, and a busy neighbour slows a task down through its heat alone"
            .into(),
        remedy: "see whether the counts grow while you measure; if so, fix the cooling, switch \
                 boost off, or let it cool \
                 down between runs"
            .into(),
        evidence: evidence.join("; "),
    })
}
