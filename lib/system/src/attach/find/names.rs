//! Control groups by the names of what runs in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::root::FsRoot;

use crate::attach::hierarchy::{self, Hierarchy};
use crate::attach::refusal::Refusal;
use crate::attach::target::Target;

/// The groups that a target names, with the controllers of their hierarchies.
pub fn groups(
    root: &FsRoot,
    hierarchies: &[Hierarchy],
    target: &Target,
) -> Result<Vec<(Vec<String>, PathBuf)>, Refusal> {
    let not_there = |why: &str| Refusal::NotThere { target: target.clone(), why: why.into() };
    if hierarchies.is_empty() {
        return Err(not_there("no control groups are mounted here (/proc/self/mounts)"));
    }
    let controllers = |one: &Hierarchy| one.controllers.clone();
    match target {
        Target::Pid(_) => Ok(Vec::new()),
        Target::Group(path) => {
            let whole = Path::new(path);
            // The longest, should one be mounted below another.
            let mounted = hierarchies.iter().filter(|one| whole.starts_with(&one.point));
            if let Some(one) = mounted.max_by_key(|one| one.point.as_os_str().len()) {
                let there = root.exists(whole).then(|| vec![(controllers(one), whole.to_owned())]);
                return there.ok_or_else(|| not_there("there is no such folder"));
            }
            let in_one = |one: &Hierarchy| (controllers(one), one.folder(path));
            let all: Vec<_> =
                hierarchies.iter().map(in_one).filter(|(_, folder)| root.exists(folder)).collect();
            let why = "no control group has that path ('systemd-cgls' and /proc/PID/cgroup show \
                       the paths)";
            if all.is_empty() { Err(not_there(why)) } else { Ok(all) }
        }
        Target::Unit(name) => {
            let found = search(root, hierarchies, |folder| (folder == name).then(|| name.clone()));
            let paths: BTreeSet<PathBuf> = found.iter().map(|one| one.path.clone()).collect();
            let why = "no control group has that name: the unit may not be running ('systemctl \
                       status' shows that), or may not be a systemd unit";
            one_of(found, target, paths, |path| format!("cgroup:{}", path.display()), why)
        }
        Target::Container(id) => {
            let is_it =
                |folder: &str| container_id(folder).filter(|whole| whole.starts_with(id.as_str()));
            let found = search(root, hierarchies, is_it);
            let ids: BTreeSet<String> = found.iter().map(|one| one.name.clone()).collect();
            let why = "no control group of Docker, containerd, CRI-O or Podman has an ID that \
                       starts with this";
            one_of(found, target, ids, |id| format!("container:{id}"), why)
        }
    }
}

struct Match {
    controllers: Vec<String>,
    folder: PathBuf,
    // From the mount point on.
    path: PathBuf,
    name: String,
}

fn one_of<T>(
    found: Vec<Match>,
    target: &Target,
    different: BTreeSet<T>,
    call: impl Fn(&T) -> String,
    why: &str,
) -> Result<Vec<(Vec<String>, PathBuf)>, Refusal> {
    match different.len() {
        0 => Err(Refusal::NotThere { target: target.clone(), why: why.into() }),
        1 => Ok(found.into_iter().map(|one| (one.controllers, one.folder)).collect()),
        _ => Err(Refusal::Ambiguous {
            target: target.clone(),
            found: different.iter().map(call).collect(),
        }),
    }
}

// All groups whose names match. What is inside a match, or inside a container, is not looked at: a
// container may have units of its own.
fn search(
    root: &FsRoot,
    hierarchies: &[Hierarchy],
    matches: impl Fn(&str) -> Option<String>,
) -> Vec<Match> {
    let mut found = Vec::new();
    for one in hierarchies {
        let mut next = vec![one.point.clone()];
        while let Some(folder) = next.pop() {
            for below in hierarchy::below(root, &folder) {
                let name = below.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if let Some(name) = matches(&name) {
                    let path =
                        Path::new("/").join(below.strip_prefix(&one.point).unwrap_or(&below));
                    found.push(Match {
                        controllers: one.controllers.clone(),
                        folder: below,
                        path,
                        name,
                    });
                } else if container_id(&name).is_none() {
                    next.push(below);
                }
            }
        }
    }
    found
}

// `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, or the id alone
// where groups are made without systemd; not what watches over one, as `libpod-conmon-ID.scope`.
fn container_id(folder: &str) -> Option<String> {
    let name = folder.strip_suffix(".scope").unwrap_or(folder);
    let (before, id) = name.rsplit_once('-').unwrap_or(("", name));
    // containerd's own form puts the namespace of Kubernetes before it:
    // `kubepods-...:cri-containerd:ID`.
    let id = id.rsplit_once(':').map_or(id, |(_, id)| id);
    let is_id = id.len() == 64 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_id && !before.contains("conmon")).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_groups() {
        let id = "0123456789abcdef".repeat(4);
        for form in [
            "docker-ID.scope",
            "cri-containerd-ID.scope",
            "crio-ID.scope",
            "libpod-ID.scope",
            "libpod-ID",
            "ID",
        ] {
            assert_eq!(container_id(&form.replace("ID", &id)), Some(id.clone()), "{form}");
        }
        for form in [
            "libpod-conmon-ID.scope",
            "crio-conmon-ID.scope",
            "docker-IDa.scope",
            "docker.service",
            "IDX",
        ] {
            assert_eq!(container_id(&form.replace("ID", &id)), None, "{form}");
        }
    }
}
