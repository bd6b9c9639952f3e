#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 20)) return 2;
  char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  long *q = (long *)p;
  q[0] = 42; q[1] = q[0] + 1;
  _mm_clflush(p); _mm_sfence();
  memset(p + 4096, 0x5a, 5000);
  memcpy(p + 16384, p + 4096, 3000);
  strcpy(p + 30000, "hello world");
  __sync_fetch_and_add(&q[5], 7);
  __sync_bool_compare_and_swap(&q[5], 7, 9);
  __sync_bool_compare_and_swap(&q[5], 7, 10);
  _mm_stream_si64((long long *)&q[8], 99); _mm_mfence();
  printf("%ld %ld %s\n", q[1], q[5], p + 30000);
  fflush(stdout);
  write(1, p + 30000, 5); write(1, "\n", 1);
  msync(p, 4096, MS_SYNC);
  munmap(p, 1 << 20);
  return 3;
}
