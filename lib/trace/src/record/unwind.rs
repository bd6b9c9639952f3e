//! How to find the caller of a function: the rules of `.eh_frame`, as far as they are simple, which
//! those of compilers are.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection, X86_64,
};
use object::read::{Object, ObjectSection};
use ringfence_trace_runtime::layout::frame;

/// The tables of a program file.
#[derive(Debug, Default)]
pub(super) struct Unwinding {
    // The section's address and bytes.
    section: (u64, Vec<u8>),
    // Functions: first address, the one behind the last, and where in the section they are
    // described.
    functions: Vec<(u64, u64, usize)>,
}

impl Unwinding {
    /// Of a file's bytes. What cannot be read has none.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::read(bytes).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let section = file.section_by_name(".eh_frame")?;
        let section = (section.address(), section.uncompressed_data().ok()?.into_owned());
        let (frames, bases) = table(&section);
        let mut functions = Vec::new();
        let mut entries = frames.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(part) = entry else { continue };
            let Ok(function) = part.parse(|_, bases, offset| frames.cie_from_offset(bases, offset))
            else {
                continue;
            };
            let start = function.initial_address();
            functions.push((start, start + function.len(), function.offset()));
        }
        functions.sort_unstable();
        Some(Self { section, functions })
    }

    /// The rule at an address: one of [`frame`], the distance from its register to the frame's
    /// address, and from there to the caller's `rbp`, or 0 where it is still in the register.
    pub(super) fn rule(&self, address: u64) -> [u64; 4] {
        self.simple(address).unwrap_or([frame::LAST, 0, 0, 0])
    }

    fn simple(&self, address: u64) -> Option<[u64; 4]> {
        let next = self.functions.partition_point(|(start, ..)| *start <= address);
        let (_, _, offset) =
            self.functions.get(next.checked_sub(1)?).filter(|(_, end, _)| address < *end)?;
        let (frames, bases) = table(&self.section);
        let function = frames.fde_from_offset(&bases, (*offset).into(), |_, bases, offset| {
            frames.cie_from_offset(bases, offset)
        });
        let mut context = UnwindContext::new();
        let function = function.ok()?;
        let row = function.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let kind = match *register {
            X86_64::RSP => frame::BY_STACK,
            X86_64::RBP => frame::BY_BASE,
            _ => return None,
        };
        // It is undefined where the stack ends.
        if !matches!(row.register(X86_64::RA), RegisterRule::Offset(-8))
            || function.is_signal_trampoline()
        {
            return None;
        }
        let base = match row.register(X86_64::RBP) {
            RegisterRule::Offset(distance) => distance as u64,
            RegisterRule::Undefined | RegisterRule::SameValue => 0,
            _ => return None,
        };
        Some([kind, *offset as u64, base, 0])
    }
}

fn table(
    section: &(u64, Vec<u8>),
) -> (EhFrame<gimli::EndianSlice<'_, LittleEndian>>, BaseAddresses) {
    let mut frames = EhFrame::new(&section.1, LittleEndian);
    frames.set_address_size(8);
    (frames, BaseAddresses::default().set_eh_frame(section.0))
}
