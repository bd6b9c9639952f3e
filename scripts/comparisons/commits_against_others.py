#!/usr/bin/env python3
"""Commits by Ringfence, by fio and by pg_test_fsync in one folder, in turn.

    scripts/comparisons/commits_against_others.py DIR [ROUNDS]

Wants a release build, fio, pg_test_fsync (Debian's postgresql), and pyarrow (target/parquet-reader has it). What is not
there is not run. Both run on the last CPU. Traps: fio's completion latency leaves the sync out, so that its time is the run's, divided by the
writes; without --overwrite=1 it grows its file first; its io_uring does not link the sync to the write, but submits it once
the write is done. pg_test_fsync writes 8 KiB over and over at the start of its file, which it has filled before, and with
O_DIRECT where the file is opened with O_SYNC or O_DSYNC.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from glob import glob
from pathlib import Path

import pyarrow.parquet

RINGFENCE = Path(__file__).parent.parent.parent / "target/release/ringfence"
PLACES = ["pg_test_fsync", *sorted(glob("/usr/lib/postgresql/*/bin/pg_test_fsync"))]
PG_TEST_FSYNC = next((path for path in map(shutil.which, PLACES) if path), None)

# Where Ringfence puts a single task: CPU 0 serves the kernel, and commits take half as long again there.
LAST_CPU = max(os.sched_getaffinity(0))

WRITTEN = ["--layout", "written"]
# Way, fio's flags, Ringfence's.
FIO = [
    ("fdatasync, buffered", ["--fdatasync=1", "--overwrite=1"], ["--sync", "fdatasync", "--io", "buffered", *WRITTEN]),
    ("O_DSYNC, buffered", ["--sync=dsync", "--overwrite=1"], ["--sync", "o-dsync", "--io", "buffered", *WRITTEN]),
    ("O_DSYNC, O_DIRECT", ["--sync=dsync", "--direct=1", "--overwrite=1"], ["--sync", "o-dsync", "--io", "direct", *WRITTEN]),
    ("fdatasync, append", ["--fdatasync=1", "--fallocate=none", "--unlink=1"],
     ["--sync", "fdatasync", "--io", "buffered", "--layout", "append"]),
    ("io_uring", ["--ioengine=io_uring", "--iodepth=1", "--fdatasync=1", "--overwrite=1"],
     ["--sync", "uring", "--io", "buffered", *WRITTEN]),
]
# Method of pg_test_fsync, Ringfence's flags.
ONE_PLACE = ["--record", "8KiB", "--size", "16KiB", *WRITTEN]
PG = [
    ("open_datasync", ["--sync", "o-dsync", "--io", "direct", *ONE_PLACE]),
    ("fdatasync", ["--sync", "fdatasync", "--io", "buffered", *ONE_PLACE]),
    ("fsync", ["--sync", "fsync", "--io", "buffered", *ONE_PLACE]),
    ("open_sync", ["--sync", "o-sync", "--io", "direct", *ONE_PLACE]),
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_fio(folder, flags):
    # One file for those that write in place, and a new one for each that grows.
    size = "16m" if "--overwrite=1" in flags else "512m"
    job = ["--name=commits", f"--filename={folder}/fio-{size}", f"--size={size}", "--bs=4k", "--rw=write",
           "--ioengine=psync", "--time_based", "--runtime=1", f"--cpus_allowed={LAST_CPU}", "--output-format=json"]
    text = output("fio", *job, *flags)
    write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
    return 1e6 * write["runtime"] / write["total_ios"]


def by_pg_test_fsync(folder):
    """Ns for a commit by each method: its first table, one second for each."""
    file = Path(folder, "pg_test_fsync")
    command = ["taskset", "-c", str(LAST_CPU), "stdbuf", "-oL", PG_TEST_FSYNC, "-s", "1", "-f", file]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if told := re.match(r"\s*(\w+)\s+([\d.]+) ops/sec", line):
                found[told[1]] = 1e9 / float(told[2])
            if "two 8kB" in line:
                break
        run.terminate()
    file.unlink(missing_ok=True)
    return found


def by_ringfence(folder, flags):
    with tempfile.TemporaryDirectory() as out:
        output(RINGFENCE, "commit", folder, *flags, "--trials", "2", "--window", "500ms", "-q", "--out", f"{out}/dataset")
        samples = pyarrow.parquet.read_table(f"{out}/dataset/samples.parquet").to_pydict()
    return sum(samples["busy_ns"]) / sum(samples["units"])


def tell(other, way, times):
    ratios = sorted(ringfence / theirs for theirs, ringfence in times)
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    theirs, ringfence = (statistics.median(column) / 1e3 for column in zip(*times))
    print(f"{way}: {other} {theirs:.0f} us, Ringfence {ringfence:.0f} us; ratio {statistics.median(ratios):.3f} in the "
          f"median of {len(ratios)} rounds, quartiles {low:.3f} and {high:.3f}", flush=True)


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory(dir=folder) as own:
        against_fio(own, rounds) if shutil.which("fio") else print("beside fio: not run, because it is not there")
        against_pg_test_fsync(own, rounds) if PG_TEST_FSYNC else print("beside pg_test_fsync: not run, because it is not there")


def against_fio(folder, rounds):
    by_fio(folder, ["--overwrite=1"])  # The blocks are written before.
    pairs = {way: [] for way, _, _ in FIO}
    for number in range(rounds):
        for way, fio, ringfence in FIO:
            turns = [lambda: by_fio(folder, fio), lambda: by_ringfence(folder, ringfence)]
            if number % 2:
                turns.reverse()
            times = [turn() for turn in turns]
            pairs[way].append(times[::-1] if number % 2 else times)
    for way, times in pairs.items():
        tell("fio", way, times)


def against_pg_test_fsync(folder, rounds):
    pairs = {way: [] for way, _ in PG}
    for number in range(rounds):
        own = {}
        if number % 2:
            own = {way: by_ringfence(folder, flags) for way, flags in PG}
        theirs = by_pg_test_fsync(folder)
        own = own or {way: by_ringfence(folder, flags) for way, flags in PG}
        for way, _ in PG:
            if way in theirs:
                pairs[way].append((theirs[way], own[way]))
    for way, times in pairs.items():
        tell("pg_test_fsync", way, times)


main()
