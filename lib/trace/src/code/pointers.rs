//! Addresses of functions that lie in a file's data, and the functions that choose what a symbol
//! stands for.

use std::collections::BTreeMap;

use object::read::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable};
use object::{ObjectKind, RelocationFlags, RelocationTarget, SectionKind, SymbolFlags, elf};
use rustc_hash::FxHashSet;

use super::{Image, readable};

impl Image<'_> {
    /// Whether addresses are final: of a program or a library, unlike an object file.
    pub fn is_linked(&self) -> bool {
        matches!(self.file.kind(), ObjectKind::Executable | ObjectKind::Dynamic)
    }

    /// Whether the file is always at its own addresses, so that code may hold them as they are.
    pub fn is_fixed(&self) -> bool {
        self.file.kind() == ObjectKind::Executable
    }

    /// The addresses of IFUNC resolvers, with the symbol that each chooses for; of a symbol that
    /// was stripped, nothing.
    pub fn resolvers(&self) -> BTreeMap<u64, Option<String>> {
        let mut found: BTreeMap<u64, Option<String>> = BTreeMap::new();
        for (_, relocation) in self.file.dynamic_relocations().into_iter().flatten() {
            if matches!(
                relocation.flags(),
                RelocationFlags::Elf { r_type: elf::R_X86_64_IRELATIVE }
            ) {
                found.entry(relocation.addend() as u64).or_default();
            }
        }
        for symbol in self.file.symbols().chain(self.file.dynamic_symbols()) {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            if st_info & 0xf != elf::STT_GNU_IFUNC || symbol.is_undefined() {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let known = found.entry(symbol.address()).or_default();
            // Of several names, the one that people write.
            let key = |name: &str| (name.starts_with('_'), name.len(), name.to_owned());
            if known.as_ref().is_none_or(|known| key(name) < key(known)) {
                *known = Some(readable(name));
            }
        }
        found
    }

    /// Where addresses of these functions lie in data: as the loader puts them there, or in place.
    pub fn pointers(&self, functions: &FxHashSet<u64>) -> BTreeMap<u64, u64> {
        let mut found = BTreeMap::new();
        for section in self.file.sections().filter(|section| is_data(section.kind())) {
            let Ok(bytes) = section.data() else { continue };
            for (number, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let target = u64::from_le_bytes(*word);
                if functions.contains(&target) {
                    found.insert(section.address().wrapping_add(8 * number as u64), target);
                }
            }
        }
        let symbols = self.file.dynamic_symbol_table();
        for (place, relocation) in self.file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let base = match (r_type, relocation.target()) {
                (elf::R_X86_64_RELATIVE, _) => Some(0),
                (elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT, RelocationTarget::Symbol(index)) => {
                    let symbol =
                        symbols.as_ref().and_then(|table| table.symbol_by_index(index).ok());
                    symbol.map(|symbol| symbol.address())
                }
                _ => None,
            };
            let target = base.map(|base| base.wrapping_add_signed(relocation.addend()));
            if let Some(target) = target.filter(|target| functions.contains(target)) {
                found.insert(place, target);
            }
        }
        found
    }

    /// Whether an address lies in a table that belongs to the linker.
    pub fn is_linkage(&self, address: u64) -> bool {
        let holds = |section: &object::read::Section| {
            address.checked_sub(section.address()).is_some_and(|offset| offset < section.size())
        };
        let section = self.file.sections().find(holds);
        section.is_some_and(|section| section.name().is_ok_and(|name| name.starts_with(".got")))
    }

    /// The name of the data that an address lies in.
    pub fn data_name(&self, address: u64) -> Option<String> {
        let holds = |symbol: &object::read::Symbol| {
            symbol.kind() == object::SymbolKind::Data
                && address
                    .checked_sub(symbol.address())
                    .is_some_and(|offset| offset < symbol.size().max(1))
        };
        let mut symbols = self.file.symbols().chain(self.file.dynamic_symbols());
        let symbol = symbols.find(|symbol| holds(symbol))?;
        let (name, offset) = (readable(symbol.name().ok()?), address - symbol.address());
        Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
    }
}

fn is_data(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyDataWithRel)
}
