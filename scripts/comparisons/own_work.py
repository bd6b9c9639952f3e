#!/usr/bin/env python3
"""Measures Ringfence's own CPU time while it measures with many processes.

    python3 own_work.py [SECONDS]

The aggressor is a tree of 300 control groups with 2,000 sleeping processes, in the hierarchy of
version 1's freezer, or in version 2. The service is a thread of this script that answers lines. The
script reads the CPU time of Ringfence's processes from /proc/PID/stat ten times per second, in
ticks, so the true time of each process can be one tick longer. It prints the arguments of each
process, which identify the load generator.

$RINGFENCE is the program (default: target/release/ringfence). The script creates control groups, so
it needs root.
"""

import os
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROCESSES, GROUPS = 2000, 300
TICK = os.sysconf("SC_CLK_TCK")


class Answers(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        for _ in self.rfile:
            self.wfile.write(b"+PONG\r\n")


class Service(socketserver.ThreadingTCPServer):
    daemon_threads = True


def hierarchy():
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options = line.split()[:4]
        if kind == "cgroup" and "freezer" in options.split(","):
            return Path(point)
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(point)
    sys.exit("own_work.py needs a mounted cgroup hierarchy with a freezer")


def fields(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()


def update(root, ticks):
    """Updates the ticks of a process and its descendants; entries of dead processes stay."""
    stats = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stats[int(name)] = fields(name)
            except (FileNotFoundError, ProcessLookupError):
                pass
    family = {root}
    for _ in range(4):
        family |= {pid for pid, stat in stats.items() if int(stat[1]) in family}
    for pid in family & stats.keys():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        words = b" ".join(command[1:3]).decode(errors="replace")
        ticks[pid] = (int(stats[pid][11]) + int(stats[pid][12]), words)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    program = os.environ.get("RINGFENCE", "target/release/ringfence")
    folder = tempfile.mkdtemp(prefix="own-work-")
    top = hierarchy() / f"own-work-{os.getpid()}"
    groups = [top] + [top / str(number) for number in range(GROUPS - 1)]
    sleepers = []
    try:
        for group in groups:
            group.mkdir()
        for number in range(PROCESSES):
            sleepers.append(subprocess.Popen(["sleep", "3600"]))
            (groups[number % GROUPS] / "cgroup.procs").write_text(str(sleepers[-1].pid))
        service = Service(("127.0.0.1", 0), Answers)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        command = [
            program, "neighbours",
            "--victim-probe", f"tcp://127.0.0.1:{service.server_address[1]}",
            "--probe-send", "PING\\r\\n",
            "--aggressor-cgroup", f"/{top.name}",
            "--metric", "p99", "--time", f"{seconds}s", "--out", folder,
        ]
        start = time.monotonic()
        run = subprocess.Popen(command)
        ticks = {}
        while run.poll() is None:
            update(run.pid, ticks)
            time.sleep(0.1)
        duration = time.monotonic() - start
        for pid, (count, words) in sorted(ticks.items()):
            print(f"{pid:8} {count / TICK / duration * 100:6.2f} % of a CPU  {words}")
        print(f"{duration:.1f} s, exit code {run.returncode}")
    finally:
        shutil.rmtree(folder)
        for sleeper in sleepers:
            sleeper.kill()
        for sleeper in sleepers:
            sleeper.wait()
        for group in reversed(groups):
            if group.exists():
                group.rmdir()


main()
