//! Copies of the files, which the program finds in the files' places: a mount of its own over each of them.

// What runs between `fork` and `exec` may only call the system.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program finds in place of the files.
#[derive(Debug, Default)]
pub(super) struct Copies {
    // The copy, and what it stands for.
    mounts: Vec<(CString, CString)>,
    folder: Option<PathBuf>,
}

impl Copies {
    /// Copies what is there of `files` into a new folder. What is not there yet needs no copy.
    pub(super) fn of(files: &[PathBuf], folder: &Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let mut copies = Self { mounts: Vec::new(), folder: Some(folder.to_owned()) };
        fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
        for (number, file) in files.iter().enumerate().filter(|(_, file)| file.exists()) {
            let copy = folder.join(number.to_string());
            copy_all(file, &copy)?;
            let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
            copies.mounts.push((name(&fs::canonicalize(copy)?)?, name(&fs::canonicalize(file)?)?));
        }
        Ok(copies)
    }

    /// What a child process does before it executes the program: from there on, it sees the copies.
    pub(super) fn put_in_place(&self) -> io::Result<()> {
        if self.mounts.is_empty() {
            return Ok(());
        }
        // SAFETY: system calls alone; the strings end in zeros.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            let none = std::ptr::null();
            let root = c"/".as_ptr();
            check(libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
            for (copy, file) in &self.mounts {
                check(libc::mount(copy.as_ptr(), file.as_ptr(), none, libc::MS_BIND, none.cast()))?;
            }
            // The program has no rights that its user lacks.
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        }
        Ok(())
    }
}

/// Has a command run in a user namespace of its own, in which it is who it was, and may mount. A recorder needs that
/// where the system lets only privileged processes mount.
pub fn with_own_users(command: &mut Command) {
    let enter = || {
        // SAFETY: system calls alone.
        unsafe {
            let (user, group) = (libc::geteuid(), libc::getegid());
            check(libc::unshare(libc::CLONE_NEWUSER))?;
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", Line::of(user).bytes())?;
            write_to(c"/proc/self/gid_map", Line::of(group).bytes())?;
            keep_right_to_mount()
        }
    };
    // SAFETY: nothing is allocated between `fork` and `exec`.
    unsafe { command.pre_exec(enter) };
}

// Of the structures of `capget` and `capset`.
const VERSION: u32 = 0x2008_0522;

// Who is not root loses all rights with the next program, unless they are ambient (capabilities(7)).
fn keep_right_to_mount() -> io::Result<()> {
    const SYS_ADMIN: u32 = 21;
    let header = [VERSION, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: the structures of `capget` and `capset`, of this version.
    unsafe {
        check(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) as libc::c_int)?;
        sets[0][2] |= 1 << SYS_ADMIN;
        check(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) as libc::c_int)?;
        check(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, SYS_ADMIN, 0, 0))
    }
}

/// Gives up what [`with_own_users`] has given to this thread: a process may look only into those that have no more
/// rights than itself.
pub(super) fn give_up_rights() {
    if !may_mount() {
        let header = [VERSION, 0];
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), [[0u32; 3]; 2].as_ptr()) };
    }
}

/// Whether this process may mount without that.
pub fn may_mount() -> bool {
    // SAFETY: it cannot fail.
    unsafe { libc::geteuid() == 0 }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write_to(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends in a zero, and the bytes are ours.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(descriptor, bytes.as_ptr().cast(), bytes.len());
        let error = io::Error::last_os_error();
        libc::close(descriptor);
        if written == bytes.len() as isize { Ok(()) } else { Err(error) }
    }
}

// "ID ID 1", without allocation.
struct Line([u8; 32], usize);

impl Line {
    fn of(id: u32) -> Self {
        let (mut line, mut digits) = (Self([0; 32], 0), [0; 10]);
        let mut count = 0;
        let mut rest = id;
        while count == 0 || rest > 0 {
            digits[count] = b'0' + (rest % 10) as u8;
            (rest, count) = (rest / 10, count + 1);
        }
        for _ in 0..2 {
            digits[..count].iter().rev().for_each(|digit| line.push(*digit));
            line.push(b' ');
        }
        line.push(b'1');
        line
    }

    fn push(&mut self, byte: u8) {
        self.0[self.1] = byte;
        self.1 += 1;
    }

    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let about = fs::metadata(from)?;
    if about.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, to.join(entry.file_name()))?;
            } else {
                copy_all(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    } else if about.is_file() {
        copy_file(&File::open(from)?, &File::create_new(to)?, about.len())?;
    } else {
        return Err(io::Error::other(format!("{} is neither a file nor a folder", from.display())));
    }
    // Only a privileged user may give files away; the program's rights are its own then anyhow.
    let _ = std::os::unix::fs::chown(to, Some(about.uid()), Some(about.gid()));
    fs::set_permissions(to, about.permissions())
}

// Holes stay holes: stores for persistent memory are mostly made of them.
fn copy_file(from: &File, to: &File, size: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    to.set_len(size)?;
    let mut at = 0;
    while at < size {
        let count = from.read_at(&mut buffer, at)?;
        if count == 0 {
            break;
        }
        if buffer[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&buffer[..count], at)?;
        }
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_maps_one_id() {
        assert_eq!(Line::of(0).bytes(), b"0 0 1");
        assert_eq!(Line::of(4_294_967_295).bytes(), b"4294967295 4294967295 1");
    }

    #[test]
    fn what_is_there_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut bytes = vec![0; 1 << 20];
        bytes[300_000] = 7;
        fs::write(&file, &bytes).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        fs::create_dir_all(folder.path().join("dir/in")).unwrap();
        fs::write(folder.path().join("dir/in/it"), b"it").unwrap();
        let into = folder.path().join("copies");
        let files = [file, folder.path().join("dir"), folder.path().join("not there")];
        let copies = Copies::of(&files, &into).unwrap();
        assert_eq!(copies.mounts.len(), 2);
        assert_eq!(fs::read(into.join("0")).unwrap(), bytes);
        assert_eq!(fs::metadata(into.join("0")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read(into.join("1/in/it")).unwrap(), b"it");
        drop(copies);
        assert!(!into.exists());
    }
}
