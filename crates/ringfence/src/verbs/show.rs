//! `show`: a result again, from its samples; or all that there are.

use std::path::Path;

use super::report;
use crate::args::Show;
use crate::failure::Failure;
use crate::output;
use crate::shared::answer::Answer;
use crate::shared::results;

pub fn run(args: &Show) -> Result<(), Failure> {
    if args.list {
        let (root, all) = results::all()?;
        return output::print(&ringfence_report::results(&root, &all, &output::style()));
    }
    let dir = results::named_or_last(args.dataset.as_deref())?;
    match &args.html {
        Some(file) => report::page_of(&dir, file.as_deref(), "--html"),
        None => print(&dir, args.json),
    }
}

/// Prints the result in a folder.
pub fn print(dir: &Path, json: bool) -> Result<(), Failure> {
    let answer = Answer::open(dir)?;
    match json {
        true => answer.print_json(),
        false => output::print(&answer.text(&output::style())),
    }
}
