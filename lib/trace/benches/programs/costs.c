// What is done to the file, and what has nothing to do with it: each line is a name and nanoseconds for one turn.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <immintrin.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
#define TIME(name, n, what) { double a = now(); for (long i = 0; i < (n); i++) { what; } printf("%s %.2f\n", name, (now() - a) / (n)); }
static int by_int(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 20)) return 2;
  volatile long *q = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < 1 << 17; i += 512) q[i] = 1;
  // First what is not recorded: the recorder writes down what is for a while after it has happened.
  long sum = 0;
  TIME("arithmetic", 50000000, { sum = sum * 6364136223846793005 + i; __asm__ volatile("" : "+r"(sum)); })
  static int n[20000];
  TIME("sort", 60, { for (int k = 0; k < 20000; k++) n[k] = (k * 7919L + i) % 20011; qsort(n, 20000, sizeof(int), by_int); })
  static char from[1 << 16], to[1 << 16];
  TIME("copy_64K", 40000, { memcpy(to, from, sizeof to); __asm__ volatile("" ::"r"(to) : "memory"); })
  TIME("copy_64", 50000000, { memcpy(to, from + (i & 63), 64); __asm__ volatile("" ::"r"(to) : "memory"); })
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  TIME("mutex", 8000000, { pthread_mutex_lock(&m); sum++; pthread_mutex_unlock(&m); })
  TIME("allocate", 5000000, { void *p = malloc(100 + (i & 255)); __asm__ volatile("" ::"r"(p) : "memory"); free(p); })
  TIME("getppid", 200000, getppid())
  // Instructions with room for a jump, and one without: the target of a jump is right behind it.
  TIME("store", 100000, __asm__ volatile("movq %0, 64(%1)\n\tnop\n\tnop" ::"r"(i), "r"(q) : "memory"))
  TIME("trapping_store", 100000, __asm__ volatile("mov %0, (%1)\n1: test %0, %0\n\tjs 1b" ::"r"(i), "r"(q) : "memory", "cc"))
  TIME("flush", 100000, _mm_clflush((void *)&q[(i & 255) * 8]))
  TIME("fence", 100000, _mm_sfence())
  TIME("locked", 100000, __sync_fetch_and_add(&q[9], 1))
  return sum == 42;
}
