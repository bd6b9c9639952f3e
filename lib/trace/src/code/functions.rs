//! Which function an instruction is in.

use std::collections::HashSet;

use cpp_demangle::DemangleOptions;

/// A function, as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The section, by its place in [`Image::sections`](super::Image::sections).
    pub section: usize,
    /// The offset of its first byte in the section.
    pub offset: usize,
    // 0 where the file does not say.
    size: u64,
    // As the file has it; empty where it only says that there is a function.
    symbol: String,
    address: u64,
    is_function: bool,
    is_global: bool,
}

impl Function {
    /// Its name, demangled if necessary; its address if the name was stripped.
    pub fn name(&self) -> String {
        if self.symbol.is_empty() {
            return format!("unnamed at {:#x}", self.address);
        }
        readable(&self.symbol)
    }

    /// Bytes; 0 where the file does not say.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its file has a name for it.
    pub fn is_named(&self) -> bool {
        !self.symbol.is_empty()
    }

    fn holds(&self, offset: usize) -> bool {
        self.size == 0 || ((offset - self.offset) as u64) < self.size
    }
}

/// A symbol, readable where a compiler has mangled it.
pub fn readable(symbol: &str) -> String {
    // Demanglers take other names as well: `f` would be the type `float`.
    if !["_Z", "__Z", "_R", "__R", "_GLOBAL_"].iter().any(|prefix| symbol.starts_with(prefix)) {
        return symbol.into();
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        // Without the hash.
        return format!("{name:#}");
    }
    let cpp = cpp_demangle::Symbol::new(symbol)
        .ok()
        .and_then(|symbol| symbol.demangle(&DemangleOptions::default()).ok());
    cpp.unwrap_or_else(|| symbol.into())
}

/// The functions of a file.
#[derive(Debug, Default)]
pub struct Functions(Vec<Function>);

impl Functions {
    pub(super) fn add(
        &mut self,
        section: usize,
        offset: usize,
        size: u64,
        symbol: &str,
        is_function: bool,
        is_global: bool,
    ) {
        let symbol = symbol.to_owned();
        self.0.push(Function { section, offset, size, symbol, address: 0, is_function, is_global });
    }

    /// Functions without a name: where one begins that has a name, they are that one.
    pub(super) fn add_unnamed(&mut self, all: impl IntoIterator<Item = (usize, usize, u64, u64)>) {
        let named: HashSet<(usize, usize)> =
            self.0.iter().map(|one| (one.section, one.offset)).collect();
        let new =
            all.into_iter().filter(|(section, offset, ..)| !named.contains(&(*section, *offset)));
        self.0.extend(new.map(|(section, offset, size, address)| Function {
            section,
            offset,
            size,
            symbol: String::new(),
            address,
            is_function: true,
            is_global: false,
        }));
    }

    // Of several names for one place, the one that others can call comes last, and is found.
    pub(super) fn sort(&mut self) {
        self.0.sort_by(|a, b| {
            let key = |one: &Function| (one.section, one.offset, one.is_function, one.is_global);
            key(a).cmp(&key(b)).then_with(|| b.symbol.cmp(&a.symbol))
        });
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Function> {
        self.0.iter()
    }

    /// The function that contains the byte at an offset of a section: the nearest one that begins
    /// before it and reaches it, or else the nearest label before it.
    pub fn at(&self, section: usize, offset: usize) -> Option<&Function> {
        let behind = self.0.partition_point(|one| (one.section, one.offset) <= (section, offset));
        let before = || self.0[..behind].iter().rev().take_while(|one| one.section == section);
        // Labels within a function are passed over, which are few.
        let function = before().take(1_000).find(|one| one.is_function && one.holds(offset));
        function.or_else(|| before().next().filter(|one| one.size == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions() -> Functions {
        let mut all = Functions::default();
        all.add(0, 0, 16, "first", true, false);
        all.add(0, 4, 0, "label", false, false);
        all.add(0, 16, 8, "alias_b", true, true);
        all.add(0, 16, 8, "alias_a", true, true);
        all.add(0, 16, 8, "zlocal", true, false);
        all.add(0, 40, 0, "open_end", true, true);
        all.add(1, 0, 4, "other", true, true);
        all.sort();
        all
    }

    #[test]
    fn an_instruction_belongs_to_the_function_around_it() {
        let all = functions();
        let name =
            |section, offset| all.at(section, offset).map(Function::name).unwrap_or_default();
        assert_eq!(name(0, 0), "first");
        assert_eq!(name(0, 8), "first");
        assert_eq!(name(0, 17), "alias_a");
        // Behind the end of one, before the next.
        assert_eq!(name(0, 30), "");
        assert_eq!(name(0, 4000), "open_end");
        assert_eq!(name(1, 2), "other");
        assert_eq!(name(2, 0), "");
    }

    #[test]
    fn what_was_stripped_of_its_name_is_told_apart() {
        let mut all = functions();
        all.add_unnamed([(0, 16, 8, 0x1010), (0, 26, 6, 0x101a)]);
        all.sort();
        let name = |offset| all.at(0, offset).map(Function::name).unwrap_or_default();
        assert_eq!(name(20), "alias_a");
        assert_eq!(name(30), "unnamed at 0x101a");
        assert_eq!(name(33), "");
    }

    #[test]
    fn mangled_names_are_readable() {
        let name = |symbol: &str| {
            let mut all = Functions::default();
            all.add(0, 0, 1, symbol, true, true);
            all.at(0, 0).unwrap().name()
        };
        assert_eq!(
            name("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(
            name("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(name("_ZN3foo3barEv"), "foo::bar()");
        // Types to a demangler, and functions in C.
        let types = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m", "n", "o", "s", "t", "v",
            "w", "x", "y", "z",
        ];
        for own in types.into_iter().chain([
            "pmem_flush",
            "Pi",
            "PKc",
            "St6vectorIiE",
            "ZN3foo3barE",
            "RNvC1a1b",
            "_f",
        ]) {
            assert_eq!(name(own), own);
        }
    }
}
