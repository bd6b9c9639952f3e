// A symbol for which a resolver chooses when the program is loaded.
#include <immintrin.h>
#include <stddef.h>

#define FLUSH(name, feature, instruction)                                         \
    __attribute__((target(feature))) static void name(const char *from, size_t n) \
    {                                                                             \
        for (size_t at = 0; at < n; at += 64)                                     \
            instruction((void *)(from + at));                                     \
        _mm_sfence();                                                             \
    }

FLUSH(persist_clflush, "sse2", _mm_clflush)
FLUSH(persist_clflushopt, "clflushopt", _mm_clflushopt)
FLUSH(persist_clwb, "clwb", _mm_clwb)

static void (*resolve_persist(void))(const char *, size_t)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("clwb"))
        return persist_clwb;
    return __builtin_cpu_supports("clflushopt") ? persist_clflushopt : persist_clflush;
}

void persist(const char *, size_t) __attribute__((ifunc("resolve_persist")));

int main(void)
{
    static char memory[4096];
    persist(memory, sizeof memory);
    return 0;
}
