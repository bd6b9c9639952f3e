//! `restore`: everything that runs which were killed have left changed on this machine.

use std::fmt::Write;

use ringfence_machine::root::FsRoot;
use ringfence_report::json::{self as json, LeftBehind};
use ringfence_resctrl::transaction::{self, Pending};
use ringfence_resctrl::{Options, Resctrl};
use ringfence_system::changes::{Left, Whose};

use crate::args::PutBack;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

// Everything that there is to say.
#[derive(Debug, Default)]
struct All {
    restored: Vec<LeftBehind>,
    // What is not to be restored now, one sentence each.
    stays: Vec<String>,
    failed: Vec<String>,
}

pub fn run(asked: &PutBack) -> Result<(), Failure> {
    let root = host::root(&asked.root)?;
    let mut all = All::default();
    changes(asked, &root, &mut all);
    unclaimed(asked, &root, &mut all);
    resctrl(asked, &root, &mut all);
    if asked.json {
        output::print_json(&json::restored(&all.restored, asked.dry_run, &all.stays, &all.failed))?;
    } else {
        let text = text(&all, asked.dry_run);
        if !text.is_empty() {
            output::print(&text)?;
        }
    }
    if all.failed.is_empty() { Ok(()) } else { Err(Failure::failed(all.failed.join("\n"))) }
}

// What is in the journals of changes: control groups and settings.
fn changes(asked: &PutBack, root: &FsRoot, all: &mut All) {
    let folder = asked.journal.folder.as_deref();
    let told = |restored: ringfence_system::changes::Restored| LeftBehind {
        purpose: restored.purpose,
        steps: restored.steps,
        left: restored.left,
        notes: restored.notes,
        waiting: Vec::new(),
    };
    let left = ringfence_system::changes::left(root, folder);
    for left in left.iter().filter(|left| !left.past) {
        let Left { purpose, owner, under_way, path, .. } = left;
        if *under_way {
            let process = owner.map_or(String::new(), |owner| format!(" by process {}", owner.tid));
            all.stays.push(format!(
                "'{purpose}' is still running{process}, and restores its changes itself"
            ));
        } else if owner.is_none() {
            all.failed.push(purpose.clone());
        } else if left.is_others() {
            all.stays.push(left.others());
        } else if asked.dry_run {
            match ringfence_system::changes::preview(root, left) {
                Ok(restored) => all.restored.extend(restored.map(told)),
                Err(error) => all.failed.push(format!("{}: {error}", path.display())),
            }
        }
    }
    if !asked.dry_run {
        let options = ringfence_system::changes::Options {
            folder: folder.map(Into::into),
            ..Default::default()
        };
        for one in ringfence_system::changes::put_back_left(root, Whose::Anybody, &options) {
            match one.result {
                Ok(restored) => all.restored.push(told(restored)),
                Err(error) => all.failed.push(error.to_string()),
            }
        }
    }
}

// Groups of versions that kept no journal.
fn unclaimed(asked: &PutBack, root: &FsRoot, all: &mut All) {
    let mut found = ringfence_limits::unclaimed_groups(root);
    // Those that a journal names have been told.
    let told = |group: &std::path::PathBuf| {
        let name = group.display().to_string();
        all.restored.iter().flat_map(|restored| &restored.steps).any(|step| step.ends_with(&name))
    };
    found.retain(|group| !told(group));
    if !asked.dry_run {
        ringfence_limits::sweep_groups(root);
    }
    let still = ringfence_limits::unclaimed_groups(root);
    let gone = |group: &&std::path::PathBuf| asked.dry_run || !still.contains(group);
    let steps: Vec<String> = found
        .iter()
        .filter(gone)
        .map(|group| format!("remove control group {}", group.display()))
        .collect();
    if !steps.is_empty() {
        let purpose = "a run without a journal".into();
        all.restored.push(LeftBehind { purpose, steps, ..LeftBehind::default() });
    }
    if !asked.dry_run {
        let stays = |group: &std::path::PathBuf| {
            format!("control group {} is in use, and is kept", group.display())
        };
        all.stays.extend(still.iter().map(stays));
    }
}

fn resctrl(asked: &PutBack, root: &FsRoot, all: &mut All) {
    let left = transaction::left(root, asked.journal.folder.as_deref());
    let mut folders = Vec::new();
    for left in
        left.into_iter().filter(|left| left.past.is_none() || left.what == Pending::Unfinished)
    {
        let purpose = &left.purpose;
        match left.what {
            // A change that was to be restored at once, and cannot be read, is tried and fails.
            Pending::Kept | Pending::Damaged if left.unreadable && left.is_others() => {
                all.stays.push(purpose.clone())
            }
            Pending::Kept | Pending::Damaged if left.unreadable => all.failed.push(purpose.clone()),
            Pending::Kept => all.stays.push(format!(
                "'{purpose}' is kept on request: '{}' restores the earlier state",
                left.undone_by()
            )),
            Pending::Damaged => all.stays.push(format!(
                "the journal of '{purpose}' is damaged: check resctrl with 'ringfence resctrl', \
                 then delete the journal with \
                 'ringfence resctrl forget'"
            )),
            _ if left.under_way => {
                all.stays
                    .push(format!("'{purpose}' is still running, and restores resctrl itself"));
            }
            _ if left.is_others() => all.stays.push(left.others()),
            _ if !folders.contains(&left.folder) => folders.push(left.folder),
            _ => {}
        }
    }
    for folder in folders {
        let options = Options { folder: Some(folder), ..Options::default() };
        let restored = Resctrl::find(root).map_err(Into::into).and_then(|fs| match asked.dry_run {
            true => transaction::preview(&fs, Pending::Unfinished, &options),
            false => transaction::recover(&fs, &options),
        });
        match restored {
            Ok(restored) => all.restored.extend(restored.map(LeftBehind::from)),
            Err(error) => all.failed.push(error.to_string()),
        }
    }
}

fn text(all: &All, tried_out: bool) -> String {
    let mut out = String::new();
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(out, "{title}");
            for line in lines {
                let _ = writeln!(out, "  {}", ringfence_machine::text::printable(line));
            }
        }
    };
    for restored in &all.restored {
        let purpose = ringfence_machine::text::printable(&restored.purpose);
        let verb = if tried_out { "would be" } else { "were" };
        list(&format!("Changes of '{purpose}' that {verb} undone:"), &restored.steps);
        if restored.steps.is_empty() && restored.waiting.is_empty() {
            list("Nothing left to undo of:", std::slice::from_ref(&restored.purpose));
        }
        list("Changed by another program since, and left as they are:", &restored.left);
        list("Uncertain:", &restored.notes);
        list("Cannot be restored yet:", &restored.waiting);
    }
    list("Left as they are:", &all.stays);
    if out.is_empty() && all.failed.is_empty() {
        out = "Nothing to restore: no killed run left any changes.\n".into();
    }
    out
}
