#!/usr/bin/env python3
"""Measures how a co-runner slows redis, without Ringfence and with it.

    python3 service_beside_a_neighbour.py DIR [ROUNDS]

redis-server and a shell loop (some 20 ms of work, 10 ms of sleep) share one CPU. On another CPU
this script sends 1,000 requests (PING) per second. The latency of a request counts from its
scheduled time. Each round has two windows of 80 ms, in random order: one starts 15 ms after the
co-runner was stopped with SIGSTOP, and the other at least 300 ms after SIGCONT. The result is the
ratio of the 99th percentiles of all windows of each kind, with a jackknife over ten groups of
rounds. Then the script measures the same pair with

    ringfence neighbours --victim-probe tcp://127.0.0.1:PORT --probe-send 'PING\\r\\n'
        --aggressor-pid PID --metric p99

$RINGFENCE is the program (default: target/release/ringfence). DIR gets the data.
"""

import json
import math
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time

RATE, WINDOW, AFTER_STOP, AFTER_CONT = 1000, 0.08, 0.015, 0.3
GROUPS = 10
T_9 = 2.262  # Student's t, two-sided 95 %, nine degrees of freedom.
HOG = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.01; done"


def send_requests(link, seconds):
    """Returns the seconds from each request's scheduled time to its answer."""
    start, sent, times = time.monotonic(), 0, []
    count = int(seconds * RATE)
    received = 0
    while received < count * 7:
        now = time.monotonic()
        while sent < count and start + sent / RATE <= now:
            link.send(b"PING\r\n")
            sent += 1
        # Polls, because a sleep ends later than planned, by more than an answer takes.
        if select.select([link], [], [], 0)[0]:
            received += len(link.recv(65536))
            now = time.monotonic()
            while len(times) < received // 7:
                times.append(now - start - len(times) / RATE)
    return times


def p99(times):
    return sorted(times)[math.ceil(len(times) * 0.99) - 1]


def log_ratio(rounds):
    alone, together = ([time for pair in rounds for time in pair[side]] for side in (0, 1))
    return math.log(p99(together) / p99(alone))


def without_ringfence(port, co_runner, rounds):
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def window(stopped):
        if stopped:
            os.killpg(co_runner, signal.SIGSTOP)
            time.sleep(AFTER_STOP)
        try:
            return send_requests(link, WINDOW)
        finally:
            if stopped:
                os.killpg(co_runner, signal.SIGCONT)
                time.sleep(AFTER_CONT)

    data = []
    for _ in range(rounds):
        if random.random() < 0.5:
            alone = window(True)
            data.append((alone, window(False)))
        else:
            together = window(False)
            data.append((window(True), together))
    return data


def jackknife(data):
    groups = [data[number::GROUPS] for number in range(GROUPS)]
    whole = log_ratio(data)
    partial = [
        log_ratio([pair for other in range(GROUPS) if other != number for pair in groups[other]])
        for number in range(GROUPS)
    ]
    pseudo = [GROUPS * whole - (GROUPS - 1) * value for value in partial]
    mean = sum(pseudo) / GROUPS
    half = T_9 * math.sqrt(sum((value - mean) ** 2 for value in pseudo) / (GROUPS - 1) / GROUPS)
    return [math.exp(value) for value in (whole, whole - half, whole + half)]


def ringfence(folder, port, pids, trials):
    program = os.environ.get("RINGFENCE", "target/release/ringfence")
    command = [
        program, "neighbours",
        "--victim-probe", f"tcp://127.0.0.1:{port}", "--probe-send", "PING\\r\\n",
        "--probe-rate", str(RATE), "--victim-pid", str(pids[0]), "--aggressor-pid", str(pids[1]),
        "--metric", "p99", "--trials", str(trials), "--rounds", "2", "--json", "--quiet",
        "--out", os.path.join(folder, f"ringfence-{pids[1]}"),
    ]
    document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    result = next(result for result in document["results"] if result["arm"] == "beside")
    return result["effect"]["finding"]["slowdown"]


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    os.makedirs(folder, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shared, own = sorted(os.sched_getaffinity(0))[:2]
    pin = ["taskset", "-c", str(shared)]
    options = {
        "stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "start_new_session": True
    }
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    redis = subprocess.Popen([*pin, *command, "--dir", folder], **options)
    hog = subprocess.Popen([*pin, "sh", "-c", HOG], **options)
    try:
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {own})
        # Like Ringfence's load generator: late requests would distort the latencies.
        if os.geteuid() == 0:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        time.sleep(1)
        data = without_ringfence(port, hog.pid, rounds)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, cpus)
        with open(os.path.join(folder, f"without-ringfence-{hog.pid}.json"), "w") as file:
            unit = "seconds since the scheduled time: [stopped, running] of each round"
            json.dump({"rounds": data, "unit": unit}, file)
        ratio, low, high = jackknife(data)
        both = [p99([time for pair in data for time in pair[side]]) * 1e6 for side in (0, 1)]
        print(f"without Ringfence: {both[0]:.0f} us alone, {both[1]:.0f} us with the co-runner: "
              f"{ratio:.2f}x [{low:.2f}, {high:.2f}]")
        result = ringfence(folder, port, (redis.pid, hog.pid), max(rounds // 2, 4))
        if "value" not in result:
            print(f"with Ringfence: {result['unknown']}")
            return
        print(f"with Ringfence: {result['value']:.2f}x [{result['low']:.2f}, {result['high']:.2f}]")
        agree = low <= result["high"] and result["low"] <= high
        print("the intervals overlap" if agree else "THE INTERVALS DO NOT OVERLAP")
    finally:
        for process in (hog, redis):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    main()
