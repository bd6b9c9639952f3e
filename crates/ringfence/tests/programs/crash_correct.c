// Correct stores that a naive checker accuses: NAME good append COUNT FILE [FILE], and NAME good
// list FILE [FILE]. 'names' prints all: name, medium, right exit codes, options, end of recovery.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 65536
static int fd[2];
static uint64_t total;
static char *file[2];

static void flush(volatile void *at) { _mm_clflushopt((void *)at); }
static void fence(void) { _mm_sfence(); }
static void persist(volatile void *at) { flush(at); fence(); }
static volatile uint64_t *word(int number, uint64_t offset) {
  return (volatile uint64_t *)(file[number] + offset);
}
static volatile uint64_t *entry(uint64_t number) { return word(0, 64 + 64 * number); }
static volatile uint64_t *count(void) { return word(0, 0); }
static void set(volatile uint64_t *at, uint64_t value) { *at = value; persist(at); }
static void sync_at(int number, uint64_t offset, uint64_t size) {
  msync(file[number] + offset, size, MS_SYNC);
}
static void done(uint64_t number) { printf("appended %lu\n", (unsigned long)number); }
static int wrong(const char *what, uint64_t number, uint64_t value) {
  printf("%s %lu is %lu\n", what, (unsigned long)number, (unsigned long)value);
  return 3;
}
static void append(uint64_t n) {
  set(entry(n), 1000 + n);
  set(count(), n + 1);
}
static void plain(uint64_t n) {
  append(n);
  done(n);
}
static int list_entries(void) {
  uint64_t n = *count();
  printf("%lu entries\n", (unsigned long)n);
  for (uint64_t i = 0; i < n; i++)
    if (entry(i)[0] != 1000 + i) return wrong("entry", i, entry(i)[0]);
  return 0;
}

// A value, and behind it a mark in the same line: their order needs no flush.
static void one_line(uint64_t n) {
  entry(n)[0] = 1000 + n;
  entry(n)[1] = 1;
  persist(entry(n));
  done(n);
}
static int list_marked(void) {
  uint64_t n = 0;
  for (; n < 100 && entry(n)[1]; n++)
    if (entry(n)[0] != 1000 + n) return wrong("entry", n, entry(n)[0]);
  printf("%lu entries\n", (unsigned long)n);
  return 0;
}

// Three pairs in one line with one flush: a crash leaves some of them, in order.
static void line_of_pairs(uint64_t n) {
  for (int i = 0; i < 3; i++) {
    entry(n)[2 * i] = 1000 + 3 * n + i;
    entry(n)[2 * i + 1] = 1;
  }
  persist(entry(n));
  done(n);
}
static int list_pairs(void) {
  uint64_t n = 0;
  for (; n < 90 && entry(n / 3)[2 * (n % 3) + 1]; n++) {
    uint64_t value = entry(n / 3)[2 * (n % 3)];
    if (value != 1000 + n) return wrong("pair", n, value);
  }
  printf("%lu pairs\n", (unsigned long)n);
  return 0;
}

// Three entries, one count, and one write that prints all three.
static void print_three(uint64_t n) {
  char text[100];
  int size = 0;
  for (uint64_t i = 3 * n; i < 3 * n + 3; i++)
    size += sprintf(text + size, "appended %lu\n", (unsigned long)i);
  if (write(1, text, size) != size) exit(5);
}
static void batch(uint64_t n) {
  for (uint64_t i = 3 * n; i < 3 * n + 3; i++) {
    entry(i)[0] = 1000 + i;
    flush(entry(i));
  }
  fence();
  set(count(), 3 * n + 3);
  print_three(n);
}

// Three entries, each durable before the next, and one write that prints all three.
static void batch_in_order(uint64_t n) {
  for (uint64_t i = 3 * n; i < 3 * n + 3; i++) append(i);
  print_three(n);
}

