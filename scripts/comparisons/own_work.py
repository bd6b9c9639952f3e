#!/usr/bin/env python3
"""What Ringfence itself uses of a CPU while it measures beside many processes: python3 own_work.py [SECONDS]

2,000 processes that sleep in 300 control groups (of the hierarchy of version 1's freezer, or of version 2) below one, which is
the aggressor; the service is a thread here that answers lines. CPU time of the program's processes is read from
/proc/PID/stat, in ticks, ten times a second: an upper end is a tick more for each process. The probe's is told apart by what it
is called. $RINGFENCE names the program (default target/release/ringfence). As root, since it makes control groups.
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
    sys.exit("not run, because no control groups are mounted that can be frozen")


def fields(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()


def used(root, known):
    """Ticks of a process and its descendants, by process; what has ended keeps its last."""
    parents = {}
    for one in os.listdir("/proc"):
        if one.isdigit():
            try:
                parents[int(one)] = fields(one)
            except (FileNotFoundError, ProcessLookupError):
                pass
    wanted = {root}
    for _ in range(4):
        wanted |= {pid for pid, of in parents.items() if int(of[1]) in wanted}
    for pid in wanted & parents.keys():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        words = b" ".join(command[1:3]).decode(errors="replace")
        known[pid] = (int(parents[pid][11]) + int(parents[pid][12]), words)


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
            program, "neighbours", "--victim-probe", f"tcp://127.0.0.1:{service.server_address[1]}",
            "--probe-send", "PING\\r\\n", "--aggressor-cgroup", f"/{top.name}", "--metric", "p99",
            "--time", f"{seconds}s", "--out", folder,
        ]
        begun = time.monotonic()
        run = subprocess.Popen(command)
        known = {}
        while run.poll() is None:
            used(run.pid, known)
            time.sleep(0.1)
        took = time.monotonic() - begun
        for pid, (ticks, words) in sorted(known.items()):
            print(f"{pid:8} {ticks / TICK / took * 100:6.2f} % of a CPU  {words}")
        print(f"{took:.1f} s, exit code {run.returncode}")
    finally:
        shutil.rmtree(folder)
        for one in sleepers:
            one.kill()
        for one in sleepers:
            one.wait()
        for group in reversed(groups):
            if group.exists():
                group.rmdir()


main()
