#!/usr/bin/env python3
"""Measures how a writer with RWF_DONTCACHE slows commits, without Ringfence.

    python3 commits_beside_a_writer.py DIR [ROUNDS]

One process commits 4 KiB with pwrite and fdatasync. Its file grows to 16 MiB, and then starts again
empty. Another process writes blocks of 1 MiB, and overwrites a file of 256 MiB repeatedly. Each
round measures 0.4 s alone and 0.4 s with the writer. Before each of the two, both processes are
idle for 0.2 s, and 0.2 s of commits are not counted. The writer syncs its file when it pauses.
Compare the result with

    ringfence prove --victim 'commit dir=DIR' --aggressor 'dirty dir=DIR io=dontcache' --budget 50%
"""

import ctypes
import math
import mmap
import multiprocessing
import os
import sys
import time

RWF_DONTCACHE = 0x80
PWRITEV2 = 328  # x86-64
BLOCK = 1 << 20
BLOCKS = 256
# Student's t, two-sided 95 %, by degrees of freedom.
T = {5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201, 15: 2.131, 19: 2.093}

libc = ctypes.CDLL(None, use_errno=True)


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def writer(folder, cpu, go, stop, results):
    os.sched_setaffinity(0, {cpu})
    # Aligned to a page: copies from unaligned memory take twice as long.
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    iovec = Iovec(ctypes.addressof(ctypes.c_char.from_buffer(block)), BLOCK)

    def write(number, flags):
        offset = ctypes.c_ulong(number % BLOCKS * BLOCK)
        count = libc.syscall(
            PWRITEV2, file, ctypes.byref(iovec), 1, offset, ctypes.c_ulong(0), flags
        )
        if count != BLOCK:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    for number in range(BLOCKS):
        write(number, 0)
    os.fdatasync(file)
    # RWF_DONTCACHE does not drop pages that were cached before.
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    results.put(0)
    while True:
        go.wait()
        if stop.value:
            return
        start, number = time.monotonic(), 0
        while go.is_set():
            write(number, RWF_DONTCACHE)
            number += 1
        rate = number * BLOCK / (time.monotonic() - start)
        os.fdatasync(file)
        results.put(rate)


class Committer:
    def __init__(self, folder):
        self.file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
        self.record = os.urandom(4096)
        self.number = 0

    def commit_for(self, seconds):
        """Commits for some time, and returns the seconds per commit."""
        start, count = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            if self.number % 4096 == 0:
                os.ftruncate(self.file, 0)
                os.fsync(self.file)
            os.pwrite(self.file, self.record, self.number % 4096 * 4096)
            os.fdatasync(self.file)
            self.number += 1
            count += 1
        return (time.monotonic() - start) / count


def main():
    folder = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    go, stop = multiprocessing.Event(), multiprocessing.Value("i", 0)
    results = multiprocessing.Queue()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    process = multiprocessing.Process(target=writer, args=(folder, first, go, stop, results))
    process.start()
    results.get()
    os.sched_setaffinity(0, {second})
    committer = Committer(folder)
    logs = []
    for _ in range(rounds):
        time.sleep(0.2)
        committer.commit_for(0.2)
        alone = committer.commit_for(0.4)
        time.sleep(0.2)
        go.set()
        committer.commit_for(0.2)
        together = committer.commit_for(0.4)
        go.clear()
        rate = results.get()
        logs.append(math.log(together / alone))
        print(f"{alone * 1e6:.0f} us alone, {together * 1e6:.0f} us with the writer at "
              f"{rate / 1e9:.1f} GB/s: {together / alone:.0f}x", flush=True)
    stop.value = 1
    go.set()
    process.join()
    mean = sum(logs) / rounds
    if rounds - 1 in T:
        variance = sum((log - mean) ** 2 for log in logs) / (rounds - 1)
        half = math.sqrt(variance / rounds) * T[rounds - 1]
        low, high = math.exp(mean - half), math.exp(mean + half)
        print(f"{math.exp(mean):.0f}x [{low:.0f}, {high:.0f}], 95 % interval over {rounds} rounds")
    else:
        print(f"{math.exp(mean):.0f}x")


if __name__ == "__main__":
    main()
