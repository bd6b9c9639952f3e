//! What is carried into the guest: this program, and temporary folders.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that removes itself.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub fn new(what: &str) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("ringfence-testbed-{what}-{unique}"));
        std::fs::create_dir(&path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program of this machine, small enough to be carried into the guest: without its debug
/// information, where `strip` is installed. Its file lives as long as this value.
#[derive(Debug)]
pub struct Program {
    _folder: Temporary,
    path: PathBuf,
}

impl Program {
    /// A copy of a program, to be called `name` in the guest. Dynamically linked programs find the
    /// C library there, and those of libgcc and libm.
    ///
    /// # Errors
    ///
    /// When it cannot be read or copied.
    pub fn new(program: impl AsRef<Path>, name: &str) -> Result<Self, String> {
        let program = program.as_ref();
        let folder = Temporary::new("program")?;
        let path = folder.path().join(name);
        let stripped = Command::new("strip").arg("-o").arg(&path).arg(program).output();
        if !stripped.is_ok_and(|output| output.status.success()) {
            std::fs::copy(program, &path)
                .map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
        }
        Ok(Self { _folder: folder, path })
    }

    /// The program that is running.
    ///
    /// # Errors
    ///
    /// When it cannot be found or copied.
    pub fn this(name: &str) -> Result<Self, String> {
        let this = std::env::current_exe()
            .map_err(|error| format!("cannot find this program: {error}"))?;
        Self::new(this, name)
    }

    /// Where the copy is, for [`Testbed::copy`](crate::Testbed::copy).
    pub fn path(&self) -> &Path {
        &self.path
    }
}
