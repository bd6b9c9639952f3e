//! The environment of programs linked with PMDK (libpmem(7), "ENVIRONMENT"), and variables that the
//! user names.

use std::path::{Path, PathBuf};

use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use ringfence_experiment::Reason;
use ringfence_experiment::task::{Command, Commands, Task};

use ringfence_limits::lever::{Candidate, Lever, LeverContext, started};

pub struct Environment;

const PMDK: [(&str, &str); 3] =
    [("PMEM_NO_CLWB", "1"), ("PMEM_MOVNT_THRESHOLD", "0"), ("PMEM_NO_MOVNT", "1")];

impl Lever for Environment {
    fn name(&self) -> &'static str {
        "env"
    }

    fn about(&self) -> &'static str {
        "PMDK's variables, and those of --try-env (programs)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let Task::Command(command) = context.aggressor else {
            return Err("the aggressor is not a program".into());
        };
        let library = pmdk_library(command);
        let known = PMDK.iter().filter(|_| library.is_ok()).map(|(key, value)| (*key, *value));
        let named = context.try_env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let candidates: Vec<Candidate> = known
            .chain(named)
            .filter(|(key, value)| command.env.get(*key).is_none_or(|set| set != value))
            .map(|(key, value)| self.candidate(command, key, value))
            .collect();
        match library {
            Err(why) if candidates.is_empty() => {
                Err(format!("{why}; --try-env KEY=VALUE tries others").into())
            }
            _ => Ok(candidates),
        }
    }
}

impl Environment {
    fn candidate(&self, command: &Command, key: &str, value: &str) -> Candidate {
        let mut with = command.clone();
        with.env.insert(key.into(), value.into());
        let set = Commands::default().env(with.env.clone());
        let keep = "start the aggressor with it in its environment".into();
        Candidate::set(self, format!("{key}={value}"), set, keep)
            .by(vec![started(&[], &Task::Command(with))])
    }
}

// The PMDK library that a program is linked with, or why none can be told.
fn pmdk_library(command: &Command) -> Result<String, Reason> {
    let argv = command.argv().unwrap_or_default();
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let path = find(program).ok_or_else(|| format!("'{program}' was not found"))?;
    let data = std::fs::read(&path)
        .map_err(|error| format!("{} cannot be read ({error})", path.display()))?;
    let libraries = needed(&data).ok_or_else(|| format!("'{program}' is not an ELF program"))?;
    let pmdk = libraries.into_iter().find(|name| name.starts_with("libpmem"));
    pmdk.ok_or_else(|| format!("'{program}' is not linked with PMDK").into())
}

fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

// The names of DT_NEEDED; `None` for what is no 64-bit ELF file.
fn needed(data: &[u8]) -> Option<Vec<String>> {
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let Some(entries) =
        segments.iter().find_map(|segment| segment.dynamic(endian, data).ok().flatten())
    else {
        return Some(Vec::new());
    };
    let value = |tag: u32| {
        let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(tag))?;
        Some(entry.d_val(endian))
    };
    let (start, size): (u64, u64) = (value(elf::DT_STRTAB)?, value(elf::DT_STRSZ)?);
    let strings = segments
        .iter()
        .find_map(|segment| segment.data_range(endian, data, start, size).ok().flatten())?;
    let name = |entry: &elf::Dyn64<Endianness>| {
        let from = strings.get(usize::try_from(entry.d_val(endian)).ok()?..)?;
        let end = from.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&from[..end]).into_owned())
    };
    let is_needed = |entry: &&elf::Dyn64<Endianness>| entry.tag32(endian) == Some(elf::DT_NEEDED);
    Some(entries.iter().filter(is_needed).filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_this_very_program_are_found() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(
            needed(&own).unwrap().iter().any(|name| name.starts_with("libc.so")),
            "{:?}",
            needed(&own)
        );
        assert_eq!(needed(b"#!/bin/sh\n"), None);
        assert_eq!(needed(&own[..100]), None);
    }

    #[test]
    fn without_pmdk_the_reason_is_told() {
        assert!(
            pmdk_library(&Command::new("sh -c true")).unwrap_err().contains("not linked with PMDK")
        );
        assert!(
            pmdk_library(&Command::new("no-such-program-here")).unwrap_err().contains("not found")
        );
    }
}
