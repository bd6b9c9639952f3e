//! How long finding and freezing take on this machine: many processes in many control groups, as
//! root.
//!
//! `cargo run --release -p ringfence-system --example find -- 2000 300`

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_system::attach::{FreezeError, Freezer, Method, NotYet, Options, Target, find};
use ringfence_system::mounts;
use ringfence_system::root::FsRoot;

type Failure = Box<dyn std::error::Error>;

/// Groups with sleeping processes, gone with it.
struct Crowd {
    top: PathBuf,
    groups: Vec<PathBuf>,
    children: Vec<Child>,
}

impl Crowd {
    fn begin(folder: PathBuf) -> Result<Self, Failure> {
        std::fs::create_dir(&folder)?;
        Ok(Self { top: folder, groups: Vec::new(), children: Vec::new() })
    }

    fn group(&mut self) -> Result<(), Failure> {
        let group = self.top.join(format!("example-{}.service", self.groups.len()));
        std::fs::create_dir(&group)?;
        self.groups.push(group);
        Ok(())
    }

    fn process(&mut self) -> Result<(), Failure> {
        let child =
            Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let group = &self.groups[self.children.len() % self.groups.len()];
        std::fs::write(group.join("cgroup.procs"), child.id().to_string())?;
        self.children.push(child);
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        for group in self.groups.iter().chain([&self.top]) {
            while group.exists() && std::fs::remove_dir(group).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn frozen(
    root: &FsRoot,
    target: &Target,
    method: fn(&[Method]) -> Method,
) -> Result<String, Failure> {
    let found = find(root, target)?;
    let method = method(&found.methods);
    let options = Options { share: 0.9, longest: Duration::from_secs(1), ..Options::default() };
    let mut freezer = Freezer::new(root, found, method.clone(), options)?;
    let mut times = Vec::new();
    let mut thaws = Vec::new();
    while times.len() < 20 {
        match freezer.freeze(Duration::from_millis(1), Duration::from_secs(1)) {
            Ok(frozen) => {
                times.push(frozen.took().time);
                let begun = Instant::now();
                frozen.thaw()?;
                thaws.push(begun.elapsed());
            }
            Err(FreezeError::NotYet(NotYet::Until(_))) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(error) => return Err(error.into()),
        }
    }
    times.sort();
    thaws.sort();
    let (least, median, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    Ok(format!(
        "{method}: {median:?} ({least:?} to {most:?}) to stand, {:?} to go on",
        thaws[thaws.len() / 2]
    ))
}

fn main() -> Result<(), Failure> {
    let numbers: Vec<usize> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (processes, groups) =
        (numbers.first().copied().unwrap_or(2000), numbers.get(1).copied().unwrap_or(300).max(1));
    let root = FsRoot::host();
    let table = root.read_trimmed("/proc/self/mounts")?;
    let v2 = mounts::of_table(&table).into_iter().find(|mount| mount.fs == "cgroup2");
    let point = v2.ok_or("version 2 of control groups is not mounted here")?.point;
    let name = format!("ringfence-example-{}", std::process::id());
    let mut crowd = Crowd::begin(point.join(&name))?;
    for _ in 0..groups {
        crowd.group()?;
    }
    for _ in 0..processes {
        crowd.process()?;
    }
    let targets = [
        format!("pid:{}", crowd.children[0].id()),
        format!("cgroup:/{name}"),
        format!("cgroup:/{name}/example-0.service"),
        "unit:example-0".into(),
        "container:0123456789".into(),
    ];
    println!("{processes} processes in {groups} control groups");
    for text in targets {
        let target: Target = text.parse()?;
        let begun = Instant::now();
        let said = match find(&root, &target) {
            Ok(found) => format!("{} processes", found.processes.len()),
            Err(error) => error.to_string(),
        };
        println!("{text}: {:?}: {said}", begun.elapsed());
        if !text.starts_with("container") {
            println!("  {}", frozen(&root, &target, |methods| methods[0].clone())?);
            println!("  {}", frozen(&root, &target, |_| Method::Signals)?);
        }
    }
    Ok(())
}
