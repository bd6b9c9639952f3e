//! The release of the kernel, as a number to compare.

use crate::root::FsRoot;

/// The first two numbers of the kernel's release, such as 6 and 12; 0 and 0 where it does not say.
pub fn kernel_release(root: &FsRoot) -> (u32, u32) {
    let release = root.read_opt("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::FixtureTree;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        let tree = FixtureTree::empty("releases");
        assert_eq!(kernel_release(&tree.root()), (0, 0));
        for (text, release) in
            [("6.1.0-56-amd64\n", (6, 1)), ("5.14-rc3\n", (5, 14)), ("7\n", (7, 0))]
        {
            tree.write("/proc/sys/kernel/osrelease", text);
            assert_eq!(kernel_release(&tree.root()), release);
        }
    }
}
