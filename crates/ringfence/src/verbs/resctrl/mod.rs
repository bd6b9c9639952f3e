//! `resctrl`: which groups may use what, limits for running processes, and how to restore what was
//! left behind or kept.

mod apply;
mod messages;
mod run;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_limits::running::loan;
use ringfence_machine::resctrl;
use ringfence_machine::root::FsRoot;
use ringfence_report::json::{self as json, Gone, LeftBehind, PutBack};
use ringfence_resctrl::transaction::{self, Left, Pending, Restored};
use ringfence_resctrl::{Options, Resctrl};

use crate::args::{self, Forget, ResctrlAction, Undo};
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

pub fn run(asked: &args::Resctrl) -> Result<(), Failure> {
    match &asked.action {
        None => show(asked),
        Some(ResctrlAction::Recover(put_back)) => way_back(put_back, Pending::Unfinished),
        Some(ResctrlAction::Undo(undo)) => self::undo(undo),
        Some(ResctrlAction::Run(run)) => run::run(run),
        Some(ResctrlAction::Apply(apply)) => apply::run(apply),
        Some(ResctrlAction::Watch(watch)) => watch::run(watch),
        Some(ResctrlAction::Forget(forget)) => self::forget(forget),
    }
}

/// Runs the hidden part of this program that its first arguments name, if they do.
pub fn hidden_role() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first()?.to_str()? {
        loan::GUARDIAN => {
            let name = arguments.get(1)?.to_str()?;
            loan::guardian(name, arguments.get(2).map(Path::new));
            Some(ExitCode::SUCCESS)
        }
        run::START => {
            let failure = run::start(&arguments[1..]).err()?;
            if !matches!(failure, Failure::Command(_)) {
                messages::say(&failure.to_string());
            }
            Some(failure.code())
        }
        _ => None,
    }
}

fn undo(asked: &Undo) -> Result<(), Failure> {
    let Some(name) = &asked.name else { return way_back(&asked.put_back, Pending::Kept) };
    let root = host::root(&asked.put_back.root)?;
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let all = transaction::left(&root, asked.put_back.journal.folder.as_deref());
    let kept = |left: &&Left| left.what == Pending::Kept && left.name.as_ref() == Some(name);
    let Some(left) = all.iter().find(kept) else {
        let names = all
            .iter()
            .filter(|left| left.what == Pending::Kept)
            .filter_map(|left| left.name.as_deref());
        let names: Vec<&str> = names.filter(|name| name.starts_with(transaction::OWN)).collect();
        let there = if names.is_empty() { "nothing".into() } else { names.join(", ") };
        return Err(Failure::usage(format!(
            "nothing is kept under the name '{name}'; kept: {there}"
        )));
    };
    if left.is_others() && asked.put_back.journal.folder.is_none() && !asked.put_back.dry_run {
        return Err(Failure::usage(left.others()));
    }
    let options = Options { folder: Some(left.folder.clone()), ..Options::default() };
    let restored = match asked.put_back.dry_run {
        true => transaction::preview_named(&fs, name, &options),
        false => transaction::undo_named(&fs, name, &options),
    }?;
    match (&restored, &left.past) {
        (None, Some(past)) => gone(&asked.put_back, &left.purpose, past),
        _ => said(&asked.put_back, restored.as_ref(), nothing(Pending::Kept)),
    }
}

fn show(asked: &args::Resctrl) -> Result<(), Failure> {
    let root = host::root(&asked.inspect.root)?;
    let seen = resctrl::look(&root).map_err(ringfence_resctrl::Error::from)?;
    let left = transaction::left(&root, asked.journal.folder.as_deref());
    if asked.inspect.json {
        return output::print_json(&json::resctrl(&seen, &left));
    }
    output::print(&ringfence_report::resctrl(&seen, &left, &output::style()))
}

