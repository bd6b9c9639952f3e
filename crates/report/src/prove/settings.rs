//! What `prove --keep` has left in place, and how to undo it.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_experiment::task::Task;
use ringfence_studies::prove::{
    Kept, KeptByResctrl, KeptLimit, Question, VICTIM, started_in_group,
};

use crate::style::Style;
use crate::text::{clean, command, hanging, heading, paragraph};

/// Renders what `--keep` has left in place, or that there was nothing to keep. An error is told
/// elsewhere.
pub fn kept(kept: Result<&Option<Kept>, String>, question: &Question, style: &Style) -> String {
    let mut out = String::from("\n");
    match kept {
        Err(_) => return String::new(),
        Ok(None) => {
            let text = "Nothing is kept: no setting of resctrl was confirmed, nor one of the \
                        control group of an aggressor \
                        that runs already.";
            paragraph(&mut out, 0, text, style);
        }
        Ok(Some(kept)) => {
            if let Some(resctrl) = &kept.resctrl {
                kept_by_resctrl(&mut out, resctrl, question, style);
            }
            if !kept.limits.is_empty() {
                kept_by_group(&mut out, &kept.limits, question, style);
            }
        }
    }
    out
}

fn kept_by_resctrl(out: &mut String, kept: &KeptByResctrl, question: &Question, style: &Style) {
    heading(out, "Kept, until 'ringfence resctrl undo'", style);
    for (group, schemata) in &kept.settings {
        let schemata = schemata.to_string();
        let text = format!("{group} may use {}", schemata.trim_end().replace('\n', ", "));
        hanging(out, "  • ", None, &text, style);
    }
    for (role, group) in &kept.groups {
        if let Some(count) = kept.moved.get(role) {
            let processes =
                if *count == 1 { "1 process".into() } else { format!("{count} processes") };
            hanging(
                out,
                "  • ",
                None,
                &format!("{processes} of the {role} and what these start are in {group}"),
                style,
            );
            continue;
        }
        hanging(out, "  • ", None, &format!("start the {role} in its group, as root:"), style);
        let tasks = Path::new(&kept.place).join(group.path()).join("tasks");
        let task = if role == VICTIM { &question.victim } else { &question.aggressor };
        command(out, 4, &started_in_group(&tasks.to_string_lossy(), task.task()));
    }
}

fn kept_by_group(out: &mut String, limits: &[KeptLimit], question: &Question, style: &Style) {
    heading(out, "Kept in the aggressor's control group, for as long as that is there", style);
    for limit in limits {
        let text = format!("{} is {}", limit.file.display(), clean(&limit.value));
        hanging(out, "  • ", None, &text, style);
    }
    if matches!(question.aggressor.task(), Task::Attached(one) if one.unit.is_some()) {
        let text = "systemd does not know of it and may overwrite it: the command above tells it";
        hanging(out, "  • ", None, text, style);
    }
    hanging(
        out,
        "  • ",
        None,
        "'ringfence restore' leaves it; what was there before comes back by:",
        style,
    );
    for limit in limits.iter().rev() {
        command(out, 4, &shell::write(&limit.was, &limit.file));
    }
}
