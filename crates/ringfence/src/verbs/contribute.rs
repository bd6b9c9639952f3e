//! `contribute`: datasets for publication, without names of hosts, people and folders.

use std::path::{Path, PathBuf};

use ringfence_dataset::{Dataset, Recorder};
use ringfence_machine::units::Bytes;
use ringfence_simulator::catalogue;
use ringfence_studies::claims::clean::{Cleaned, clean, found};

use super::claims::{KINDS, RESULTS};
use crate::args::Contribute;
use crate::failure::Failure;
use crate::output;
use crate::shared::folder;

// Of one dataset: what a repository can hold many of.
const LARGEST: u64 = 1 << 20;

pub fn run(args: &Contribute) -> Result<(), Failure> {
    folder::refuse_file(&args.dataset)?;
    let to = args.to.clone().unwrap_or_else(|| PathBuf::from(RESULTS));
    let private = private();
    let mut ready = Vec::new();
    // All or none: what cannot be cleaned is found before anything is written.
    for dir in ringfence_dataset::list(&args.dataset)? {
        let refuse = |why: String| Failure::usage(format!("{}: {why}", dir.display()));
        let dataset = Dataset::open(&dir)?;
        if let Some(name) = borrowed_name(&dataset) {
            return Err(refuse(format!(
                "it was simulated on another machine than the {name} that comes with Ringfence: \
                 give its file another name"
            )));
        }
        let cleaned = clean(&dataset, &private).map_err(refuse)?;
        let place = place(&to, &cleaned);
        if place.exists() {
            return Err(Failure::usage(format!(
                "{} already exists: nothing was written",
                place.display()
            )));
        }
        ready.push((dir, place, cleaned));
    }
    let mut text = String::new();
    for (dir, place, cleaned) in &ready {
        let bytes = write(place, cleaned, &private).inspect_err(|_| {
            // Written moments ago, by this process alone.
            let _ = std::fs::remove_dir_all(place);
        })?;
        let how = if cleaned.machine.simulated { "simulated" } else { "measured" };
        text += &format!("{} -> {} ({}, {how})\n", dir.display(), place.display(), Bytes(bytes));
        for line in &cleaned.left_out {
            text += &format!("    left out: {line}\n");
        }
    }
    text += "Look through these files before you publish them. 'ringfence notes claims' counts the \
             datasets in results/.\n";
    output::print(&text)
}

// A machine's name under which another one comes with Ringfence, such as that of a reading with
// other values.
fn borrowed_name(dataset: &Dataset) -> Option<String> {
    let simulated = dataset.machine.get("simulated")?;
    let (name, file) = (simulated.get("name")?.as_str()?, simulated.get("file")?.as_str()?);
    let shipped = catalogue::all().into_iter().find(|known| known.name == name)?;
    (shipped.text != file).then(|| name.to_owned())
}

// By whether it was measured, machine, experiment and time.
fn place(to: &Path, cleaned: &Cleaned) -> PathBuf {
    let Cleaned { dataset, machine, .. } = cleaned;
    let digits: String =
        dataset.manifest.created.chars().filter(char::is_ascii_digit).take(14).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = dataset.plan.experiment.name.chars().map(plain).collect();
    to.join(KINDS[usize::from(machine.simulated)])
        .join(&machine.name)
        .join(format!("{name}-{digits}"))
}

fn write(place: &Path, cleaned: &Cleaned, private: &[String]) -> Result<u64, Failure> {
    Recorder::copy(&cleaned.dataset, place)?;
    let failed =
        |error: std::io::Error| Failure::failed(format!("reading {}: {error}", place.display()));
    let mut bytes = 0;
    for entry in std::fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let content = std::fs::read(&path).map_err(failed)?;
        bytes += content.len() as u64;
        // What was checked are values; what is published are files.
        let names: Vec<String> = private.to_vec();
        let text = String::from_utf8(content).unwrap_or_default();
        if let Some(what) = found(&text, &names).filter(|what| what.starts_with("the name")) {
            return Err(Failure::failed(format!("{}: {what} would be published", path.display())));
        }
    }
    if bytes > LARGEST {
        return Err(Failure::usage(format!(
            "{}: {} are too much to publish, {} is the most: measure fewer trials, rounds or cases",
            cleaned.dataset.dir.display(),
            Bytes(bytes),
            Bytes(LARGEST)
        )));
    }
    Ok(bytes)
}

// Names that tell whose machine this is.
fn private() -> Vec<String> {
    let mut names = Vec::new();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    names.push(host.to_owned());
    names.extend(host.split('.').next().map(str::to_owned));
    for variable in ["USER", "LOGNAME", "SUDO_USER", "HOME", "HOSTNAME"] {
        names.extend(std::env::var(variable).ok());
    }
    if let Some(home) = std::env::var_os("HOME") {
        names.extend(Path::new(&home).file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names.retain(|name| name.len() > 1);
    names.sort();
    names.dedup();
    names
}
