/*
 * A slowdown of a known size: a victim that does a known share of work more while an aggressor runs.
 *
 * planted victim STATE PERMILLE    counts its units in $RINGFENCE_COUNTER; each has PERMILLE more work
 *                                  while the aggressor's heartbeat rises
 * planted aggressor STATE          raises the heartbeat each millisecond, and else multiplies in registers
 * planted sleeper STATE            the same, and else sleeps: a busy CPU may slow its neighbour down by itself
 *
 * The heartbeat's line is the one thing that the two share. Reading it costs the victim a transfer of the
 * line while the aggressor writes it, and so does harm that is not planted: at each unit it was up to 1 %.
 * Read each 4 ms it is below 1 in 10,000.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MULTIPLICATIONS = 40000 };
static const uint64_t MS = 1000000;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Each multiplication waits for the one before. */
static uint64_t work(uint64_t x, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        x = x * 6364136223846793005u + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static volatile uint64_t *page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) < 0) {
        perror(path);
        exit(1);
    }
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static void victim(volatile uint64_t *heartbeat, uint64_t permille)
{
    volatile uint64_t *counter = page(getenv("RINGFENCE_COUNTER"));
    uint64_t units = 0, x = 1, seen = *heartbeat, looked = 0, rose = 0;
    for (;;) {
        uint64_t at = now();
        if (at - looked >= 4 * MS) {
            uint64_t beat = *heartbeat;
            if (beat != seen)
                rose = at;
            seen = beat;
            looked = at;
        }
        /* One that is late is not an end. */
        int beside = rose && at - rose < 12 * MS;
        x = work(x, MULTIPLICATIONS + (beside ? MULTIPLICATIONS * permille / 1000 : 0));
        *counter = ++units;
    }
}

static void aggressor(volatile uint64_t *heartbeat, int idle)
{
    const char *path = getenv("RINGFENCE_COUNTER");
    volatile uint64_t *counter = path ? page(path) : NULL;
    uint64_t units = 0, x = 1, beat = 0;
    for (;;) {
        if (idle)
            nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
        else
            x = work(x, MULTIPLICATIONS);
        uint64_t at = now();
        if (at - beat >= MS) {
            *heartbeat += 1;
            beat = at;
        }
        if (counter)
            *counter = ++units;
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "victim") && getenv("RINGFENCE_COUNTER"))
        victim(page(argv[2]), strtoull(argv[3], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "aggressor"))
        aggressor(page(argv[2]), 0);
    if (argc == 3 && !strcmp(argv[1], "sleeper"))
        aggressor(page(argv[2]), 1);
    fprintf(stderr, "planted victim STATE PERMILLE, with RINGFENCE_COUNTER set, or planted aggressor|sleeper STATE\n");
    return 2;
}
