//! From addresses to functions, source files and lines: by symbols, and by DWARF where a file or
//! its separate debug file has it.

mod debug;

use std::collections::BTreeSet;
use std::path::Path;

use crate::code::{Functions, Image, build_id};
use crate::events::{Location, Module};

/// Places in one program file or library. Separate debug files are looked for below `root`, as `/`
/// in general: by build ID in `usr/lib/debug/.build-id`, and by the file's own link, beside it and
/// in `usr/lib/debug`.
///
/// Missing information stays unknown, as for a file that is gone or is another build than the
/// recorded one.
pub fn locate(root: &Path, module: &Module, addresses: &BTreeSet<u64>) -> Vec<Location> {
    let bare = || addresses.iter().map(|address| Location::bare(&module.path, *address)).collect();
    let path = Path::new(&module.path);
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return bare();
    }
    if module.build_id.is_some() && build_id(path) != module.build_id {
        return bare();
    }
    let Ok(bytes) = std::fs::read(path) else { return bare() };
    let Ok(image) = Image::parse(&bytes) else { return bare() };
    let functions = image.functions();
    let location = |address: &u64| {
        let mut location = Location::bare(&module.path, *address);
        by_symbol(&image, &functions, &mut location);
        location
    };
    let mut locations: Vec<Location> = addresses.iter().map(location).collect();
    debug::add(root, path, &bytes, &mut locations);
    locations
}

fn by_symbol(image: &Image, functions: &Functions, location: &mut Location) {
    let Some((section, offset)) = image.place(location.address) else { return };
    let Some(function) = functions.at(section, offset) else { return };
    location.offset = (offset - function.offset) as u64;
    // Where it was stripped of its name, DWARF may have it.
    location.function = function.is_named().then(|| function.name());
}
