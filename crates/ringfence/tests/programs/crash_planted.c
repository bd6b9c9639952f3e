// More stores with a planted bug, and each without it: NAME good|bad append COUNT FILE [FILE], and
// NAME good|bad list FILE [FILE]. 'names' prints all of them, with their medium.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 65536
static int bad, fd[2];
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
static int list_entries(void) {
  uint64_t n = *count();
  printf("%lu entries\n", (unsigned long)n);
  for (uint64_t i = 0; i < n; i++)
    if (entry(i)[0] != 1000 + i) return wrong("entry", i, entry(i)[0]);
  return 0;
}

// The header that makes a record valid is durable before the record's content.
static void header_first(uint64_t n) {
  volatile uint64_t *header = word(0, 4096 + 128 * n), *content = header + 8;
  if (bad) set(header, 1);
  set(content, 1000 + n);
  if (!bad) set(header, 1);
  done(n);
}
static int list_header_first(void) {
  uint64_t n = 0;
  for (; *word(0, 4096 + 128 * n); n++) {
    uint64_t value = *word(0, 4096 + 128 * n + 64);
    if (value != 1000 + n) return wrong("content", n, value);
  }
  printf("%lu records\n", (unsigned long)n);
  return 0;
}

// Two words in two lines that have to agree are overwritten in place; the twin logs them first.
static void in_place(uint64_t n) {
  volatile uint64_t *pair = word(0, 4096 + 56), *log = word(0, 8192), *logged = word(0, 8256);
  if (!bad) {
    set(log, 1000 + n);
    set(logged, 1);
  }
  pair[0] = 1000 + n;
  pair[1] = 1000 + n;
  flush(pair);
  persist(pair + 1);
  if (!bad) set(logged, 0);
  done(n);
}
static int list_in_place(void) {
  volatile uint64_t *pair = word(0, 4096 + 56);
  if (*word(0, 8256)) pair[0] = pair[1] = *word(0, 8192);
  if (pair[0] != pair[1]) return wrong("pair", pair[0], pair[1]);
  printf("value %lu\n", (unsigned long)pair[0]);
  return 0;
}

// Flushed before it is stored, not after.
static void flush_first(uint64_t n) {
  if (bad) flush(entry(n));
  entry(n)[0] = 1000 + n;
  if (!bad) flush(entry(n));
  fence();
  set(count(), n + 1);
  done(n);
}

// The fence comes before the flush that it should wait for.
static void fence_first(uint64_t n) {
  entry(n)[0] = 1000 + n;
  if (bad) fence();
  flush(entry(n));
  if (!bad) fence();
  set(count(), n + 1);
  done(n);
}

// Moves 10 from one account to another, with an undo log. The sum has to stay 0.
static volatile uint64_t *account(int number) { return word(0, 4096 + 64 * number); }
static void move(int log_is_durable, int data_is_durable) {
  volatile uint64_t *log = word(0, 8192);
  log[1] = account(0)[0];
  log[2] = account(1)[0];
  log[0] = 1;
  if (log_is_durable) persist(log);
  account(0)[0] -= 10;
  account(1)[0] += 10;
  if (data_is_durable) {
    flush(account(0));
    persist(account(1));
  }
  set(log, 0);
  flush(account(0));
  persist(account(1));
}
static int list_accounts(void) {
  volatile uint64_t *log = word(0, 8192);
  if (log[0]) {
    account(0)[0] = log[1];
    account(1)[0] = log[2];
  }
  uint64_t sum = account(0)[0] + account(1)[0];
  if (sum) return wrong("sum", 0, sum);
  printf("moved %lu\n", (unsigned long)account(1)[0]);
  return 0;
}

// The undo log is not durable before the data changes.
static void undo_late(uint64_t n) {
  move(!bad, 1);
  done(n);
}

// The undo log is dropped before the data is durable.
static void undo_dropped(uint64_t n) {
  move(1, !bad);
  done(n);
}

// The length is durable before the payload, of which only the first line is flushed.
static void long_payload(uint64_t n) {
  volatile uint64_t *payload = word(0, 4096 + 256 * n);
  for (int i = 0; i < 24; i++) payload[i] = 1000 + n;
  for (int i = 0; i < (bad ? 8 : 24); i += 8) flush(payload + i);
  fence();
  set(count(), n + 1);
  done(n);
}
static int list_long_payload(void) {
  for (uint64_t i = 0; i < *count(); i++)
    for (int j = 0; j < 24; j++) {
      uint64_t value = word(0, 4096 + 256 * i)[j];
      if (value != 1000 + i) return wrong("payload", i, value);
    }
  printf("%lu payloads\n", (unsigned long)*count());
  return 0;
}