// Three entries without an order, which become durable together: a crash leaves any of them.
static void batch_without_order(uint64_t n) {
  for (uint64_t i = 3 * n; i < 3 * n + 3; i++) {
    entry(i)[0] = 1000 + i;
    entry(i)[1] = 1;
    flush(entry(i));
  }
  fence();
  print_three(n);
}
static int list_any(void) {
  for (uint64_t i = 0; i < 100; i++) {
    if (!entry(i)[1]) continue;
    if (entry(i)[0] != 1000 + i) return wrong("entry", i, entry(i)[0]);
    printf("entry %lu\n", (unsigned long)i);
  }
  return 0;
}

// Two threads, each with a log of its own, and with its own prints.
static void append_to(int log, uint64_t n) {
  volatile uint64_t *slot = word(0, 4096 + 8192 * log + 64 * n);
  slot[0] = 1000 + n;
  slot[1] = 1;
}
static void durable_in(int log, uint64_t n) {
  persist(word(0, 4096 + 8192 * log + 64 * n));
  printf("log %d: appended %lu\n", log, (unsigned long)n);
}
static void *appends_all(void *log) {
  for (uint64_t n = 0; n < total; n++) {
    append_to((intptr_t)log, n);
    durable_in((intptr_t)log, n);
    usleep(1000);
  }
  return 0;
}
static void threads(uint64_t n) {
  pthread_t thread[2];
  if (n) return;
  for (intptr_t i = 0; i < 2; i++) pthread_create(thread + i, 0, appends_all, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], 0);
}

// The same with a pause between a store and its flush.
static void *appends_with_pause(void *log) {
  for (uint64_t n = 0; n < total; n++) {
    append_to((intptr_t)log, n);
    usleep(500 + 700 * (intptr_t)log);
    durable_in((intptr_t)log, n);
    usleep(1000);
  }
  return 0;
}
static void slow_threads(uint64_t n) {
  pthread_t thread[2];
  if (n) return;
  for (intptr_t i = 0; i < 2; i++) pthread_create(thread + i, 0, appends_with_pause, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], 0);
}
static int list_logs(void) {
  for (int log = 0; log < 2; log++) {
    uint64_t n = 0;
    for (; n < 100 && word(0, 4096 + 8192 * log + 64 * n)[1]; n++) {
      uint64_t value = word(0, 4096 + 8192 * log + 64 * n)[0];
      if (value != 1000 + n) return wrong("entry", n, value);
    }
    printf("log %d: %lu entries\n", log, (unsigned long)n);
  }
  return 0;
}

// One thread prints while the other, which has printed nothing yet, has stored an entry.
static volatile int turn;
static void wait_until(int now) { while (turn != now) sched_yield(); }
static void *appends_slowly(void *unused) {
  for (uint64_t n = 0; n < total; n++) {
    wait_until(1);
    append_to(1, n);
    turn = 2;
    wait_until(3);
    durable_in(1, n);
    turn = 0;
  }
  return unused;
}
static void print_between(uint64_t n) {
  pthread_t thread;
  if (n == 0) pthread_create(&thread, 0, appends_slowly, 0);
  append_to(0, n);
  turn = 1;
  wait_until(2);
  durable_in(0, n);
  turn = 3;
  wait_until(0);
}

// Each entry by a thread of its own, which ends.
static void *appends_one(void *n) { plain((uint64_t)n); return 0; }
static void thread_each(uint64_t n) {
  pthread_t thread;
  pthread_create(&thread, 0, appends_one, (void *)n);
  pthread_join(thread, 0);
}

// The line is flushed and fenced by another thread, after it has seen the store.
static void *persists(void *at) { persist(at); return 0; }
static void flushed_elsewhere(uint64_t n) {
  pthread_t thread;
  entry(n)[0] = 1000 + n;
  pthread_create(&thread, 0, persists, (void *)entry(n));
  pthread_join(thread, 0);
  set(count(), n + 1);
  done(n);
}

// Recovery prints the time.
static int list_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  printf("at %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
  return list_entries();
}

