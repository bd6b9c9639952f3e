//! Options of mounts of overlays (overlayfs).

use std::ffi::{CString, NulError};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Those of an overlay: what lies below, `upper`, to which goes what is written, and `work`, an
/// empty folder on the same file system as that. The second ones are for kernels or file systems
/// that refuse the first: in a user namespace, an overlay's notes have to be a user's.
///
/// # Errors
/// Where a path has a zero byte.
///
/// ```
/// use std::path::Path;
///
/// let [first, second] =
///     ringfence_system::overlay::options(Path::new("/a:b"), Path::new("/u"), Path::new("/w"))
///         .unwrap();
/// assert_eq!(second.to_str(), Ok("lowerdir=/a\\:b,upperdir=/u,workdir=/w"));
/// assert!(first.to_str().unwrap().ends_with(",userxattr"));
/// ```
pub fn options(lower: &Path, upper: &Path, work: &Path) -> Result<[CString; 2], NulError> {
    let mut options = Vec::new();
    for (name, path) in [("lowerdir", lower), (",upperdir", upper), (",workdir", work)] {
        options.extend(name.as_bytes());
        options.push(b'=');
        for byte in path.as_os_str().as_bytes() {
            if matches!(byte, b'\\' | b',' | b':') {
                options.push(b'\\');
            }
            options.push(*byte);
        }
    }
    let plain = CString::new(options.clone())?;
    options.extend(b",userxattr");
    Ok([CString::new(options)?, plain])
}
