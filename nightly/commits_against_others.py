#!/usr/bin/env python3
"""Commits by Ringfence and by fio in one folder, in turn: the same call onto blocks that were written before.

    nightly/commits_against_fio.py DIR [ROUNDS]

Wants a release build, fio, and pyarrow (target/parquet-reader has it). fio's completion latency leaves the sync out, so
that its time is the run's, divided by the writes.
"""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet

RINGFENCE = Path(__file__).parent.parent / "target/release/ringfence"
WAYS = {
    "fdatasync, buffered": (["--fdatasync=1", "--direct=0"], ["--sync", "fdatasync", "--io", "buffered"]),
    "O_DSYNC, buffered": (["--sync=dsync", "--direct=0"], ["--sync", "o-dsync", "--io", "buffered"]),
    "O_DSYNC, O_DIRECT": (["--sync=dsync", "--direct=1"], ["--sync", "o-dsync", "--io", "direct"]),
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_fio(file, flags):
    job = ["--name=commits", f"--filename={file}", "--size=16m", "--bs=4k", "--rw=write", "--ioengine=psync",
           "--time_based", "--runtime=1", "--overwrite=1", "--output-format=json"]
    text = output("fio", *job, *flags)
    write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
    return 1e6 * write["runtime"] / write["total_ios"]


def by_ringfence(folder, flags):
    with tempfile.TemporaryDirectory() as out:
        output(RINGFENCE, "commit", folder, *flags, "--layout", "written", "--trials", "2", "--window", "500ms", "-q",
               "--out", f"{out}/dataset")
        samples = pyarrow.parquet.read_table(f"{out}/dataset/samples.parquet").to_pydict()
    return sum(samples["busy_ns"]) / sum(samples["units"])


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory(dir=folder) as own:
        file = f"{own}/fio"
        by_fio(file, [])  # The blocks are written before.
        pairs = {way: [] for way in WAYS}
        for number in range(rounds):
            for way, (fio, ringfence) in WAYS.items():
                turns = [lambda: by_fio(file, fio), lambda: by_ringfence(folder, ringfence)]
                if number % 2:
                    turns.reverse()
                times = [turn() for turn in turns]
                pairs[way].append(times[::-1] if number % 2 else times)
    for way, times in pairs.items():
        ratios = sorted(ringfence / fio for fio, ringfence in times)
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        fio, ringfence = (statistics.median(column) / 1e3 for column in zip(*times))
        print(f"{way}: fio {fio:.0f} us, Ringfence {ringfence:.0f} us; ratio {statistics.median(ratios):.3f} in the "
              f"median of {len(ratios)} rounds, quartiles {low:.3f} and {high:.3f}")


main()
