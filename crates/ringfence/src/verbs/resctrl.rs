//! `resctrl`: who may use what, and the way back from what was left behind or kept.

use std::path::PathBuf;

use ringfence_machine::resctrl;
use ringfence_machine::root::FsRoot;
use ringfence_resctrl::transaction::{self, Pending, Restored};
use ringfence_resctrl::{Options, Resctrl};

use crate::args::{self, Forget, PutBack, ResctrlAction};
use crate::failure::Failure;
use crate::output;

pub fn run(asked: &args::Resctrl) -> Result<(), Failure> {
    match &asked.action {
        None => show(asked),
        Some(ResctrlAction::Recover(put_back)) => way_back(put_back, Pending::Unfinished),
        Some(ResctrlAction::Undo(put_back)) => way_back(put_back, Pending::Kept),
        Some(ResctrlAction::Forget(forget)) => self::forget(forget),
    }
}

fn show(asked: &args::Resctrl) -> Result<(), Failure> {
    let root = FsRoot::at(&asked.look.root);
    let seen = resctrl::look(&root)?;
    let left = transaction::left(&root, asked.journal.folder.as_deref());
    if asked.look.json {
        return output::print_json(&serde_json::json!({
            "resctrl": seen,
            "closids_free": seen.closids_free(),
            "rmids_free": seen.rmids_free(),
            "journals": left,
        }));
    }
    output::print(&ringfence_report::resctrl(&seen, &left, &output::style()))
}

fn way_back(asked: &PutBack, what: Pending) -> Result<(), Failure> {
    let root = FsRoot::at(&asked.root);
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let Some(folder) = folder(&root, asked.journal.folder.as_ref(), what) else {
        return said(asked, None, nothing(what));
    };
    let options = Options { folder: Some(folder), ..Options::default() };
    let restored = match (asked.dry_run, what) {
        (true, _) => transaction::preview(&fs, what, &options),
        (false, Pending::Unfinished) => transaction::recover(&fs, &options),
        (false, Pending::Kept) => transaction::undo_kept(&fs, &options),
    }?;
    said(asked, restored.as_ref(), nothing(what))
}

fn said(asked: &PutBack, restored: Option<&Restored>, nothing: &str) -> Result<(), Failure> {
    if asked.json {
        let steps = restored.map(|restored| {
            serde_json::json!({
                "purpose": restored.purpose,
                "steps": restored.steps.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "left": restored.left,
            })
        });
        let key = if asked.dry_run { "would_put_back" } else { "put_back" };
        return output::print_json(&serde_json::json!({ key: steps }));
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
        Pending::Unfinished => "Nothing to put back: no run that was killed has left anything behind.",
        Pending::Kept => "Nothing to put back: no setting is kept.",
    }
}

// Where such a journal lies: root's and one's own can be in different folders.
fn folder(root: &FsRoot, wanted: Option<&PathBuf>, what: Pending) -> Option<PathBuf> {
    let left = transaction::left(root, wanted.map(PathBuf::as_path));
    left.into_iter().find(|left| left.what == what && left.name.is_none()).map(|left| left.folder)
}

fn forget(asked: &Forget) -> Result<(), Failure> {
    let what = if asked.kept { Pending::Kept } else { Pending::Unfinished };
    let Some(folder) = folder(&FsRoot::at(&asked.root), asked.journal.folder.as_ref(), what) else {
        return output::print("Nothing to forget: there is no such journal.\n");
    };
    let options = Options { folder: Some(folder), ..Options::default() };
    let text = match transaction::forget(what, &options)? {
        true => "Forgotten: resctrl stays as it is, and nothing will put back what was there before.\n",
        false => "Nothing to forget: there is no such journal.\n",
    };
    output::print(text)
}
