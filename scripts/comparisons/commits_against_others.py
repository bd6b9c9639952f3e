#!/usr/bin/env python3
"""Compares the commit times of Ringfence with those of fio and pg_test_fsync, in one folder.

    scripts/comparisons/commits_against_others.py DIR [ROUNDS]

It needs a release build, pyarrow (in target/parquet-reader), fio, and pg_test_fsync (Debian's
postgresql). Without one of the last two it skips that comparison. All programs run on the last CPU,
and they alternate. Notes on the other programs:

- fio: its completion latency does not include the sync, so the time of a commit is the run time
  divided by the number of writes. Without --overwrite=1 fio grows its file first. Its io_uring
  engine does not link the sync to the write, but submits it after the write has completed.
- pg_test_fsync: it overwrites the first 8 KiB of a file that it has filled before. It uses O_DIRECT
  if it opens the file with O_SYNC or O_DSYNC.
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

# The CPU that Ringfence uses for a single task. CPU 0 also runs kernel work, and commits take 1.5
# times as long there.
LAST_CPU = max(os.sched_getaffinity(0))

WRITTEN = ["--layout", "written"]
# Method, fio's flags, Ringfence's flags.
FIO = [
    ("fdatasync, buffered",
     ["--fdatasync=1", "--overwrite=1"],
     ["--sync", "fdatasync", "--io", "buffered", *WRITTEN]),
    ("O_DSYNC, buffered",
     ["--sync=dsync", "--overwrite=1"],
     ["--sync", "o-dsync", "--io", "buffered", *WRITTEN]),
    ("O_DSYNC, O_DIRECT",
     ["--sync=dsync", "--direct=1", "--overwrite=1"],
     ["--sync", "o-dsync", "--io", "direct", *WRITTEN]),
    ("fdatasync, append",
     ["--fdatasync=1", "--fallocate=none", "--unlink=1"],
     ["--sync", "fdatasync", "--io", "buffered", "--layout", "append"]),
    ("io_uring",
     ["--ioengine=io_uring", "--iodepth=1", "--fdatasync=1", "--overwrite=1"],
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
    # Runs that write in place share one file. A run that appends gets a new one.
    size = "16m" if "--overwrite=1" in flags else "512m"
    job = ["--name=commits", f"--filename={folder}/fio-{size}", f"--size={size}", "--bs=4k",
           "--rw=write", "--ioengine=psync", "--time_based", "--runtime=1",
           f"--cpus_allowed={LAST_CPU}", "--output-format=json"]
    text = output("fio", *job, *flags)
    write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
    return 1e6 * write["runtime"] / write["total_ios"]


def by_pg_test_fsync(folder):
    """Returns the ns per commit by method, from the first table. It runs each for one second."""
    file = Path(folder, "pg_test_fsync")
    command = ["taskset", "-c", str(LAST_CPU), "stdbuf", "-oL"]
    command += [PG_TEST_FSYNC, "-s", "1", "-f", file]
    times = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if match := re.match(r"\s*(\w+)\s+([\d.]+) ops/sec", line):
                times[match[1]] = 1e9 / float(match[2])
            if "two 8kB" in line:
                break
        run.terminate()
    file.unlink(missing_ok=True)
    return times


def by_ringfence(folder, flags):
    with tempfile.TemporaryDirectory() as out:
        output(RINGFENCE, "commit", folder, *flags, "--trials", "2", "--window", "500ms", "-q",
               "--out", f"{out}/dataset")
        samples = pyarrow.parquet.read_table(f"{out}/dataset/samples.parquet").to_pydict()
    return sum(samples["busy_ns"]) / sum(samples["units"])


def report(other, method, times):
    ratios = sorted(ringfence / theirs for theirs, ringfence in times)
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    median = statistics.median(ratios)
    theirs, ringfence = (statistics.median(column) / 1e3 for column in zip(*times))
    print(f"{method}: {other} {theirs:.0f} us, Ringfence {ringfence:.0f} us; median ratio of "
          f"{len(ratios)} rounds {median:.3f}, quartiles {low:.3f} and {high:.3f}", flush=True)


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory(dir=folder) as work:
        if shutil.which("fio"):
            against_fio(work, rounds)
        else:
            print("fio: skipped, because it is not installed")
        if PG_TEST_FSYNC:
            against_pg_test_fsync(work, rounds)
        else:
            print("pg_test_fsync: skipped, because it is not installed")


def against_fio(folder, rounds):
    by_fio(folder, ["--overwrite=1"])  # Writes all blocks of the file once.
    pairs = {method: [] for method, _, _ in FIO}
    for number in range(rounds):
        for method, fio, ringfence in FIO:
            runs = [lambda: by_fio(folder, fio), lambda: by_ringfence(folder, ringfence)]
            if number % 2:
                runs.reverse()
            times = [run() for run in runs]
            pairs[method].append(times[::-1] if number % 2 else times)
    for method, times in pairs.items():
        report("fio", method, times)


def against_pg_test_fsync(folder, rounds):
    pairs = {method: [] for method, _ in PG}
    for number in range(rounds):
        ours = {}
        if number % 2:
            ours = {method: by_ringfence(folder, flags) for method, flags in PG}
        theirs = by_pg_test_fsync(folder)
        ours = ours or {method: by_ringfence(folder, flags) for method, flags in PG}
        for method, _ in PG:
            if method in theirs:
                pairs[method].append((theirs[method], ours[method]))
    for method, times in pairs.items():
        report("pg_test_fsync", method, times)


main()
