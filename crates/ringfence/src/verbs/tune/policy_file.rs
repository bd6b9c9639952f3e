//! The policy file, and the folder of the datasets that it was chosen from.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ringfence_studies::tune::POLICY;
use ringfence_system::whole;

use crate::args::Tune;
use crate::failure::Failure;
use crate::shared::command::pasteable;
use crate::shared::{folder, results};

/// Where the answer goes.
pub struct Written {
    /// The policy file.
    pub policy: PathBuf,
    /// The folder of the datasets.
    pub dir: PathBuf,
}

impl Written {
    /// Where both can be written, which is found out before anything is measured.
    ///
    /// # Errors
    /// In a sentence.
    pub fn new(args: &Tune) -> Result<Self, Failure> {
        let to = Self::of(args)?;
        can_be_written(&to.policy)?;
        folder::check_new(&to.dir)?;
        Ok(to)
    }

    /// Where there is to be no policy.
    ///
    /// # Errors
    /// In a sentence.
    pub fn datasets_alone(args: &Tune) -> Result<Self, Failure> {
        let to = Self::of(args)?;
        folder::check_new(&to.dir)?;
        Ok(to)
    }

    fn of(args: &Tune) -> Result<Self, Failure> {
        let policy = args.policy.clone().unwrap_or_else(|| "ringfence-policy.toml".into());
        let dir = results::new_dir(args.output.out.as_deref(), "tune")?;
        Ok(Self { policy, dir })
    }

    /// Writes the policy, if there is one.
    ///
    /// # Errors
    /// In a sentence that has the policy.
    pub fn write(&self, policy: Option<&str>) -> Result<(), Failure> {
        let Some(policy) = policy else { return Ok(()) };
        write(&self.policy, policy)?;
        // Next to what it was chosen from, for users who look at the folder again.
        write(&self.dir.join(POLICY), policy)
    }

    /// What was written where; in the place of a policy `none`.
    pub fn last_line(&self, written: Option<&Path>, none: &str, started: Instant) -> String {
        let policy =
            written.map_or_else(|| none.to_owned(), |path| format!("policy: {}", path.display()));
        let seconds = started.elapsed().as_secs_f64();
        format!("\n{seconds:.0} s; {policy}; datasets: {}\n", pasteable(&self.dir))
    }
}

fn can_be_written(path: &Path) -> Result<(), Failure> {
    let named = path.display();
    if fs::symlink_metadata(path).is_ok() {
        return Err(Failure::usage(format!(
            "{named} already exists: name another file with --policy"
        )));
    }
    // Made and removed again: only trying tells.
    fs::File::create_new(path).and_then(|_| fs::remove_file(path)).map_err(|error| {
        Failure::usage(format!(
            "{named} cannot be written: {error}; name another file with --policy"
        ))
    })
}

fn write(path: &Path, policy: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!(
            "the policy cannot be written to {}: {error}; this is the policy:\n{policy}",
            path.display()
        ))
    };
    let text = format!("# How to make stores durable here, by 'ringfence tune'.\n{policy}");
    whole::write(path, text.as_bytes()).map_err(whole::WholeError::into_source).map_err(failed)
}
