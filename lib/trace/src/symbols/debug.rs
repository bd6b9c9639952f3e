//! DWARF: in the file itself, or in a separate debug file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::read::{Object, ObjectSection};

use crate::code::{digits, readable};
use crate::events::Location;

// Where distributions keep separate debug files.
const DEBUG: &str = "usr/lib/debug";

type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Adds what DWARF knows of these places in a file: source file, line, inlined function, and the
/// function's name where it has none yet.
pub fn add(root: &Path, path: &Path, bytes: &[u8], locations: &mut [Location]) {
    let Ok(file) = object::File::parse(bytes) else { return };
    let separate = if has_lines(&file) { None } else { separate(root, path, &file) };
    let debug = match &separate {
        Some(bytes) => object::File::parse(&**bytes),
        None => Ok(file),
    };
    let Ok(debug) = debug else { return };
    let Ok(sections) = load(&debug) else { return };
    // What several programs of a package have in common, some distributions move to a file of its
    // own.
    let shared = shared(root, path, &debug);
    let shared = shared.as_ref().and_then(|bytes| object::File::parse(&**bytes).ok());
    let shared = shared.as_ref().and_then(|file| load(file).ok());
    let slice = |section| -> Slice { EndianSlice::new(section, LittleEndian) };
    let dwarf = match &shared {
        Some(shared) => sections.borrow_with_sup(shared, |section| slice(section)),
        None => sections.borrow(|section| slice(section)),
    };
    let Ok(context) = Context::from_dwarf(dwarf) else { return };
    locations.iter_mut().for_each(|location| add_one(&context, location));
}

fn add_one(context: &Context<Slice>, location: &mut Location) {
    // Parts of a program in files of their own are left out, which their build folder has at best.
    let Ok(mut frames) = context.find_frames(location.address).skip_all_loads() else { return };
    // A function's name, source file and line in it, the innermost first.
    let mut known: Vec<(Option<String>, Option<String>, Option<u32>)> = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let place = frame.location.as_ref();
        let file = place.and_then(|place| place.file).map(str::to_owned);
        let line = place.and_then(|place| place.line).filter(|line| *line > 0);
        known.push((name.map(|name| readable(&name)), file, line));
    }
    // A function in a compiler's own files that stands for one instruction says less than the code
    // that uses it.
    let own = |file: &Option<String>| file.as_deref().is_some_and(is_compilers);
    let skipped = known.iter().take_while(|(_, file, _)| own(file)).count();
    let mut known = known.into_iter();
    let first = known.nth(if skipped < known.len() { skipped } else { 0 });
    let Some((name, file, line)) = first else { return };
    (location.file, location.line) = (file, line);
    // The last is the function that the others were inlined to.
    let function = match known.last() {
        Some((function, ..)) => {
            location.inlined = name;
            function
        }
        None => name,
    };
    location.function = location.function.take().or(function);
}

// Where compilers keep functions that are single instructions: `_mm_clwb` and its kin.
fn is_compilers(file: &str) -> bool {
    ["/lib/gcc/", "/lib/clang/", "/core_arch/", "/stdarch/"]
        .iter()
        .any(|folder| file.contains(folder))
}

fn has_lines(file: &object::File) -> bool {
    let section =
        file.section_by_name(".debug_line").or_else(|| file.section_by_name(".zdebug_line"));
    section.is_some_and(|section| section.size() > 0)
}

fn load<'a>(file: &object::File<'a>) -> object::read::Result<Sections<'a>> {
    Sections::load(|id: SectionId| match file.section_by_name(id.name()) {
        Some(section) => section.uncompressed_data(),
        None => Ok(Cow::Borrowed(&[][..])),
    })
}

// By the build ID, or by the link that the file has, if it leads to the same build.
fn separate(root: &Path, path: &Path, file: &object::File) -> Option<Vec<u8>> {
    let id = file.build_id().ok().flatten();
    if let Some(found) = id.and_then(|id| std::fs::read(by_build_id(root, id)?).ok()) {
        return Some(found);
    }
    let (name, crc) = file.gnu_debuglink().ok().flatten()?;
    let name = str::from_utf8(name).ok()?;
    let folder = path.parent()?;
    let below = root.join(DEBUG).join(folder.strip_prefix("/").unwrap_or(folder));
    let candidates = [folder.join(name), folder.join(".debug").join(name), below.join(name)];
    // A name that is the file's own leads back to it.
    candidates.iter().filter(|candidate| *candidate != path).find_map(|candidate| {
        let found = ordinary(candidate)?;
        let same = match id {
            Some(id) => object::File::parse(&*found).ok()?.build_id().ok().flatten() == Some(id),
            None => crc32fast::hash(&found) == crc,
        };
        same.then_some(found)
    })
}

// The file that dwz made, beside the debug file or by its build ID.
fn shared(root: &Path, path: &Path, debug: &object::File) -> Option<Vec<u8>> {
    let (name, id) = debug.gnu_debugaltlink().ok().flatten()?;
    by_build_id(root, id).and_then(|file| ordinary(&file)).or_else(|| {
        let name = Path::new(str::from_utf8(name).ok()?);
        let place = match name.strip_prefix("/") {
            Ok(name) => root.join(name),
            Err(_) => path.parent()?.join(name),
        };
        ordinary(&place)
    })
}

fn by_build_id(root: &Path, id: &[u8]) -> Option<PathBuf> {
    let digits = digits(id);
    let (first, rest) = digits.split_at_checked(2)?;
    Some(root.join(DEBUG).join(".build-id").join(first).join(format!("{rest}.debug")))
}

fn ordinary(path: &Path) -> Option<Vec<u8>> {
    // A pipe would block forever.
    path.metadata().ok()?.is_file().then(|| std::fs::read(path).ok())?
}
