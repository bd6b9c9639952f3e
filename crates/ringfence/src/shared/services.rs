//! What runs already, from flags into tasks.

use ringfence_experiment::task::{Attached, table};
use ringfence_experiment::{FreezeBy, Freezing, Measure};
use toml::{Table, Value};

use super::flags::{parsed, set};
use crate::args::Services;
use crate::failure::Failure;

/// The probe that is the victim, where one is asked for.
pub fn victim(flags: &Services) -> Option<Table> {
    let mut probe = table([("workload", "probe".into()), ("ask", flags.victim_probe.clone()?.into())]);
    if let Some(bytes) = &flags.probe_send {
        probe.insert("send".into(), bytes.clone().into());
    }
    if let Some(rate) = flags.probe_rate {
        probe.insert("rate".into(), Value::Integer(rate.into()));
    }
    let service = Attached {
        pid: flags.victim_pid,
        cgroup: flags.victim_cgroup.clone(),
        unit: flags.victim_unit.clone(),
        container: flags.victim_container.clone(),
    };
    let named = service.target();
    if !named.is_empty() {
        probe.insert("of".into(), named.into());
    }
    Some(probe)
}

/// What runs already and is the aggressor, where one is named.
pub fn aggressor(flags: &Services) -> Option<Table> {
    let pid = flags.aggressor_pid.map(|pid| Value::Integer(pid.into()));
    let text = |name: &Option<String>| name.clone().map(Value::String);
    let names =
        [pid, text(&flags.aggressor_cgroup), text(&flags.aggressor_unit), text(&flags.aggressor_container)];
    let (kind, name) = Attached::KINDS.into_iter().zip(names).find_map(|(kind, name)| Some((kind, name?)))?;
    Some(table([("workload", "attached".into()), (kind, name)]))
}

/// The limits for pausing, and windows that fit into them unless one was asked for.
pub fn set_freezing(measure: &mut Measure, flags: &Services, window: Option<&str>) -> Result<(), Failure> {
    let mut freezing = Freezing::default();
    set(&mut freezing.longest, "longest-freeze", flags.longest_freeze.as_deref())?;
    set(&mut freezing.share, "frozen-share", flags.frozen_share.as_deref())?;
    freezing.by = flags.freeze.as_deref().map(|word| parsed::<FreezeBy>("freeze", word)).transpose()?;
    let named = aggressor(flags).is_some();
    if freezing != Freezing::default() {
        if !named {
            return Err(Failure::Usage(
                "--longest-freeze, --frozen-share and --freeze are about an aggressor that runs already: name it by \
                 --aggressor-pid, --aggressor-cgroup, --aggressor-unit or --aggressor-container"
                    .into(),
            ));
        }
        measure.freezing = Some(freezing);
    }
    if named && window.is_none() {
        measure.window = freezing.window();
    }
    Ok(())
}
