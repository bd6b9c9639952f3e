// Flushes that are chosen from in every way that the census looks for.
#include <immintrin.h>
#include <stddef.h>

typedef void flush_function(const char *, size_t);

#define FLUSH(name, feature, instruction)                                                   \
    __attribute__((target(feature), noinline)) static void name(const char *from, size_t n) \
    {                                                                                       \
        for (size_t at = 0; at < n; at += 64)                                               \
            instruction((void *)(from + at));                                               \
    }

FLUSH(in_variable_clflush, "sse2", _mm_clflush)
FLUSH(in_variable_clflushopt, "clflushopt", _mm_clflushopt)
FLUSH(in_variable_clwb, "clwb", _mm_clwb)
FLUSH(in_field_clflush, "sse2", _mm_clflush)
FLUSH(in_field_clwb, "clwb", _mm_clwb)
FLUSH(returned_clflush, "sse2", _mm_clflush)
FLUSH(returned_clwb, "clwb", _mm_clwb)
FLUSH(in_table_clflush, "sse2", _mm_clflush)
FLUSH(in_table_clflushopt, "clflushopt", _mm_clflushopt)
FLUSH(in_table_clwb, "clwb", _mm_clwb)
FLUSH(only_called, "clflushopt", _mm_clflushopt)

__attribute__((noinline)) static void copy_sse2(const char *to, size_t n)
{
    for (size_t at = 0; at < n; at += 16)
        _mm_stream_si128((__m128i *)(to + at), _mm_setzero_si128());
    _mm_sfence();
}

__attribute__((target("avx512f"), noinline)) static void copy_avx512f(const char *to, size_t n)
{
    for (size_t at = 0; at < n; at += 64)
        _mm512_stream_si512((__m512i *)(to + at), _mm512_setzero_si512());
    _mm_sfence();
}

static flush_function *flush = in_variable_clflush;

struct operations {
    size_t before;
    flush_function *copy, *flush;
};

// As libraries do it: the structure belongs to somebody else, and compilers store two pointers at once.
__attribute__((noinline)) void set(struct operations *all)
{
    all->copy = copy_sse2;
    all->flush = in_field_clflush;
    if (__builtin_cpu_supports("clwb"))
        all->flush = in_field_clwb;
    if (__builtin_cpu_supports("avx512f"))
        all->copy = copy_avx512f;
}

__attribute__((noinline)) flush_function *best(void)
{
    return __builtin_cpu_supports("clwb") ? returned_clwb : returned_clflush;
}

const struct method {
    const char *name;
    flush_function *flush;
    int cost;
} methods[] = {
    {"clflush", in_table_clflush, 3},
    {"clflushopt", in_table_clflushopt, 2},
    {"clwb", in_table_clwb, 1},
};

int main(int count, char **words)
{
    static char memory[4096] __attribute__((aligned(64)));
    static struct operations all;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("clwb"))
        flush = in_variable_clwb;
    else if (__builtin_cpu_supports("clflushopt"))
        flush = in_variable_clflushopt;
    set(&all);
    if (count > 1) {
        flush(memory, sizeof memory);
        all.flush(memory, sizeof memory);
        all.copy(memory, sizeof memory);
        best()(memory, sizeof memory);
        methods[words[1][0] % 3].flush(memory, sizeof memory);
        only_called(memory, sizeof memory);
    }
    return 0;
}
