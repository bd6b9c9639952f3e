//! One file per verb.

mod aa;
mod census;
mod claims;
mod commit;
mod compare;
mod completions;
mod contribute;
mod crash;
mod explain;
mod fleet;
mod inspect;
mod lock;
mod machine;
mod man;
mod neighbours;
mod pair;
mod prove;
mod report;
mod reproduce;
pub mod resctrl;
mod restore;
mod resume;
mod run;
mod sensitivity;
mod show;
mod survey;
mod trace;
mod tune;
mod versus;
mod whatif;
mod write;

use ringfence_engine::write_budget;

use crate::args::{Args, Notes, NotesAction, Verb};
use crate::failure::Failure;
use crate::output;
use crate::shared::flags::set;

/// Does what was asked.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut limit = write_budget::LIMIT;
    set(
        &mut limit,
        "write-limit",
        args.verb.output().and_then(|output| output.write_limit.as_deref()),
    )?;
    write_budget::allow(limit);
    if args.verb.verbose() {
        output::show_details();
    }
    match args.verb {
        Verb::Survey(survey) => survey::run(&survey),
        Verb::Prove(prove) => prove::run(&prove),
        Verb::Tune(tune) => tune::run(&tune),
        Verb::Versus(flags) => versus::run(&flags),
        Verb::Topology(inspect) => inspect::topology(&inspect),
        Verb::Doctor(doctor) => inspect::doctor(&doctor.inspect),
        Verb::Machine(describe) => machine::run(&describe),
        Verb::Calibrate(calibrate) => machine::fit::run(&calibrate),
        Verb::Resctrl(resctrl) => resctrl::run(&resctrl),
        Verb::Restore(put_back) => restore::run(&put_back),
        Verb::Lock(lock) => lock::run(&lock),
        Verb::Explain(explain) => explain::run(&explain),
        Verb::Write(write) => write::run(&write),
        Verb::Commit(commit) => commit::run(&commit),
        Verb::Neighbours(neighbours) => neighbours::run(&neighbours),
        Verb::Pair(pair) => pair::run(&pair),
        Verb::Sensitivity(sensitivity) => sensitivity::run(&sensitivity),
        Verb::Census(census) => census::run(&census),
        Verb::Crash(crash) => crash::run(&crash),
        Verb::Trace(trace) => trace::run(&trace),
        Verb::Run(run) => run::run(&run),
        Verb::Aa(aa) => aa::run(&aa),
        Verb::Fleet(fleet) => fleet::run(&fleet),
        Verb::WhatIf(asked) => whatif::run(&asked),
        Verb::Show(show) => show::run(&show),
        Verb::Report(report) => report::run(&report),
        Verb::Reproduce(reproduce) => reproduce::run(&reproduce),
        Verb::Notes(Notes { action }) => match action {
            NotesAction::Run(reproduce) => reproduce::run(&reproduce),
            NotesAction::Show(show) => claims::show(&show),
            NotesAction::Claims(claims) => claims::run(&claims),
            NotesAction::Contribute(contribute) => contribute::run(&contribute),
        },
        Verb::Compare(compare) => compare::run(&compare),
        Verb::Claims(claims) => claims::run(&claims),
        Verb::Contribute(contribute) => contribute::run(&contribute),
        Verb::Completions(completions) => completions::run(&completions),
        Verb::Man(man) => man::run(&man),
    }
}
