//! Every form of an instruction that accesses memory, as far as this processor has it and a program
//! may execute it.

use std::collections::HashSet;

use iced_x86::{Code, CpuidFeature, EncodingKind, MemorySize, Mnemonic, OpCodeOperandKind};

/// The forms that sequences are made of.
pub fn forms() -> Vec<Code> {
    let flags = processor_flags();
    Code::values().filter(|code| is_possible(*code, &flags) && accesses_memory(*code)).collect()
}

fn processor_flags() -> HashSet<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    line.split_whitespace().skip(2).map(str::to_owned).collect()
}

fn has(feature: CpuidFeature, flags: &HashSet<String>) -> bool {
    let name = format!("{feature:?}");
    let flag = match name.as_str() {
        "INTEL8086" | "INTEL186" | "INTEL286" | "INTEL386" | "INTEL486" | "X64" | "FPU287"
        | "FPU387" | "MULTIBYTENOP" | "CPUID" => return true,
        "SSE3" => "pni".to_owned(),
        "LZCNT" => "abm".to_owned(),
        "CX8" | "CMPXCHG8B" => "cx8".to_owned(),
        "CMPXCHG16B" => "cx16".to_owned(),
        "CLFSH" => "clflush".to_owned(),
        "PREFETCHW" => "3dnowprefetch".to_owned(),
        "SHA" => "sha_ni".to_owned(),
        "AVX512_VBMI" => "avx512vbmi".to_owned(),
        "AVX512_IFMA" => "avx512ifma".to_owned(),
        "LAHF_SAHF" => "lahf_lm".to_owned(),
        other => other.to_lowercase(),
    };
    flags.contains(&flag)
}

fn is_possible(code: Code, flags: &HashSet<String>) -> bool {
    use Mnemonic as M;
    let op = code.op_code();
    let plain =
        matches!(op.encoding(), EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::EVEX);
    if !plain
        || !op.is_instruction()
        || !op.mode64()
        || op.is_privileged()
        || op.fwait()
        || op.is_input_output()
    {
        return false;
    }
    // What a program can do only to itself, such as to load `gs`, or what depends on the processor
    // that it runs on.
    let excluded = matches!(
        code.mnemonic(),
        M::Lss
            | M::Lfs
            | M::Lgs
            | M::Lsl
            | M::Lgdt
            | M::Lidt
            | M::Rdpid
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Retf
            | M::Xbegin
            | M::Sysexit
            | M::Uiret
            | M::Int
            | M::Int3
            | M::Syscall
            | M::Ud0
            | M::Ud1
    );
    let far = matches!(
        op.memory_size(),
        MemorySize::SegPtr16 | MemorySize::SegPtr32 | MemorySize::SegPtr64
    );
    let segments = op.op_kinds().contains(&OpCodeOperandKind::seg_reg) && code.mnemonic() == M::Mov;
    let fs = matches!(code, Code::Popw_FS | Code::Popq_FS | Code::Popw_GS | Code::Popq_GS);
    let refused = refused(code);
    !excluded
        && !far
        && !segments
        && !fs
        && !refused
        && code.cpuid_features().iter().all(|feature| has(*feature, flags))
}

/// What a recording stops at.
pub fn refused(code: Code) -> bool {
    use Mnemonic as M;
    let whole = matches!(
        code.mnemonic(),
        M::Clzero | M::Movdir64b | M::Enqcmd | M::Enqcmds | M::Monitor | M::Monitorx | M::Umonitor
    );
    let tiles = matches!(
        code.mnemonic(),
        M::Tileloadd | M::Tileloaddt1 | M::Tilestored | M::Ldtilecfg | M::Sttilecfg
    );
    whole || tiles || matches!(code, Code::Enterw_imm16_imm8 | Code::Movsxd_r16_rm16)
}

fn accesses_memory(code: Code) -> bool {
    let op = code.op_code();
    op.op_kinds().iter().any(|kind| is_memory(*kind)) || op.is_stack_instruction()
}

/// Whether an operand may be in memory.
pub fn is_memory(kind: OpCodeOperandKind) -> bool {
    let name = format!("{kind:?}");
    name.contains("mem") && !name.ends_with("_reg_mem")
        || matches!(name.as_str(), "seg_rSI" | "es_rDI" | "seg_rDI" | "seg_rBX_al")
}