// The switch to the other buffer is durable before what that holds.
static void switch_early(uint64_t n) {
  uint64_t other = 1 - *count();
  volatile uint64_t *buffer = word(0, 4096 + 4096 * other);
  buffer[0] = n + 1;
  buffer[8] = n + 1;
  if (!bad) { flush(buffer); persist(buffer + 8); }
  set(count(), other);
  if (bad) { flush(buffer); persist(buffer + 8); }
  done(n);
}
static int list_switch_early(void) {
  volatile uint64_t *buffer = word(0, 4096 + 4096 * *count());
  if (buffer[0] != buffer[8]) return wrong("buffer", buffer[0], buffer[8]);
  printf("version %lu\n", (unsigned long)buffer[0]);
  return 0;
}

// A list: its head at 0, and nodes of their value, the offset of the next, and a mark.
static int list_nodes(void) {
  for (uint64_t at = *count(); at; at = word(0, at)[1]) {
    if (!word(0, at)[2]) return wrong("node", at, word(0, at)[0]);
    printf("node %lu\n", (unsigned long)word(0, at)[0]);
  }
  return 0;
}

// A node is linked before it is durable.
static void link_early(uint64_t n) {
  uint64_t at = 4096 + 64 * n;
  volatile uint64_t *node = word(0, at);
  node[0] = 1000 + n;
  node[1] = *count();
  node[2] = 1;
  if (!bad) persist(node);
  set(count(), at);
  if (bad) persist(node);
  done(n);
}

// A node that is still linked is marked as free.
static void free_early(uint64_t n) {
  int was = bad;
  bad = 0;
  link_early(n);
  bad = was;
  volatile uint64_t *node = word(0, 4096 + 64 * n);
  if (bad) set(node + 2, 0);
  set(count(), node[1]);
  if (!bad) set(node + 2, 0);
  printf("removed %lu\n", (unsigned long)n);
}

// Past the caches, with a flush, but without a fence before the mark.
static void copy_past_cache(uint64_t n) {
  __m128i *at = (__m128i *)entry(n);
  for (int i = 0; i < 4; i++) _mm_stream_si128(at + i, _mm_set1_epi64x(1000 + n));
  _mm_clwb(at);
  if (!bad) fence();
  set(count(), n + 1);
  done(n);
}

// A slot that is valid gets another key and value, one line each.
static void slot_reuse(uint64_t n) {
  volatile uint64_t *valid = word(0, 4096), *key = word(0, 4160), *value = word(0, 4224);
  if (!bad) set(valid, 0);
  key[0] = n;
  value[0] = 1000 + n;
  flush(key);
  persist(value);
  set(valid, 1);
  done(n);
}
static int list_slot_reuse(void) {
  uint64_t key = *word(0, 4160), value = *word(0, 4224);
  if (!*word(0, 4096)) { printf("no key\n"); return 0; }
  if (value != 1000 + key) return wrong("value of", key, value);
  printf("key %lu\n", (unsigned long)key);
  return 0;
}

// Printed by a thread before it is durable; the main thread has printed a line before.
static void *appends_early(void *number) {
  uint64_t n = (uint64_t)number;
  set(entry(n), 1000 + n);
  *count() = n + 1;
  if (bad) done(n);
  persist(count());
  if (!bad) done(n);
  return 0;
}
static void early_in_thread(uint64_t n) {
  pthread_t thread;
  if (n == 0) printf("ready\n");
  pthread_create(&thread, 0, appends_early, (void *)n);
  pthread_join(thread, 0);
}

// The same of a child; its parent has printed a line before.
static void early_in_child(uint64_t n) {
  if (n == 0) printf("ready\n");
  fflush(stdout);
  pid_t child = fork();
  if (!child) { appends_early((void *)n); fflush(stdout); _exit(0); }
  waitpid(child, 0, 0);
}

// The same by three threads, one after the other, of which the first makes no mistake.
static void *appends_early_later(void *number) {
  int was = bad;
  bad = bad && number;
  appends_early(number);
  bad = was;
  return 0;
}
static void early_in_threads(uint64_t n) {
  pthread_t thread;
  pthread_create(&thread, 0, appends_early_later, (void *)n);
  pthread_join(thread, 0);
}

