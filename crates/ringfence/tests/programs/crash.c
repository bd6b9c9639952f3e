// Stores with a planted bug, and each without it: crash NAME good|bad append COUNT FILE [FILE], and
// crash NAME good|bad list FILE [FILE].
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 65536
static int bad;
static char *file[2];

static void flush(void *at) { _mm_clflushopt(at); }
static void fence(void) { _mm_sfence(); }
static void persist(void *at) { flush(at); fence(); }
static volatile uint64_t *word(int number, uint64_t offset) {
  return (volatile uint64_t *)(file[number] + offset);
}
static volatile uint64_t *entry(uint64_t number) { return word(0, 64 + 64 * number); }
static volatile uint64_t *count(void) { return word(0, 0); }
static void done(uint64_t number) { printf("appended %lu\n", (unsigned long)number); }

// The entry is never flushed.
static void missing_flush(uint64_t n) {
  entry(n)[0] = 1000 + n;
  if (!bad) persist((void *)entry(n));
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// Both flushes may complete in any order.
static void missing_fence(uint64_t n) {
  entry(n)[0] = 1000 + n;
  flush((void *)entry(n));
  if (!bad) fence();
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// Its neighbour's line is flushed.
static void wrong_line(uint64_t n) {
  entry(n)[0] = 1000 + n;
  persist((void *)(entry(n) + (bad ? 8 : 0)));
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// Printed before it is durable.
static void early(uint64_t n) {
  entry(n)[0] = 1000 + n;
  persist((void *)entry(n));
  *count() = n + 1;
  if (bad) done(n);
  persist((void *)count());
  if (!bad) done(n);
}

// Two halves that have to agree, in two lines; the twin marks them valid afterwards.
static void two_lines(uint64_t n) {
  volatile uint64_t *at = word(0, 4096 + 128 * n);
  at[7] = 1000 + n;
  at[8] = 1000 + n;
  if (bad) {
    at[0] = 1;
    flush((void *)at);
    persist((void *)(at + 8));
  } else {
    flush((void *)at);
    persist((void *)(at + 8));
    at[0] = 1;
    persist((void *)at);
  }
  done(n);
}

// Data in one file, the index in another.
static void two_files(uint64_t n) {
  *word(1, 8 * n) = 1000 + n;
  if (!bad) msync(file[1], SIZE, MS_SYNC);
  *count() = n + 1;
  msync(file[0], SIZE, MS_SYNC);
  if (bad) msync(file[1], SIZE, MS_SYNC);
  done(n);
}

// The page of the count is synced, and that of the entry is not.
static void wrong_range(uint64_t n) {
  *word(0, 8192 + 8 * n) = 1000 + n;
  msync(file[0] + (bad ? 4096 : 8192), 4096, MS_SYNC);
  *count() = n + 1;
  msync(file[0], 4096, MS_SYNC);
  done(n);
}

// A mark says that the store was created, before that is durable.
static void creation(uint64_t n) {
  if (n == 0) {
    *word(0, 32768) = 123;
    if (!bad) persist((void *)word(0, 32768));
    *word(0, 8) = 77;
    persist((void *)word(0, 8));
    if (bad) persist((void *)word(0, 32768));
  }
  done(n);
}

// clflush is ordered with stores on Intel's processors, and not on AMD's.
static void clflush_alone(uint64_t n) {
  entry(n)[0] = 1000 + n;
  _mm_clflush((void *)entry(n));
  if (!bad) _mm_mfence();
  *count() = n + 1;
  _mm_clflush((void *)count());
  _mm_mfence();
  done(n);
}

// Past the caches, without a fence.
static void non_temporal(uint64_t n) {
  _mm_stream_si64((long long *)entry(n), 1000 + n);
  if (!bad) fence();
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// Another thread's fence waits for nothing of this one. usleep would: it takes a lock.
static volatile int wanted, served;
static void *only_fence(void *unused) {
  for (;;) {
    while (wanted == served) sched_yield();
    fence();
    served = wanted;
  }
  return unused;
}
static void other_thread(uint64_t n) {
  pthread_t thread;
  if (n == 0) pthread_create(&thread, 0, only_fence, 0);
  entry(n)[0] = 1000 + n;
  flush((void *)entry(n));
  if (bad) {
    wanted++;
    while (wanted != served) sched_yield();
  } else {
    fence();
  }
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// Right by itself. After a kill, its recovery prints a count that may not be durable.
static void unflushed_recovery(uint64_t n) {
  entry(n)[0] = 1000 + n;
  persist((void *)entry(n));
  *count() = n + 1;
  persist((void *)count());
  done(n);
}

// The newest number goes first, in one of two places; in between, it is in neither or in both. All
// is in one line, so that only a kill between two stores can show it.
static void moved(uint64_t n) {
  if (bad) { entry(0)[n % 2] = 0; entry(0)[1 - n % 2] = 1; }
  else { entry(0)[1 - n % 2] = 1; entry(0)[n % 2] = 0; }
  entry(0)[2] = n + 1;
  persist((void *)entry(0));
  done(n);
}

static int list(const char *name) {
  if (!strcmp(name, "hangs")) for (;;) pause();
  if (!strcmp(name, "forks")) for (;;) if (fork() < 0) usleep(1000);
  if (!strcmp(name, "fills")) for (;;) {
    char block[65536] = {1};
    if (write(open("filled", O_CREAT | O_WRONLY | O_APPEND, 0600), block, sizeof block) < 0) return 9;
  }
  if (!strcmp(name, "timestamp")) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("at %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
  }
  if (!strcmp(name, "two_lines")) {
    int n = 0;
    for (; n < 100 && word(0, 4096 + 128 * n)[0]; n++) {
      volatile uint64_t *at = word(0, 4096 + 128 * n);
      if (at[7] != at[8]) { printf("halves of %d differ\n", n); return 3; }
    }
    printf("%d entries\n", n);
    return 0;
  }
  if (!strcmp(name, "creation")) {
    if (*word(0, 8) == 77 && *word(0, 32768) != 123) { printf("nothing there\n"); return 3; }
    printf("%s\n", *word(0, 8) == 77 ? "created" : "empty");
    return 0;
  }
  if (!strcmp(name, "moved")) {
    if (entry(0)[0] || entry(0)[1] || !entry(0)[2]) printf("it is there\n");
    printf("moved %lu times\n", (unsigned long)entry(0)[2]);
    return 0;
  }
  uint64_t n = *count();
  // The first entry was lost.
  if (!strcmp(name, "chance") && n && !entry(0)[0]) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("chance %ld\n", now.tv_nsec);
    return 0;
  }
  if (!strcmp(name, "allocates") && n && !entry(0)[0]) for (;;) memset(malloc(1 << 20), 1, 1 << 20);
  if (!strcmp(name, "unflushed_recovery") && !bad) persist((void *)count());
  printf("%lu entries\n", (unsigned long)n);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t value = !strcmp(name, "two_files") ? *word(1, 8 * i)
        : !strcmp(name, "wrong_range") ? *word(0, 8192 + 8 * i) : entry(i)[0];
    if (value != 1000 + i) { printf("entry %lu is %lu\n", (unsigned long)i, (unsigned long)value); return 3; }
  }
  return 0;
}

static const struct { const char *name; void (*append)(uint64_t); } ALL[] = {
  {"missing_flush", missing_flush}, {"missing_fence", missing_fence}, {"wrong_line", wrong_line},
  {"early", early}, {"two_lines", two_lines}, {"two_files", two_files},
  {"wrong_range", wrong_range}, {"creation", creation}, {"clflush_alone", clflush_alone},
  {"non_temporal", non_temporal}, {"other_thread", other_thread},
  {"unflushed_recovery", unflushed_recovery}, {"moved", moved},
  {"hangs", missing_flush}, {"forks", missing_flush}, {"fills", missing_flush},
  {"timestamp", missing_flush}, {"chance", missing_flush}, {"allocates", missing_flush},
};

int main(int argc, char **argv) {
  int is_list = !strcmp(argv[3], "list"), first = is_list ? 4 : 5;
  bad = !strcmp(argv[2], "bad");
  for (int i = 0; i < 2 && first + i < argc; i++) {
    int fd = open(argv[first + i], is_list ? O_RDWR : O_RDWR | O_CREAT, 0600);
    if (fd < 0 || (!is_list && ftruncate(fd, SIZE))) return 8;
    file[i] = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file[i] == MAP_FAILED) return 7;
  }
  if (is_list) return list(argv[1]);
  for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
    if (!strcmp(ALL[i].name, argv[1]))
      for (int n = 0; n < atoi(argv[4]); n++) ALL[i].append(n);
  return 0;
}
