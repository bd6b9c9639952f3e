// A recorded file is stored to and flushed as it should be. A second fence completes non-temporal stores to other
// memory, which another thread may read.
#include <fcntl.h>
#include <immintrin.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words) {
    int fd = open(words[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 4096)) return 9;
    volatile char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    __m128i *other = aligned_alloc(64, 4096);
    p[0] = 1;
    _mm_clflush((void *)p);
    _mm_sfence();
    for (int i = 0; i < 256; i++)
        _mm_stream_si128(other + i, _mm_set1_epi8(7));
    _mm_sfence();
    return ((volatile char *)other)[9] != 7;
}
