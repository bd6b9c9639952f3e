/*
 * Measures how co-runners slow a pointer chase, in plain C. against_c_neighbours compares
 * 'ringfence neighbours' with this program. It shares no code with Ringfence.
 *
 *   cc -O2 -o neighbours neighbours.c -lpthread
 *   ./neighbours VICTIM_CPU CO_RUNNER_CPU PAIRS SEED
 *
 * The victim chases pointers through 4 MiB (one cycle over all lines, Sattolo 1986). Each co-runner
 * gets PAIRS pairs of adjacent windows of 20 ms, alone and with the co-runner, in random order.
 * After the co-runner was started or stopped, a window starts when the chase has completed one
 * cycle, but after 2 ms at the earliest. A ping-pong between the two CPUs before and after each
 * pair determines the class of the pair: mixed if the two round trips differ by more than a factor
 * of 2.3, otherwise sharing if their geometric mean is below 250 ns, apart if it is above 300 ns,
 * and unclear between.
 *
 * Prints one line per co-runner and class:
 *
 *   co-runner class pairs slowdown median p10 p90 rate
 *
 * The slowdown is the time per load with the co-runner divided by that alone, over all windows. The
 * next three are over pairs. The rate is that of the co-runner, in millions of lines (alu:
 * multiplications) per second.
 */

#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, BLOCK = 4096, BLOCKS = 16, MAX_PAIRS = 10000 };
static const size_t FOOTPRINT = 4 << 20;
static const size_t TARGET = 1 << 30;
static const double WINDOW_NS = 20e6, SETTLE_NS = 2e6, PROBE_NS = 2e6;

enum order { PAUSE, PONG, CLFLUSH, CLWB, NT, NONE, ALU, QUIT };
static const char *const NAMES[] = {"", "", "clflush", "clwb", "nt", "none", "alu"};
enum class { SHARING, APART, UNCLEAR, MIXED, CLASSES };
static const char *const CLASS_NAMES[] = {"sharing", "apart", "unclear", "mixed"};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "neighbours: %s\n", what);
    exit(2);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("cannot run on that CPU");
}

static void *memory(size_t bytes)
{
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        fail("cannot map memory");
    for (size_t i = 0; i < bytes; i += 4096)
        base[i] = 1;
    return base;
}