// A record over three lines with a checksum. Recovery clears a torn one.
static uint64_t checksum(volatile uint64_t *record) {
  uint64_t sum = 77;
  for (int i = 1; i < 24; i++) sum = sum * 31 + record[i];
  return sum;
}
static void fill(volatile uint64_t *record, uint64_t n) {
  for (int i = 1; i < 24; i++) record[i] = 1000 + n;
  record[0] = checksum(record);
}
static void repair(uint64_t n) {
  volatile uint64_t *record = word(0, 4096 + 192 * n);
  fill(record, n);
  for (int i = 0; i < 24; i += 8) flush(record + i);
  fence();
  done(n);
}
static int list_repair(void) {
  uint64_t n = 0;
  for (; word(0, 4096 + 192 * n)[0] == checksum(word(0, 4096 + 192 * n)); n++)
    if (word(0, 4096 + 192 * n)[1] != 1000 + n) return wrong("record", n, 0);
  memset(file[0] + 4096 + 192 * n, 0, 192);
  sync_at(0, 4096, 8192);
  printf("%lu records\n", (unsigned long)n);
  return 0;
}

// The same in a file's pages, with records that cross sectors.
static void repair_sectors(uint64_t n) {
  fill(word(0, 4096 + 192 * n), n);
  sync_at(0, 4096, 4096);
  done(n);
}

// Moves 10 between two accounts with an undo log.
static volatile uint64_t *account(int number) { return word(0, 4096 + 64 * number); }
static void undo(uint64_t n) {
  volatile uint64_t *log = word(0, 8192);
  log[1] = account(0)[0];
  log[2] = account(1)[0];
  log[0] = 1;
  persist(log);
  account(0)[0] -= 10;
  flush(account(0));
  account(1)[0] += 10;
  flush(account(1));
  fence();
  set(log, 0);
  done(n);
}
static int list_undo(void) {
  volatile uint64_t *log = word(0, 8192);
  if (log[0]) {
    account(0)[0] = log[1];
    account(1)[0] = log[2];
    flush(account(0));
    persist(account(1));
    set(log, 0);
  }
  if (account(0)[0] + account(1)[0]) return wrong("sum", account(0)[0], account(1)[0]);
  printf("moved %lu\n", (unsigned long)account(1)[0]);
  return 0;
}

// A redo log with a commit word instead of a checksum.
static void redo(uint64_t n) {
  volatile uint64_t *log = word(0, 8192);
  for (int i = 0; i < 2; i++) {
    log[8 * i] = account(i)[0] + (i ? 10 : -10);
    flush(log + 8 * i);
  }
  fence();
  set(word(0, 8320), 1);
  for (int i = 0; i < 2; i++) {
    account(i)[0] = log[8 * i];
    flush(account(i));
  }
  fence();
  set(word(0, 8320), 0);
  done(n);
}
static int list_redo(void) {
  volatile uint64_t *log = word(0, 8192);
  if (*word(0, 8320)) for (int i = 0; i < 2; i++) account(i)[0] = log[8 * i];
  if (account(0)[0] + account(1)[0]) return wrong("sum", account(0)[0], account(1)[0]);
  printf("moved %lu\n", (unsigned long)account(1)[0]);
  return 0;
}

// Two copies with generation and checksum; the newest whole one counts.
static void generation(uint64_t n) {
  volatile uint64_t *copy = word(0, 4096 + 4096 * (n % 2));
  copy[8] = n + 1;
  copy[16] = 1000 + n;
  copy[0] = copy[8] * 31 + copy[16];
  sync_at(0, 4096 + 4096 * (n % 2), 4096);
  done(n);
}
static int list_generation(void) {
  uint64_t newest = 0, value = 0;
  for (int i = 0; i < 2; i++) {
    volatile uint64_t *copy = word(0, 4096 + 4096 * i);
    if (copy[0] != copy[8] * 31 + copy[16] || copy[8] <= newest) continue;
    newest = copy[8];
    value = copy[16];
  }
  printf("generation %lu: %lu\n", (unsigned long)newest, (unsigned long)value);
  return 0;
}

