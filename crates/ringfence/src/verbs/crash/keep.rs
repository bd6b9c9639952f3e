//! Counterexamples: the files as they are in a state, and a script that runs recovery on them.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_crash::worker::ImageFile;
use ringfence_crash::{Finding, Program, Question};

use crate::failure::Failure;
use crate::shared::command::pasteable;

/// Writes one into a folder of its own: that folder, and the script.
pub(super) fn keep(
    dir: &Path,
    number: usize,
    finding: &Finding,
    program: &Program,
    before: &[ImageFile],
    question: &Question,
) -> Result<(PathBuf, PathBuf), Failure> {
    let whole = fs::canonicalize(dir).map_err(Failure::failed_by)?;
    let folder = whole.join(number.to_string());
    fs::create_dir_all(&folder).map_err(Failure::failed_by)?;
    let (mut mounts, mut folders) = (String::new(), String::new());
    for (file, image) in before.iter().enumerate() {
        let name = image.path.file_name().unwrap_or_default();
        let mut kept = folder.join(name);
        if kept.exists() {
            kept = folder.join(format!("{file}-{}", name.to_string_lossy()));
        }
        let written = finding.image.write(program, file, &image.initial, &kept);
        written.map_err(Failure::failed_by)?;
        mounts += &mount(&kept, &image.path);
        let parent = image.path.parent().unwrap_or(Path::new("/"));
        folders += &format!("{} ", pasteable(parent));
    }
    let rerun = folder.join("rerun");
    let text = format!(
        "# Runs recovery on copies of the files in this folder, in place of the files.\n\
         set -e\n\
         for folder in {folders}; do\n\
         [ -d \"$folder\" ] || {{ echo \"the folder $folder is not there\" >&2; exit 2; }}\n\
         done\n\
         exec unshare --mount $(test \"$(id -u)\" = 0 || echo --map-root-user) sh -c '\n\
         set -e\n\
         copies=$(mktemp -d)\n\
         : > \"$copies/undo\"\n\
         trap \"sh $copies/undo; rm -rf $copies\" EXIT\n\
         {}ulimit -d {}\n\
         cd {}\n\
         {}\n'\n",
        escaped(&mounts),
        question.memory >> 10,
        escaped(&pasteable(&question.directory)),
        escaped(&question.recover)
    );
    fs::write(&rerun, text).map_err(Failure::failed_by)?;
    Ok((folder, rerun))
}

// A command that gives a copy of an image the place of a file.
fn mount(image: &Path, path: &Path) -> String {
    let (image, path) = (pasteable(image), pasteable(path));
    format!(
        "copy=\"$copies/$(basename {path})\"\ncp {image} \"$copy\"\n\
         undo=\"umount {path}; rm -f {path}\"\n\
         [ -e {path} ] || {{ : > {path}; echo \"$undo\" >> \"$copies/undo\"; }}\n\
         mount --bind \"$copy\" {path}\n"
    )
}

// Within single quotes of a shell.
fn escaped(text: &str) -> String {
    text.replace('\'', "'\\''")
}
