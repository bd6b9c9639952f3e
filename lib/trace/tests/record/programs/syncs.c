// A store to a mapped file, and the call that the second argument names.
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644), reads = open(argv[1], O_RDONLY), other = memfd_create("other", 0);
  const char *call = argv[2];
  if (ftruncate(fd, 8192)) return 2;
  char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  memset(p + 5000, 7, 100);
  if (!strcmp(call, "msync")) return msync(p, 8192, MS_SYNC);
  if (!strcmp(call, "invalidate")) return msync(p, 8192, MS_SYNC | MS_INVALIDATE);
  if (!strcmp(call, "asynchronous")) return msync(p, 8192, MS_ASYNC);
  if (!strcmp(call, "no flag")) return msync(p, 8192, 0);
  if (!strcmp(call, "fsync")) return fsync(fd);
  if (!strcmp(call, "fdatasync")) return fdatasync(reads);
  if (!strcmp(call, "syncfs")) return syncfs(fd);
  if (!strcmp(call, "sync")) return sync(), 0;
  if (!strcmp(call, "another file")) return fsync(other);
  if (!strcmp(call, "no file")) return fsync(-1) != -1;
  if (!strcmp(call, "range")) return sync_file_range(fd, 0, 8192, 7);
  return 3;
}
