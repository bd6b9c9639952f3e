// Waits in sigsuspend for signals that are blocked outside of it: pending before the call, or sent during it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static volatile char *p; static volatile int seen, inside, saved, leave; static sigjmp_buf back;
static int is_blocked(int one) { sigset_t now; sigprocmask(SIG_BLOCK, 0, &now); return sigismember(&now, one); }
static void on(int s, siginfo_t *info, void *u) {
  seen++; p[4096 + seen] = seen;
  // USR1 was blocked before the call, and is not within it; USR2 the other way about.
  inside = is_blocked(s) * 4 + is_blocked(SIGUSR1) * 2 + is_blocked(SIGUSR2);
  saved = sigismember(&((ucontext_t *)u)->uc_sigmask, s) * 4 + sigismember(&((ucontext_t *)u)->uc_sigmask, SIGUSR1) * 2 + sigismember(&((ucontext_t *)u)->uc_sigmask, SIGUSR2);
  if (leave) siglongjmp(back, 1);
}
static void suspend(const char *what, sigset_t *within) {
  int result = sigsuspend(within), error = errno;
  printf("%s: %d %d, seen %d, in the handler %d, saved %d, now %d %d %d\n", what, result, error == EINTR, seen, inside, saved, is_blocked(SIGALRM), is_blocked(SIGUSR1), is_blocked(SIGUSR2));
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 8192)) return 2;
  p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  static sigset_t outside, within; sigemptyset(&outside); sigemptyset(&within);
  sigaddset(&outside, SIGALRM); sigaddset(&outside, SIGCHLD); sigaddset(&outside, SIGUSR1); sigaddset(&within, SIGUSR2);
  sigprocmask(SIG_SETMASK, &outside, 0);
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  int flags[] = {0, SA_RESTART, SA_NODEFER, SA_ONSTACK};
  for (int i = 0; i < 4; i++) {
    if (flags[i] == SA_ONSTACK) sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = on, .sa_flags = flags[i] | SA_SIGINFO};
    sigaction(SIGALRM, &action, 0); sigaction(SIGCHLD, &action, 0);
    raise(SIGALRM); suspend("pending", &within);
    struct itimerval soon = {.it_value = {0, 20000}}; setitimer(ITIMER_REAL, &soon, 0); suspend("timer", &within);
    pid_t child = fork(); if (!child) { usleep(1000); _exit(3); }
    suspend("child", &within); waitpid(child, 0, 0);
    // The call waits in the buffer of a recorded file, too.
    sigset_t *recorded = (sigset_t *)(p + 256); *recorded = within; raise(SIGALRM); suspend("recorded", recorded);
    // A handler that leaves by a jump.
    leave = 1; if (!sigsetjmp(back, 1)) { raise(SIGALRM); suspend("not left", &within); }
    leave = 0; printf("left: seen %d, now %d\n", seen, is_blocked(SIGALRM));
  }
  // Two at once: both handlers run before it returns.
  raise(SIGALRM); raise(SIGCHLD); sigsuspend(&within); printf("both: seen %d\n", seen);
  if (sigsuspend((sigset_t *)16) != -1 || errno != EFAULT) return 4;
  p[0] = p[4097] + seen; return 0;
}