fn way_back(asked: &args::PutBack, what: Pending) -> Result<(), Failure> {
    let root = host::root(&asked.root)?;
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let kinds = match what {
        Pending::Unfinished => &[Pending::Unfinished, Pending::Waiting, Pending::Lent][..],
        _ => &[what],
    };
    let Some(left) = journal(&root, asked.journal.folder.as_ref(), kinds, asked.dry_run)? else {
        return said(asked, None, nothing(what));
    };
    let options = Options { folder: Some(left.folder.clone()), ..Options::default() };
    let restored = match (asked.dry_run, what) {
        (true, _) => transaction::preview(&fs, what, &options),
        (false, Pending::Unfinished) => transaction::recover(&fs, &options),
        (false, _) => transaction::undo_kept(&fs, &options),
    }?;
    match (&restored, &left.past) {
        (None, Some(past)) => gone(asked, &left.purpose, past),
        _ => said(asked, restored.as_ref(), nothing(what)),
    }
}

// A journal that is about nothing that is there any more.
fn gone(asked: &args::PutBack, purpose: &str, past: &str) -> Result<(), Failure> {
    if asked.json {
        let gone = Gone { purpose, of: past };
        let what = if asked.dry_run { PutBack::WouldRemove(gone) } else { PutBack::Removed(gone) };
        return output::print_json(&json::put_back(&what));
    }
    let what = if asked.dry_run { "would be removed" } else { "was removed" };
    output::print(&format!(
        "The changes of '{purpose}' belonged to {past} and are gone with it: there is nothing to \
         restore, and its journal {what}.\n"
    ))
}

fn said(asked: &args::PutBack, restored: Option<&Restored>, nothing: &str) -> Result<(), Failure> {
    if asked.json {
        let restored = restored.cloned().map(LeftBehind::from);
        let what = if asked.dry_run {
            PutBack::WouldPutBack(restored)
        } else {
            PutBack::PutBack(restored)
        };
        return output::print_json(&json::put_back(&what));
    }
    match restored {
        Some(restored) => {
            output::print(&ringfence_report::restored(restored, asked.dry_run, &output::style()))
        }
        None => output::print(&format!("{nothing}\n")),
    }
}

fn nothing(what: Pending) -> &'static str {
    match what {
        Pending::Kept => "Nothing to undo: no setting is kept.",
        _ => "Nothing to undo: no killed run left any changes.",
    }
}

// Such a journal: root's and one's own can be in different folders. Another user's is acted upon
// where its folder is named, since its steps are that user's word.
fn journal(
    root: &FsRoot,
    wanted: Option<&PathBuf>,
    kinds: &[Pending],
    look_only: bool,
) -> Result<Option<Left>, Failure> {
    let mut left = transaction::left(root, wanted.map(PathBuf::as_path));
    // What is lent to a program that lives is its own.
    let is_lent = |left: &Left| left.what == Pending::Lent && !left.under_way;
    left.retain(|left| kinds.contains(&left.what) && (left.name.is_none() || is_lent(left)));
    let own = left.iter().position(|left| !left.is_others());
    let found = (!left.is_empty()).then(|| left.swap_remove(own.unwrap_or(0)));
    match found {
        Some(left) if left.is_others() && !left.under_way && wanted.is_none() && !look_only => {
            Err(Failure::usage(left.others()))
        }
        found => Ok(found),
    }
}

fn forget(asked: &Forget) -> Result<(), Failure> {
    let what = if asked.kept { Pending::Kept } else { Pending::Unfinished };
    let kinds = match what {
        Pending::Unfinished => {
            &[Pending::Unfinished, Pending::Waiting, Pending::Damaged, Pending::Lent][..]
        }
        _ => &[what],
    };
    let root = host::root(&asked.root)?;
    let Some(left) = journal(&root, asked.journal.folder.as_ref(), kinds, false)? else {
        return output::print("Nothing to forget: there is no such journal.\n");
    };
    let options = Options { folder: Some(left.folder), ..Options::default() };
    let text = match (transaction::forget(what, &options)?, left.past) {
        (true, None) => {
            "Forgotten: resctrl stays as it is, and the earlier state can no longer be restored.\n"
                .into()
        }
        (true, Some(past)) => format!(
            "Forgotten: it belonged to {past}, and nothing of it is \
                                       left.\n"
        ),
        (false, _) => "Nothing to forget: there is no such journal.\n".into(),
    };
    output::print(&text)
}
