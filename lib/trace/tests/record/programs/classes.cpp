// C++: containers of the file, atomics, and exceptions that pass through what is recorded.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
struct Row { long key; double value; std::atomic<long> uses; };
static Row *rows;
static long use(long i) {
  rows[i % 100].uses.fetch_add(1);
  if (i % 10 == 0) throw std::runtime_error("tenth");
  return rows[i % 100].key;
}
int main(int, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 16)) return 2;
  rows = static_cast<Row *>(mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  for (long i = 0; i < 100; i++) { rows[i].key = (i * 37) % 101; rows[i].value = i / 7.0; }
  long caught = 0, sum = 0;
  auto work = [&](long n) { for (long i = 0; i < n; i++) try { sum += use(i); } catch (const std::exception &) { caught++; } };
  work(1000);
  std::thread other([] { for (int i = 0; i < 1000; i++) rows[200 + i % 10].uses++; });
  other.join();
  long *keys = reinterpret_cast<long *>(rows + 1000);
  for (long i = 0; i < 300; i++) keys[i] = (i * 7919) % 307;
  std::sort(keys, keys + 300); std::reverse(keys, keys + 100);
  printf("%ld %ld %ld %ld\n", caught, sum, rows[3].uses.load(), keys[0]);
  return 0;
}