static uint64_t state;
static uint64_t draw(void)
{
    /* xorshift64* (Vigna 2016). */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

/* ---- The co-runner: a thread that sleeps unless it has an order. ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
/* Each field has its own pair of lines, because the adjacent-line prefetcher fetches both. */
static struct {
    _Alignas(128) atomic_int order;
    _Alignas(128) atomic_int current;
    _Alignas(128) atomic_ulong ball;
    _Alignas(128) atomic_ulong done; /* units of the co-runner's work */
} shared;

static char *target;
static char source[BLOCK] __attribute__((aligned(4096)));
static size_t position;

#define WRITE_BLOCKS(name, features, store, flush)                              \
    __attribute__((target(features))) static void name(void)                    \
    {                                                                           \
        for (int blocks = 0; blocks < BLOCKS; blocks++) {                       \
            char *to = target + position;                                       \
            for (size_t i = 0; i < BLOCK; i += 16) {                            \
                __m128i piece = _mm_load_si128((const __m128i *)(source + i)); \
                store((__m128i *)(to + i), piece);                              \
            }                                                                   \
            for (size_t i = 0; i < BLOCK; i += LINE)                            \
                flush(to + i);                                                  \
            _mm_sfence();                                                       \
            position = (position + BLOCK) % TARGET;                             \
        }                                                                       \
    }
#define NO_FLUSH(p) (void)(p)
WRITE_BLOCKS(write_clflush, "sse2", _mm_store_si128, _mm_clflush)
WRITE_BLOCKS(write_clwb, "clwb", _mm_store_si128, _mm_clwb)
WRITE_BLOCKS(write_nt, "sse2", _mm_stream_si128, NO_FLUSH)
WRITE_BLOCKS(write_none, "sse2", _mm_store_si128, NO_FLUSH)

static void multiply(void)
{
    static uint64_t value = 1;
    uint64_t x = value;
    for (int i = 0; i < 1024; i++) {
        x *= 6364136223846793005u;
        __asm__ volatile("" : "+r"(x));
    }
    value = x;
}

static void return_balls(void)
{
    unsigned long expected = 1;
    while (atomic_load_explicit(&shared.order, memory_order_relaxed) == PONG) {
        for (int spins = 0; spins < 1024; spins++) {
            if (atomic_load_explicit(&shared.ball, memory_order_acquire) == expected) {
                atomic_store_explicit(&shared.ball, expected + 1, memory_order_release);
                expected += 2;
                spins = 0;
            }
        }
    }
}

static void *co_runner(void *cpu)
{
    pin(*(int *)cpu);
    target = memory(TARGET);
    memset(source, 1, sizeof source);
    for (;;) {
        int order = atomic_load(&shared.order);
        atomic_store(&shared.current, order);
        if (order == QUIT)
            return NULL;
        if (order == PAUSE) {
            pthread_mutex_lock(&mutex);
            while (atomic_load(&shared.order) == PAUSE)
                pthread_cond_wait(&bell, &mutex);
            pthread_mutex_unlock(&mutex);
        } else if (order == PONG) {
            return_balls();
        } else {
            void (*const work[])(void) = {
                [CLFLUSH] = write_clflush, [CLWB] = write_clwb, [NT] = write_nt,
                [NONE] = write_none,       [ALU] = multiply,
            };
            unsigned long done = atomic_load(&shared.done);
            while (atomic_load_explicit(&shared.order, memory_order_relaxed) == order) {
                work[order]();
                done += order == ALU ? 1024 : BLOCKS * BLOCK / LINE;
                atomic_store_explicit(&shared.done, done, memory_order_relaxed);
            }
        }
    }
}

/* Gives the co-runner an order, and returns when it follows the order. */
static void give_order(int order)
{
    pthread_mutex_lock(&mutex);
    atomic_store(&shared.order, order);
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&mutex);
    while (atomic_load(&shared.current) != order)
        _mm_pause();
}

/* ---- The victim and the measurement. ---- */

struct line {
    struct line *next;
    char rest[LINE - sizeof(struct line *)];
};

static struct line *link_lines(void)
{
    size_t lines = FOOTPRINT / LINE;
    struct line *all = memory(FOOTPRINT);
    uint32_t *order = malloc(lines * sizeof *order);
    if (!order)
        fail("cannot map memory");
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = draw() % i;
        uint32_t swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    for (size_t i = 0; i < lines; i++)
        all[i].next = &all[order[i]];
    free(order);
    return all;
}

static struct line *at;

static void chase(size_t loads)
{
    struct line *p = at;
    for (size_t i = 0; i < loads; i++) {
        p = p->next;
        __asm__ volatile("" : "+r"(p));
    }
    at = p;
}

static void settle(void)
{
    double start = now_ns();
    chase(FOOTPRINT / LINE);
    while (now_ns() - start < SETTLE_NS)
        chase(1024);
}

struct total {
    double loads, ns, units; /* units of the co-runner's work */
};