// A list that ends at 8, of which a link can be 0: recovery begins anew, and has no end.
static void endless(uint64_t n) {
  uint64_t at = 4096 + 64 * n;
  word(0, at)[0] = n ? *count() : 8;
  if (!bad) persist(word(0, at));
  set(count(), at);
  if (bad) persist(word(0, at));
  done(n);
}
static int list_endless(void) {
  int nodes = 0;
  for (uint64_t at = *count(); at && at != 8; nodes++) {
    at = *word(0, at);
    if (!at) at = *count();
  }
  printf("%d nodes\n", nodes);
  return 0;
}

// A size that recovery divides by may be lost.
static void divided(uint64_t n) {
  entry(n)[0] = 10 * (n + 1);
  if (!bad) persist(entry(n));
  set(count(), n + 1);
  done(n);
}
static int list_divided(void) {
  for (uint64_t i = 0; i < *count(); i++) printf("%d each\n", 1000 / (int)*entry(i));
  return 0;
}

// header_first, where recovery works on a copy of the file.
static void header_first_copied(uint64_t n) { header_first(n); }

// MS_ASYNC waits for nothing.
static void async(uint64_t n) {
  *word(0, 8192 + 8 * n) = 1000 + n;
  msync(file[0] + 8192, 4096, bad ? MS_ASYNC : MS_SYNC);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}
static int list_of_page(void) {
  for (uint64_t i = 0; i < *count(); i++) {
    uint64_t value = *word(0, 8192 + 8 * i);
    if (value != 1000 + i) return wrong("entry", i, value);
  }
  printf("%lu entries\n", (unsigned long)*count());
  return 0;
}

// sync_file_range starts to write, but the device may still lose it.
static void range_only(uint64_t n) {
  *word(0, 8192 + 8 * n) = 1000 + n;
  if (bad) sync_file_range(fd[0], 8192, 4096, 7);
  else fdatasync(fd[0]);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}

// Only the first page of a value that spans two is synced.
static void first_page(uint64_t n) {
  volatile uint64_t *value = word(0, 4096 + 8192 * n) + 510;
  for (int i = 0; i < 4; i++) value[i] = 1000 + n;
  sync_at(0, 4096 + 8192 * n, bad ? 4096 : 8192);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}
static int list_first_page(void) {
  for (uint64_t i = 0; i < *count(); i++)
    for (int j = 0; j < 4; j++) {
      uint64_t value = (word(0, 4096 + 8192 * i) + 510)[j];
      if (value != 1000 + i) return wrong("value", i, value);
    }
  printf("%lu values\n", (unsigned long)*count());
  return 0;
}

// A record in two sectors, without a checksum: its mark may be written back without the rest.
static uint64_t checksum(volatile uint64_t *record) {
  uint64_t sum = 77;
  for (int i = 1; i < 16; i++) sum = sum * 31 + record[i];
  return bad ? 1 : sum;
}
static void torn_record(uint64_t n) {
  volatile uint64_t *record = word(0, 4096 + 1024 * n + 448);
  for (int i = 1; i < 16; i++) record[i] = 1000 + n;
  record[0] = checksum(record);
  sync_at(0, 4096, 8192);
  done(n);
}
static int list_torn_record(void) {
  uint64_t n = 0;
  for (; n < 8; n++) {
    volatile uint64_t *record = word(0, 4096 + 1024 * n + 448);
    if (record[0] != checksum(record)) break;
    for (int i = 1; i < 16; i++) if (record[i] != 1000 + n) return wrong("record", n, record[i]);
  }
  printf("%lu records\n", (unsigned long)n);
  return 0;
}

// The count and the entry are in one page, and one sync is no order between its sectors.
static void one_sync(uint64_t n) {
  *word(0, 1024 + 512 * n) = 1000 + n;
  if (!bad) sync_at(0, 0, 4096);
  *count() = n + 1;
  sync_at(0, 0, 4096);
  done(n);
}
static int list_one_sync(void) {
  for (uint64_t i = 0; i < *count(); i++) {
    uint64_t value = *word(0, 1024 + 512 * i);
    if (value != 1000 + i) return wrong("entry", i, value);
  }
  printf("%lu entries\n", (unsigned long)*count());
  return 0;
}

