//! A gentler instruction: for built-in writers, each other way to flush that is as durable.

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Flush, Instruction, Parameters, Settings, Task, Write, Writes};

use ringfence_limits::lever::{Candidate, Lever, LeverContext};

pub struct GentlerInstruction;

impl Lever for GentlerInstruction {
    fn name(&self) -> &'static str {
        "instruction"
    }

    fn about(&self) -> &'static str {
        "other flush instructions (built-in writers)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let Task::Write(write) = context.aggressor else {
            return Err("the aggressor is not a built-in writer".into());
        };
        match write.instruction {
            Instruction::Flush(_) | Instruction::Nt => {}
            Instruction::None => {
                return Err(
                    "plain stores flush nothing, so no flush instruction can replace them".into()
                );
            }
            Instruction::Msync => {
                return Err("msync is a system call, so no flush instruction can replace it".into());
            }
        }
        let all =
            [Instruction::Nt].into_iter().chain(Flush::GENTLEST_FIRST.map(Instruction::Flush));
        let here = |instruction: &Instruction| {
            let other = Write { instruction: *instruction, ..write.clone() };
            *instruction != write.instruction && other.missing(context.features).is_none()
        };
        let candidate = |instruction: Instruction| {
            let name = instruction.name();
            let set = Settings::from(Writes::default().instruction(instruction));
            let keep = format!(
                "in the writer: {}; here: {}",
                how(instruction.flush()),
                context.aggressor_with(&set)
            );
            Candidate::set(self, format!("instruction {name}"), set, keep)
        };
        Ok(all.filter(here).map(candidate).collect())
    }
}

fn how(flush: Option<Flush>) -> String {
    match flush {
        None => "non-temporal stores instead of stores and flushes, fences where they are".into(),
        Some(flush) => format!("{flush} on each line, fences where they are"),
    }
}
