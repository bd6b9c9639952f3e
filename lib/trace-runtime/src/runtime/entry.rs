//! Where the program's code turns into ours and back: no compiler may touch the registers here.

#[cfg(executable)]
use core::arch::global_asm;

// What stubs call, on the thread's own stack: [rsp] is the return address, [rsp+8] the site's number. The registers
// are laid out as in a signal frame, so that one routine serves both. Flags first: `sub` would change them. Our own
// code may use the SSE registers, whose upper parts it leaves alone (legacy encodings only).
#[cfg(executable)]
global_asm!(
    ".macro save",
    "pushfq",
    "push 0",
    "push qword ptr gs:[16]",
    "push rcx", "push rax", "push rdx", "push rbx", "push rbp", "push rsi", "push rdi",
    "push r15", "push r14", "push r13", "push r12", "push r11", "push r10", "push r9", "push r8",
    "cld",
    "mov rdi, rsp",
    "mov rsi, [rsp + 152]",
    "mov rbp, rsp",
    "and rsp, -64",
    "sub rsp, 256",
    "movaps [rsp], xmm0", "movaps [rsp+16], xmm1", "movaps [rsp+32], xmm2", "movaps [rsp+48], xmm3",
    "movaps [rsp+64], xmm4", "movaps [rsp+80], xmm5", "movaps [rsp+96], xmm6", "movaps [rsp+112], xmm7",
    "movaps [rsp+128], xmm8", "movaps [rsp+144], xmm9", "movaps [rsp+160], xmm10", "movaps [rsp+176], xmm11",
    "movaps [rsp+192], xmm12", "movaps [rsp+208], xmm13", "movaps [rsp+224], xmm14", "movaps [rsp+240], xmm15",
    ".endm",
    ".macro restore",
    "movaps xmm0, [rsp]", "movaps xmm1, [rsp+16]", "movaps xmm2, [rsp+32]", "movaps xmm3, [rsp+48]",
    "movaps xmm4, [rsp+64]", "movaps xmm5, [rsp+80]", "movaps xmm6, [rsp+96]", "movaps xmm7, [rsp+112]",
    "movaps xmm8, [rsp+128]", "movaps xmm9, [rsp+144]", "movaps xmm10, [rsp+160]", "movaps xmm11, [rsp+176]",
    "movaps xmm12, [rsp+192]", "movaps xmm13, [rsp+208]", "movaps xmm14, [rsp+224]", "movaps xmm15, [rsp+240]",
    "mov rsp, rbp",
    "pop r8", "pop r9", "pop r10", "pop r11", "pop r12", "pop r13", "pop r14", "pop r15",
    "pop rdi", "pop rsi", "pop rbp", "pop rbx", "pop rdx", "pop rax", "pop rcx",
    "lea rsp, [rsp+16]",
    "popfq",
    "ret 8",
    ".endm",
    ".global stub_enter",
    "stub_enter:",
    "save",
    "call {enter}",
    "restore",
    ".global stub_leave",
    "stub_leave:",
    "save",
    "call {leave}",
    "restore",
    // The end of a signal's handler.
    ".global restorer",
    "restorer:",
    "mov eax, 15",
    "syscall",
    // Starts a thread: rdi.. hold the call's arguments as the kernel wants them, r12 the new thread's block. It begins
    // here on the program's stack, with all registers of the parent.
    ".global clone_thread",
    "clone_thread:",
    "push r12",
    "push rbx",
    "mov r12, r8",
    "mov rbx, r9",
    "mov eax, ebx",
    "mov r10, rcx",
    "mov r8, [r12 + {start} + 0]",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop rbx",
    "pop r12",
    "ret",
    "2:",
    // The stack is the program's, and may lie in a recorded file: not used before we are on ours.
    "mov rsp, [r12 + 8]",
    "mov rdi, r12",
    "call {born}",
    // The registers of the program: all but rcx and r11, which a system call changes anyhow.
    "mov r8, [r12 + {start} + 0]",
    "mov r9, [r12 + {start} + 8]",
    "mov r10, [r12 + {start} + 16]",
    "mov r13, [r12 + {start} + 40]",
    "mov r14, [r12 + {start} + 48]",
    "mov r15, [r12 + {start} + 56]",
    "mov rdi, [r12 + {start} + 64]",
    "mov rsi, [r12 + {start} + 72]",
    "mov rbp, [r12 + {start} + 80]",
    "mov rbx, [r12 + {start} + 88]",
    "mov rdx, [r12 + {start} + 96]",
    "mov rcx, [r12 + {start} + 128]",
    "mov rsp, [r12 + {start} + 120]",
    "mov r12, [r12 + {start} + 32]",
    "xor eax, eax",
    "jmp rcx",
    // Executes an instruction in our code, and returns whether that has failed: a handler then goes on at
    // `guard_failed`.
    ".global guarded",
    "guarded:",
    "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
    "sub rsp, 8",
    "mov gs:[{guard}], rsp",
    "call {execute}",
    "xor eax, eax",
    "2:",
    "mov qword ptr gs:[{guard}], 0",
    "add rsp, 8",
    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
    "ret",
    ".global guard_failed",
    "guard_failed:",
    "mov rsp, gs:[{guard}]",
    "mov eax, 1",
    "jmp 2b",
    // Reads eight bytes at rdi to rsi, and returns whether it could: where not, a handler goes on at `unreadable`.
    ".global safe_read",
    "safe_read:",
    "mov rax, [rdi]",
    "mov [rsi], rax",
    "mov eax, 1",
    "ret",
    // Copies rdx bytes from rsi to rdi, and returns whether it could.
    ".global safe_copy",
    "safe_copy:",
    "mov rcx, rdx",
    ".global copying",
    "copying:",
    "rep movsb",
    "mov eax, 1",
    "ret",
    ".global unreadable",
    "unreadable:",
    "xor eax, eax",
    "ret",
    // Makes the system call rdi with the arguments at rsi, with the mask of signals at rdx meanwhile; rcx is where the
    // mask of before goes. Between the two labels nothing is half done: a handler may run there.
    ".global interruptible",
    "interruptible:",
    "push rbx", "push rbp", "push r12", "push r13",
    "mov rbx, rdi",
    "mov rbp, rsi",
    "mov r12, rcx",
    "mov edi, 2",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10d, 8",
    "mov eax, 14",
    "syscall",
    ".global interruptible_begin",
    "interruptible_begin:",
    "mov rdi, [rbp]",
    "mov rsi, [rbp + 8]",
    "mov rdx, [rbp + 16]",
    "mov r10, [rbp + 24]",
    "mov r8, [rbp + 32]",
    "mov r9, [rbp + 40]",
    "mov rax, rbx",
    "syscall",
    ".global interruptible_end",
    "interruptible_end:",
    "mov r13, rax",
    "mov edi, 2",
    "mov rsi, r12",
    "xor edx, edx",
    "mov r10d, 8",
    "mov eax, 14",
    "syscall",
    "mov rax, r13",
    "pop r13", "pop r12", "pop rbp", "pop rbx",
    "ret",
    // Ends a thread whose stacks lie at rdi, of rsi bytes.
    ".global end_thread",
    "end_thread:",
    "mov rbx, rdx",
    "mov eax, 11",
    "syscall",
    "mov rdi, rbx",
    "mov eax, 60",
    "syscall",
    // The recorder begins here, with a process that has executed nothing of its program yet, and sets all back behind
    // the breakpoint.
    ".global begin",
    "begin:",
    "call {start_process}",
    "int3",
    execute = sym crate::runtime:: emulation::execute,
    guard = const core::mem::offset_of!(crate::layout::Block, guard),
    enter = sym crate::runtime::stubs::enter,
    leave = sym crate::runtime::stubs::leave,
    born = sym crate::runtime::threads::born,
    start_process = sym crate::runtime::start::process,
    start = const core::mem::offset_of!(crate::layout::Block, start),
);

unsafe extern "C" {
    pub fn stub_enter();
    pub fn stub_leave();
    pub fn guarded(
        block: *mut crate::layout::Block,
        site: *const crate::layout::Site,
        registers: *mut u64,
    ) -> bool;
    pub fn guard_failed() -> !;
    pub fn safe_read(address: u64, value: *mut u64) -> bool;
    pub fn safe_copy(to: *mut u8, from: *const u8, count: usize) -> bool;
    pub fn copying();
    pub fn unreadable();
    pub fn restorer();
    pub fn clone_thread(
        flags: u64,
        stack: u64,
        parent: u64,
        child: u64,
        block: u64,
        number: u64,
    ) -> u64;
    pub fn interruptible(
        number: u64,
        arguments: *const u64,
        mask: *const u64,
        before: *mut u64,
    ) -> u64;
    pub fn interruptible_begin();
    pub fn interruptible_end();
    pub fn end_thread(stack: u64, size: u64, status: u64) -> !;
}
