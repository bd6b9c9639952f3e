//! An ELF file: its code, cut where its symbols stand.

use std::collections::BTreeMap;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use object::{Architecture, ObjectKind, SectionFlags, SymbolKind, elf};

use super::Functions;

/// Why a file's code cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is no ELF file.
    #[error("it is not an ELF file")]
    NotElf,
    /// It is for another processor.
    #[error("its code is for {0}, not for x86")]
    NotX86(String),
    /// It is damaged.
    #[error("it is damaged: {0}")]
    Damaged(#[from] object::read::Error),
}

/// A section with code.
#[derive(Debug)]
pub struct Section<'a> {
    /// Its name, such as `.text`.
    pub name: String,
    /// Where its first byte is, as addresses in the file go.
    pub address: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    // Its number in the file.
    pub(super) number: usize,
}

/// A stretch of code in which instructions follow each other: from a symbol to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The section, by its place in [`Image::sections`].
    pub section: usize,
    /// The offset of its first byte in the section.
    pub start: usize,
    /// The offset of the first byte behind it.
    pub end: usize,
}

/// Code that is surely code: a function's, as a symbol with a size or a table for unwinding has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// The address of its first byte.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// Whether exceptions may land in it.
    pub lands: bool,
}

/// An ELF file for x86, as far as its code goes.
pub struct Image<'a> {
    pub(super) file: object::File<'a>,
    /// 64 or 32.
    pub bits: u32,
    /// The sections with code, in the order of the file.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Image<'a> {
    /// Reads what describes the code.
    ///
    /// # Errors
    /// Where it is no ELF file, for another processor, or damaged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        if !is_elf(bytes) {
            return Err(ImageError::NotElf);
        }
        let file = object::File::parse(bytes)?;
        let bits = match file.architecture() {
            Architecture::X86_64 | Architecture::X86_64_X32 => 64,
            Architecture::I386 => 32,
            other => return Err(ImageError::NotX86(format!("{other:?}"))),
        };
        let mut sections = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            if sh_flags & u64::from(elf::SHF_EXECINSTR) == 0 {
                continue;
            }
            let (name, bytes) = (section.name()?.to_owned(), section.data()?);
            sections.push(Section {
                name,
                address: section.address(),
                bytes,
                number: section.index().0,
            });
        }
        Ok(Self { file, bits, sections })
    }

    /// Bytes of code.
    pub fn code_bytes(&self) -> u64 {
        self.sections.iter().map(|section| section.bytes.len() as u64).sum()
    }

    /// Why there is no code in the file; `None` where there is some.
    pub fn why_no_code(&self) -> Option<&'static str> {
        if self.code_bytes() > 0 {
            return None;
        }
        Some(match self.file.kind() {
            ObjectKind::Core => "it is a core dump",
            _ if self.file.sections().next().is_none() => "its section headers are missing",
            _ if !self.sections.is_empty() => {
                "it has debug information only, and its code is in another file"
            }
            _ => "none of its sections has code",
        })
    }

    /// The code, cut at every symbol, so that data between functions does not hide where the next
    /// one begins. What a symbol says to be data is left out.
    pub fn pieces(&self) -> Vec<Piece> {
        // Where the code is cut, and whether what follows is data. Where several symbols stand, a
        // function decides.
        let mut cuts: Vec<BTreeMap<usize, bool>> = self
            .sections
            .iter()
            .map(|section| BTreeMap::from([(section.bytes.len(), false)]))
            .collect();
        self.each_symbol(|section, offset, symbol| {
            let is_data = symbol.kind() == SymbolKind::Data;
            *cuts[section].entry(offset).or_insert(is_data) &= is_data;
        });
        let mut pieces = Vec::new();
        for (section, mut cuts) in cuts.into_iter().enumerate() {
            cuts.entry(0).or_insert(false);
            let ends = cuts.keys().skip(1);
            let code = cuts.iter().zip(ends).filter(|((_, is_data), _)| !**is_data);
            pieces.extend(code.map(|((start, _), end)| Piece {
                section,
                start: *start,
                end: *end,
            }));
        }
        pieces
    }

    /// The functions, by their names.
    pub fn functions(&self) -> Functions {
        let mut functions = Functions::default();
        self.each_symbol(|section, offset, symbol| {
            let name = symbol.name().unwrap_or_default();
            let is_function = symbol.kind() == SymbolKind::Text;
            functions.add(section, offset, symbol.size(), name, is_function, symbol.is_global());
        });
        functions.add_unnamed(self.unwound());
        functions.sort();
        functions
    }

    /// What is loaded of the file: addresses, offsets in the file, and bytes.
    pub fn segments(&self) -> Vec<(u64, u64, u64)> {
        let each = self.file.segments().map(|one| (one.address(), one.file_range()));
        each.map(|(address, (offset, size))| (address, offset, size)).collect()
    }

    /// Ranges that are certainly code, in the order of addresses, without overlaps.
    pub fn bodies(&self) -> Vec<Body> {
        let mut bodies = Vec::new();
        self.each_unwound(|start, size, lands| {
            bodies.push(Body { start, end: start.saturating_add(size), lands })
        });
        let known: BTreeMap<u64, u64> = bodies.iter().map(|body| (body.start, body.end)).collect();
        self.each_symbol(|section, offset, symbol| {
            let start = self.sections[section].address.wrapping_add(offset as u64);
            let is_known = known.range(..=start).next_back().is_some_and(|(_, end)| start < *end);
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 && !is_known {
                bodies.push(Body { start, end: start.saturating_add(symbol.size()), lands: false });
            }
        });
        bodies.sort_by_key(|body| (body.start, body.end));
        let mut end = 0;
        bodies.retain(|body| {
            let is_first = body.start >= end;
            end = end.max(if is_first { body.end } else { 0 });
            is_first && body.end > body.start
        });
        bodies
    }

    // Functions as tables for unwinding have them, which stripping leaves: section, offset, size
    // and address.
    fn unwound(&self) -> Vec<(usize, usize, u64, u64)> {
        let mut found = Vec::new();
        self.each_unwound(|address, size, _| {
            if let Some((section, offset)) = self.place(address) {
                found.push((section, offset, size, address));
            }
        });
        found
    }

    // Each with its address, its size and whether exceptions may land in it.
    fn each_unwound(&self, mut visit: impl FnMut(u64, u64, bool)) {
        // Of object files, they hold addresses only once they are linked.
        let table = self
            .file
            .section_by_name(".eh_frame")
            .filter(|_| self.file.kind() != ObjectKind::Relocatable);
        let Some((table, data)) =
            table.and_then(|table| Some((table.address(), table.data().ok()?)))
        else {
            return;
        };
        let mut frames = EhFrame::new(data, LittleEndian);
        frames.set_address_size(if self.bits == 64 { 8 } else { 4 });
        let bases = BaseAddresses::default().set_eh_frame(table);
        let mut entries = frames.entries(&bases);
        // What is damaged ends it.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(part) = entry else { continue };
            let Ok(function) = part.parse(|_, bases, offset| frames.cie_from_offset(bases, offset))
            else {
                continue;
            };
            visit(function.initial_address(), function.len(), function.lsda().is_some());
        }
    }

    /// The section of an address, by its place in [`Image::sections`], and the offset in it.
    pub fn place(&self, address: u64) -> Option<(usize, usize)> {
        self.sections.iter().enumerate().find_map(|(number, section)| {
            let offset = usize::try_from(address.checked_sub(section.address)?).ok()?;
            (offset < section.bytes.len()).then_some((number, offset))
        })
    }

    /// The bytes of code between two addresses, if both are in one section.
    pub fn code(&self, addresses: std::ops::Range<u64>) -> Option<&'a [u8]> {
        let (section, start) = self.place(addresses.start)?;
        let length = usize::try_from(addresses.end.checked_sub(addresses.start)?).ok()?;
        self.sections[section].bytes.get(start..start.checked_add(length)?)
    }

    // Named symbols within code, with their section and offset: of the symbol table, or else of the
    // dynamic one.
    fn each_symbol<'s>(
        &'s self,
        mut visit: impl FnMut(usize, usize, &object::read::Symbol<'a, 's>),
    ) {
        let has_table = self.file.symbols().next().is_some();
        let own = has_table.then(|| self.file.symbols());
        let dynamic = (!has_table).then(|| self.file.dynamic_symbols());
        for symbol in own.into_iter().flatten().chain(dynamic.into_iter().flatten()) {
            if matches!(symbol.kind(), SymbolKind::Section | SymbolKind::File)
                || symbol.name().is_ok_and(str::is_empty)
            {
                continue;
            }
            let Some(number) = symbol.section_index() else { continue };
            let Some(section) = self.sections.iter().position(|section| section.number == number.0)
            else {
                continue;
            };
            let offset = symbol.address().wrapping_sub(self.sections[section].address);
            if let Ok(offset) = usize::try_from(offset)
                && offset < self.sections[section].bytes.len()
            {
                visit(section, offset, &symbol);
            }
        }
    }
}

/// Whether these are the first bytes of an ELF file.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}
