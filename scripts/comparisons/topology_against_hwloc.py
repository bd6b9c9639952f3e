#!/usr/bin/env python3
"""Compares `ringfence topology --root DIR` with hwloc's `lstopo -i DIR`, for trees of /sys and /proc of other machines.

    scripts/comparisons/topology_against_hwloc.py RINGFENCE DIR...

Each DIR holds `sys` and `proc` of one machine, such as hwloc's and util-linux's own test data, unpacked. Compared are the
CPU sets of packages, cores, data caches (with their sizes) and NUMA nodes (with their memory). Every difference is
printed, one a line, and the number of trees without one. Where a tree shows no NUMA nodes, hwloc makes one up, which is
not compared. Needs lstopo (Debian: hwloc-nox). Exit code 1 if any tree differs; the README of lib/machine lists the
differences that are meant.
"""

import glob
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def cpus_of_mask(mask):
    """hwloc's `0x00000001,0x0000000f` as a frozen set; None where it is infinite or missing."""
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
    unit = next((unit for unit in ("KiB", "MiB", "GiB", "TiB", "B") if text and text.endswith(unit)), None)
    return int(text[: -len(unit)]) * UNITS[unit] if unit else 0


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
        elif kind in ("L1Cache", "L2Cache", "L3Cache", "L4Cache") and item.get("cache_type") in ("0", "1"):
            found["cache"].add((int(kind[1]), int(item.get("cache_size")), cpus))
        elif kind == "NUMANode":
            found["node"].add((int(item.get("os_index")), int(item.get("local_memory") or 0), cpus))
    return found


def of_ringfence(program, tree):
    run = subprocess.run([program, "topology", "--json", "--root", tree], capture_output=True, text=True)
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
            found["cache"].add((cache["level"], size(cache["size"]), cpus_of_list(cache["cpus"])))
    for node in machine["nodes"]:
        found["node"].add((node["id"], size(node["memory"]), cpus_of_list(node["cpus"])))
    return found


def shown(item):
    def one(part):
        if isinstance(part, frozenset):
            return "{" + ",".join(map(str, sorted(part)[:6])) + ("..." if len(part) > 6 else "") + f" n={len(part)}" + "}"
        return str(part)

    return " ".join(one(part) for part in item) if isinstance(item, tuple) else one(item)


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
            for who, items in zip(("ringfence", "hwloc"), only):
                lines += [f"{name}: {kind} only in {who}: {shown(item)}" for item in sorted(items, key=shown)[:3]]
        print("\n".join(lines) if lines else f"{name}: same")
        same += not lines
    print(f"{same} of {len(trees)} trees are read alike")
    sys.exit(same != len(trees))


if __name__ == "__main__":
    main()
