//! A gentler form: for tasks that write to a file, each way that waits for the device.

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Dirties, DirtyIo, Settings, Task};

use ringfence_limits::lever::{Candidate, Lever, LeverContext};

pub struct GentlerForm;

impl Lever for GentlerForm {
    fn name(&self) -> &'static str {
        "io"
    }

    fn about(&self) -> &'static str {
        "other calls that write (the built-in writer to files)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let Task::Dirty(dirty) = context.aggressor else {
            return Err("the aggressor is not the built-in writer to files".into());
        };
        let candidate = |io: DirtyIo| {
            let set = Settings::from(Dirties::default().io(io));
            let keep =
                format!("in the writer: {}; here: {}", how(io), context.aggressor_with(&set));
            Candidate::set(self, format!("io {io}"), set, keep)
        };
        let others = DirtyIo::WAITING.into_iter().filter(|io| *io != dirty.io);
        Ok(others.map(candidate).collect())
    }
}

fn how(io: DirtyIo) -> &'static str {
    match io {
        DirtyIo::Wait => "sync_file_range of each block, with all three of its flags",
        DirtyIo::Fdatasync => "fdatasync every 8 MiB",
        DirtyIo::Direct => "O_DIRECT",
        DirtyIo::Buffered | DirtyIo::Write | DirtyIo::Dontcache => "no wait for the device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_waits_for_the_device() {
        assert!(
            DirtyIo::ALL
                .iter()
                .all(|io| DirtyIo::WAITING.contains(io) == (how(*io) != "no wait for the device"))
        );
    }
}
