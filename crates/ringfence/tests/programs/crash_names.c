// Stores to a mapped file whose name may change: names HOW FILE OTHER, and names list FILE.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile uint64_t *map(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 65536)) exit(8);
  void *at = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) exit(7);
  return at;
}

static void fill(const char *path) {
  volatile uint64_t *at = map(path);
  at[0] = 1;
  _mm_clflushopt((void *)at);
  _mm_sfence();
  printf("filled\n");
}

static int is(char **argv, const char *how) { return !strcmp(argv[1], how); }

int main(int argc, char **argv) {
  const char *file = argv[2], *other = argv[3];
  if (is(argv, "list")) {
    int fd = open(file, O_RDONLY);
    uint64_t value = 0;
    if (fd >= 0 && read(fd, &value, sizeof value) < 0) return 6;
    printf("%lu\n", (unsigned long)value);
    return 0;
  }
  int failed = 0;
  if (is(argv, "put")) fill(other), failed = rename(other, file);
  if (is(argv, "put_at")) fill(other), failed = renameat2(AT_FDCWD, other, AT_FDCWD, file, 0);
  if (is(argv, "link")) fill(other), failed = link(other, file);
  if (is(argv, "rename")) fill(file), failed = rename(file, other);
  if (is(argv, "remove")) fill(file), failed = unlink(file);
  if (is(argv, "remove_at")) {
    char *slash = strrchr(file, '/');
    fill(file);
    if (slash) *slash = 0;
    int folder = open(slash ? file : ".", O_RDONLY | O_DIRECTORY);
    failed = unlinkat(folder, slash ? slash + 1 : file, 0);
  }
  if (is(argv, "by_shell")) {
    char command[1000];
    fill(other);
    snprintf(command, sizeof command, "mv -f %s %s", other, file);
    failed = system(command);
  }
  // Files of other names, and one that is not there.
  if (is(argv, "others")) {
    char made[1000];
    snprintf(made, sizeof made, "%s.made", other);
    unlink(made);
    close(open(made, O_RDWR | O_CREAT, 0600));
    failed = rename(made, other) || unlink(other);
    unlink("not there");
    fill(file);
  }
  return failed ? 5 : 0;
}
