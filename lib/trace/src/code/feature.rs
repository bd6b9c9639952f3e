//! What a processor must have to run some code.

use std::collections::BTreeSet;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions};
use ringfence_system::root::FsRoot;

/// The features that 64-bit code needs besides what every x86-64 processor has, as Linux names them
/// in `/proc/cpuinfo`.
pub fn needs(code: &[u8]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for instruction in &mut Decoder::new(64, code, DecoderOptions::NONE) {
        all.extend(instruction.cpuid_features().iter().filter_map(|feature| name(*feature)));
    }
    all
}

// `clflush` is in every such processor, too, but it is what others are chosen instead of.
fn name(feature: CpuidFeature) -> Option<String> {
    use CpuidFeature as F;
    let known = match feature {
        F::INTEL8086 | F::INTEL186 | F::INTEL286 | F::INTEL386 | F::INTEL486 | F::X64 => {
            return None;
        }
        F::CMOV | F::CPUID | F::CX8 | F::FPU | F::FPU287 | F::FPU387 | F::FXSR | F::MMX => {
            return None;
        }
        F::SSE | F::SSE2 | F::SYSCALL | F::TSC | F::MULTIBYTENOP => return None,
        // Elsewhere they do nothing.
        F::CET_IBT | F::CET_SS | F::CLDEMOTE | F::PAUSE | F::PREFETCHW | F::PREFETCHWT1 => {
            return None;
        }
        F::HLE_or_RTM => "rtm",
        F::AVX512_IFMA => "avx512ifma",
        F::AVX512_VBMI => "avx512vbmi",
        F::CLFSH => "clflush",
        F::CMPXCHG16B => "cx16",
        F::D3NOW => "3dnow",
        F::D3NOWEXT => "3dnowext",
        F::LZCNT => "abm",
        F::SHA => "sha_ni",
        F::SSE3 => "pni",
        other => return Some(format!("{other:?}").to_lowercase()),
    };
    Some(known.into())
}

/// The features of a machine's processors, as Linux names them; `None` where that cannot be read.
pub fn of_machine(root: &FsRoot) -> Option<BTreeSet<String>> {
    let text = root.cpuinfo();
    let flags = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "flags").then_some(value)
    })?;
    Some(flags.split_whitespace().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Vec<String> {
        needs(code).into_iter().collect()
    }

    // Encodings as the manuals give them (Intel SDM volume 2).
    #[test]
    fn what_code_needs_is_named_as_the_kernel_names_it() {
        // clwb [rdi]; clflush [rdi]
        assert_eq!(of(&[0x66, 0x0f, 0xae, 0x37, 0x0f, 0xae, 0x3f]), ["clflush", "clwb"]);
        // vmovntdq [rax], zmm0; vmovntdq [rax], ymm0
        assert_eq!(
            of(&[0x62, 0xf1, 0x7d, 0x48, 0xe7, 0x00, 0xc5, 0xfd, 0xe7, 0x00]),
            ["avx", "avx512f"]
        );
        // movdir64b rax, [rcx]
        assert_eq!(of(&[0x66, 0x0f, 0x38, 0xf8, 0x01]), ["movdir64b"]);
        // endbr64; push rbp; movntdq [rax], xmm0; cmove rax, rdx; sfence; ret
        let base = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x66, 0x0f, 0xe7, 0x00, 0x48, 0x0f, 0x44, 0xc2, 0x0f,
            0xae, 0xf8, 0xc3,
        ];
        assert_eq!(of(&base), [""; 0]);
    }

    #[test]
    fn a_machine_has_what_its_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = FsRoot::at(folder.path());
        assert_eq!(of_machine(&root), None);
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let text =
            "processor\t: 0\nvmx flags\t: vnmi\nflags\t\t: fpu clflush clwb\n\nprocessor\t: 1\n";
        std::fs::write(folder.path().join("proc/cpuinfo"), text).unwrap();
        // The text is read once.
        assert_eq!(of_machine(&root), None);
        let root = FsRoot::at(folder.path());
        assert_eq!(
            of_machine(&root).unwrap().into_iter().collect::<Vec<_>>(),
            ["clflush", "clwb", "fpu"]
        );
    }
}