// A ring of two slots, of which the oldest goes first.
static void ring(uint64_t n) {
  volatile uint64_t *oldest = word(0, 4096), *next = word(0, 4160);
  if (*next - *oldest == 2) set(oldest, *oldest + 1);
  set(word(0, 8192 + 64 * (n % 2)), 1000 + n);
  set(next, n + 1);
  done(n);
}
static int list_ring(void) {
  for (uint64_t i = *word(0, 4096); i < *word(0, 4160); i++) {
    uint64_t value = *word(0, 8192 + 64 * (i % 2));
    if (value != 1000 + i) return wrong("slot", i, value);
    printf("%lu\n", (unsigned long)value);
  }
  return 0;
}

// A hash table with valid bits; the key before is removed.
static volatile uint64_t *bucket(uint64_t key) { return word(0, 4096 + 64 * (key * 7 % 16)); }
static void hash(uint64_t n) {
  bucket(n)[1] = n;
  bucket(n)[2] = 1000 + n;
  bucket(n)[0] = 1;
  persist(bucket(n));
  printf("inserted %lu\n", (unsigned long)n);
  if (!n) return;
  set(bucket(n - 1), 0);
  printf("removed %lu\n", (unsigned long)n - 1);
}
static int list_hash(void) {
  for (uint64_t i = 0; i < 16; i++) {
    volatile uint64_t *at = word(0, 4096 + 64 * i);
    if (!at[0]) continue;
    if (at[2] != 1000 + at[1]) return wrong("key", at[1], at[2]);
    printf("%lu: %lu\n", (unsigned long)at[1], (unsigned long)at[2]);
  }
  return 0;
}

// A child stores, and its parent prints.
static void child(uint64_t n) {
  pid_t writer = fork();
  if (!writer) { append(n); _exit(0); }
  int status;
  if (waitpid(writer, &status, 0) == writer && !status) done(n);
}

// A tree that is copied from its root to the new leaf: nodes of key, left and right.
static uint64_t used;
static uint64_t inserted(uint64_t old, uint64_t key) {
  uint64_t at = 4096 + 64 * used++;
  volatile uint64_t *node = word(0, at), *from = word(0, old);
  node[0] = old ? from[0] : key;
  node[1] = old ? from[1] : 0;
  node[2] = old ? from[2] : 0;
  if (old) {
    int side = key < node[0] ? 1 : 2;
    node[side] = inserted(node[side], key);
  }
  flush(node);
  return at;
}
static void tree(uint64_t n) {
  uint64_t root = inserted(*count(), (n * 7 + 5) % 10);
  fence();
  set(count(), root);
  done(n);
}
static int list_tree_at(uint64_t at, uint64_t from, uint64_t to) {
  if (!at) return 0;
  volatile uint64_t *node = word(0, at);
  if (node[0] < from || node[0] >= to) return wrong("node", at, node[0]);
  int left = list_tree_at(node[1], from, node[0]);
  printf("%lu\n", (unsigned long)node[0]);
  return left ? left : list_tree_at(node[2], node[0], to);
}
static int list_tree(void) { return list_tree_at(*count(), 0, 10); }

// The file grows by a page for each entry.
static void grown(uint64_t n) {
  ftruncate(fd[0], 4096 * (n + 2));
  *word(0, 4096 * (n + 1)) = 1000 + n;
  sync_at(0, 4096 * (n + 1), 4096);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}
static int list_grown(void) {
  struct stat about;
  fstat(fd[0], &about);
  for (uint64_t i = 0; i < *count(); i++) {
    if ((uint64_t)about.st_size < 4096 * (i + 2)) return wrong("size", i, about.st_size);
    if (*word(0, 4096 * (i + 1)) != 1000 + i) return wrong("page", i, *word(0, 4096 * (i + 1)));
  }
  printf("%lu pages\n", (unsigned long)*count());
  return 0;
}

