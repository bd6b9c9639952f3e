// Buffers in the file that are handed to the kernel, and the file written through its descriptor.
#define _GNU_SOURCE
#include <fcntl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int got;
static void on_signal(int s) { got = 1; }
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 16)) return 2;
  char *p = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int pipes[2]; if (pipe(pipes)) return 3;
  strcpy(p + 100, "from the file");
  if (write(pipes[1], p + 100, 14) != 14) return 4;
  if (read(pipes[0], p + 200, 14) != 14) return 5;
  struct iovec v[2] = {{p + 300, 5}, {p + 400, 9}};
  if (write(pipes[1], "vector of buffers", 14) != 14 || readv(pipes[0], v, 2) != 14) return 6;
  if (writev(pipes[1], v, 2) != 14 || read(pipes[0], p + 500, 14) != 14) return 7;
  int s[2]; if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) return 8;
  struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
  if (sendmsg(s[0], &m, 0) != 14) return 9;
  v[0].iov_base = p + 600; v[1].iov_base = p + 700;
  if (recvmsg(s[1], &m, 0) != 14) return 10;
  if (pwrite(fd, "through the descriptor", 22, 3000) != 22) return 11;
  lseek(fd, 4000, SEEK_SET); if (write(fd, p + 100, 13) != 13) return 12;
  struct stat *st = (void *)(p + 8192); if (fstat(fd, st) || st->st_size != 1 << 16) return 13;
  memset(st, 0, sizeof *st);
  int z = open("/dev/zero", O_RDONLY); memset(p + 12288, 1, 4096); if (read(z, p + 12300, 2000) != 2000) return 14;
  char *r = mremap(p, 1 << 16, 1 << 17, MREMAP_MAYMOVE); if (r == MAP_FAILED) return 15;
  if (ftruncate(fd, 1 << 17)) return 16;
  strcpy(r + 70000, "grown"); mprotect(r, 4096, PROT_READ); if (r[100] != 'f') return 17; mprotect(r, 4096, PROT_READ | PROT_WRITE);
  strcpy(r + 800, "again"); munmap(r + 65536, 4096); strcpy(r + 900, r + 70000);
  char *w = mmap(r + 65536, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0); strcpy(w + 1000, "twice");
  // Room for what is there already changes nothing; room behind the end does.
  if (posix_fallocate(fd, 0, 4096) || posix_fallocate(fd, 1 << 17, 4096)) return 18;
  // What the kernel refuses, it refuses as ever.
  long bad = 16;
  if (syscall(SYS_rt_sigaction, SIGUSR1, bad, 0, 8) != -1 || errno != EFAULT) return 19;
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, 0, 8) != -1 || errno != EFAULT) return 20;
  if (syscall(SYS_sigaltstack, bad, 0) != -1 || errno != EFAULT) return 21;
  if (syscall(SYS_writev, 1, bad, 1) != -1 || errno != EFAULT) return 22;
  if (syscall(SYS_sendmsg, s[0], bad, 0) != -1 || errno != EFAULT) return 23;
  if (syscall(SYS_rt_sigaction, SIGUSR1, 0, bad, 8) != -1 || errno != EFAULT) return 24;
  // And what it asks for may lie in the file.
  sigset_t *set = (void *)(r + 9000); sigemptyset(set); sigaddset(set, SIGUSR2);
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, set, r + 9100, 8) || syscall(SYS_rt_sigprocmask, SIG_SETMASK, r + 9100, r + 9200, 8)) return 25;
  if (memcmp(r + 9200, set, 8)) return 26;
  // A handler for once.
  struct sigaction once = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
  pid_t child = fork();
  if (!child) { sigaction(SIGUSR1, &once, 0); raise(SIGUSR1); r[9300] = got; raise(SIGUSR1); _exit(27); }
  int status; waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGUSR1 || r[9300] != 1) return 28;
  printf("%s %.5s%.9s %s %s %s\n", r + 200, r + 300, r + 400, r + 900, r + 1000, r + 3000);
  return 0;
}