// A log in the second file is emptied before what it says is durable in the first.
static void emptied_early(uint64_t n) {
  *word(1, 8) = n + 1;
  *word(1, 0) = 1;
  sync_at(1, 0, 4096);
  done(n);
  *word(0, 4096) = *word(0, 8192) = n + 1;
  if (!bad) sync_at(0, 0, SIZE);
  *word(1, 0) = 0;
  sync_at(1, 0, 4096);
  sync_at(0, 0, SIZE);
}
static int list_emptied_early(void) {
  uint64_t log = *word(1, 0) ? *word(1, 8) : *word(0, 4096);
  if (!*word(1, 0) && log != *word(0, 8192)) return wrong("value", log, *word(0, 8192));
  printf("value %lu\n", (unsigned long)log);
  return 0;
}

// Data in one file, the count in the other, and fsync of the wrong one.
static void wrong_file(uint64_t n) {
  uint64_t value = 1000 + n;
  pwrite(fd[1], &value, 8, 8 * n);
  fsync(fd[bad ? 0 : 1]);
  *count() = n + 1;
  fsync(fd[0]);
  done(n);
}
static int list_wrong_file(void) {
  for (uint64_t i = 0; i < *count(); i++)
    if (*word(1, 8 * i) != 1000 + i) return wrong("entry", i, *word(1, 8 * i));
  printf("%lu entries\n", (unsigned long)*count());
  return 0;
}

// The second of two syncs is left out after the count: what was printed can be lost.
static void unsynced_count(uint64_t n) {
  *word(0, 8192 + 8 * n) = 1000 + n;
  sync_at(0, 8192, 4096);
  *count() = n + 1;
  if (!bad) sync_at(0, 0, 4096);
  done(n);
}

static const struct {
  const char *name, *medium;
  void (*append)(uint64_t);
  int (*list)(void);
  const char *recover;
} ALL[] = {
  {"header_first", "pmem", header_first, list_header_first},
  {"in_place", "pmem", in_place, list_in_place},
  {"flush_first", "pmem", flush_first, list_entries},
  {"fence_first", "pmem", fence_first, list_entries},
  {"undo_late", "pmem", undo_late, list_accounts},
  {"undo_dropped", "pmem", undo_dropped, list_accounts},
  {"long_payload", "pmem", long_payload, list_long_payload},
  {"switch_early", "pmem", switch_early, list_switch_early},
  {"link_early", "pmem", link_early, list_nodes},
  {"free_early", "pmem", free_early, list_nodes},
  {"copy_past_cache", "pmem", copy_past_cache, list_entries},
  {"slot_reuse", "pmem", slot_reuse, list_slot_reuse},
  {"early_in_thread", "pmem", early_in_thread, list_entries},
  {"early_in_child", "pmem", early_in_child, list_entries},
  {"early_in_threads", "pmem", early_in_threads, list_entries},
  {"header_first_copied", "pmem", header_first_copied, list_header_first,
   "@cp one copy && ./planted header_first_copied TWIN list copy two"},
  {"endless", "pmem", endless, list_endless},
  {"divided", "pmem", divided, list_divided},
  {"async", "pages", async, list_of_page},
  {"range_only", "pages", range_only, list_of_page},
  {"first_page", "pages", first_page, list_first_page},
  {"torn_record", "pages", torn_record, list_torn_record},
  {"one_sync", "pages", one_sync, list_one_sync},
  {"emptied_early", "pages", emptied_early, list_emptied_early},
  {"wrong_file", "pages", wrong_file, list_wrong_file},
  {"unsynced_count", "pages", unsynced_count, list_of_page},
};

int main(int argc, char **argv) {
  const size_t all = sizeof ALL / sizeof *ALL;
  if (argc == 2) {
    for (size_t i = 0; i < all; i++)
      printf("%s|%s|0||%s\n", ALL[i].name, ALL[i].medium, ALL[i].recover ? ALL[i].recover : "");
    return 0;
  }
  int is_list = !strcmp(argv[3], "list"), first = is_list ? 4 : 5;
  bad = !strcmp(argv[2], "bad");
  for (int i = 0; i < 2 && first + i < argc; i++) {
    fd[i] = open(argv[first + i], O_RDWR);
    if (fd[i] < 0) return 8;
    file[i] = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
    if (file[i] == MAP_FAILED) return 7;
  }
  for (size_t i = 0; i < all; i++)
    if (!strcmp(ALL[i].name, argv[1])) {
      if (is_list) return ALL[i].list();
      for (int n = 0; n < atoi(argv[4]); n++) ALL[i].append(n);
      return 0;
    }
  return 6;
}
