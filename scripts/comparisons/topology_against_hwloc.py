#!/usr/bin/env python3
"""Compares `ringfence topology --root DIR` with hwloc's `lstopo -i DIR` on trees of other machines.

    scripts/comparisons/topology_against_hwloc.py RINGFENCE DIR...

Each DIR contains `sys` and `proc` of one machine, for example the unpacked test data of hwloc and
util-linux. The script compares the CPU sets of packages, cores, data caches (with their sizes) and
NUMA nodes (with their memory). It prints every difference, one per line, and the number of equal
trees. For a tree without NUMA nodes hwloc adds one, which is not compared. Needs lstopo (Debian:
hwloc-nox). Exit code 1 if any tree differs; the README of lib/machine lists the intended
differences.
"""

import glob
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def cpus_of_mask(mask):
    """Parses hwloc's `0x00000001,0x0000000f`. Returns None if the mask is infinite or missing."""
    if not mask or mask.startswith("0xf...f"):
        return None
    bits = 0
    for part in mask.split(","):
        bits = bits << 32 | int(part or "0", 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def cpus_of_list(text):
    cpus = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def size(text):
    units = ("KiB", "MiB", "GiB", "TiB", "B")
    unit = next((unit for unit in units if text and text.endswith(unit)), None)
    return int(text[: -len(unit)]) * UNITS[unit] if unit else 0


CACHES = ("L1Cache", "L2Cache", "L3Cache", "L4Cache")


def of_hwloc(tree):
    run = subprocess.run(
        ["lstopo-no-graphics", "--disallowed", "--no-io", "-i", tree, "--of", "xml"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    if run.returncode:
        raise ValueError(run.stderr.strip().split("\n")[0])
    found = {"package": set(), "core": set(), "cache": set(), "node": set()}
    for item in ElementTree.fromstring(run.stdout).iter("object"):
        kind, cpus = item.get("type"), cpus_of_mask(item.get("cpuset"))
        if kind == "Package":
            found["package"].add(cpus)
        elif kind == "Core":
            found["core"].add(cpus)
        elif kind in CACHES and item.get("cache_type") in ("0", "1"):
            found["cache"].add((int(kind[1]), int(item.get("cache_size")), cpus))
        elif kind == "NUMANode":
            memory = int(item.get("local_memory") or 0)
            found["node"].add((int(item.get("os_index")), memory, cpus))
    return found


def of_ringfence(program, tree):
    command = [program, "topology", "--json", "--root", tree]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise ValueError(run.stderr.strip())
    machine = json.loads(run.stdout)
    found = {"package": set(), "core": set(), "cache": set(), "node": set()}
    for package in machine["packages"]:
        found["package"].add(cpus_of_list(package["cpus"]))
    for core in machine["cores"]:
        found["core"].add(cpus_of_list(core["cpus"]))
    for cache in machine["caches"]:
        if cache["kind"].lower() != "instruction":
            cpus = cpus_of_list(cache["cpus"])
            found["cache"].add((cache["level"], size(cache["size"]), cpus))
    for node in machine["nodes"]:
        found["node"].add((node["id"], size(node["memory"]), cpus_of_list(node["cpus"])))
    return found


def render(item):
    def render_part(part):
        if isinstance(part, frozenset):
            cpus = ",".join(map(str, sorted(part)[:6])) + ("..." if len(part) > 6 else "")
            return f"{{{cpus} n={len(part)}}}"
        return str(part)

    parts = item if isinstance(item, tuple) else (item,)
    return " ".join(render_part(part) for part in parts)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, trees, same = sys.argv[1], sys.argv[2:], 0
    for tree in trees:
        name = tree.rstrip("/").rsplit("/", 1)[-1]
        try:
            ours, theirs = of_ringfence(program, tree), of_hwloc(tree)
        except ValueError as error:
            print(f"{name}: {error}")
            continue
        lines = []
        if not glob.glob(f"{tree}/sys/devices/system/node/node[0-9]*"):
            ours["node"] = theirs["node"] = set()
        for kind in ours:
            only = ours[kind] - theirs[kind], theirs[kind] - ours[kind]
            for program_name, items in zip(("ringfence", "hwloc"), only):
                for item in sorted(items, key=render)[:3]:
                    lines.append(f"{name}: {kind} only in {program_name}: {render(item)}")
        print("\n".join(lines) if lines else f"{name}: same")
        same += not lines
    print(f"{same} of {len(trees)} trees are equal")
    sys.exit(same != len(trees))


if __name__ == "__main__":
    main()