static struct total window(void)
{
    struct total total = {0, 0, 0};
    settle();
    unsigned long done = atomic_load(&shared.done);
    double start = now_ns();
    while (total.ns < WINDOW_NS) {
        chase(1024);
        total.loads += 1024;
        total.ns = now_ns() - start;
    }
    total.units = (double)(atomic_load(&shared.done) - done);
    return total;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median round trip in ns, over batches of 64. */
static double ping(void)
{
    static double batches[100000];
    size_t count = 0;
    unsigned long expected = 0;
    atomic_store(&shared.ball, 0);
    give_order(PONG);
    double start = now_ns(), before = start;
    while (before - start < PROBE_NS && count < sizeof batches / sizeof *batches) {
        for (int trip = 0; trip < 64; trip++) {
            atomic_store_explicit(&shared.ball, expected + 1, memory_order_release);
            expected += 2;
            while (atomic_load_explicit(&shared.ball, memory_order_acquire) != expected)
                ;
        }
        double after = now_ns();
        batches[count++] = (after - before) / 64;
        before = after;
    }
    give_order(PAUSE);
    qsort(batches, count, sizeof *batches, compare);
    return batches[count / 2];
}

static enum class class_of(double before, double after)
{
    double low = before < after ? before : after, high = before + after - low;
    if (high > 2.3 * low)
        return MIXED;
    // Compares squares, so that libm is not needed.
    double square = before * after;
    return square < 250.0 * 250.0 ? SHARING : square > 300.0 * 300.0 ? APART : UNCLEAR;
}

struct cell {
    struct total alone, together;
    double slowdowns[MAX_PAIRS];
    int pairs;
};
static struct cell cells[QUIT][CLASSES];

static void measure_pair(int work)
{
    struct total alone, together;
    double before = ping();
    int first = draw() >> 63;
    for (int i = 0; i < 2; i++) {
        int is_together = i == first;
        give_order(is_together ? work : PAUSE);
        *(is_together ? &together : &alone) = window();
    }
    give_order(PAUSE);
    struct cell *cell = &cells[work][class_of(before, ping())];
    cell->alone.loads += alone.loads;
    cell->alone.ns += alone.ns;
    cell->together.loads += together.loads;
    cell->together.ns += together.ns;
    cell->together.units += together.units;
    cell->slowdowns[cell->pairs++] = together.ns / together.loads / (alone.ns / alone.loads);
}

static void print(int work, enum class class)
{
    struct cell *cell = &cells[work][class];
    if (cell->pairs == 0)
        return;
    struct total *alone = &cell->alone, *together = &cell->together;
    double slowdown = together->ns / together->loads / (alone->ns / alone->loads);
    double *s = cell->slowdowns;
    int n = cell->pairs;
    qsort(s, (size_t)n, sizeof *s, compare);
    printf("%s %s %d %.4f %.4f %.4f %.4f %.2f\n", NAMES[work], CLASS_NAMES[class], n, slowdown,
           s[n / 2], s[n / 10], s[n - 1 - n / 10], 1e3 * together->units / together->ns);
}

int main(int count, char **arguments)
{
    if (count != 5)
        fail("usage: neighbours VICTIM_CPU CO_RUNNER_CPU PAIRS SEED");
    int cpu = atoi(arguments[2]), pairs = atoi(arguments[3]);
    if (pairs < 1 || pairs > MAX_PAIRS)
        fail("PAIRS must be 1 to 10000");
    state = 2 * strtoull(arguments[4], NULL, 10) + 1;
    for (int i = 0; i < 16; i++)
        draw();
    pin(atoi(arguments[1]));
    at = link_lines();
    pthread_t thread;
    atomic_store(&shared.order, PAUSE);
    atomic_store(&shared.current, QUIT);
    if (pthread_create(&thread, NULL, co_runner, &cpu) != 0)
        fail("cannot start a thread");
    give_order(PAUSE);
    for (int pair = 0; pair < pairs; pair++) {
        int works[] = {CLFLUSH, CLWB, NT, NONE, ALU};
        int remaining = sizeof works / sizeof *works;
        while (remaining > 0) {
            int index = (int)(draw() % (unsigned)remaining);
            int work = works[index];
            works[index] = works[--remaining];
            if (work != CLWB || __builtin_cpu_supports("clwb"))
                measure_pair(work);
        }
    }
    give_order(QUIT);
    pthread_join(thread, NULL);
    for (int work = CLFLUSH; work <= ALU; work++)
        for (int class = 0; class < CLASSES; class++)
            print(work, (enum class)class);
    return 0;
}
