#!/usr/bin/env python3
"""What a neighbour does to redis, without Ringfence and with it: python3 service_beside_a_neighbour.py DIR [ROUNDS]

redis-server and a shell loop (some 20 ms of work, 10 ms of sleep) share one CPU. Questions (PING) are due 1,000 times a
second on another; an answer's time counts from when its question was due. In each round a window of 80 ms while the
neighbour stands by SIGSTOP, 15 ms after it was sent, and one of 80 ms from 300 ms after SIGCONT on, in a random order. The
figure is the ratio of both windows' pooled 99th percentiles, with a jackknife over ten groups of rounds. Then

    ringfence neighbours --victim-probe tcp://127.0.0.1:PORT --probe-send 'PING\\r\\n' --aggressor-pid PID --metric p99

asks the same pair. $RINGFENCE names the program (default target/release/ringfence); DIR is where the data are kept.
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


def ask_for(link, seconds):
    """Seconds that each answer took since its question was due."""
    begun, asked, times = time.monotonic(), 0, []
    count = int(seconds * RATE)
    got = 0
    while got < count * 7:
        now = time.monotonic()
        while asked < count and begun + asked / RATE <= now:
            link.send(b"PING\r\n")
            asked += 1
        # Sleeping would end late by more than an answer takes.
        if select.select([link], [], [], 0)[0]:
            got += len(link.recv(65536))
            now = time.monotonic()
            while len(times) < got // 7:
                times.append(now - begun - len(times) / RATE)
    return times


def p99(times):
    return sorted(times)[math.ceil(len(times) * 0.99) - 1]


def log_ratio(rounds):
    alone, beside = ([time for one in rounds for time in one[side]] for side in (0, 1))
    return math.log(p99(beside) / p99(alone))


def by_hand(port, neighbour, rounds):
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def window(stopped):
        if stopped:
            os.killpg(neighbour, signal.SIGSTOP)
            time.sleep(AFTER_STOP)
        try:
            return ask_for(link, WINDOW)
        finally:
            if stopped:
                os.killpg(neighbour, signal.SIGCONT)
                time.sleep(AFTER_CONT)

    data = []
    for _ in range(rounds):
        if random.random() < 0.5:
            alone = window(True)
            data.append((alone, window(False)))
        else:
            beside = window(False)
            data.append((window(True), beside))
    return data


def jackknife(data):
    groups = [data[number::GROUPS] for number in range(GROUPS)]
    whole = log_ratio(data)
    left_out = [log_ratio([one for other, group in enumerate(groups) if other != number for one in group]) for number in range(GROUPS)]
    pseudo = [GROUPS * whole - (GROUPS - 1) * value for value in left_out]
    mean = sum(pseudo) / GROUPS
    half = T_9 * math.sqrt(sum((value - mean) ** 2 for value in pseudo) / (GROUPS - 1) / GROUPS)
    return [math.exp(value) for value in (whole, whole - half, whole + half)]


def ringfence(folder, port, pids, trials):
    program = os.environ.get("RINGFENCE", "target/release/ringfence")
    command = [program, "neighbours", "--victim-probe", f"tcp://127.0.0.1:{port}", "--probe-send", "PING\\r\\n"]
    command += ["--probe-rate", str(RATE), "--victim-pid", str(pids[0]), "--aggressor-pid", str(pids[1]), "--metric", "p99"]
    command += ["--trials", str(trials), "--rounds", "2", "--json", "--quiet", "--out", os.path.join(folder, f"ringfence-{pids[1]}")]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    finding = next(one for one in told["results"] if one["arm"] == "beside")["effect"]["finding"]
    return finding["slowdown"]


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    os.makedirs(folder, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared, own = sorted(os.sched_getaffinity(0))[:2]
    on = ["taskset", "-c", str(shared)]
    quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "start_new_session": True}
    redis = subprocess.Popen([*on, "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder], **quiet)
    hog = subprocess.Popen([*on, "sh", "-c", HOG], **quiet)
    try:
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {own})
        # As Ringfence's probe: whoever asks late has times of its own.
        if os.geteuid() == 0:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        time.sleep(1)
        data = by_hand(port, hog.pid, rounds)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, every)
        with open(os.path.join(folder, f"by-hand-{hog.pid}.json"), "w") as file:
            json.dump({"rounds": data, "unit": "seconds since due: [stopped, running] of each round"}, file)
        ratio, low, high = jackknife(data)
        both = [p99([time for one in data for time in one[side]]) * 1e6 for side in (0, 1)]
        print(f"by hand:   {both[0]:.0f} us, beside {both[1]:.0f} us: {ratio:.2f}x [{low:.2f}, {high:.2f}]")
        told = ringfence(folder, port, (redis.pid, hog.pid), max(rounds // 2, 4))
        if "value" not in told:
            print(f"ringfence: {told['unknown']}")
            return
        print(f"ringfence: {told['value']:.2f}x [{told['low']:.2f}, {told['high']:.2f}]")
        agree = low <= told["high"] and told["low"] <= high
        print("the intervals overlap" if agree else "THE INTERVALS DO NOT OVERLAP")
    finally:
        for process in (hog, redis):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    main()
