/*
 * Measures load latency by footprint, in plain C. against_c_caches compares the probe's curve with
 * this one. It shares no code with Ringfence.
 *
 *   cc -O2 -o footprint footprint.c
 *   ./footprint CPU huge|small LARGEST_BYTES PASSES
 *
 * The program chases pointers through one random cycle over all lines (Sattolo 1986), with five
 * footprints per doubling, from 8 KiB on. Pages are 4 KiB, or 2 MiB by madvise. The kernel may
 * refuse some of those: the last line shows how many KiB are in huge pages. Every pass measures all
 * footprints in a random order. A figure is the lower quartile over passes of the lower quartile
 * over batches.
 *
 * Prints bytes and ns per load, one footprint per line, then "# huge pages: KiB".
 */

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <math.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20, BATCH = 4096, BATCHES = 9 };
enum { MAX_SIZES = 128, MAX_PASSES = 64 };

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "footprint: %s\n", what);
    exit(2);
}

static uint64_t state = 0x9E3779B97F4A7C15u;
static uint64_t draw(uint64_t below)
{
    /* xorshift64* (Vigna 2016). */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint64_t)(((unsigned __int128)(state * 2685821657736338717u) * below) >> 64);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quartile(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[(count - 1) / 4];
}

static char *base;
static uint32_t *order;

static void link_lines(size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = draw(i);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (size_t i = 0; i < lines; i++)
        *(char **)(base + i * LINE) = base + (size_t)order[i] * LINE;
}

static char *follow(char *at, size_t steps)
{
    while (steps--)
        at = *(char *volatile *)at;
    return at;
}

static double ns_per_load(size_t lines)
{
    char *at = base;
    double start = now_ns();
    for (size_t done = 0; done < lines && now_ns() - start < 40e6; done += BATCH)
        at = follow(at, BATCH);
    double values[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        double from = now_ns();
        at = follow(at, BATCH);
        values[i] = (now_ns() - from) / BATCH;
    }
    if (!at)
        fail("the cycle is broken");
    return quartile(values, BATCHES);
}

static long huge_kib(void)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char text[512];
    unsigned long from, to;
    long kib, sum = 0;
    int inside = 0;
    if (!smaps)
        return -1;
    while (fgets(text, sizeof text, smaps)) {
        if (sscanf(text, "%lx-%lx ", &from, &to) == 2)
            inside = from <= (unsigned long)base && (unsigned long)base < to;
        else if (inside && sscanf(text, "AnonHugePages: %ld kB", &kib) == 1)
            sum += kib;
    }
    fclose(smaps);
    return sum;
}

int main(int argc, char **argv)
{
    static size_t sizes[MAX_SIZES];
    static double values[MAX_SIZES][MAX_PASSES];
    if (argc != 5)
        fail("usage: footprint CPU huge|small LARGEST_BYTES PASSES");
    int huge = strcmp(argv[2], "huge") == 0, passes = atoi(argv[4]), count = 0;
    size_t largest = strtoull(argv[3], NULL, 10);
    if (passes < 1 || passes > MAX_PASSES || largest < 8192)
        fail("PASSES must be 1 to 64 and LARGEST_BYTES 8192 or more");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[1]), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("cannot run on that CPU");
    for (; count < MAX_SIZES; count++) {
        sizes[count] = (size_t)(8192 * exp2(count / 5.0)) / LINE * LINE;
        if (sizes[count] > largest)
            break;
    }

    size_t length = (largest + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *map = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    order = malloc(largest / LINE * sizeof *order);
    if (map == MAP_FAILED || !order)
        fail("cannot get memory");
    base = (char *)(((uintptr_t)map + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    madvise(base, length, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(base, 0, length);

    for (int pass = 0; pass < passes; pass++) {
        int sequence[MAX_SIZES];
        for (int i = 0; i < count; i++)
            sequence[i] = i;
        for (int i = count - 1; i > 0; i--) {
            int j = (int)draw((uint64_t)i + 1), swap = sequence[i];
            sequence[i] = sequence[j];
            sequence[j] = swap;
        }
        for (int i = 0; i < count; i++) {
            size_t lines = sizes[sequence[i]] / LINE;
            link_lines(lines);
            values[sequence[i]][pass] = ns_per_load(lines);
        }
    }
    for (int i = 0; i < count; i++)
        printf("%zu %.2f\n", sizes[i], quartile(values[i], passes));
    printf("# huge pages: %ld KiB\n", huge_kib());
    return 0;
}
