// What decides whether a flush or a locked instruction is an event: each of them on the file and on other memory, with
// something to order before it and without. And stores that are no plain ones.
#define _GNU_SOURCE
#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile long own[64] __attribute__((aligned(64)));
static long *q;
static void lock(void) { __asm__ volatile("lock incq %0" : "+m"(own[0])::"memory"); }
static void store(void) { __asm__ volatile("movq $1, %0" : "=m"(q[0])::"memory"); }
#define FLUSH(name, at) __asm__ volatile(name " %0" ::"m"(*(volatile char *)(at)) : "memory")
static long compare_exchange(long *at, long old, long new) {
  __asm__ volatile("lock cmpxchgq %2, %1" : "+a"(old), "+m"(*at) : "r"(new) : "memory", "cc");
  return old;
}
// A function that runs with its stack in the file.
static void pushes(char *stack) {
  __asm__ volatile("mov %%rsp, %%rbx; mov %0, %%rsp; push %%rax; pushq $77; pushfq; call 1f; jmp 2f; 1: enter $16, $0; "
                   "leave; ret; 2: popfq; pop %%rcx; pop 8(%0); mov %%rbx, %%rsp"
                   ::"r"(stack) : "rbx", "rcx", "rax", "memory", "cc");
}
// Of nothing, too, which leaves nothing to order. There is room for a jump.
__attribute__((noinline)) static void fill(char *to, long count) {
  __asm__ volatile("rep stosq; nopl 0(%%rax)" : "+D"(to), "+c"(count) : "a"(9) : "memory");
}
static void strings(char *at) {
  char *to = at, *from;
  long count = 100;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
  to = at + 1000, count = 50;
  __asm__ volatile("std; rep stosw; cld" : "+D"(to), "+c"(count) : "a"(8) : "memory");
  fill(at, 4); lock(); fill(at, 0); lock();
  to = at + 2000, from = at, count = 30;
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count)::"memory");
  to = (char *)own + 100, from = at, count = 5;
  __asm__ volatile("rep movsb; stosb" : "+D"(to), "+S"(from), "+c"(count) : "a"(9) : "memory");
}
int main(int argc, char **argv) {
  for (int i = 0; i < 5; i++) lock();
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 16)) return 2;
  q = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned a, b = 0, c, d;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  lock();
  for (int i = 0; i < 30; i++) {
    store(); lock(); lock();
    FLUSH("clflush", own); lock();
    FLUSH("clflush", (char *)q + 67); lock();
    if (b & bit_CLFLUSHOPT) { FLUSH("clflushopt", (char *)q + 129); lock(); FLUSH("clflushopt", own + 9); lock(); }
    if (b & bit_CLWB) { FLUSH("clwb", (char *)q + 255); lock(); FLUSH("clwb", own + 17); lock(); }
    store(); _mm_lfence(); lock(); _mm_lfence(); lock();
    store(); _mm_sfence(); lock(); store(); _mm_mfence(); lock();
    // Those that store, and those that compare and do not, with something to order and without.
    q[20] = 5; _mm_sfence();
    compare_exchange(q + 20, 6, 7); store(); compare_exchange(q + 20, 6, 7);
    compare_exchange(q + 20, 5, 6); store(); compare_exchange(q + 20, 6, 5);
    store(); compare_exchange((long *)own + 8, 9, 9); compare_exchange((long *)own + 8, 9, 9);
    long value = i;
    __asm__ volatile("xchg %0, %1" : "+r"(value), "+m"(q[21])::"memory"); lock();
    store(); __asm__ volatile("xchg %0, %1" : "+r"(value), "+m"(own[3])::"memory"); lock();
    __asm__ volatile("lock btsq %1, %0" : "+m"(q[22]) : "r"(64l * 3 + i) : "memory", "cc");
    __asm__ volatile("lock xaddl %1, %0" : "+m"(*(int *)(q + 30)), "+r"(argc)::"memory", "cc"); argc = 1;
    unsigned long low = q[40], high = q[41];
    __asm__ volatile("lock cmpxchg16b %0" : "+m"(*(__int128 *)(q + 40)), "+a"(low), "+d"(high) : "b"(1l), "c"(2l) : "memory", "cc");
    // Not locked, but a comparison.
    __asm__ volatile("cmpxchgq %1, %0" : "+m"(q[44]) : "r"(3l), "a"(99l) : "memory", "cc");
    _mm_stream_si64((long long *)q + 50, i); lock();
    _mm_stream_si128((__m128i *)(q + 52), _mm_set1_epi8(i));
    _mm_maskmoveu_si128(_mm_set1_epi8(3), _mm_set_epi32(0, -1, 0x80, -1), (char *)(q + 60)); lock();
    pushes((char *)q + 8192); strings((char *)q + 16384);
  }
  return 7;
}
