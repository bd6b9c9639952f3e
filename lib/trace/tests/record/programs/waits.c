// Signals that come while the program waits in a call that the recorder makes for it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static int wake; static volatile int seen; static char *p;
static void on_alarm(int signal) { seen++; p[4096 + seen] = seen; if (wake && write(wake, "wake", 4) != 4) _exit(9); }
static void alarm_soon(int flags, int fd) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
  sigaction(SIGALRM, &action, 0);
  wake = fd;
  struct itimerval soon = {.it_value = {0, 50000}};
  setitimer(ITIMER_REAL, &soon, 0);
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 65536)) return 2;
  p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int pipes[2], s[2]; if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, s)) return 3;
  struct iovec v = {p + 100, 10}; struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  // Without a restart the call ends.
  alarm_soon(0, 0); if (read(pipes[0], p, 10) != -1 || errno != EINTR || seen != 1) return 4;
  alarm_soon(0, 0); if (recvmsg(s[0], &m, 0) != -1 || errno != EINTR || seen != 2) return 5;
  alarm_soon(0, 0); if (readv(pipes[0], &v, 1) != -1 || errno != EINTR || seen != 3) return 6;
  unsigned *word = (void *)(p + 8192); *word = 1;
  alarm_soon(0, 0); if (syscall(SYS_futex, word, FUTEX_WAIT, 1, 0, 0, 0) != -1 || errno != EINTR || seen != 4) return 7;
  // With one it goes on behind the handler, which here is who ends the wait.
  alarm_soon(SA_RESTART, pipes[1]); if (read(pipes[0], p + 200, 10) != 4 || seen != 5) return 8;
  alarm_soon(SA_RESTART, s[1]); if (recvmsg(s[0], &m, 0) != 4 || seen != 6) return 9;
  alarm_soon(SA_RESTART, pipes[1]); v.iov_base = p + 300; if (readv(pipes[0], &v, 1) != 4 || seen != 7) return 10;
  // What is blocked stays so.
  sigset_t alarms, pending; sigemptyset(&alarms); sigaddset(&alarms, SIGALRM); sigprocmask(SIG_BLOCK, &alarms, 0);
  alarm_soon(0, 0); struct timeval patience = {0, 150000}; setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (recvmsg(s[0], &m, 0) != -1 || errno != EAGAIN || seen != 7) return 11;
  sigpending(&pending); if (!sigismember(&pending, SIGALRM)) return 12;
  sigprocmask(SIG_UNBLOCK, &alarms, 0); if (seen != 8) return 13;
  // Without a handler it ends the program.
  pid_t child = fork();
  if (!child) { signal(SIGALRM, SIG_DFL); struct itimerval soon = {.it_value = {0, 50000}}; setitimer(ITIMER_REAL, &soon, 0); v.iov_base = p; recvmsg(s[1], &m, 0); _exit(1); }
  int status; waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) return 14;
  // A breakpoint of its own does, too, and is not passed over.
  child = fork();
  if (!child) { __asm__ volatile("int3"); _exit(1); }
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP) return 17;
  // One that is stopped in the midst of a store keeps nobody else from storing.
  child = fork();
  if (!child) for (;;) p[12288]++;
  for (int i = 0; i < 40; i++) {
    usleep(500); kill(child, SIGSTOP); waitpid(child, &status, WUNTRACED);
    for (int k = 0; k < 10; k++) p[16384 + k] = i;
    kill(child, SIGCONT);
  }
  kill(child, SIGKILL); waitpid(child, &status, 0); p[12288] = 0;
  // Stores go on below a fast timer, whose handler stores, too.
  seen = 9; wake = 0;
  struct sigaction often = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}; sigaction(SIGALRM, &often, 0);
  struct itimerval fast = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}}; setitimer(ITIMER_REAL, &fast, 0);
  while (seen < 40) for (int i = 0; i < 100; i++) p[20480 + i] = i;
  setitimer(ITIMER_REAL, &none, 0); memset(p + 4096, 0, 4096); seen = 8;
  // Opening waits, too.
  char fifo[300]; snprintf(fifo, sizeof fifo, "%s.fifo", argv[1]); if (mkfifo(fifo, 0600)) return 15;
  alarm_soon(0, 0); if (open(fifo, O_WRONLY) != -1 || errno != EINTR || seen != 9) return 16;
  unlink(fifo);
  strcpy(p + 400, "done"); printf("%d %s %.4s %.4s\n", seen, p + 400, p + 200, p + 300);
  return 0;
}
