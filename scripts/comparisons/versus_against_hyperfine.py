"""'ringfence versus' and hyperfine on the same pairs of commands: false alarms, misses and errors of both.

    versus_against_hyperfine.py PROGRAM [--alike 200] [--planted 20] [--noisy 60] [--seconds 3] [--planted-seconds 60] [--alone]

A program takes a time that is planted: it counts down from a number. It is compared with itself, with itself counting 1 %
more, and both beside a neighbour that is busy by fits and starts. hyperfine gets as many runs as Ringfence made, in the
next breath and with the same warm-up, so that both spend the same. hyperfine itself gives no verdict: what is counted as one is
the interval that it prints ("1.02 ± 0.01 times faster"), and Welch's t-test at 5 %, which is among the scripts that come with it.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = """
#include <stdlib.h>
int main(int argc, char **argv) {
    volatile unsigned long left = strtoul(argv[1], 0, 10);
    while (left--) {}
    return 0;
}
"""
RUN_S = 0.02
MORE = 1.01


def build(folder):
    source, program = os.path.join(folder, "count.c"), os.path.join(folder, "count")
    with open(source, "w") as out:
        out.write(SOURCE)
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    counts = 10_000_000
    took = []
    for _ in range(9):
        began = time.monotonic()
        subprocess.run([program, str(counts)], check=True)
        took.append(time.monotonic() - began)
    return program, int(counts * RUN_S / min(took))


class Neighbour:
    """Busy on every CPU for a while, then not, at random."""

    def __init__(self, program, seed):
        self.program, self.random, self.over = program, random.Random(seed), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            crowd = [subprocess.Popen([self.program, "1000000000000"]) for _ in range(os.cpu_count())]
            self.over.wait(self.random.expovariate(1 / 0.15))
            for one in crowd:
                one.kill()
                one.wait()
            self.over.wait(self.random.expovariate(1 / 0.35))

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def by_ringfence(ringfence, a, b, seconds, folder, seed):
    out = os.path.join(folder, f"out-{seed}-{time.monotonic_ns()}")
    words = [ringfence, "versus", a, b, "-N", "--json", "--quiet", "--time", f"{seconds}s", "--seed", str(seed), "--out", out]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)["versus"]
    subprocess.run(["rm", "-rf", out], check=True)
    return found


def by_hyperfine(a, b, runs, warm_up, folder):
    path = os.path.join(folder, "hyperfine.json")
    words = ["hyperfine", "-N", "--style", "none", "-r", str(max(runs, 2)), "-w", str(warm_up), "--export-json", path, a, b]
    subprocess.run(words, check=True, capture_output=True)
    with open(path) as file:
        return [one["times"] for one in json.load(file)["results"]]


def welch(a, b):
    """The ratio of means, whether it is beyond its propagated standard deviation, and whether Welch's t is beyond 5 %."""
    mean = [statistics.mean(one) for one in (a, b)]
    spread = [statistics.stdev(one) for one in (a, b)]
    ratio = mean[1] / mean[0]
    printed = ratio * math.hypot(spread[0] / mean[0], spread[1] / mean[1])
    error = math.hypot(spread[0] / math.sqrt(len(a)), spread[1] / math.sqrt(len(b)))
    t = (mean[1] - mean[0]) / error if error else 0.0
    # Tens of runs at the least, where Student's quantile is within 3 % of this.
    return ratio, abs(ratio - 1) > printed, t if abs(t) > 2.0 else 0.0


def compare(args, folder, name, truth, times, seconds, program, count, table):
    a, b = f"{program} {count}", f"{program} {round(count * truth)}"
    rows = {"ringfence": [], "printed": [], "welch": []}
    covered = told = held = 0
    for number in range(times):
        found = by_ringfence(args.program, a, b, seconds, folder, number)
        one = found["comparisons"][0]
        if "value" not in one["ratio"]:
            rows["ringfence"].append((None, one["verdict"]))
            continue
        verdict = one["verdict"]
        rows["ringfence"].append((one["ratio"]["value"], verdict))
        held += one["ratio"]["low"] <= truth <= one["ratio"]["high"]
        announced = found["announced"] and found["announced"]["power"]["difference"]
        if announced and announced <= MORE - 1:
            covered += 1
            told += verdict == "slower"
        if args.alone:
            print(f"{name} {number + 1}/{times}: {one['ratio']['value']:.4f} {verdict}, announced {announced}", flush=True)
            continue
        dropped = found["warm_up"]["dropped"] if found["warm_up"] else 0
        times_a, times_b = by_hyperfine(a, b, one["ratio"]["trials"], dropped, folder)
        ratio, printed, t = welch(times_a, times_b)
        rows["printed"].append((ratio, "slower" if printed and ratio > 1 else "faster" if printed else "none"))
        rows["welch"].append((ratio, "slower" if t > 0 else "faster" if t < 0 else "none"))
        print(f"{name} {number + 1}/{times}: ringfence {one['ratio']['value']:.4f} {verdict}, hyperfine {ratio:.4f} t={t:.1f}", flush=True)
    for who, found in rows.items():
        if not found:
            continue
        known = [ratio for ratio, _ in found if ratio]
        error = statistics.median(abs(ratio / truth - 1) for ratio in known) if known else math.nan
        worst = max((abs(ratio / truth - 1) for ratio in known), default=math.nan)
        said = [verdict for _, verdict in found]
        wrong = sum(verdict in ("slower", "faster") for verdict in said) if truth == 1 else said.count("faster")
        right = said.count("slower") if truth > 1 else None
        table.append((name, who, len(found), error, worst, wrong, right))
    return covered, told, held


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--alike", type=int, default=200)
    parse.add_argument("--planted", type=int, default=20)
    parse.add_argument("--noisy", type=int, default=60)
    parse.add_argument("--seconds", type=float, default=3)
    parse.add_argument("--planted-seconds", type=float, default=60)
    parse.add_argument("--alone", action="store_true", help="leave hyperfine out")
    args = parse.parse_args()
    args.program = os.path.abspath(args.program)
    table, said = [], []
    with tempfile.TemporaryDirectory() as folder:
        program, count = build(folder)

        def both(name, truth, times, seconds):
            if times:
                covered, told, held = compare(args, folder, name, truth, times, seconds, program, count, table)
                said.append(f"{name}: the interval held the truth in {held} of {times}")
                if truth > 1:
                    said[-1] += f"; where it was announced that 1 % can be told, it was told in {told} of {covered}"

        both("alike", 1, args.alike, args.seconds)
        both("1 % more", MORE, args.planted, args.planted_seconds)
        with Neighbour(program, 1):
            both("alike, noisy neighbour", 1, args.noisy, args.seconds)
        with Neighbour(program, 2):
            both("1 % more, noisy neighbour", MORE, args.noisy, args.seconds)
    names = {"ringfence": "ringfence versus", "printed": "hyperfine, as printed", "welch": "hyperfine, Welch's t-test"}
    print("\n| pairs | by | times | median error | worst error | false alarms | found slower |")
    print("|---|---|---|---|---|---|---|")
    for name, who, times, error, worst, wrong, right in table:
        found = "" if right is None else right
        print(f"| {name} | {names[who]} | {times} | {error * 100:.2f} % | {worst * 100:.2f} % | {wrong} | {found} |")
    print("\n" + "\n".join(said))


main()
