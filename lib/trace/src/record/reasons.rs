//! Why a recording stops, in a sentence.

use iced_x86::InstructionInfoFactory;
use ringfence_trace_runtime::layout::{self, stop};

use super::service::Service;
use super::site;

impl Service<'_> {
    pub(super) fn reason(&mut self, thread: u32, a: [u64; 6]) -> String {
        let [reason, one, other, ..] = a;
        let process = self.memory.ids(thread).0;
        let who = format!("process {process}");
        match reason {
            stop::PARTLY => format!(
                "{who} {}: an access that lies partly in a recorded file, at {other:#x}, cannot be \
                 recorded",
                self.shown(thread, one)
            ),
            stop::INSTRUCTION => {
                format!("{who} {}: this instruction cannot be recorded", self.shown(thread, one))
            }
            stop::ALIAS_TAKEN => format!(
                "{who}: the file is mapped at {one:#x}, and addresses near it that recording needs \
                 are in use"
            ),
            stop::CALL => format!(
                "{who}: system call {one} ({other:#x}) cannot be recorded with buffers or files \
                 like these"
            ),
            stop::REGIONS => {
                format!("{who} has more than {} mappings of recorded files", layout::MOST_REGIONS)
            }
            stop::SITES => {
                format!("{who} has more than {} instructions to record", layout::MOST_SITES)
            }
            stop::THREADS => format!("there are more than {} threads", layout::MOST_THREADS),
            stop::SETUP => {
                format!(
                    "{who} could not be prepared for recording (step {one}, result {})",
                    other as i64
                )
            }
            reason => format!(
                "the recorder failed in {who} (reason {reason}, {one:#x}, {other:#x}): this is a \
                 bug in Ringfence"
            ),
        }
    }

    fn shown(&mut self, thread: u32, pc: u64) -> String {
        let bytes = self.space(thread).map(|space| space.code(pc, 15)).unwrap_or_default();
        let (instruction, _) = site::decode(&bytes, pc, &mut InstructionInfoFactory::new());
        let (module, address) = self.place(thread, pc);
        let bytes = &bytes[..instruction.len().min(bytes.len())];
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("at {address:#x} of {module} ({:?}, {})", instruction.mnemonic(), hex.join(" "))
    }
}
