// Executes sequences of instructions: loads all registers, runs one, keeps what registers and memory are afterwards.
// `executor SCRIPT FILE RESULTS FIRST COUNT TIMES`. The script is as `script.rs` writes it; `addresses.rs` says where things lie.

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

struct header {
    uint64_t sequences, code_at, code_size, rewrite;
};

struct entry {
    uint64_t seed, code, constants_at, constants, code_at, code_size;
};

struct result {
    uint64_t registers[16], flags, rip, signal, signal_code, signal_address;
    uint64_t vectors, low, high, ordinary;
};

// The state before a sequence and behind it. `rsp` is the fifth.
uint64_t before[16], before_flags, behind[16], behind_flags, entry_point, own_stack, own_fs, program_fs = FS_BASE;
_Alignas(64) unsigned char image[8192], image_behind[8192];
uint64_t components;
static volatile uint64_t fault[5];
static unsigned image_size;

void run_sequence(void);
void finished(void);
void failed(void);

__asm__(".intel_syntax noprefix\n"
        ".text\n.globl run_sequence, finished, failed\n"
        ".type run_sequence, @function\nrun_sequence:\n"
        "push rbx\npush rbp\npush r12\npush r13\npush r14\npush r15\n"
        "mov [own_stack], rsp\n"
        "rdfsbase rax\nmov [own_fs], rax\nmov rax, [program_fs]\nwrfsbase rax\n"
        "mov eax, [components]\nmov edx, [components + 4]\nxrstor64 [image]\n"
        "push qword ptr [before_flags]\npopfq\n"
        "mov rax, [before]\nmov rcx, [before + 8]\nmov rdx, [before + 16]\nmov rbx, [before + 24]\n"
        "mov rsp, [before + 32]\nmov rbp, [before + 40]\nmov rsi, [before + 48]\nmov rdi, [before + 56]\n"
        "mov r8, [before + 64]\nmov r9, [before + 72]\nmov r10, [before + 80]\nmov r11, [before + 88]\n"
        "mov r12, [before + 96]\nmov r13, [before + 104]\nmov r14, [before + 112]\nmov r15, [before + 120]\n"
        "jmp [entry_point]\n"
        "finished:\n"
        "mov [behind], rax\nmov [behind + 8], rcx\nmov [behind + 16], rdx\nmov [behind + 24], rbx\n"
        "mov [behind + 32], rsp\nmov [behind + 40], rbp\nmov [behind + 48], rsi\nmov [behind + 56], rdi\n"
        "mov [behind + 64], r8\nmov [behind + 72], r9\nmov [behind + 80], r10\nmov [behind + 88], r11\n"
        "mov [behind + 96], r12\nmov [behind + 104], r13\nmov [behind + 112], r14\nmov [behind + 120], r15\n"
        "mov rsp, [own_stack]\n"
        "pushfq\npop [behind_flags]\n"
        // Also where the sequence has failed: the vectors are still its own.
        "failed:\n"
        "push 2\npopfq\n"
        "mov rax, [own_fs]\nwrfsbase rax\n"
        "mov eax, [components]\nmov edx, [components + 4]\nxsave64 [image_behind]\n"
        "fninit\npush 0x1f80\nldmxcsr [rsp]\npop rax\n"
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx\n"
        "ret\n"
        ".size run_sequence, . - run_sequence\n"
        ".att_syntax\n");

static void on_fault(int number, siginfo_t *info, void *frame) {
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    greg_t *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;
    if (fault[0]) _exit(90);
    for (int at = 0; at < 16; at++) behind[at] = registers[order[at]];
    behind_flags = registers[REG_EFL];
    fault[0] = number;
    fault[1] = (uint64_t)info->si_code;
    fault[2] = (uint64_t)info->si_addr;
    fault[3] = registers[REG_RIP];
    registers[REG_RIP] = (greg_t)failed;
    registers[REG_RSP] = own_stack;
    registers[REG_EFL] = 2;
}

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t hash(uint64_t sum, const void *at, size_t size) {
    const uint64_t *words = at;
    for (size_t word = 0; word < size / 8; word++) {
        sum = (sum ^ words[word]) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 29;
    }
    return sum;
}

