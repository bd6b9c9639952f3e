//! `machine`: described machines, and this one.

mod described;
pub mod fit;

use super::{inspect, whatif};
use crate::args::{Describe, MachineAction};
use crate::failure::Failure;

pub fn run(args: &Describe) -> Result<(), Failure> {
    match &args.action {
        Some(MachineAction::New(asked)) => described::new(asked),
        Some(MachineAction::Check(asked)) => described::check(asked),
        Some(MachineAction::Sensitivity(asked)) => described::sensitivity(asked),
        Some(MachineAction::Fit(asked)) => fit::run(asked),
        Some(MachineAction::WhatIf(asked)) => whatif::run(asked),
        Some(MachineAction::Host(asked)) => inspect::topology(asked),
        None => described::show(args),
    }
}
