/*
 * Durable writes as one writes them in C with intrinsics: copy a block, flush its lines, fence.
 *
 * against_c.rs compiles this file with the system's C compiler and holds Ringfence's writer against
 * it. Features are named per function, so that it compiles on any x86-64 whatever -march says; the
 * caller asks the processor first.
 */

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

enum { LINE = 64 };

/* What is written, and where the next block goes. Known to against_c.rs as `Plain`. */
struct plain {
    char *base;         /* the target, aligned to a line */
    const char *source; /* one block, aligned to a line */
    size_t block;       /* bytes, a multiple of a line */
    size_t size;        /* bytes of the target, a multiple of a block */
    size_t next;        /* offset of the next block */
};

#define INLINE static inline __attribute__((always_inline))
#define WITH(features) __attribute__((target(features)))

INLINE void copy_sse2(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        __m128i a = _mm_load_si128((const __m128i *)(from + i));
        __m128i b = _mm_load_si128((const __m128i *)(from + i + 16));
        __m128i c = _mm_load_si128((const __m128i *)(from + i + 32));
        __m128i d = _mm_load_si128((const __m128i *)(from + i + 48));
        _mm_store_si128((__m128i *)(to + i), a);
        _mm_store_si128((__m128i *)(to + i + 16), b);
        _mm_store_si128((__m128i *)(to + i + 32), c);
        _mm_store_si128((__m128i *)(to + i + 48), d);
    }
}

INLINE WITH("avx2") void copy_avx2(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        __m256i a = _mm256_load_si256((const __m256i *)(from + i));
        __m256i b = _mm256_load_si256((const __m256i *)(from + i + 32));
        _mm256_store_si256((__m256i *)(to + i), a);
        _mm256_store_si256((__m256i *)(to + i + 32), b);
    }
}

INLINE WITH("avx512f") void copy_avx512(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm512_store_si512(to + i, _mm512_load_si512(from + i));
}

INLINE void copy_memcpy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

INLINE void stream_sse2(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 16)
        _mm_stream_si128((__m128i *)(to + i), _mm_load_si128((const __m128i *)(from + i)));
}

INLINE WITH("avx2") void stream_avx2(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 32)
        _mm256_stream_si256((__m256i *)(to + i), _mm256_load_si256((const __m256i *)(from + i)));
}

INLINE WITH("avx512f") void stream_avx512(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((void *)(to + i), _mm512_load_si512(from + i));
}

INLINE void flush_clflush(char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm_clflush(to + i);
}

INLINE WITH("clflushopt") void flush_clflushopt(char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm_clflushopt(to + i);
}

INLINE WITH("clwb") void flush_clwb(char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm_clwb(to + i);
}

INLINE void flush_nt(char *to, size_t bytes)
{
    (void)to;
    (void)bytes;
}

/* Writes `blocks` blocks one after the other, beginning again at the end of the target. */
#define WRITER(instruction, kind, copy, features)                         \
    WITH(features) void instruction##_##kind(struct plain *w, size_t blocks) \
    {                                                                     \
        char *base = w->base;                                             \
        const char *source = w->source;                                   \
        size_t block = w->block, size = w->size, next = w->next;          \
        while (blocks--) {                                                \
            char *to = base + next;                                       \
            copy(to, source, block);                                      \
            flush_##instruction(to, block);                               \
            _mm_sfence();                                                 \
            next += block;                                                \
            if (next == size)                                             \
                next = 0;                                                 \
        }                                                                 \
        w->next = next;                                                   \
    }

#define WRITERS(instruction, features)                                      \
    WRITER(instruction, sse2, copy_sse2, "sse2" features)                   \
    WRITER(instruction, avx2, copy_avx2, "avx2" features)                   \
    WRITER(instruction, avx512, copy_avx512, "avx512f" features)            \
    WRITER(instruction, memcpy, copy_memcpy, "sse2" features)

WRITERS(clflush, "")
WRITERS(clflushopt, ",clflushopt")
WRITERS(clwb, ",clwb")
WRITER(nt, sse2, stream_sse2, "sse2")
WRITER(nt, avx2, stream_avx2, "avx2")
WRITER(nt, avx512, stream_avx512, "avx512f")
