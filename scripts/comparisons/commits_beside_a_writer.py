#!/usr/bin/env python3
"""What a writer with RWF_DONTCACHE does to commits beside it, without Ringfence: python3 commits_beside_a_writer.py DIR [ROUNDS]

One process commits 4 KiB by pwrite and fdatasync to a file that grows to 16 MiB and begins again. Another writes blocks of
1 MiB over and over to a file of 256 MiB. In each round 0.4 s alone and 0.4 s beside it; before each, 0.2 s in which nobody
runs and 0.2 s that do not count; the writer syncs its file when it pauses. Hold it against

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


def writer(folder, cpu, go, over, results):
    os.sched_setaffinity(0, {cpu})
    # Aligned to a page, without which copying takes twice as long here.
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    iovec = Iovec(ctypes.addressof(ctypes.c_char.from_buffer(block)), BLOCK)

    def write(number, flags):
        offset = ctypes.c_ulong(number % BLOCKS * BLOCK)
        if libc.syscall(PWRITEV2, file, ctypes.byref(iovec), 1, offset, ctypes.c_ulong(0), flags) != BLOCK:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    for number in range(BLOCKS):
        write(number, 0)
    os.fdatasync(file)
    # Pages that are there already would not be dropped.
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    results.put(0)
    while True:
        go.wait()
        if over.value:
            return
        begun, number = time.monotonic(), 0
        while go.is_set():
            write(number, RWF_DONTCACHE)
            number += 1
        rate = number * BLOCK / (time.monotonic() - begun)
        os.fdatasync(file)
        results.put(rate)


class Committer:
    def __init__(self, folder):
        self.file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
        self.record = os.urandom(4096)
        self.number = 0

    def commit_for(self, seconds):
        """Seconds for a commit."""
        begun, count = time.monotonic(), 0
        while time.monotonic() - begun < seconds:
            if self.number % 4096 == 0:
                os.ftruncate(self.file, 0)
                os.fsync(self.file)
            os.pwrite(self.file, self.record, self.number % 4096 * 4096)
            os.fdatasync(self.file)
            self.number += 1
            count += 1
        return (time.monotonic() - begun) / count


def main():
    folder = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    go, over, results = multiprocessing.Event(), multiprocessing.Value("i", 0), multiprocessing.Queue()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    process = multiprocessing.Process(target=writer, args=(folder, first, go, over, results))
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
        beside = committer.commit_for(0.4)
        go.clear()
        rate = results.get()
        logs.append(math.log(beside / alone))
        print(f"{alone * 1e6:.0f} us, {beside * 1e6:.0f} us: {beside / alone:.0f}x beside {rate / 1e9:.1f} GB/s", flush=True)
    over.value = 1
    go.set()
    process.join()
    mean = sum(logs) / rounds
    if rounds - 1 in T:
        spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / (rounds - 1) / rounds) * T[rounds - 1]
        low, high = math.exp(mean - spread), math.exp(mean + spread)
        print(f"{math.exp(mean):.0f}x [{low:.0f}, {high:.0f}], 95 % interval over {rounds} rounds")
    else:
        print(f"{math.exp(mean):.0f}x")


if __name__ == "__main__":
    main()
