//! Converts flags for running processes into tasks.

use ringfence_experiment::task::{Attached, Attachments, Probes, Task, Tasks};
use ringfence_experiment::{FreezeBy, Freezing, Measure};
use ringfence_openloop::Target;

use super::flags::{parsed, set};
use crate::args::Services;
use crate::failure::Failure;

/// The probe that `--victim-probe` names.
pub fn victim(flags: &Services) -> Option<Tasks> {
    Some(Probes::default().ask(flags.victim_probe.clone()?).into())
}

/// Adds the flags of a probe to the victim. Refuses a probe that has nothing to send.
pub fn with_probe_flags(victim: Tasks, flags: &Services) -> Result<Tasks, Failure> {
    let service = Attached {
        pid: flags.victim_pid,
        cgroup: flags.victim_cgroup.clone(),
        unit: flags.victim_unit.clone(),
        container: flags.victim_container.clone(),
    }
    .target();
    let Tasks::Probe(mut probe) = victim else {
        let given = [
            ("probe-send", flags.probe_send.is_some()),
            ("probe-rate", flags.probe_rate.is_some()),
            ("victim-pid", flags.victim_pid.is_some()),
            ("victim-cgroup", flags.victim_cgroup.is_some()),
            ("victim-unit", flags.victim_unit.is_some()),
            ("victim-container", flags.victim_container.is_some()),
        ];
        return match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::usage(format!(
                "--{flag} needs a service to query as the victim, such as --victim \
                 probe:redis://localhost"
            ))),
            None => Ok(victim),
        };
    };
    if let Some(bytes) = &flags.probe_send {
        probe = probe.send(bytes.clone());
    }
    if let Some(rate) = flags.probe_rate {
        probe = probe.rate(rate);
    }
    if !service.is_empty() {
        probe = probe.of(Some(service));
    }
    let tasks = Tasks::Probe(probe);
    for (task, _) in tasks.each().map_err(|why| Failure::usage(format!("--victim: {why}")))? {
        let Task::Probe(probe) = task else { continue };
        let target: Target = parsed("victim", &probe.ask)?;
        if target.needs_question() && probe.send.is_empty() {
            return Err(Failure::usage(nothing_to_send(&target)));
        }
    }
    Ok(tasks)
}

fn nothing_to_send(target: &Target) -> String {
    let needs = format!("--victim probe:{target} needs something to send");
    match (target, target.usual_question()) {
        (Target::Tcp { host, port: port @ 6379 }, Some(question)) => {
            let redis = Target::Redis { host: host.clone(), port: *port };
            format!("{needs}: write probe:{redis}, or add send='{question}'")
        }
        (_, Some(question)) => format!("{needs}: add send='{question}'"),
        _ => format!("{needs}: add send= with the bytes of a question, such as send='PING\\r\\n'"),
    }
}

/// The running process that a flag of its own names as the aggressor.
pub fn aggressor(flags: &Services) -> Option<Tasks> {
    let attached = Attached {
        pid: flags.aggressor_pid,
        cgroup: flags.aggressor_cgroup.clone(),
        unit: flags.aggressor_unit.clone(),
        container: flags.aggressor_container.clone(),
    };
    (attached != Attached::default()).then(|| Attachments::from(attached).into())
}

/// A refusal of a task, beginning with the flag that names it; `given` are the roles that have a
/// flag of their name.
pub fn beginning_with_its_flag(failure: Failure, given: &[&str]) -> Failure {
    failure.map_usage(|why| {
        let is_of =
            |role: &&str| why.strip_prefix(*role).is_some_and(|rest| rest.starts_with(": "));
        // It names a running process by its own word: `aggressor: pid:1 is refused`.
        let names_one = |kind: &str| {
            let rest = why.strip_prefix("aggressor: ")?;
            rest.strip_prefix(kind)?.starts_with(':').then(|| format!("--aggressor {rest}"))
        };
        let of_its_kind = Attached::KINDS.into_iter().find_map(names_one);
        of_its_kind.or_else(|| given.iter().any(is_of).then(|| format!("--{why}")))
    })
}

/// The limits for pausing, and windows that fit into them unless one was asked for.
pub fn set_freezing(
    measure: &mut Measure,
    flags: &Services,
    aggressors: &[Tasks],
    window: Option<&str>,
) -> Result<(), Failure> {
    let mut freezing = Freezing::default();
    set(&mut freezing.longest, "longest-freeze", flags.longest_freeze.as_deref())?;
    set(&mut freezing.share, "frozen-share", flags.frozen_share.as_deref())?;
    freezing.by =
        flags.freeze.as_deref().map(|word| parsed::<FreezeBy>("freeze", word)).transpose()?;
    let named = aggressors.iter().any(|tasks| matches!(tasks, Tasks::Attached(_)));
    if freezing != Freezing::default() {
        if !named {
            return Err(Failure::usage(
                "--longest-freeze, --frozen-share and --freeze apply to a running process as \
                 aggressor: name it with --aggressor pid:N, unit:NAME, cgroup:PATH or container:ID",
            ));
        }
        measure.freezing = Some(freezing);
    }
    if named && window.is_none() {
        measure.window = freezing.window();
    }
    Ok(())
}
