// A plugin of QEMU's user emulation that logs what a program does to one file that it has mapped, and its fences,
// flushes and locked instructions.
//
// Debian's QEMU comes without the header for plugins: what is used of version 1 of its interface is declared here, as
// QEMU's documentation describes it ("QEMU TCG Plugins").
//
// The log is memory that is shared with a file: a process that a signal ends leaves all of it behind. Each process,
// and each program that it executes, has its own. Where the file is mapped, and which file code is from, the kernel
// says (/proc/self/maps), who is asked again after each system call that may have changed it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0, STORES = 2, LOADS_AND_STORES = 3 };
typedef void (*executed_cb)(unsigned vcpu, void *site);
typedef void (*accessed_cb)(unsigned vcpu, uint32_t info, uint64_t address, void *site);
typedef void (*translated_cb)(plugin_id, struct qemu_plugin_tb *);
typedef void (*returned_cb)(plugin_id, unsigned vcpu, int64_t number, int64_t result);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated_cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, executed_cb, int flags, void *site);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed_cb, int flags, int which, void *site);
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, returned_cb);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

// As the test reads it.
struct record {
  uint64_t turn, offset, code, inode;
  uint32_t thread, size;
  uint8_t kind, length, bytes[15], spare[7];
};
_Static_assert(sizeof(struct record) == 64, "as the test has it");
enum { EXECUTED, STORED, LOADED };
enum { MOST = 1 << 22 };

struct site { uint64_t code, inode; uint8_t length, bytes[15]; };
struct mapping { uint64_t start, end, offset, inode; bool traced; };
struct mappings { int count, traced; struct mapping all[]; };

static const char *file, *logs;
static bool loads;
// Host addresses are so much greater than the program's.
static uint64_t base;
// Others may still read an earlier table: none is freed.
static struct mappings *volatile mappings;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
// The first record holds how many follow it.
static struct record *records;
static __thread uint32_t thread;
static __thread uint64_t turn;

static void fail(const char *what) { perror(what); abort(); }

