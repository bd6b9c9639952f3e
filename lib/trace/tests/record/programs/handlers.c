// Handlers that store and flush: on the stack that they interrupt, on one of their own, within sigsuspend, of a fault.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
static char *p;
__attribute__((noinline)) static void persist(char *at) { _mm_clflush(at); _mm_sfence(); }
static void on(int signal) {
  char *at = p + 4096 + signal * 64;
  *at = signal; persist(at); persist(at);
  if (signal == SIGSEGV) mprotect(p + 8192, 4096, PROT_READ | PROT_WRITE);
}
static void handle(int signal, int flags) {
  struct sigaction action = {.sa_handler = on, .sa_flags = flags};
  sigaction(signal, &action, 0);
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 12288)) return 2;
  p = mmap(0, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}; sigaltstack(&stack, 0);
  handle(SIGUSR1, 0); handle(SIGUSR2, SA_ONSTACK); handle(SIGALRM, 0); handle(SIGSEGV, 0);
  for (int i = 0; i < 10; i++) { raise(SIGUSR1); raise(SIGUSR2); }
  sigset_t alarms, old; sigemptyset(&alarms); sigaddset(&alarms, SIGALRM); sigprocmask(SIG_BLOCK, &alarms, &old);
  raise(SIGALRM); sigsuspend(&old);
  mprotect(p + 8192, 4096, PROT_READ); p[8192] = 1; persist(p + 8192);
  return 0;
}
