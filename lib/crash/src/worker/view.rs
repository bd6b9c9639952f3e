//! The file systems as a command sees them: overlays in memory over those of the system, with the
//! files of an image in place.

// Namespaces are entered without a table of descriptors of their own, for which there is no safe
// call.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ringfence_system::{mounts, overlay, sparse};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::orders::{ImageFile, Order, Ran, Setup};
use super::reads::Functions;
use super::run;

/// What a worker has.
pub(super) struct View {
    setup: Setup,
    layers: Vec<Layer>,
    // Without root: folders that cannot have an overlay, and their contents.
    parts: Option<Parts>,
    // What the files hold before a run, one after the other.
    images: Vec<File>,
    // Which layers are mounted.
    is_mounted: bool,
    functions: Functions,
}

// A folder below a layer in memory.
struct Layer {
    // Where it is in the system, and what the layer is called.
    at: PathBuf,
    name: String,
}

// Folders with mounts below them, and what they hold besides other folders.
#[derive(Default)]
struct Parts {
    folders: Vec<PathBuf>,
    links: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl View {
    pub(super) fn new(setup: Setup) -> io::Result<Self> {
        own_users().map_err(refused("a user namespace"))?;
        let own = UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
        // SAFETY: no table of descriptors is unshared.
        unsafe { unshare_unsafe(own) }
            .map_err(|error| refused("mount, network and IPC namespaces")(error.into()))?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        loopback();
        let mounted = mounts::of_mountinfo(&fs::read_to_string("/proc/self/mountinfo")?);
        let mounted: Vec<&Path> =
            mounts::visible(&mounted).into_iter().map(|mount| mount.point.as_path()).collect();
        in_memory(&setup.folder, setup.disk).map_err(refused("a file system in memory"))?;
        let functions = Functions::new(&setup.checksum);
        let (layers, images) = (Vec::new(), Vec::new());
        let mut view = Self { setup, layers, parts: None, images, is_mounted: false, functions };
        for folder in ["root", "layers", "images"] {
            fs::create_dir(view.own(folder))?;
        }
        view.copy_images()?;
        view.lay(&mounted)?;
        Ok(view)
    }

    fn own(&self, name: &str) -> PathBuf {
        self.setup.folder.join(name)
    }

    /// Where something of the system lies in the view.
    fn inside(&self, path: &Path) -> PathBuf {
        self.own("root").join(path.strip_prefix("/").unwrap_or(path))
    }

    fn copy_images(&mut self) -> io::Result<()> {
        for (number, file) in self.setup.files.iter().enumerate() {
            let image = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(self.own("images").join(number.to_string()))?;
            let initial = File::open(&file.initial)?;
            sparse::copy(&initial, &image, initial.metadata()?.len())?;
            self.images.push(image);
        }
        Ok(())
    }

    // Chooses what gets an overlay. What cannot have one is read-only.
    fn lay(&mut self, mounted: &[&Path]) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            let own = self.setup.folder.clone();
            let seen = mounted.iter().filter(|at| !is_special(at) && !at.starts_with(&own));
            seen.for_each(|at| self.layer(at));
            return Ok(());
        }
        // In a user namespace, a folder with mounts below it cannot have an overlay.
        let mut parts = Parts::default();
        self.divide(Path::new("/"), mounted, &mut parts)?;
        self.parts = Some(parts);
        Ok(())
    }

    fn layer(&mut self, at: &Path) {
        let name = self.layers.len().to_string();
        self.layers.push(Layer { at: at.to_owned(), name });
    }

    fn divide(&mut self, folder: &Path, mounted: &[&Path], parts: &mut Parts) -> io::Result<()> {
        if !mounted.iter().any(|at| *at != folder && at.starts_with(folder)) {
            self.layer(folder);
            return Ok(());
        }
        parts.folders.push(folder.to_owned());
        // What this user may not list is empty.
        let Some(entries) = there(fs::read_dir(folder))? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let Some(kind) = there(entry.file_type())? else { continue };
            let path = entry.path();
            match () {
                () if is_special(&path) => {}
                () if kind.is_symlink() => parts.links.push(path),
                () if kind.is_dir() => self.divide(&path, mounted, parts)?,
                () => parts.files.push(path),
            }
        }
        Ok(())
    }

    // The folders between layers, in memory.
    fn put_parts(&self) -> io::Result<()> {
        let Some(parts) = &self.parts else { return Ok(()) };
        in_memory(&self.own("root"), self.setup.disk)?;
        for folder in &parts.folders {
            let to = self.inside(folder);
            fs::create_dir_all(&to)?;
            if let Some(about) = there(fs::metadata(folder))? {
                fs::set_permissions(&to, about.permissions())?;
            }
        }
        for link in &parts.links {
            if let Some(target) = there(fs::read_link(link))? {
                symlink(target, self.inside(link))?;
            }
        }
        for file in &parts.files {
            File::create(self.inside(file))?;
            // What this user may not read is not there.
            let _ = mount_bind(file, self.inside(file));
        }
        for folder in self.layers.iter().map(|layer| layer.at.as_path()).chain(special()) {
            fs::create_dir_all(self.inside(folder))?;
        }
        Ok(())
    }

    /// Words of the images have other contents.
    pub(super) fn change(&mut self, changed: &[[u8; 16]]) -> io::Result<()> {
        for change in changed {
            let (word, content) = change.split_at(8);
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            let (file, offset) = self.setup.words[word as usize];
            self.images[file].write_all_at(content, offset)?;
        }
        Ok(())
    }

    /// Runs a command on the images.
    pub(super) fn run(&mut self, order: &Order) -> io::Result<Ran> {
        self.forget()?;
        self.put_parts()?;
        for (number, size) in order.sizes.iter().enumerate() {
            self.put(number, *size)?;
        }
        self.mount_all()?;
        let root = self.own("root");
        if let Some(given) = &order.given {
            fs::write(self.inside(Path::new(run::RECOVERED)), &given.recovered)?;
        }
        let files = self.identities();
        let ran = run::run(&root, &self.setup, &files, order, &mut self.functions)?;
        if let Some((from, to)) = &order.keep {
            fs::create_dir_all(to)?;
            for entry in fs::read_dir(self.inside(from))? {
                let entry = entry?;
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(ran)
    }

    // Device and inode of each file, as commands see them.
    fn identities(&self) -> Vec<(u64, u64)> {
        let identity = |file: &ImageFile| {
            let about = fs::metadata(self.inside(&file.path));
            about.map_or((0, 0), |about| (about.dev(), about.ino()))
        };
        self.setup.files.iter().map(identity).collect()
    }

    // An image, in the layer of the file system that it belongs to.
    fn put(&self, number: usize, size: u64) -> io::Result<()> {
        let path = &self.setup.files[number].path;
        let (below, upper) = match self.layer_of(path) {
            Some(layer) => (layer.at.as_path(), self.upper(layer)),
            None => (Path::new("/"), self.own("root")),
        };
        let within = path.strip_prefix(below).unwrap_or(path);
        make_folders(below, &upper, within.parent().unwrap_or(Path::new("")))?;
        let image = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(upper.join(within))?;
        sparse::copy(&self.images[number], &image, size)?;
        if let Ok(about) = fs::metadata(path) {
            image.set_permissions(fs::Permissions::from_mode(about.mode()))?;
            let _ = std::os::unix::fs::fchown(&image, Some(about.uid()), Some(about.gid()));
        }
        Ok(())
    }

    fn layer_of(&self, path: &Path) -> Option<&Layer> {
        let of = self.layers.iter().filter(|layer| path.starts_with(&layer.at));
        of.max_by_key(|layer| layer.at.as_os_str().len())
    }

    fn upper(&self, layer: &Layer) -> PathBuf {
        self.own("layers").join("upper").join(&layer.name)
    }

    fn mount_all(&mut self) -> io::Result<()> {
        for layer in &self.layers {
            let (upper, work) =
                (self.upper(layer), self.own("layers").join("work").join(&layer.name));
            let to = self.inside(&layer.at);
            // A folder that is covered by another mount.
            if !to.is_dir() && layer.at != Path::new("/") {
                continue;
            }
            let Some(about) = there(fs::metadata(&layer.at))? else { continue };
            for folder in [&upper, &work] {
                fs::create_dir_all(folder)?;
            }
            fs::set_permissions(&upper, about.permissions())?;
            let (user, group) = (Some(about.uid()), Some(about.gid()));
            let _ = std::os::unix::fs::chown(&upper, user, group);
            match mount_overlay(&layer.at, &upper, &work, &to) {
                Ok(()) => {}
                // Some file systems cannot have one: then nothing there can be changed.
                Err(_) if layer.at != Path::new("/") => {
                    if mount_bind_recursive(&layer.at, &to).is_ok() {
                        let _ = read_only(&to);
                    }
                }
                Err(error) => return Err(refused("an overlay over /")(error)),
            }
        }
        self.mount_special()
    }

    fn mount_special(&self) -> io::Result<()> {
        if let Ok(()) = mount_bind_recursive("/sys", self.inside(Path::new("/sys"))).map(drop) {
            let _ = read_only(&self.inside(Path::new("/sys")));
        }
        let dev = self.inside(Path::new("/dev"));
        in_memory(&dev, self.setup.disk)?;
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            File::create(dev.join(name))?;
            // Some systems lack some.
            let _ = mount_bind(Path::new("/dev").join(name), dev.join(name));
        }
        fs::create_dir(dev.join("shm"))?;
        fs::set_permissions(dev.join("shm"), fs::Permissions::from_mode(0o1777))?;
        for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            symlink(format!("/proc/self/fd{target}"), dev.join(name))?;
        }
        Ok(())
    }

    // Discards what the last run wrote. The kernel frees that later, so each run gets a new tmpfs.
    fn forget(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_mounted) {
            // A layer that was not mounted yet has nothing there.
            let _ = unmount(self.own("root"), UnmountFlags::DETACH);
            unmount(self.own("layers"), UnmountFlags::DETACH)?;
        }
        in_memory(&self.own("layers"), self.setup.disk)?;
        self.is_mounted = true;
        Ok(())
    }
}

