// Handlers on an alternate stack, which is changed and taken away, in the main thread and another one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
enum { SIZE = 1 << 16 };
static volatile char *q; static __thread char *volatile at; static __thread int flags, refused, leave; static __thread sigjmp_buf back;
static void on(int s) {
  char here; stack_t seen, none = {.ss_flags = SS_DISABLE};
  at = &here; q[8]++; sigaltstack(0, &seen); flags = seen.ss_flags;
  refused = sigaltstack(&none, 0) && errno == EPERM;
  if (leave) siglongjmp(back, 1);
}
static void strike(const char *who, char *stack) {
  at = 0; pthread_kill(pthread_self(), SIGURG);
  printf("%s %d %d %d\n", who, at >= stack && at < stack + SIZE, flags, refused);
}
static void *all(void *who) {
  char *one = malloc(SIZE), *other = malloc(SIZE); stack_t st = {.ss_sp = one, .ss_size = SIZE}, told;
  printf("%d ", sigaltstack(&st, 0)); sigaltstack(0, &told); printf("%d %d\n", told.ss_sp == one, told.ss_flags);
  for (int i = 0; i < 3; i++) strike(who, one);
  st.ss_sp = other; printf("%d\n", sigaltstack(&st, &told)); printf("%d\n", told.ss_sp == one);
  for (int i = 0; i < 3; i++) strike(who, other);
  leave = 1; for (int i = 0; i < 3; i++) { if (!sigsetjmp(back, 1)) strike(who, other); else { q[16] = i; printf("left %d %d\n", at >= other && at < other + SIZE, flags); } }
  leave = 0; st.ss_flags = SS_DISABLE; printf("%d\n", sigaltstack(&st, 0)); sigaltstack(0, &told); printf("%d\n", told.ss_flags);
  free(one); free(other); q[24]++; return 0;
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644); pthread_t t;
  if (ftruncate(fd, 8192)) return 2;
  q = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  struct sigaction a = {.sa_handler = on, .sa_flags = SA_ONSTACK}; sigaction(SIGURG, &a, 0);
  all("main"); pthread_create(&t, 0, all, "thread"); pthread_join(t, 0);
  return 0;
}
