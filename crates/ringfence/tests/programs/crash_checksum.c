// A log whose entries have a checksum, so that the stores to one need no order: checksum HOW append
// FILE, and checksum HOW list FILE. HOW names the bug, or how recovery uses the function `sum`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 65536
#define WORDS 32
static const char *how;
static uint64_t *file;
static jmp_buf back;

static int is(const char *name) { return !strcmp(how, name); }
static uint64_t *entry(uint64_t number) { return file + 8 + WORDS * number; }

// Each word has another factor, so that no torn entry has the sum of a whole one.
__attribute__((noinline)) static uint64_t sum(volatile uint64_t *from, uint64_t count) {
  uint64_t all = 0xcbf29ce484222325;
  if (is("recursive") && count > 1)
    return sum(from, count / 2) * 31 + sum(from + count / 2, count - count / 2);
  for (uint64_t i = 0; i < count; i++) all = (all ^ from[i]) * 0x100000001b3;
  if (is("jumps")) longjmp(back, 1 + (int)(all % 1000003));
  return all;
}

static uint64_t sum_of(volatile uint64_t *from) {
  uint64_t count = is("uncovered") ? WORDS - 2 : WORDS - 1;
  if (is("jumps")) {
    int jumped = setjmp(back);
    return jumped ? (uint64_t)jumped : sum(from, count);
  }
  return sum(from, count);
}

static void append(uint64_t number) {
  uint64_t *at = entry(number);
  for (int i = 1; i < WORDS; i++) at[i] = 1000 * (number + 1) + i;
  at[0] = sum_of(at + 1);
  for (int i = 0; i < WORDS; i += 8) _mm_clflushopt(at + i);
  _mm_sfence();
  printf("appended %lu\n", (unsigned long)number);
}

static void print(volatile uint64_t *at) {
  uint64_t all = at[1];
  if (is("prints_all"))
    for (int i = 2; i < WORDS; i++) all ^= at[i];
  printf("entry %lu %lu\n", (unsigned long)all, (unsigned long)at[WORDS - 1]);
}

static int list(void) {
  for (uint64_t number = 0;; number++) {
    volatile uint64_t *at = entry(number);
    int is_whole = sum_of(at + 1) == at[0];
    if (!is_whole && is("unchecked") && at[0]) print(at);
    if (!is_whole) return 0;
    print(at);
  }
}

static void *list_in_thread(void *unused) { return list() ? unused : NULL; }

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  how = argv[1];
  file = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[3], O_RDWR), 0);
  if (file == MAP_FAILED) return 2;
  if (!strcmp(argv[2], "append")) {
    for (uint64_t number = 0; number < 3; number++) append(number);
    return 0;
  }
  if (is("child")) {
    int status = 0;
    fflush(stdout);
    if (!fork()) exit(list());
    wait(&status);
    return WEXITSTATUS(status);
  }
  if (is("thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, list_in_thread, NULL);
    pthread_join(thread, NULL);
    return 0;
  }
  return list();
}
