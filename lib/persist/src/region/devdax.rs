//! Length and alignment of device-DAX devices, from sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use super::RegionError;

/// What a device-DAX device can map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes.
    pub size: u64,
    /// Bytes that lengths must be a multiple of.
    pub align: u64,
}

impl Shape {
    /// Of the character device with number `rdev`, below `root`: `size` and `align` of
    /// `/sys/dev/char/MAJ:MIN` (Documentation/ABI/testing/sysfs-bus-dax in Linux).
    pub fn read(root: &Path, path: &Path, rdev: u64) -> Result<Shape, RegionError> {
        let refuse = |reason: String| RegionError::Path { path: path.into(), reason };
        let link = format!("sys/dev/char/{}:{}", libc::major(rdev), libc::minor(rdev));
        let dir = fs::canonicalize(root.join(&link)).map_err(|error| {
            refuse(format!(
                "is a character device that sysfs does not know (/{link}: {error}): name a \
                 /dev/daxX.Y"
            ))
        })?;
        // Its class was dax until Linux 5.1, its bus is since.
        let subsystem = fs::canonicalize(dir.join("subsystem")).unwrap_or_default();
        if subsystem.file_name().is_none_or(|name| name != "dax") {
            return Err(refuse(
                "is a character device, but no device-DAX one: name a /dev/daxX.Y".into(),
            ));
        }
        let size = number(&dir.join("size"));
        let size = size.filter(|size| *size > 0).ok_or_else(|| {
            refuse(format!(
                "has no size in {}: 'daxctl list' shows its mode",
                dir.join("size").display()
            ))
        })?;
        // The region behind it says it too, and to root alone; before Linux 5.10 only the region
        // did.
        let of_region: Option<PathBuf> = dir.parent().map(|region| region.join("dax_region/align"));
        let align = number(&dir.join("align")).or_else(|| number(&of_region?));
        let align = align.filter(|align| align.is_power_of_two()).unwrap_or(2 << 20);
        Ok(Shape { size, align })
    }

    /// Whether `len` bytes can be mapped.
    pub fn check(&self, path: &Path, len: u64) -> Result<(), RegionError> {
        let refuse = |reason: String| Err(RegionError::Path { path: path.into(), reason });
        let Shape { size, align } = *self;
        if len > size {
            return refuse(format!(
                "has {size} bytes, {len} were asked for: ask for at most {}",
                size / align * align
            ));
        }
        if !len.is_multiple_of(align) {
            let up = len.next_multiple_of(align);
            return refuse(format!(
                "maps multiples of {align} bytes only, not {len}: ask for {up}"
            ));
        }
        Ok(())
    }

    /// All of it that can be mapped, in bytes.
    pub fn whole(&self, path: &Path) -> Result<usize, RegionError> {
        let len = self.size / self.align * self.align;
        let reason =
            || format!("has {} bytes, less than its own alignment of {}", self.size, self.align);
        usize::try_from(len)
            .ok()
            .filter(|len| *len > 0)
            .ok_or_else(|| RegionError::Path { path: path.into(), reason: reason() })
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::tree::Tree;

    const NAMESPACE: &str = "sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.1";

    fn device(align: Option<&str>) -> Tree {
        let tree = Tree::new();
        let dir = format!("{NAMESPACE}/dax0.0");
        tree.write(&format!("{dir}/size"), "33554432\n");
        if let Some(align) = align {
            tree.write(&format!("{dir}/align"), align);
        }
        tree.write("sys/bus/dax/uevent", "");
        tree.link(&format!("{dir}/subsystem"), "sys/bus/dax");
        tree.link("sys/dev/char/252:7", &dir);
        tree
    }

    fn read(tree: &Tree) -> Result<Shape, RegionError> {
        Shape::read(tree.path(), Path::new("/dev/dax0.0"), libc::makedev(252, 7))
    }

    #[test]
    fn size_and_alignment() {
        let page = Shape { size: 32 << 20, align: 4096 };
        assert_eq!(read(&device(Some("4096\n"))).unwrap(), page);
        let old = device(None);
        assert_eq!(read(&old).unwrap().align, 2 << 20);
        old.write(&format!("{NAMESPACE}/dax_region/align"), "1073741824\n");
        let gigabyte = read(&old).unwrap();
        assert_eq!(gigabyte.align, 1 << 30);
        let path = Path::new("/dev/dax0.0");
        assert!(
            gigabyte.whole(path).unwrap_err().to_string().contains("less than its own alignment")
        );
        assert_eq!(page.whole(path).unwrap(), 32 << 20);
        assert_eq!(
            Shape { size: (32 << 20) + 4096, align: 2 << 20 }.whole(path).unwrap(),
            32 << 20
        );
    }

    #[test]
    fn lengths_that_cannot_be_mapped() {
        let (path, shape) = (Path::new("/dev/dax0.0"), Shape { size: 32 << 20, align: 2 << 20 });
        for (len, part) in [
            (1, "multiples of 2097152 bytes only, not 1: ask for 2097152"),
            ((4 << 20) + 4096, "ask for 6291456"),
            (34 << 20, "has 33554432 bytes, 35651584 were asked for: ask for at most 33554432"),
            (u64::MAX, "has 33554432 bytes"),
        ] {
            let error = shape.check(path, len).unwrap_err().to_string();
            assert!(error.contains(part), "{len}: {error}");
        }
        for len in [2 << 20, 32 << 20] {
            shape.check(path, len).unwrap();
        }
    }

    #[test]
    fn other_devices() {
        let tree = device(Some("4096"));
        let of = |minor| {
            Shape::read(tree.path(), Path::new("/dev/x"), libc::makedev(252, minor)).unwrap_err()
        };
        assert!(of(8).to_string().contains("sysfs does not know"), "{}", of(8));
        tree.write("sys/devices/virtual/mem/null/dev", "252:9");
        tree.write("sys/class/mem/uevent", "");
        tree.link("sys/devices/virtual/mem/null/subsystem", "sys/class/mem");
        tree.link("sys/dev/char/252:9", "sys/devices/virtual/mem/null");
        assert!(of(9).to_string().contains("no device-DAX one"), "{}", of(9));
        tree.write(&format!("{NAMESPACE}/dax0.0/size"), "0\n");
        assert!(read(&tree).unwrap_err().to_string().contains("has no size"));
    }
}