static void begin_log(void) {
  char name[4096];
  int made = -1;
  for (int number = 0; made < 0 && number < 1000; number++) {
    snprintf(name, sizeof name, "%s.%d.%d", logs, getpid(), number);
    made = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  if (made < 0 || ftruncate(made, sizeof *records * MOST)) fail(name);
  records = mmap(0, sizeof *records * MOST, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
  if (records == MAP_FAILED) fail(name);
  close(made);
}

static void forked(void) { thread = 0; begin_log(); }

static void look(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) fail("maps");
  struct mappings *found = malloc(sizeof *found + 4096 * sizeof found->all[0]);
  found->count = found->traced = 0;
  char *line = 0;
  size_t room = 0;
  while (getline(&line, &room, maps) > 0) {
    struct mapping *one = &found->all[found->count];
    char rights[5];
    int path = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %*s %lu %n", &one->start, &one->end, rights, &one->offset, &one->inode, &path) < 5) continue;
    if (one->inode == 0) continue;
    line[strcspn(line, "\n")] = 0;
    one->traced = rights[3] == 's' && !strcmp(line + path, file);
    found->traced += one->traced;
    if (++found->count == 4096) fail("too many mappings");
  }
  free(line);
  fclose(maps);
  mappings = found;
}

static void ask(void) {
  pthread_mutex_lock(&asking);
  look();
  pthread_mutex_unlock(&asking);
}

static const struct mapping *mapping_of(uint64_t host) {
  const struct mappings *known = mappings;
  for (int at = 0; at < known->count; at++)
    if (known->all[at].start <= host && host < known->all[at].end) return &known->all[at];
  return 0;
}

static void tell(const struct site *site, uint8_t kind, uint64_t offset, uint32_t size) {
  if (!thread) thread = syscall(SYS_gettid);
  uint64_t number = __atomic_add_fetch(&records[0].turn, 1, __ATOMIC_RELAXED);
  if (number >= MOST) fail("too much was logged");
  struct record *one = &records[number];
  *one = (struct record){turn, offset, site->code, site->inode, thread, size, kind, site->length};
  memcpy(one->bytes, site->bytes, sizeof one->bytes);
}

static void on_executed(unsigned vcpu, void *site) { turn++; }

static void on_special(unsigned vcpu, void *site) { turn++; tell(site, EXECUTED, 0, 0); }

static void on_accessed(unsigned vcpu, uint32_t info, uint64_t address, void *site) {
  if (!mappings->traced) return;
  const struct mapping *one = mapping_of(address + base);
  if (!one || !one->traced) return;
  uint8_t kind = qemu_plugin_mem_is_store(info) ? STORED : LOADED;
  // QEMU 7.2 tells of loads where stores alone are asked for.
  if (kind == LOADED && !loads) return;
  tell(site, kind, one->offset + (address + base - one->start), 1 << qemu_plugin_mem_size_shift(info));
}

// Fences, flushes and locked instructions, by their bytes (Intel SDM volume 2): `xchg` with memory locks without a
// prefix.
static bool is_special(const uint8_t *bytes, size_t length) {
  bool operand_size = false;
  size_t at = 0;
  for (; at < length; at++) {
    switch (bytes[at]) {
    case 0xf0: return true;
    case 0x66: operand_size = true; continue;
    case 0xf2: case 0xf3: case 0x2e: case 0x36: case 0x3e: case 0x26: case 0x64: case 0x65: case 0x67: continue;
    }
    break;
  }
  if (at < length && (bytes[at] & 0xf0) == 0x40) at++;
  if (at + 1 >= length) return false;
  uint8_t modrm = bytes[at + 1];
  if (bytes[at] == 0x86 || bytes[at] == 0x87) return modrm >> 6 != 3;
  if (at + 2 >= length || bytes[at] != 0x0f || bytes[at + 1] != 0xae) return false;
  modrm = bytes[at + 2];
  int what = modrm >> 3 & 7;
  if (modrm >> 6 == 3) return what == 6 || what == 7;
  return what == 7 || (what == 6 && operand_size);
}

static void on_translated(plugin_id id, struct qemu_plugin_tb *block) {
  for (size_t at = 0; at < qemu_plugin_tb_n_insns(block); at++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, at);
    uint64_t host = (uint64_t)qemu_plugin_insn_haddr(instruction);
    base = host - qemu_plugin_insn_vaddr(instruction);
    struct site *site = calloc(1, sizeof *site);
    site->length = qemu_plugin_insn_size(instruction);
    memcpy(site->bytes, qemu_plugin_insn_data(instruction), site->length);
    const struct mapping *code = mapping_of(host);
    if (!code) { ask(); code = mapping_of(host); }
    if (code) { site->code = code->offset + (host - code->start); site->inode = code->inode; }
    executed_cb executed = is_special(site->bytes, site->length) ? on_special : on_executed;
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, site);
    qemu_plugin_register_vcpu_mem_cb(instruction, on_accessed, NO_REGISTERS, loads ? LOADS_AND_STORES : STORES, site);
  }
}

static void on_returned(plugin_id id, unsigned vcpu, int64_t number, int64_t result) {
  switch (number) {
  case SYS_mmap: case SYS_munmap: case SYS_mremap: ask();
  }
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int count, char **given) {
  for (int at = 0; at < count; at++) {
    if (!strncmp(given[at], "traced=", 7)) file = strdup(given[at] + 7);
    if (!strncmp(given[at], "logs=", 5)) logs = strdup(given[at] + 5);
    if (!strcmp(given[at], "loads=on")) loads = true;
  }
  if (!file || !logs) return 1;
  begin_log();
  ask();
  pthread_atfork(0, 0, forked);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, on_returned);
  return 0;
}