fn refused(what: &'static str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::other(format!("the system refuses {what}: {error}"))
}

// Others remove files and folders while commands run, and have some that this user may not see.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
            _ => Err(error),
        },
    }
}

fn special<'p>() -> impl Iterator<Item = &'p Path> {
    ["/proc", "/sys", "/dev"].into_iter().map(Path::new)
}

// Folders that commands get a version of their own of.
fn is_special(at: &Path) -> bool {
    special().any(|special| at.starts_with(special))
}

// A user who is not root may mount in a user namespace of its own.
fn own_users() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        return Ok(());
    }
    // SAFETY: no table of descriptors is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER)? };
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

// The folders on the way to an image, as they are in the system.
fn make_folders(below: &Path, upper: &Path, within: &Path) -> io::Result<()> {
    fs::create_dir_all(upper)?;
    let (mut from, mut to) = (below.to_owned(), upper.to_owned());
    for name in within {
        (from, to) = (from.join(name), to.join(name));
        match fs::create_dir(&to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        if let Ok(about) = fs::metadata(&from) {
            fs::set_permissions(&to, about.permissions())?;
            let _ = std::os::unix::fs::chown(&to, Some(about.uid()), Some(about.gid()));
        }
    }
    Ok(())
}

fn in_memory(at: &Path, bytes: u64) -> io::Result<()> {
    let options = CString::new(format!("size={bytes},mode=755"))?;
    let flags = MountFlags::NOSUID;
    Ok(mount("ringfence", at, "tmpfs", flags, options.as_c_str())?)
}

fn mount_overlay(lower: &Path, upper: &Path, work: &Path, to: &Path) -> io::Result<()> {
    let mounted = |options: &CString| {
        mount("ringfence", to, "overlay", MountFlags::NOSUID, options.as_c_str())
    };
    let [first, second] = overlay::options(lower, upper, work)?;
    Ok(mounted(&first).or_else(|_| mounted(&second))?)
}

fn read_only(at: &Path) -> io::Result<()> {
    Ok(mount_remount(at, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID, c"")?)
}

// A network of its own has only a loopback, which is down at first.
fn loopback() {
    // SAFETY: a socket of our own, and a request in memory of our own.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        // Without it, a command has no network at all.
        libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
    }
}
