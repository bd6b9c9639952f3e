// Signals that are blocked but while sigsuspend waits for them: one that is pending before, one that comes meanwhile,
// and that of a child.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t runs;
static volatile char *bytes;

static void on(int signal) {
  (void)signal;
  bytes[++runs * 64] = 1;
}

static void waits(const sigset_t *mask, int expected) {
  sigset_t now;
  if (sigsuspend(mask) != -1 || errno != EINTR) exit(10);
  if (runs != expected) exit(10 + expected);
  if (sigprocmask(SIG_SETMASK, NULL, &now) || !sigismember(&now, SIGALRM) || !sigismember(&now, SIGCHLD)) exit(20);
}

int main(int argc, char **argv) {
  int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
  if (fd < 0 || ftruncate(fd, 4096)) return 2;
  bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) return 3;
  struct sigaction action = {.sa_handler = on};
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGALRM);
  sigaddset(&blocked, SIGCHLD);
  if (sigaction(SIGALRM, &action, NULL) || sigaction(SIGCHLD, &action, NULL)) return 4;
  if (sigprocmask(SIG_BLOCK, &blocked, &before)) return 5;
  raise(SIGALRM);
  waits(&before, 1);
  struct itimerval soon = {.it_value = {.tv_usec = 50000}};
  if (setitimer(ITIMER_REAL, &soon, NULL)) return 6;
  waits(&before, 2);
  pid_t child = fork();
  if (child == 0) _exit(7);
  waits(&before, 3);
  int status;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 8;
  return bytes[64] + bytes[128] + bytes[192] == 3 ? 0 : 9;
}
