// A program with a function of its own that flushes and fences. Some lines call it for nothing; a counter is overwritten
// and over before it is flushed; a copy is never flushed; and something is named like a function that makes a pool.
#include <fcntl.h>
#include <immintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void persist(volatile char *p) {
    _mm_clflush((void *)p);
    _mm_sfence();
}

static void flush_clean(volatile char *p) {
    for (int i = 0; i < 7; i++)
        persist(p + 64 * i);
}

static void put(volatile char *p) {
    for (int i = 0; i < 19; i++) {
        p[64 * i] = 1;
        persist(p + 64 * i);
    }
}

static void count_to_100(volatile char *p) {
    for (int i = 0; i < 100; i++)
        *p = i;
    persist(p);
}

static void pmemobj_create_like(volatile char *p) {
    for (int i = 0; i < 50; i++)
        persist(p + 64 * i);
}

int main(int count, char **words) {
    int fd = open(words[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 32768)) return 9;
    char *p = mmap(0, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char from[100];
    memset(from, 7, sizeof(from));
    pmemobj_create_like(p);
    flush_clean(p + 8192);
    put(p + 8192);
    count_to_100(p + 16384);
    memcpy(p + 24576, from, sizeof(from));
    return 0;
}