// A log that grows by pwrite and fdatasync, and is read by its mapping; a torn tail is cut off.
static void written(uint64_t n) {
  if (n == 0) ftruncate(fd[0], 0);
  uint64_t record[24];
  fill(record, n);
  pwrite(fd[0], record, sizeof record, sizeof record * n);
  fdatasync(fd[0]);
  if (word(0, sizeof record * n)[0] != record[0]) exit(4);
  done(n);
}
static int list_written(void) {
  struct stat about;
  fstat(fd[0], &about);
  uint64_t n = 0;
  for (; 192 * n + 192 <= (uint64_t)about.st_size; n++) {
    volatile uint64_t *record = word(0, 192 * n);
    if (record[0] != checksum(record)) break;
    if (record[1] != 1000 + n) return wrong("record", n, record[1]);
  }
  ftruncate(fd[0], 192 * n);
  fsync(fd[0]);
  fstat(fd[0], &about);
  printf("%lu records in %lu bytes\n", (unsigned long)n, (unsigned long)about.st_size);
  return 0;
}

// Recovery in its own mappings: read-only, private with changes of its own, and pread.
static int list_read_only(void) {
  munmap(file[0], SIZE);
  file[0] = mmap(0, SIZE, PROT_READ, MAP_PRIVATE, fd[0], 0);
  return list_entries();
}
static int list_private(void) {
  munmap(file[0], SIZE);
  file[0] = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd[0], 0);
  uint64_t n = *count();
  for (uint64_t i = n; i < 100; i++) *entry(i) = 7;
  return list_entries();
}
static int list_pread(void) {
  file[0] = calloc(1, SIZE);
  return pread(fd[0], file[0], SIZE, 0) == SIZE ? list_entries() : 4;
}

// Many stores, and then two marks in one line, between which a kill shows a third output.
static void marks(uint64_t n) {
  for (int i = 0; i < 101; i++) word(0, 8192)[i] = n;
  count()[0] = n + 1;
  count()[1] = n + 1;
  persist(count());
  done(n);
}
static int list_marks(void) {
  printf("%lu%s\n", (unsigned long)count()[1], count()[0] != count()[1] ? ", repaired" : "");
  return 0;
}

// An instruction with a lock prefix orders the flush before it, as a fence does.
static void locked(uint64_t n) {
  entry(n)[0] = 1000 + n;
  flush(entry(n));
  __atomic_fetch_add((uint64_t *)count(), 1, __ATOMIC_SEQ_CST);
  persist(count());
  done(n);
}

// Past the caches, with a fence; no flush is needed.
static void past_cache(uint64_t n) {
  for (int i = 0; i < 4; i++)
    _mm_stream_si128((__m128i *)entry(n) + i, _mm_set1_epi64x(1000 + n));
  fence();
  _mm_stream_si64((long long *)count(), n + 1);
  fence();
  done(n);
}

// Statistics are never flushed, and recovery does not look at them.
static void statistics(uint64_t n) {
  word(0, 32768)[0]++;
  word(0, 32768)[8] = n;
  plain(n);
}

// The count is never flushed, and recovery counts anew.
static void counted_anew(uint64_t n) {
  *count() = n + 1;
  one_line(n);
}

// Until the store is created, recovery ends with 1.
static void created(uint64_t n) {
  if (n == 0) {
    set(entry(50), 5);
    set(entry(60), 77);
    printf("created\n");
  }
  plain(n);
}
static int list_created(void) {
  if (*entry(60) != 77) { printf("no store\n"); return 1; }
  return *entry(50) == 5 ? list_entries() : 3;
}

// The same, and the program prints a greeting before it has done anything.
static void greeting(uint64_t n) {
  if (n == 0) printf("store, version 1\n");
  created(n);
}

// Stored through one mapping, synced through another.
static void two_mappings(uint64_t n) {
  char *other = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
  *word(0, 8192 + 64 * n) = 1000 + n;
  msync(other + 8192, 4096, MS_SYNC);
  *(volatile uint64_t *)other = n + 1;
  sync_at(0, 0, 4096);
  munmap(other, SIZE);
  done(n);
}
static int list_of_page(void) {
  for (uint64_t i = 0; i < *count(); i++) {
    uint64_t value = *word(0, 8192 + 64 * i);
    if (value != 1000 + i) return wrong("entry", i, value);
  }
  printf("%lu entries\n", (unsigned long)*count());
  return 0;
}

