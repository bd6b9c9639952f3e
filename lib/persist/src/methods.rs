//! Which instructions make stores durable here: from the processor, a [`Policy`] measured on it,
//! and the environment.

use std::io;
use std::path::{Path, PathBuf};

use crate::policy::{FilePolicy, Policy, PolicyError, Prices, RegionSync};
use crate::{Flush, Width, isa};

/// How stores are made durable in one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Methods {
    /// The instruction that writes a line back. It is left out where the region says that caches
    /// are part of the persistence domain (eADR); fences are kept there, since a store may be in a
    /// buffer before the cache.
    pub flush: Flush,
    /// Copies of so many bytes and more are non-temporal; `usize::MAX` for never.
    pub nt_threshold: usize,
    /// The registers that whole lines are copied with.
    pub width: Width,
    /// The call that stands behind a fence where memory is a file in the page cache, and there
    /// alone.
    pub sync: RegionSync,
}

/// Why a policy or an override is not followed.
#[derive(Debug, thiserror::Error)]
pub enum MethodsError {
    /// The file that `RINGFENCE_POLICY` names cannot be read.
    #[error("RINGFENCE_POLICY names {}, which cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// It is not a policy.
    #[error("RINGFENCE_POLICY names {}: {source}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PolicyError,
    },
    /// It names an instruction that this processor does not have.
    #[error("{0} is asked for, which this processor does not have: its flags are in /proc/cpuinfo")]
    Missing(Flush),
    /// The policy was measured on another kind of processor.
    #[error(
        "the policy was measured on processor {measured}, this is {here}: let 'ringfence tune' \
         write one here"
    )]
    Elsewhere {
        /// Where it was measured.
        measured: String,
        /// What this is.
        here: String,
    },
    /// An environment variable with a value that is none.
    #[error("{variable}={value} is not understood: {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl Methods {
    /// The processor's flush instruction that disturbs its own cache least (`clwb`, else
    /// `clflushopt`, else `clflush`), and non-temporal stores from a whole line on. The cheapest
    /// methods differ from machine to machine: see the policy file.
    pub fn of_processor() -> Self {
        let flush = Flush::GENTLEST_FIRST.into_iter().find(|flush| isa::supports(*flush));
        Self {
            flush: flush.unwrap_or(Flush::Clflush),
            nt_threshold: crate::LINE,
            width: Width::widest(),
            sync: RegionSync::default(),
        }
    }

    /// As a policy says.
    ///
    /// # Errors
    /// [`MethodsError::Elsewhere`] and [`MethodsError::Missing`].
    pub fn of_policy(policy: &Policy) -> Result<Self, MethodsError> {
        of_here(policy)?;
        let nt_threshold = policy.nt_threshold.map_or(usize::MAX, |bytes| bytes as usize);
        let sync = policy.file.as_ref().map(FilePolicy::on_a_mapping).unwrap_or_default();
        Self { nt_threshold, sync, ..Self::of_processor() }.with_flush(policy.instruction)
    }

    /// With this instruction.
    ///
    /// # Errors
    /// [`MethodsError::Missing`].
    pub fn with_flush(self, flush: Flush) -> Result<Self, MethodsError> {
        if isa::supports(flush) {
            Ok(Self { flush, ..self })
        } else {
            Err(MethodsError::Missing(flush))
        }
    }

    /// What the environment asks for, else [`Methods::of_processor`]: `RINGFENCE_POLICY` names a
    /// policy file; over it `RINGFENCE_FLUSH` (`clwb`, `clflushopt`, `clflush`) and
    /// `RINGFENCE_NT_THRESHOLD` (bytes, or `never`), which are meant for tests and comparisons.
    ///
    /// # Errors
    /// A variable that cannot be followed is refused, never ignored.
    pub fn here() -> Result<Self, MethodsError> {
        Self::of_variables(environment)
    }

    fn of_variables(
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, MethodsError> {
        let policy = named(&variable)?;
        let mut methods =
            policy.map_or_else(|| Ok(Self::of_processor()), |policy| Self::of_policy(&policy))?;
        let name = "RINGFENCE_FLUSH";
        if let Some(value) = variable(name) {
            let expected = "clwb, clflushopt or clflush";
            let flush = value.parse().map_err(|_| MethodsError::Variable {
                variable: name,
                value,
                expected,
            })?;
            methods = methods.with_flush(flush)?;
        }
        let name = "RINGFENCE_NT_THRESHOLD";
        if let Some(value) = variable(name) {
            methods.nt_threshold = match value.as_str() {
                "never" => usize::MAX,
                number => number.parse().map_err(|_| MethodsError::Variable {
                    variable: name,
                    value: value.clone(),
                    expected: "a number of bytes, or never",
                })?,
            };
        }
        Ok(methods)
    }
}

