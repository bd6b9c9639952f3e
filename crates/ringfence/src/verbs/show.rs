//! `show`: a dataset again, from its samples.

use crate::args::Show;
use crate::failure::Failure;
use crate::output;
use crate::shared::answer::Answer;

pub fn run(args: &Show) -> Result<(), Failure> {
    let answer = Answer::open(&args.dataset)?;
    match args.json {
        true => answer.print_json(),
        false => output::print(&answer.text(&output::style())),
    }
}
