// A store whose value may be lost, and recoveries that read it in many ways: reads HOW good|bad
// append FILE, and reads HOW good|bad list FILE. Forty words around the value are stored to and
// never flushed, and no recovery reads them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 65536
#define VALUE 4160
static const char *path;
static char *file;

static void persist(void *at) { _mm_clflushopt(at); _mm_sfence(); }
static volatile uint64_t *word(uint64_t offset) { return (volatile uint64_t *)(file + offset); }

static uint64_t load(void) { return *word(VALUE); }
static uint64_t bytes(void) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | ((volatile unsigned char *)file)[VALUE + i];
  return value;
}
static uint64_t sum(void) {
  uint64_t value = 5;
  __asm__ volatile("addq (%1), %0\n subq $5, %0" : "+r"(value) : "r"(file + VALUE) : "cc", "memory");
  return value;
}
static uint64_t compared(void) {
  return *word(VALUE) == 77 ? 77 : 0;
}
static uint64_t wide(void) {
  uint64_t out[2];
  _mm_storeu_si128((__m128i *)out, _mm_loadu_si128((const __m128i *)(file + VALUE)));
  return out[0];
}
static uint64_t repeated(void) {
  uint64_t out = 0;
  void *from = file + VALUE, *to = &out;
  uint64_t count = 8;
  __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
  return out;
}
static uint64_t locked(void) {
  return __atomic_fetch_add((uint64_t *)(file + VALUE), 1, __ATOMIC_SEQ_CST);
}
static uint64_t private_map(void) {
  char *at = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, open(path, O_RDONLY), 0);
  return *(volatile uint64_t *)(at + VALUE);
}
static uint64_t by_pread(void) {
  uint64_t out = 0;
  return pread(open(path, O_RDONLY), &out, 8, VALUE) == 8 ? out : 0;
}
static uint64_t by_read(void) {
  uint64_t out = 0;
  int fd = open(path, O_RDONLY);
  lseek(fd, VALUE, SEEK_SET);
  return read(fd, &out, 8) == 8 ? out : 0;
}
static uint64_t protected_again(void) {
  mprotect(file, SIZE, PROT_READ);
  return load();
}
static uint64_t child(void) {
  int ends[2];
  uint64_t out = 0;
  if (pipe(ends)) return 0;
  if (fork() == 0) {
    out = load();
    _exit(write(ends[1], &out, 8) != 8);
  }
  if (read(ends[0], &out, 8) != 8) return 0;
  wait(0);
  return out;
}
static uint64_t other_program(void) {
  char command[4096], line[100] = "";
  snprintf(command, sizeof command, "od -A n -t d8 -j %d -N 8 %s", VALUE, path);
  FILE *out = popen(command, "r");
  if (!out || !fgets(line, sizeof line, out)) return 0;
  pclose(out);
  return strtoull(line, 0, 10);
}
// From here on, a recovery is not followed word by word.
static uint64_t to_pipe(void) {
  int ends[2];
  uint64_t out = 0;
  if (pipe(ends) || write(ends[1], file + VALUE, 8) != 8 || read(ends[0], &out, 8) != 8) return 0;
  return out;
}
static uint64_t vectors(void) {
  int ends[2];
  uint64_t out = 0;
  struct iovec one = {file + VALUE, 8};
  if (pipe(ends) || writev(ends[1], &one, 1) != 8 || read(ends[0], &out, 8) != 8) return 0;
  return out;
}
static uint64_t moved(void) {
  file = mremap(file, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
  return load();
}
static void *in_thread(void *out) { *(uint64_t *)out = load(); return 0; }
static uint64_t thread(void) {
  uint64_t out = 0;
  pthread_t one;
  pthread_create(&one, 0, in_thread, &out);
  pthread_join(one, 0);
  return out;
}
static const struct { const char *name; uint64_t (*value)(void); } ALL[] = {
  {"load", load}, {"bytes", bytes}, {"sum", sum}, {"compared", compared}, {"wide", wide},
  {"repeated", repeated}, {"locked", locked}, {"private_map", private_map}, {"by_pread", by_pread},
  {"by_read", by_read}, {"protected_again", protected_again}, {"child", child},
  {"to_pipe", to_pipe}, {"vectors", vectors}, {"moved", moved}, {"thread", thread},
  {"other_program", other_program},
};

int main(int argc, char **argv) {
  path = argv[4];
  file = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR), 0);
  if (argc < 5 || file == MAP_FAILED) return 8;
  if (!strcmp(argv[3], "append")) {
    for (int i = 1; i <= 40; i++) *word(VALUE + 64 * i) = 1000 + i;
    *word(VALUE) = 77;
    if (!strcmp(argv[2], "good")) persist((void *)word(VALUE));
    *word(0) = 1;
    persist((void *)word(0));
    printf("stored\n");
    return 0;
  }
  if (*word(0) == 0) { printf("empty\n"); return 0; }
  for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
    if (!strcmp(ALL[i].name, argv[1])) {
      uint64_t value = ALL[i].value();
      printf("value %lu\n", (unsigned long)value);
      return value == 77 ? 0 : 3;
    }
  return 9;
}