impl Prices {
    /// Those of the policy file that `RINGFENCE_POLICY` names; none are known where it names none.
    ///
    /// # Errors
    /// As [`Methods::here`]: a policy that cannot be read, or was measured elsewhere, is refused.
    pub fn here() -> Result<Self, MethodsError> {
        Self::of_variables(environment)
    }

    fn of_variables(
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, MethodsError> {
        let Some(policy) = named(&variable)? else { return Ok(Self::default()) };
        of_here(&policy)?;
        Ok(policy.prices)
    }
}

fn environment(name: &'static str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

// The policy that the environment names, if any.
fn named(
    variable: &impl Fn(&'static str) -> Option<String>,
) -> Result<Option<Policy>, MethodsError> {
    let Some(path) = variable("RINGFENCE_POLICY").map(PathBuf::from) else { return Ok(None) };
    let text = ordinary(&path)
        .map_err(|source| MethodsError::Unreadable { path: path.clone(), source })?;
    Policy::parse(&text).map(Some).map_err(|source| MethodsError::Policy { path, source })
}

// A device might never end, and a pipe that no process writes to never begin.
fn ordinary(path: &Path) -> io::Result<String> {
    const LONGEST: u64 = 1 << 20;
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not an ordinary file"));
    }
    if metadata.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1MiB"));
    }
    std::fs::read_to_string(path)
}

fn of_here(policy: &Policy) -> Result<(), MethodsError> {
    if policy.is_for_here() {
        return Ok(());
    }
    let here = crate::policy::Fingerprint::here().to_string();
    Err(MethodsError::Elsewhere { measured: policy.processor.to_string(), here })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{FileLayout, FileSync, Fingerprint};

    fn of(pairs: &[(&'static str, &str)]) -> Result<Methods, MethodsError> {
        Methods::of_variables(|name| {
            pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
        })
    }

    #[test]
    fn the_environment_overrides() {
        assert_eq!(of(&[]).unwrap(), Methods::of_processor());
        let methods =
            of(&[("RINGFENCE_FLUSH", "clflush"), ("RINGFENCE_NT_THRESHOLD", "512")]).unwrap();
        assert_eq!((methods.flush, methods.nt_threshold), (Flush::Clflush, 512));
        assert_eq!(of(&[("RINGFENCE_NT_THRESHOLD", "never")]).unwrap().nt_threshold, usize::MAX);
        for (name, value) in [
            ("RINGFENCE_FLUSH", "wbinvd"),
            ("RINGFENCE_NT_THRESHOLD", "-1"),
            ("RINGFENCE_POLICY", "/no/such"),
            ("RINGFENCE_POLICY", "/dev/zero"),
        ] {
            let error = of(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn a_policy_is_followed_where_it_was_measured() {
        let policy = Policy {
            processor: Fingerprint::here(),
            target: "dram".into(),
            instruction: Flush::Clflush,
            nt_threshold: None,
            batch: 1,
            pace: None,
            prices: Prices { fence_ns: Some(4.5), ..Prices::default() },
            file: None,
        };
        let methods = Methods::of_policy(&policy).unwrap();
        assert_eq!((methods.flush, methods.nt_threshold), (Flush::Clflush, usize::MAX));
        assert_eq!(methods.sync, RegionSync::Msync);
        let (sync, layout) = (FileSync::ODsync, FileLayout::Written);
        let file = Some(FilePolicy { sync, layout, batch: 4, mapped: None });
        let of_files = Policy { file, ..policy.clone() };
        assert_eq!(Methods::of_policy(&of_files).unwrap().sync, RegionSync::Fdatasync);
        let read = |text: &str| {
            let path =
                std::env::temp_dir().join(format!("ringfence-prices-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            let prices = Prices::of_variables(|_| Some(path.to_str().unwrap().into()));
            std::fs::remove_file(&path).unwrap();
            prices
        };
        assert_eq!(read(&policy.to_string()).unwrap(), policy.prices);
        assert_eq!(Prices::of_variables(|_| None).unwrap(), Prices::default());
        let text = policy.to_string().replace(&policy.processor.to_string(), "Somebody 1-2-3");
        let error = Methods::of_policy(&Policy::parse(&text).unwrap()).unwrap_err().to_string();
        assert!(error.contains("Somebody 1-2-3"), "{error}");
        assert!(matches!(read(&text), Err(MethodsError::Elsewhere { .. })));
    }
}
