// The file, mapped, and written by way of every descriptor and call that there is.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static int child(void (*what)(const char *), const char *path) {
  pid_t pid = fork();
  if (!pid) { what(path); _exit(0); }
  int status; waitpid(pid, &status, 0);
  return status;
}
static void echo(const char *path) {
  int fd = open(path, O_WRONLY | O_APPEND);
  dup2(fd, 1); close(fd);
  execl("/bin/echo", "echo", "from another program", (char *)0);
  _exit(9);
}
static void by_name(const char *path) { if (truncate(path, 90000)) _exit(8); }
int main(int argc, char **argv) {
  const char *path = argv[1];
  int early = open(path, O_RDWR | O_CREAT, 0644);
  if (ftruncate(early, 65536)) return 2;
  int fd = open(path, O_RDWR);
  char *p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  strcpy(p, "mapped");
  // One that was opened before, its double, and one that is opened later.
  if (pwrite(early, "early", 5, 100) != 5) return 3;
  int twin = fcntl(early, F_DUPFD, 40);
  if (pwrite(twin, "twin", 4, 200) != 4) return 4;
  int late = openat(AT_FDCWD, path, O_WRONLY);
  if (pwrite(late, "late", 4, 300) != 4) return 5;
  // Each call that writes.
  struct iovec v[3] = {{"vec", 3}, {p, 6}, {"tor", 3}};
  lseek(late, 400, SEEK_SET);
  if (writev(late, v, 3) != 12 || pwritev(late, v, 3, 500) != 12 || pwritev2(late, v, 2, -1, 0) != 9) return 6;
  char name[] = "/tmp/ringfence-source-XXXXXX"; int other = mkstemp(name); unlink(name);
  char big[40000]; for (int i = 0; i < 40000; i++) big[i] = i * 7;
  if (write(other, big, sizeof big) != sizeof big) return 7;
  off_t from = 0; lseek(late, 1000, SEEK_SET);
  if (sendfile(late, other, &from, 3000) != 3000) return 8;
  loff_t in = 100, out = 10000;
  if (copy_file_range(other, &in, late, &out, 35000, 0) != 35000) return 9;
  int pipes[2]; if (pipe(pipes) || write(pipes[1], "spliced", 7) != 7) return 10;
  out = 60000;
  if (splice(pipes[0], 0, late, &out, 7, 0) != 7) return 11;
  int at_end = open(path, O_WRONLY | O_APPEND);
  if (write(at_end, "end", 3) != 3 || pwrite(at_end, "anywhere", 8, 5) != 8 || writev(at_end, v, 3) != 12) return 12;
  if (child(by_name, path) || child(echo, path)) return 13;
  // Holes and zeros.
  memset(p + 20480, 5, 8192); memset(p + 40960, 6, 8192);
  if (fallocate(late, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 20000, 6000)) return 16;
  if (fallocate(late, FALLOC_FL_ZERO_RANGE, 30000, 1000)) return 17;
  if (madvise(p + 45056, 4096, MADV_REMOVE)) return 18;
  // Several messages at once.
  int s[2]; if (socketpair(AF_UNIX, SOCK_DGRAM, 0, s)) return 19;
  struct iovec out_v[3] = {{"one", 3}, {p, 6}, {"three", 5}}, in_v[3] = {{p + 50000, 8}, {p + 50100, 8}, {p + 50200, 2}};
  struct mmsghdr sent[3] = {{{.msg_iov = out_v, .msg_iovlen = 1}}, {{.msg_iov = out_v + 1, .msg_iovlen = 1}}, {{.msg_iov = out_v + 2, .msg_iovlen = 1}}};
  if (sendmmsg(s[0], sent, 3, 0) != 3 || sent[1].msg_len != 6) return 20;
  struct mmsghdr *got = (void *)(p + 51000);
  for (int i = 0; i < 3; i++) got[i] = (struct mmsghdr){{.msg_iov = in_v + i, .msg_iovlen = 1}};
  if (recvmmsg(s[1], got, 3, MSG_DONTWAIT, 0) != 3 || got[0].msg_len != 3 || got[2].msg_len != 2 || !(got[2].msg_hdr.msg_flags & MSG_TRUNC)) return 21;
  memset(got, 0, 3 * sizeof *got);
  // What the kernel says of a message is in the file, and its bytes are not.
  char here[8]; struct iovec here_v = {here, 8}; struct msghdr *told = (void *)(p + 52000);
  struct mmsghdr *both = (void *)(p + 53000);
  *told = (struct msghdr){.msg_iov = &here_v, .msg_iovlen = 1, .msg_flags = 0x55};
  *both = (struct mmsghdr){{.msg_iov = &here_v, .msg_iovlen = 1, .msg_flags = 0x55}, 0x55};
  if (send(s[0], "here", 4, 0) != 4 || recvmsg(s[1], told, 0) != 4 || told->msg_flags) return 22;
  if (send(s[0], "here", 4, 0) != 4 || recvmmsg(s[1], both, 1, 0, 0) != 1 || both->msg_len != 4) return 23;
  told->msg_iov = both->msg_hdr.msg_iov = 0;
  // Mapped and unmapped more often than there may be filters.
  for (int i = 0; i < 2000; i++) {
    char *q = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, early, (i % 8) * 8192);
    if (q == MAP_FAILED) return 14;
    q[i] = i;
    if (i % 3) munmap(q, 8192);
    if (i % 300 == 0) for (int k = 0; k < 8; k++) if (write(pipes[1], q + k, 1) != 1) return 15;
  }
  // Stored behind what was written, so that the order counts.
  strcpy(p + 100, "after"); strcpy(p + 10002, "copied over");
  printf("%s %.5s %.4s %.4s %.12s %d\n", p, p + 100, p + 200, p + 300, p + 400, p[10100]);
  return 0;
}
