#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spawn.h>
#include <immintrin.h>
static long *q; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *a) {
  long n = (long)a;
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&m); q[0]++; pthread_mutex_unlock(&m);
    __sync_fetch_and_add(&q[1], 1);
    q[8 * n + 16] = i;
    if (i % 10 == 0) { _mm_clflush(&q[8 * n + 16]); _mm_sfence(); }
  }
  return 0;
}
extern char **environ;
int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[2], "child")) {
    int fd = open(argv[1], O_RDWR); long *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    p[200] = 1234; p[201] = p[0]; return 7;
  }
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 20)) return 2;
  q = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  pthread_t t[4];
  for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  pid_t c = fork();
  if (!c) { q[100] = 77; pthread_create(&t[0], 0, work, (void *)5); pthread_join(t[0], 0); _exit(5); }
  int st; waitpid(c, &st, 0); printf("child %d\n", WEXITSTATUS(st));
  char *av[] = {argv[0], argv[1], "child", 0}; pid_t s;
  if (posix_spawn(&s, argv[0], 0, 0, av, environ)) return 3;
  waitpid(s, &st, 0); printf("spawned %d\n", WEXITSTATUS(st));
  // Where vfork is a fork, as in QEMU's emulation, the child cannot say that it failed.
  if (posix_spawn(&s, "/nonexistent", 0, 0, av, environ) == 0 && argc == 2) return 4;
  execl("/nonexistent", "x", 0);
  if ((c = vfork()) == 0) { execv(argv[0], av); _exit(9); }
  waitpid(c, &st, 0); printf("vforked %d\n", WEXITSTATUS(st));
  FILE *f = popen("echo piped", "r"); char b[100]; fgets(b, 100, f); printf("%s", b); pclose(f);
  printf("%ld %ld %ld %ld\n", q[0], q[1], q[100], q[200]);
  return 0;
}