// The kernel stores into the mapping: read of a pipe.
static void read_into(uint64_t n) {
  int ends[2];
  uint64_t value = 1000 + n;
  if (pipe(ends) || write(ends[1], &value, 8) != 8) exit(5);
  if (read(ends[0], (void *)word(0, 8192 + 64 * n), 8) != 8) exit(5);
  close(ends[0]);
  close(ends[1]);
  sync_at(0, 8192, 4096);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}

// Another thread syncs.
static void *syncs(void *unused) { sync_at(0, 8192, 4096); return unused; }
static void synced_elsewhere(uint64_t n) {
  pthread_t thread;
  *word(0, 8192 + 64 * n) = 1000 + n;
  pthread_create(&thread, 0, syncs, 0);
  pthread_join(thread, 0);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}

// Index and data in two files, in the right order, with fsync.
static void two_files(uint64_t n) {
  *word(1, 8 * n) = 1000 + n;
  fsync(fd[1]);
  *count() = n + 1;
  fsync(fd[0]);
  done(n);
}
static int list_two_files(void) {
  for (uint64_t i = 0; i < *count(); i++)
    if (*word(1, 8 * i) != 1000 + i) return wrong("entry", i, *word(1, 8 * i));
  printf("%lu entries\n", (unsigned long)*count());
  return 0;
}

// Long values with rep stos and rep movs, copied before the count.
static void long_copies(uint64_t n) {
  static char page[4096];
  void *to = page, *from = page;
  uint64_t bytes = sizeof page;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(n + 1) : "memory");
  to = file[0] + 4096 * (n + 1);
  bytes = sizeof page;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  for (int i = 0; i < 4096; i += 64) flush(file[0] + 4096 * (n + 1) + i);
  fence();
  set(count(), n + 1);
  done(n);
}
static int list_long_copies(void) {
  for (uint64_t i = 0; i < *count(); i++)
    for (int j = 0; j < 4096; j++)
      if (file[0][4096 * (i + 1) + j] != (char)(i + 1)) return wrong("page", i, j);
  printf("%lu pages\n", (unsigned long)*count());
  return 0;
}

// Keys come and go: at last one is added and one removed, without an order. A crash may leave only
// the removal, which is what recovery printed at first.
static void add_and_remove(uint64_t n) {
  if (n < 2) { one_line(n); return; }
  entry(n)[0] = 1000 + n;
  entry(n)[1] = 1;
  entry(1)[1] = 0;
  flush(entry(n));
  persist(entry(1));
  printf("appended %lu, removed 1\n", (unsigned long)n);
}

// Written through a descriptor with O_DSYNC: durable once the call has ended.
static void record_by(int to, uint64_t n, int flags) {
  uint64_t record[24];
  fill(record, n);
  struct iovec part = {record, sizeof record};
  pwritev2(to, &part, 1, 4096 + 192 * n, flags);
}
static void with_dsync(uint64_t n) {
  static int to = -1;
  if (to < 0) to = open("/proc/self/fd/3", O_WRONLY | O_DSYNC);
  record_by(to, n, 0);
  done(n);
}

// The same by a flag of the call.
static void with_flag(uint64_t n) {
  record_by(fd[0], n, RWF_DSYNC);
  done(n);
}

// Made durable by sync, by syncfs, and by fsync of another descriptor that can only read.
static void with_sync(uint64_t n) {
  record_by(fd[0], n, 0);
  sync();
  done(n);
}
static void with_syncfs(uint64_t n) {
  record_by(fd[0], n, 0);
  syncfs(fd[1]);
  done(n);
}
static void other_descriptor(uint64_t n) {
  record_by(fd[0], n, 0);
  int other = open("/proc/self/fd/3", O_RDONLY);
  fsync(other);
  close(other);
  done(n);
}

// Recovery copies the whole file to memory with one instruction.
static int list_copied(void) {
  void *to = calloc(1, SIZE), *from = file[0];
  file[0] = to;
  uint64_t bytes = SIZE;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return list_entries();
}

