"""Compares the false alarms, misses and errors of 'ringfence versus' and hyperfine.

    versus_against_hyperfine.py PROGRAM [--alike 200] [--planted 20] [--noisy 60] [--seconds 3]
        [--planted-seconds 60] [--alone]

The measured program has a known run time: it counts down from a number. It is compared with itself
and with itself counting 1 % more, both without and with a noisy neighbour that is busy at random
times. Directly after each Ringfence run, hyperfine gets the same number of runs and the same
warm-up, so both use the same time. hyperfine gives no verdict, so two substitutes are counted: the
interval that it prints ("1.02 ± 0.01 times faster"), and Welch's t-test at 5 %, one of its scripts.
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
    count = 10_000_000
    times = []
    for _ in range(9):
        start = time.monotonic()
        subprocess.run([program, str(count)], check=True)
        times.append(time.monotonic() - start)
    return program, int(count * RUN_S / min(times))


class Neighbour:
    """Alternates between load on every CPU and no load, for random times."""

    def __init__(self, program, seed):
        self.program, self.random, self.stop = program, random.Random(seed), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        command = [self.program, "1000000000000"]
        while not self.stop.is_set():
            processes = [subprocess.Popen(command) for _ in range(os.cpu_count())]
            self.stop.wait(self.random.expovariate(1 / 0.15))
            for process in processes:
                process.kill()
                process.wait()
            self.stop.wait(self.random.expovariate(1 / 0.35))

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def by_ringfence(ringfence, a, b, seconds, folder, seed):
    out = os.path.join(folder, f"out-{seed}-{time.monotonic_ns()}")
    command = [ringfence, "versus", a, b, "-N", "--json", "--quiet", "--time", f"{seconds}s"]
    command += ["--seed", str(seed), "--out", out]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    subprocess.run(["rm", "-rf", out], check=True)
    return json.loads(result.stdout)["versus"]


def by_hyperfine(a, b, runs, warm_up, folder):
    path = os.path.join(folder, "hyperfine.json")
    command = ["hyperfine", "-N", "--style", "none", "-r", str(max(runs, 2)), "-w", str(warm_up)]
    subprocess.run([*command, "--export-json", path, a, b], check=True, capture_output=True)
    with open(path) as file:
        return [result["times"] for result in json.load(file)["results"]]


def welch(a, b):
    """Returns the ratio of means, whether hyperfine's printed interval excludes 1, and Welch's t (0
    if it is not significant at 5 %)."""
    mean = [statistics.mean(times) for times in (a, b)]
    deviation = [statistics.stdev(times) for times in (a, b)]
    ratio = mean[1] / mean[0]
    printed = ratio * math.hypot(deviation[0] / mean[0], deviation[1] / mean[1])
    error = math.hypot(deviation[0] / math.sqrt(len(a)), deviation[1] / math.sqrt(len(b)))
    t = (mean[1] - mean[0]) / error if error else 0.0
    # There are tens of runs, so Student's quantile is within 3 % of 2.
    return ratio, abs(ratio - 1) > printed, t if abs(t) > 2.0 else 0.0


def direction(sign):
    return "slower" if sign > 0 else "faster" if sign < 0 else "none"


def compare(args, folder, name, truth, times, seconds, program, count, table):
    a, b = f"{program} {count}", f"{program} {round(count * truth)}"
    rows = {"ringfence": [], "printed": [], "welch": []}
    announcements = detections = contained = 0
    for number in range(times):
        result = by_ringfence(args.program, a, b, seconds, folder, number)
        comparison = result["comparisons"][0]
        interval, verdict = comparison["ratio"], comparison["verdict"]
        if "value" not in interval:
            rows["ringfence"].append((None, verdict))
            continue
        rows["ringfence"].append((interval["value"], verdict))
        contained += interval["low"] <= truth <= interval["high"]
        announced = result["announced"] and result["announced"]["power"]["difference"]
        if announced and announced <= MORE - 1:
            announcements += 1
            detections += verdict == "slower"
        progress = f"{name} {number + 1}/{times}"
        found = f"{interval['value']:.4f} {verdict}"
        if args.alone:
            print(f"{progress}: {found}, announced {announced}", flush=True)
            continue
        dropped = result["warm_up"]["dropped"] if result["warm_up"] else 0
        times_a, times_b = by_hyperfine(a, b, interval["trials"], dropped, folder)
        ratio, printed, t = welch(times_a, times_b)
        rows["printed"].append((ratio, direction(ratio - 1 if printed else 0)))
        rows["welch"].append((ratio, direction(t)))
        print(f"{progress}: ringfence {found}, hyperfine {ratio:.4f} t={t:.1f}", flush=True)
    for tool, results in rows.items():
        if not results:
            continue
        errors = [abs(ratio / truth - 1) for ratio, _ in results if ratio]
        median = statistics.median(errors) if errors else math.nan
        worst = max(errors, default=math.nan)
        verdicts = [verdict for _, verdict in results]
        slower, faster = verdicts.count("slower"), verdicts.count("faster")
        false_alarms = slower + faster if truth == 1 else faster
        found_slower = slower if truth > 1 else ""
        table.append((name, tool, len(results), median, worst, false_alarms, found_slower))
    return announcements, detections, contained


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--alike", type=int, default=200)
    parse.add_argument("--planted", type=int, default=20)
    parse.add_argument("--noisy", type=int, default=60)
    parse.add_argument("--seconds", type=float, default=3)
    parse.add_argument("--planted-seconds", type=float, default=60)
    parse.add_argument("--alone", action="store_true", help="do not run hyperfine")
    args = parse.parse_args()
    args.program = os.path.abspath(args.program)
    table, summary = [], []
    with tempfile.TemporaryDirectory() as folder:
        program, count = build(folder)

        def run(name, truth, times, seconds):
            if times:
                announcements, detections, contained = compare(
                    args, folder, name, truth, times, seconds, program, count, table
                )
                line = f"{name}: the interval contained the true ratio in {contained} of {times}"
                if truth > 1:
                    line += f"; 1 % was detected in {detections} of {announcements} runs"
                    line += " that announced that they can detect it"
                summary.append(line)

        run("alike", 1, args.alike, args.seconds)
        run("1 % more", MORE, args.planted, args.planted_seconds)
        with Neighbour(program, 1):
            run("alike, noisy neighbour", 1, args.noisy, args.seconds)
        with Neighbour(program, 2):
            run("1 % more, noisy neighbour", MORE, args.noisy, args.seconds)
    names = {
        "ringfence": "ringfence versus",
        "printed": "hyperfine, as printed",
        "welch": "hyperfine, Welch's t-test",
    }
    print("\n| pairs | tool | times | median error | worst error | false alarms | found slower |")
    print("|---|---|---|---|---|---|---|")
    for name, tool, times, median, worst, false_alarms, found_slower in table:
        errors = f"{median * 100:.2f} % | {worst * 100:.2f} %"
        print(f"| {name} | {names[tool]} | {times} | {errors} | {false_alarms} | {found_slower} |")
    print("\n" + "\n".join(summary))


main()
