//! Converts flags for running processes into tasks.

use ringfence_experiment::task::{Attached, Attachments, Probes, Tasks};
use ringfence_experiment::{FreezeBy, Freezing, Measure};
use ringfence_openloop::Target;

use super::flags::{parsed, set};
use crate::args::Services;
use crate::failure::Failure;

/// The probe that is the victim, if `--victim-probe` was given.
pub fn victim(flags: &Services) -> Result<Option<Tasks>, Failure> {
    let Some(ask) = &flags.victim_probe else { return Ok(None) };
    let target: Target = parsed("victim-probe", ask)?;
    if target.needs_question() && flags.probe_send.as_deref().unwrap_or_default().is_empty() {
        return Err(Failure::Usage(nothing_to_send(&target)));
    }
    let mut probe = Probes::default().ask(ask.clone());
    if let Some(bytes) = &flags.probe_send {
        probe = probe.send(bytes.clone());
    }
    if let Some(rate) = flags.probe_rate {
        probe = probe.rate(rate);
    }
    let service = Attached {
        pid: flags.victim_pid,
        cgroup: flags.victim_cgroup.clone(),
        unit: flags.victim_unit.clone(),
        container: flags.victim_container.clone(),
    };
    let named = service.target();
    Ok(Some(if named.is_empty() { probe } else { probe.of(Some(named)) }.into()))
}

fn nothing_to_send(target: &Target) -> String {
    match (target, target.usual_question()) {
        (Target::Tcp { host, port: port @ 6379 }, Some(question)) => {
            let redis = Target::Redis { host: host.clone(), port: *port };
            format!(
                "--victim-probe {target} needs something to send: write {redis}, or add \
                 --probe-send '{question}'"
            )
        }
        (_, Some(question)) => {
            format!(
                "--victim-probe {target} needs something to send: add --probe-send '{question}'"
            )
        }
        _ => format!(
            "--victim-probe {target} needs something to send: add --probe-send with the bytes of a \
             question, such as \
             --probe-send 'PING\\r\\n'"
        ),
    }
}

/// The running process that is the aggressor, where one is named.
pub fn aggressor(flags: &Services) -> Option<Tasks> {
    let running = Attachments::default();
    Some(if flags.aggressor_pid.is_some() {
        running.pid(flags.aggressor_pid).into()
    } else if flags.aggressor_cgroup.is_some() {
        running.cgroup(flags.aggressor_cgroup.clone()).into()
    } else if flags.aggressor_unit.is_some() {
        running.unit(flags.aggressor_unit.clone()).into()
    } else if flags.aggressor_container.is_some() {
        running.container(flags.aggressor_container.clone()).into()
    } else {
        return None;
    })
}

/// A refusal of a task, beginning with the flag that names it; `given` are the roles that have a
/// flag of their name.
pub fn beginning_with_its_flag(failure: Failure, given: &[&str]) -> Failure {
    let Failure::Usage(why) = failure else { return failure };
    let is_of = |role: &&str| why.strip_prefix(*role).is_some_and(|rest| rest.starts_with(": "));
    if given.iter().any(is_of) {
        return Failure::Usage(format!("--{why}"));
    }
    let of_kind = |kind: &str| {
        let rest = why.strip_prefix("aggressor: ")?.strip_prefix(kind)?.strip_prefix(':')?;
        Some(format!("--aggressor-{kind} {rest}"))
    };
    let of_a_flag = Attached::KINDS.into_iter().find_map(of_kind);
    Failure::Usage(of_a_flag.unwrap_or(why))
}

/// The limits for pausing, and windows that fit into them unless one was asked for.
pub fn set_freezing(
    measure: &mut Measure,
    flags: &Services,
    window: Option<&str>,
) -> Result<(), Failure> {
    let mut freezing = Freezing::default();
    set(&mut freezing.longest, "longest-freeze", flags.longest_freeze.as_deref())?;
    set(&mut freezing.share, "frozen-share", flags.frozen_share.as_deref())?;
    freezing.by =
        flags.freeze.as_deref().map(|word| parsed::<FreezeBy>("freeze", word)).transpose()?;
    let named = aggressor(flags).is_some();
    if freezing != Freezing::default() {
        if !named {
            return Err(Failure::Usage(
                "--longest-freeze, --frozen-share and --freeze apply to a running process as \
                 aggressor: name it with --aggressor-pid, --aggressor-cgroup, --aggressor-unit or \
                 --aggressor-container"
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