static void fill(void *at, size_t size, uint64_t seed) {
    for (size_t word = 0; word < size / 8; word++) ((uint64_t *)at)[word] = next(&seed);
}

static void part(unsigned number, unsigned *offset, unsigned *size) {
    unsigned c, d;
    __asm__("cpuid" : "=a"(*size), "=b"(*offset), "=c"(c), "=d"(d) : "a"(0xd), "c"(number));
}

// All of the processor's registers from a seed; the pointers of x87's last instruction are left at zero.
static void fill_image(uint64_t seed) {
    memset(image, 0, image_size);
    fill(image + 160, 256, next(&seed));
    for (int at = 0; at < 8; at++) {
        uint64_t mantissa = next(&seed) | 1ull << 63;
        uint16_t exponent = 0x3ff0 + next(&seed) % 32;
        memcpy(image + 32 + 16 * at, &mantissa, 8);
        memcpy(image + 40 + 16 * at, &exponent, 2);
    }
    uint16_t control = 0x37f;
    uint32_t mxcsr = 0x1f80 | (next(&seed) & 3) << 13;
    image[4] = 0xff;
    memcpy(image, &control, 2);
    memcpy(image + 24, &mxcsr, 4);
    for (unsigned number = 2; number < 8; number++) {
        unsigned offset, size;
        if (!(components >> number & 1)) continue;
        part(number, &offset, &size);
        fill(image + offset, size, next(&seed));
    }
    memcpy(image + 512, &components, 8);
}

// Without the pointers of x87's last instruction, the bytes for the system's use and the header.
static uint64_t hash_image(const unsigned char *of) {
    uint64_t sum = hash(1, of, 8);
    sum = hash(sum, of + 24, 440 - 24);
    for (unsigned number = 2; number < 8; number++) {
        unsigned offset, size;
        if (!(components >> number & 1)) continue;
        part(number, &offset, &size);
        sum = hash(sum, of + offset, size);
    }
    return sum;
}

static void fail(const char *what) {
    perror(what);
    exit(91);
}

static unsigned char *map(uint64_t at, uint64_t size, int rights, int flags, int file, uint64_t offset) {
    void *made = mmap((void *)at, size, rights, flags | MAP_FIXED_NOREPLACE, file, offset);
    if (made != (void *)at) fail("a mapping");
    return made;
}

// One instruction, so that it is one event.
static void copy(unsigned char *to, const unsigned char *from, size_t size) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

// Puts back what a sequence has changed, without a look at the mapping.
static void restore(unsigned char *at, const unsigned char *now, const unsigned char *was, size_t size) {
    size_t first = 0, end = size;
    while (first < size && now[first] == was[first]) first++;
    while (end > first && now[end - 1] == was[end - 1]) end--;
    if (first < end) copy(at + first, was + first, end - first);
}

