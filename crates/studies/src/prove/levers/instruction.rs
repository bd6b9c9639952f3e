//! A gentler instruction: for built-in writers, each other way to flush that is as durable.

use ringfence_experiment::task::{Instruction, Task, Write, text};
use toml::{Table, Value};

use crate::prove::lever::{Lever, Offer, Scene};
use crate::survey::instruction_name;

pub struct GentlerInstruction;

impl Lever for GentlerInstruction {
    fn name(&self) -> &'static str {
        "instruction"
    }

    fn offers(&self, scene: &Scene) -> Result<Vec<Offer>, String> {
        let Task::Write(write) = scene.aggressor else {
            return Err("the aggressor is no built-in writer".into());
        };
        if matches!(write.instruction, Instruction::None | Instruction::Msync) {
            return Err(format!(
                "no flush instruction stands for {}",
                match write.instruction {
                    Instruction::None => "plain stores, which flush nothing",
                    _ => "msync, which is the kernel's",
                }
            ));
        }
        let all = [Instruction::Nt, Instruction::Clwb, Instruction::Clflushopt, Instruction::Clflush];
        let here = |instruction: &Instruction| {
            let other = Write { instruction: *instruction, ..write.clone() };
            let missing = scene.features.and_then(|features| other.missing(features));
            *instruction != write.instruction && missing.is_none()
        };
        let offer = |instruction: Instruction| {
            let name = instruction_name(instruction);
            let set = Table::from_iter([("instruction".to_string(), Value::String(name.into()))]);
            let mut task = scene.table.clone();
            task.extend(set.clone());
            let keep = format!("in the writer: {}; here: {}", how(instruction), text::print(&task));
            Offer::set(self, format!("instruction {name}"), set, keep)
        };
        Ok(all.into_iter().filter(here).map(offer).collect())
    }
}

fn how(instruction: Instruction) -> &'static str {
    match instruction {
        Instruction::Nt => "non-temporal stores instead of stores and flushes, fences where they are",
        Instruction::Clwb => "clwb on each line, fences where they are",
        Instruction::Clflushopt => "clflushopt on each line, fences where they are",
        _ => "clflush on each line, fences where they are",
    }
}
