//! What cannot be executed in a program's stead is named with its bytes and its address, and ends
//! the recording.

use ringfence_trace::events::Ended;

use crate::addresses::CODE;
use crate::executor::{Executor, Where};
use crate::maker::Sequence;

// Each comes to a file with its first access; where a processor would go on is of no interest.
const CASES: [(&str, &[u8], bool); 9] = [
    // mov rax, 0x50000000; clzero
    ("Clzero", &[0x48, 0xc7, 0xc0, 0, 0, 0, 0x50, 0x0f, 0x01, 0xfc], false),
    // mov rsp, 0x50001000; enterw 8, 0
    ("Enter", &[0x48, 0xc7, 0xc4, 0, 0x10, 0, 0x50, 0x66, 0xc8, 8, 0, 0], false),
    // mov rsp, 0x50001000; iretq
    ("Iretq", &[0x48, 0xc7, 0xc4, 0, 0x10, 0, 0x50, 0x48, 0xcf], true),
    // mov rsp, 0x50001000; retfq
    ("Retf", &[0x48, 0xc7, 0xc4, 0, 0x10, 0, 0x50, 0x48, 0xcb], true),
    // mov rsp, 0x50001000; pop gs
    ("Pop", &[0x48, 0xc7, 0xc4, 0, 0x10, 0, 0x50, 0x0f, 0xa9], true),
    // mov rax, 0x50000000; jmp far [rax]
    ("Jmp", &[0x48, 0xc7, 0xc0, 0, 0, 0, 0x50, 0x48, 0xff, 0x28], true),
    // mov rax, 0x50000000; lgs ecx, [rax]
    ("Lgs", &[0x48, 0xc7, 0xc0, 0, 0, 0, 0x50, 0x0f, 0xb5, 0x08], true),
    // mov rax, 0x50000000; mov gs, [rax]
    ("Mov", &[0x48, 0xc7, 0xc0, 0, 0, 0, 0x50, 0x8e, 0x28], true),
    // mov rax, 0x50001ffe; mov [rax], ecx, beyond the end of the mapping
    ("Mov", &[0x48, 0xc7, 0xc0, 0xfe, 0x1f, 0, 0x50, 0x89, 0x08], false),
];

// AMD APM volume 3, appendix E: function 8000_0008H, EBX bit 0.
#[allow(unused_unsafe)]
fn has_clzero() -> bool {
    // SAFETY: every processor of x86-64 has the instruction; newer compilers know that.
    unsafe { std::arch::x86_64::__cpuid(0x8000_0008).ebx & 1 != 0 }
}

#[test]
fn what_cannot_be_recorded_is_named_and_ends_the_recording() {
    let executor = Executor::new();
    for (name, code, only_loads) in CASES {
        // It fails on Intel's processors, and there is nothing to refuse.
        if name == "Clzero" && !has_clzero() {
            continue;
        }
        let (at, code) = (CODE, code.to_vec());
        let shown: Vec<String> = code[7..].iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = format!("at {:#x} of [anonymous] ({name}, {})", CODE + 7, shown.join(" "));
        executor.write(
            &[Sequence { seed: 1, at, code, constants: Vec::new(), forms: Vec::new() }],
            Where::Apart,
        );
        for loads in [false, true] {
            let (outcome, ..) = executor.recorded(0, 1, loads);
            match outcome.ended {
                Ended::Stopped(reason) => assert!(reason.contains(&wanted), "{reason}: {wanted}"),
                // What only loads does not come to us where loads are not recorded.
                _ if only_loads && !loads => {}
                other => panic!("{name} is recorded: {other:?}"),
            }
        }
    }
}