int main(int count, char **arguments) {
    if (count != 7) return 92;
    int script = open(arguments[1], O_RDONLY), file = open(arguments[2], O_RDWR);
    struct stat about;
    if (script < 0 || file < 0 || fstat(script, &about)) fail("the files");
    unsigned char *text = mmap(0, about.st_size, PROT_READ, MAP_PRIVATE, script, 0);
    const struct header *header = (void *)text;
    const struct entry *entries = (void *)(header + 1);
    uint64_t first = strtoull(arguments[4], 0, 0), number = strtoull(arguments[5], 0, 0);
    uint64_t times = strtoull(arguments[6], 0, 0);

    unsigned b, c, d, low_bits;
    __asm__("cpuid" : "=a"(low_bits), "=b"(b), "=c"(c), "=d"(d) : "a"(0xd), "c"(0));
    components = low_bits & 0xe7;
    // Only as long as what is loaded and stored: a processor may have other components behind (AMX, of 8 KiB).
    image_size = 576;
    for (unsigned number = 2; number < 8; number++) {
        unsigned offset, size;
        part(number, &offset, &size);
        if (components >> number & 1 && offset + size > image_size) image_size = offset + size;
    }
    if (image_size > sizeof image) return 93;

    int both = PROT_READ | PROT_WRITE;
    unsigned char *low = map(LOW, LOW_SIZE, both, MAP_SHARED, file, 0);
    unsigned char *high = map(HIGH, HIGH_SIZE, both, MAP_SHARED, file, LOW_SIZE);
    uint64_t *marker = (uint64_t *)map(MARKER, 4096, both, MAP_SHARED, file, LOW_SIZE + HIGH_SIZE);
    unsigned char *ordinary = map(ORDINARY, ORDINARY_SIZE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *constants = map(CONSTANTS, CONSTANTS_SIZE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header->code_size) {
        size_t whole = (header->code_size + 4095) & ~4095ull;
        unsigned char *code = map(CODE, whole, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(code, text + header->code_at, header->code_size);
        mprotect(code, whole, PROT_READ | PROT_EXEC | (header->rewrite ? PROT_WRITE : 0));
    }

    static unsigned char was[LOW_SIZE + HIGH_SIZE], now[LOW_SIZE + HIGH_SIZE], was_ordinary[ORDINARY_SIZE];
    if (pread(file, was, sizeof was, 0) != sizeof was) fail("the file");
    fill(was_ordinary, ORDINARY_SIZE, 1);
    memcpy(ordinary, was_ordinary, ORDINARY_SIZE);

    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int at = 0; at < 5; at++) sigaction(signals[at], &action, 0);

    struct result *results = calloc(number, sizeof *results);
    for (uint64_t turn = 0; turn < number * times; turn++) {
        uint64_t at = first + turn / times;
        const struct entry *entry = &entries[at];
        struct result *result = &results[at - first], earlier = *result;
        uint64_t seed = entry->seed;
        for (int one = 0; one < 16; one++) before[one] = next(&seed);
        before_flags = (next(&seed) & 0x8d5) | 0x202;
        fill_image(next(&seed));
        memcpy(constants, text + entry->constants_at, entry->constants);
        *(uint64_t *)(CONSTANTS + CONSTANTS_SIZE - 8) = (uint64_t)finished;
        entry_point = entry->code;
        if (header->rewrite) memcpy((void *)entry_point, text + entry->code_at, entry->code_size);
        memset((void *)fault, 0, sizeof fault);
        __asm__ volatile("movq %1, %0" : "=m"(*marker) : "r"(at));
        run_sequence();
        memcpy(result->registers, behind, sizeof behind);
        result->flags = behind_flags & ~0x10000ull;
        result->signal = fault[0];
        result->signal_code = fault[1];
        result->signal_address = fault[2];
        result->rip = fault[3];
        result->vectors = hash_image(image_behind);
        if (pread(file, now, sizeof now, 0) != sizeof now) fail("the file");
        result->low = hash(1, now, LOW_SIZE);
        result->high = hash(1, now + LOW_SIZE, HIGH_SIZE);
        result->ordinary = hash(1, ordinary, ORDINARY_SIZE);
        // Each time is to be as the first one.
        if (turn % times && memcmp(&earlier, result, sizeof earlier)) {
            result->signal = 1000 + turn % times;
            turn += times - 1 - turn % times;
        }
        if (number == 1) {
            char name[4096];
            snprintf(name, sizeof name, "%s.state", arguments[3]);
            FILE *whole = fopen(name, "w");
            fwrite(image_behind, 1, 2696, whole);
            fwrite(now, 1, sizeof now, whole);
            fwrite(ordinary, 1, ORDINARY_SIZE, whole);
            fclose(whole);
        }
        restore(low, now, was, LOW_SIZE);
        restore(high, now + LOW_SIZE, was + LOW_SIZE, HIGH_SIZE);
        restore(ordinary, ordinary, was_ordinary, ORDINARY_SIZE);
    }
    FILE *kept = fopen(arguments[3], "w");
    if (!kept || fwrite(results, sizeof *results, number, kept) != number || fclose(kept)) fail("the results");
    return 0;
}
