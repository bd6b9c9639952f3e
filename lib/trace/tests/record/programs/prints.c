// Stores to a mapped file, each followed by what is printed about it, in the way that the second
// argument names.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *p;
static int to = 1;
static void by_puts(const char *line) { puts(line); }
static void by_write(const char *line) {
  dprintf(to, "%s\n", line);
}
static void by_list(const char *line) {
  struct iovec v[4] = {{(char *)line, 2}, {"", 0}, {(char *)line + 2, strlen(line) - 2}, {"\n", 1}};
  if (pwritev2(to, v, 2, -1, 0) != 2 || writev(to, v + 2, 2) != strlen(line) - 1) exit(3);
}
static void lines(void (*say)(const char *), int first) {
  for (int i = first; i < first + 5; i++) {
    char line[20];
    sprintf(line, "line %d", i);
    *(volatile char *)(p + i * 64) = i;
    say(line);
  }
}
static void *thread(void *first) {
  for (int i = 0; i < 20; i++) lines(by_write, (long)first + 5 * i);
  return 0;
}
static void wait_for(pid_t pid) {
  int status;
  if (waitpid(pid, &status, 0) != pid || status) exit(4);
}
static int other_ways(const char *way, char **argv) {
  static char big[4 << 20];
  for (int i = 0; i < sizeof big; i++) big[i] = i * 7;
  if (!strcmp(way, "large")) {
    memcpy(p, big, 4096);
    return write(1, big, 65536) != 65536 || write(1, p + 10, 100) != 100;
  }
  if (!strcmp(way, "large list")) {
    struct iovec v[3] = {{big, 30000}, {p, 64}, {big, 40000}};
    return writev(1, v, 3) != 70064;
  }
  if (!strcmp(way, "part")) {
    fcntl(1, F_SETFL, O_NONBLOCK);
    *(volatile long *)p = write(1, big, sizeof big);
    return 0;
  }
  if (!strcmp(way, "errors")) {
    if (write(1, (void *)8, 5) != -1 || write(1, "", 0) || pwrite(1, "it", 2, 0) != -1) return 5;
    int fd = open("/proc/self/exe", O_RDONLY), pipes[2];
    off_t from = 0;
    // What the kernel would copy is for the program to write.
    if (sendfile(1, fd, &from, 100) != -1 || errno != EINVAL || pipe(pipes)) return 6;
    if (write(pipes[1], "it", 2) != 2 || splice(pipes[0], 0, 1, 0, 2, 0) != -1) return 7;
    return errno != EINVAL;
  }
  if (!strcmp(way, "redirected")) {
    lines(by_puts, 0);
    int fd = open("/dev/null", O_WRONLY), kept = dup(1);
    dup2(fd, 1);
    lines(by_puts, 5);
    fflush(stdout);
    to = 1;
    lines(by_write, 10);
    dup2(kept, 1);
    lines(by_puts, 15);
    return 0;
  }
  if (!strcmp(way, "spawned")) {
    // A child with the parent's memory, whose other descriptor is not the parent's.
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, 30);
    pid_t pid;
    if (posix_spawn(&pid, "/bin/echo", &actions, 0, (char *[]){"echo", "spawned", 0}, environ)) return 8;
    wait_for(pid);
    to = dup2(1, 30);
    lines(by_write, 0);
    return 0;
  }
  return 2;
}
int main(int argc, char **argv) {
  const char *way = argv[2];
  if (!strcmp(way, "terminals")) return isatty(0) | isatty(1) << 1 | isatty(2) << 2;
  // Before any file is mapped.
  puts("start");
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 65536)) return 1;
  p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!strcmp(way, "puts")) return lines(by_puts, 0), 0;
  if (!strcmp(way, "write")) return lines(by_write, 0), 0;
  if (!strcmp(way, "list")) return lines(by_list, 0), 0;
  if (!strcmp(way, "dup2")) return to = dup2(1, 77), lines(by_write, 0), 0;
  if (!strcmp(way, "dup3")) return to = dup3(1, 78, O_CLOEXEC), lines(by_list, 0), 0;
  if (!strcmp(way, "dup")) return to = dup(1), close(1), lines(by_write, 0), 0;
  if (!strcmp(way, "fcntl")) return to = fcntl(1, F_DUPFD, 50), lines(by_write, 0), 0;
  if (!strcmp(way, "open")) return to = open("/proc/self/fd/1", O_WRONLY), lines(by_write, 0), 0;
  if (!strcmp(way, "execve")) return lines(by_puts, 5), execl(argv[0], argv[0], argv[1], "puts", (char *)0);
  if (!strcmp(way, "fork")) {
    lines(by_puts, 0);
    pid_t pid = fork();
    if (!pid) return lines(by_puts, 5), 0;
    wait_for(pid);
    return lines(by_puts, 10), 0;
  }
  if (!strcmp(way, "threads")) {
    pthread_t one, other;
    pthread_create(&one, 0, thread, (void *)0);
    pthread_create(&other, 0, thread, (void *)500);
    return pthread_join(one, 0) || pthread_join(other, 0);
  }
  return other_ways(way, argv);
}
