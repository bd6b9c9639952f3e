//! The recording of the program whose crashes are examined.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_crash::worker::Worker;
use ringfence_crash::{Medium, Program};
use ringfence_machine::features::Features;
use ringfence_trace::Profile;
use ringfence_trace::events::{self, Ended};
use ringfence_trace::record::{Options, of_new_file, record};
use ringfence_trace::recording::{About, Asked, Writer};

use crate::args::{Crash, CrashMedium};
use crate::failure::Failure;

/// The recording, in the folder of the result.
pub(super) const TRACE: &str = "trace";
/// What is private to the workers, in it, while they run.
pub(super) const WORKERS: &str = "workers";

/// Whether recovery can run here. Asked before the program runs, which may take long.
pub(super) fn can_recover_here(dir: &Path) -> Result<(), Failure> {
    let this = std::env::current_exe().map_err(Failure::failed_by)?;
    let whole = fs::canonicalize(dir).map_err(Failure::failed_by)?;
    Worker::check(&this, &whole.join(WORKERS)).map_err(|error| {
        let _ = fs::remove_dir(dir);
        Failure::usage(format!(
            "recovery cannot be isolated here, so the program was not run: {error}; this needs \
             root with CAP_SYS_ADMIN, or user namespaces"
        ))
    })
}

/// Records the program on copies of the files. On a thread of its own, which gives up the rights to
/// mount: workers still need them.
pub(super) fn recorded(asked: &Crash, files: &[PathBuf], dir: &Path) -> Result<(), Failure> {
    let recording = &dir.join(TRACE);
    let about = About {
        recorder: format!("ringfence {}", env!("CARGO_PKG_VERSION")),
        command: asked.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        loads: false,
        directory: std::env::current_dir().ok(),
        asked: files
            .iter()
            .map(|path| Asked { path: path.clone(), existed: path.exists() })
            .collect(),
    };
    let mut writer = Writer::create(recording, about).map_err(Failure::usage_by)?;
    let options = Options {
        command: asked.command.clone(),
        files: files.to_vec(),
        copies: Some(recording.join("copies")),
        loads: false,
        output: true,
        made_in_memory: true,
    };
    let recorder = std::thread::scope(|scope| {
        scope.spawn(|| record(options, &mut writer)).join().expect("the recorder does not panic")
    });
    let outcome = recorder.map_err(|error| {
        let _ = fs::remove_dir_all(recording);
        Failure::failed_by(error)
    })?;
    writer.finish(outcome.ended.clone()).map_err(Failure::failed_by)?;
    fs::write(dir.join("printed"), &outcome.printed).map_err(Failure::failed_by)
}

pub(super) fn ended_well(ended: Option<&Ended>) -> Result<(), Failure> {
    let ended = match ended {
        Some(Ended::Exited(0)) => return Ok(()),
        Some(Ended::Exited(code)) => format!("the program ended with exit code {code}"),
        Some(Ended::Signal(signal)) => format!("the program was ended by signal {signal}"),
        Some(Ended::Stopped(reason)) => format!("recording stopped: {reason}"),
        None => "recording was cut short".into(),
    };
    Err(Failure::failed(format!("{ended}, so there is nothing to examine")))
}

pub(super) fn medium(asked: &Crash, program: &Program) -> Result<Medium, Failure> {
    let pmem = || -> Result<Medium, Failure> {
        let rules = match asked.rules.as_deref() {
            Some(text) => text.parse().map_err(|why| Failure::usage(format!("--rules: {why}")))?,
            None => rules_here(),
        };
        Ok(Medium::of_rules(rules))
    };
    match asked.medium {
        Some(CrashMedium::Pmem) => return pmem(),
        Some(CrashMedium::Pages) => return Ok(Medium::Pages),
        None => {}
    }
    let of_folder = |path: &str| Path::new(path).parent().and_then(of_new_file);
    let media = program.files.iter().map(|file| file.medium.or_else(|| of_folder(&file.path)));
    match media.reduce(|one, other| if one == other { one } else { None }).flatten() {
        Some(events::Medium::Dax) => pmem(),
        Some(events::Medium::PageCache) => Ok(Medium::Pages),
        Some(events::Medium::Memory) => Err(Failure::usage(
            "the files are on a file system in memory, where nothing is durable; say how they will \
             be stored with --medium pmem or --medium pages",
        )),
        None => Err(Failure::usage(
            "how the files are stored is not known, or differs between them; say it with --medium \
             pmem or --medium pages",
        )),
    }
}

// Those of this processor, if its caches are not durable.
fn rules_here() -> Profile {
    let features = Features::detect();
    let is_amd = features.identity.vendor.as_deref() == Some("AuthenticAMD");
    match (is_amd, features.clflushopt) {
        (true, true) => Profile::Amd,
        (true, false) => Profile::OldAmd,
        (false, _) => Profile::IntelAdr,
    }
}