static const struct {
  const char *name, *about;
  void (*append)(uint64_t);
  int (*list)(void);
} ALL[] = {
  {"one_line", "pmem|0||", one_line, list_marked},
  {"line_of_pairs", "pmem|0||", line_of_pairs, list_pairs},
  {"batch", "pmem|0||", batch, list_entries},
  {"batch_in_order", "pmem|0||", batch_in_order, list_entries},
  {"batch_without_order", "pmem|4||", batch_without_order, list_any},
  {"threads", "pmem|0,4||", threads, list_logs},
  {"slow_threads", "pmem|0,4||", slow_threads, list_logs},
  {"print_between", "pmem|0,4||", print_between, list_logs},
  {"thread_each", "pmem|0||", thread_each, list_entries},
  {"flushed_elsewhere", "pmem|0||", flushed_elsewhere, list_entries},
  {"time", "pmem|0|--ignore ^at|", plain, list_time},
  {"repair", "pmem|0||", repair, list_repair},
  {"repair_sectors", "pages|0||", repair_sectors, list_repair},
  {"undo", "pmem|0||", undo, list_undo},
  {"redo", "pmem|0||", redo, list_redo},
  {"generation", "pages|0||", generation, list_generation},
  {"ring", "pmem|0||", ring, list_ring},
  {"hash", "pmem|0||", hash, list_hash},
  {"child", "pmem|0||", child, list_entries},
  {"tree", "pmem|0||", tree, list_tree},
  {"grown", "pages|0||", grown, list_grown},
  {"written", "pages|0||", written, list_written},
  {"pipeline", "pmem|0||/ sort / tail -1", plain, list_entries},
  {"od", "pmem|0||; od -An -tu8 -N8 one", plain, list_entries},
  {"read_only", "pmem|0||", plain, list_read_only},
  {"private", "pmem|0||", plain, list_private},
  {"pread", "pmem|0||", plain, list_pread},
  {"copied", "pmem|0||", plain, list_copied},
  {"copied_file", "pmem|0||@cp one copy && ./correct copied_file good list copy two", plain,
   list_entries},
  {"add_and_remove", "pmem|0,4||", add_and_remove, list_any},
  {"with_dsync", "pages|0||", with_dsync, list_repair},
  {"with_flag", "pages|0||", with_flag, list_repair},
  {"with_sync", "pages|0||", with_sync, list_repair},
  {"with_syncfs", "pages|0||", with_syncfs, list_repair},
  {"other_descriptor", "pages|0||", other_descriptor, list_repair},
  {"marks", "pmem|0||", marks, list_marks},
  {"locked", "pmem|0||", locked, list_entries},
  {"past_cache", "pmem|0||", past_cache, list_entries},
  {"statistics", "pmem|0||", statistics, list_entries},
  {"counted_anew", "pmem|0||", counted_anew, list_marked},
  {"created", "pmem|0||", created, list_created},
  {"greeting", "pmem|0||", greeting, list_created},
  {"two_mappings", "pages|0||", two_mappings, list_of_page},
  {"read_into", "pages|0||", read_into, list_of_page},
  {"synced_elsewhere", "pages|0||", synced_elsewhere, list_of_page},
  {"two_files", "pages|0||", two_files, list_two_files},
  {"long_copies", "pmem|0||", long_copies, list_long_copies},
};

int main(int argc, char **argv) {
  const size_t all = sizeof ALL / sizeof *ALL;
  if (argc == 2) {
    for (size_t i = 0; i < all; i++) printf("%s|%s\n", ALL[i].name, ALL[i].about);
    return 0;
  }
  int is_list = !strcmp(argv[3], "list"), first = is_list ? 4 : 5;
  if (!is_list) total = atoi(argv[4]);
  for (int i = 0; i < 2 && first + i < argc; i++) {
    fd[i] = open(argv[first + i], O_RDWR);
    if (fd[i] < 0) return 8;
    file[i] = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
    if (file[i] == MAP_FAILED) return 7;
  }
  for (size_t i = 0; i < all; i++)
    if (!strcmp(ALL[i].name, argv[1])) {
      if (is_list) return ALL[i].list();
      for (uint64_t n = 0; n < total; n++) ALL[i].append(n);
      return 0;
    }
  return 6;
}
