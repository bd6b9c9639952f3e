// The C library's own loops, over the file and over other memory, often enough that jumps replace what they are made of.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int by_int(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 20)) return 2;
  char *q = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < 200; i++) memset(q, i, 4096 + (i & 63));
  static char z[5000]; // not of the stack: how far it is from the file decides which way the library copies
  for (int i = 0; i < 200; i++) memset(z, i, 4096 + (i & 63));
  for (int i = 0; i < 1000; i++) memcpy(q + 8192, z, i);
  for (int i = 0; i < 1000; i++) memmove(q + 8193, q + 8192, i);
  for (int i = 0; i < 200; i++) { strcpy(q + 20000, "hello"); strcat(q + 20000, " world"); strncpy(z, q + 20000, 20); }
  for (int i = 0; i < 200; i++) sprintf(q + 21000 + 8 * i, "%07d", i * 12345);
  int *n = (int *)(q + 65536);
  for (int i = 0; i < 1000; i++) n[i] = i * 7919 % 1009;
  qsort(n, 1000, sizeof(int), by_int);
  memcpy(q + 100000, q, 30000); memmove(q + 100100, q + 100000, 30000); memmove(q + 99000, q + 100000, 30000);
  double *d = (double *)(q + 200000);
  for (int i = 0; i < 500; i++) d[i] = i / 3.0; for (int i = 1; i < 500; i++) d[i] += d[i - 1];
  printf("%s %d %d %f %zu\n", z, n[0], n[999], d[499], strlen(q + 21000));
  return 0;
}
