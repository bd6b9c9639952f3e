"""Records programs with 'ringfence trace' and counts their instructions with 'ringfence census'."""

import glob
import json
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
OBJECTS = os.path.join(HERE, "../../lib/trace/tests/record/programs/objects.c")

# The parts of ex_common.h that PMDK's examples need. Debian does not package it.
COMMON = """#include <stdint.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>
#define CREATE_MODE_RW (S_IWUSR | S_IRUSR)
static inline int file_exists(const char *path) { return access(path, F_OK); }
static inline int find_last_set_64(uint64_t value) { return 63 - __builtin_clzll(value); }
"""

# Programs to build: sources below /usr/share/doc, folders with headers, libraries. The -dev
# packages contain the sources.
OBJ, LOG, BLK, PMEM = (
    f"lib{name}-dev/examples" for name in ("pmemobj", "pmemlog", "pmemblk", "pmem")
)
SOURCES = {
    "data_store": (
        [f"{OBJ}/map/data_store.c", f"{OBJ}/map/map*.c", f"{OBJ}/tree_map/*_map.c",
         f"{OBJ}/hashmap/hashmap_*.c", f"{OBJ}/list_map/*.c"],
        [f"{OBJ}/map", f"{OBJ}/tree_map", f"{OBJ}/hashmap", f"{OBJ}/list_map"],
        ["-lpmemobj", "-lpmem"],
    ),
    "btree": ([f"{OBJ}/btree.c"], [], ["-lpmemobj"]),
    "fifo": ([f"{OBJ}/linkedlist/fifo.c"], [f"{OBJ}/linkedlist"], ["-lpmemobj"]),
    "slab": ([f"{OBJ}/slab_allocator/*.c"], [f"{OBJ}/slab_allocator"], ["-lpmemobj"]),
    "obj_pmemlog": ([f"{OBJ}/pmemlog/obj_pmemlog.c"], [f"{OBJ}/pmemlog"], ["-lpmemobj"]),
    "obj_pmemblk": ([f"{OBJ}/pmemblk/obj_pmemblk.c"], [f"{OBJ}/pmemblk"], ["-lpmemobj"]),
    "addlog": ([f"{LOG}/logfile/addlog.c"], [f"{LOG}/logfile"], ["-lpmemlog"]),
    "asset_load": ([f"{BLK}/assetdb/asset_load.c"], [f"{BLK}/assetdb"], ["-lpmemblk"]),
    "full_copy": ([f"{PMEM}/full_copy.c"], [], ["-lpmem"]),
    "simple_copy": ([f"{PMEM}/simple_copy.c"], [], ["-lpmem"]),
    "objects": ([OBJECTS], [], ["-lpmemobj"]),
}
MAPS = ["ctree", "btree", "rbtree", "skiplist", "hashmap_tx", "hashmap_atomic", "hashmap_rp"]
FORCE = "PMEM_IS_PMEM_FORCE=1"
FIO = "fio --name=fio --filename=pool --size=1m --bs=4k --iodepth=1 --thread --allow_file_create=1"
NO_DEVDAX = "this machine has no persistent-memory device in mode devdax"


def create_pool(layout):
    """The command that creates a pool. Run before the recording, because it writes megabytes."""
    return f"pmempool create --size 32M --layout {layout} obj pool"


# Title, program to build, package whose version is listed, command to run before the recording,
# file or folder to trace, environment variables, command to record. A run without a file is only
# listed as not run, and its command is the reason.
RUNS = [
    *((f"libpmemobj, example map: {name}, 500 insertions and removals", "data_store", "libpmemobj1",
       create_pool("data_store"), "pool", FORCE, f"./data_store {name} pool 500") for name in MAPS),
    ("libpmemobj, example btree: one insertion", "btree", "libpmemobj1", create_pool("btree"),
     "pool", FORCE, "./btree pool i 1 one"),
    ("libpmemobj, example fifo: one insertion", "fifo", "libpmemobj1", create_pool("list"), "pool",
     FORCE, "./fifo pool insert a"),
    ("libpmemobj, example slab_allocator", "slab", "libpmemobj1", create_pool("btree"), "pool",
     FORCE, "./slab pool"),
    ("libpmemobj, example pmemlog: makes a pool, three entries", "obj_pmemlog", "libpmemobj1", "",
     "pool", FORCE, "./obj_pmemlog c pool a:one a:two a:three"),
    ("libpmemobj, example pmemblk: makes a pool, two blocks", "obj_pmemblk", "libpmemobj1", "",
     "pool", FORCE, "./obj_pmemblk c pool 512 w:1:one w:2:two"),
    ("libpmemobj, objects.c: makes a pool, 100 transactions", "objects", "libpmemobj1", "", "pool",
     FORCE, "./objects pool 100"),
    ("the same without clwb", "objects", "libpmemobj1", "", "pool", f"{FORCE} PMEM_NO_CLWB=1",
     "./objects pool 100"),
    ("the same without clflushopt, too", "objects", "libpmemobj1", "", "pool",
     f"{FORCE} PMEM_NO_CLWB=1 PMEM_NO_CLFLUSHOPT=1", "./objects pool 100"),
    ("the same without non-temporal stores", "objects", "libpmemobj1", "", "pool",
     f"{FORCE} PMEM_NO_MOVNT=1", "./objects pool 100"),
    ("libpmemlog, example addlog: one entry of 100 lines", "addlog", "libpmemlog1",
     "truncate -s 4M pool", "pool", FORCE, "./addlog pool $(seq -f entry-%g 100)"),
    ("libpmemblk, example assetdb: 100 blocks", "asset_load", "libpmemblk1",
     "truncate -s 32M pool && seq -f asset-%g 100 > list", "pool", FORCE, "./asset_load pool list"),
    ("libpmem, example full_copy: 1 MiB", "full_copy", "libpmem1", "head -c 1M /dev/zero > from",
     "pool", FORCE, "./full_copy from pool"),
    ("libpmem, example simple_copy: 4 KiB", "simple_copy", "libpmem1",
     "head -c 4096 /dev/zero > from", "pool", FORCE, "./simple_copy from pool"),
    ("pmempool create of an object pool", None, "pmdk-tools", "", "pool", FORCE,
     "pmempool create obj pool"),
    ("pmempool create of a log pool", None, "pmdk-tools", "", "pool", FORCE,
     "pmempool create log pool"),
    ("pmempool create of a block pool", None, "pmdk-tools", "", "pool", FORCE,
     "pmempool create blk 512 pool"),
    ("pmempool create of a block pool, its blocks laid out", None, "pmdk-tools", "", "pool", FORCE,
     "pmempool create --write-layout blk 4096 pool"),
    ("pmempool check", None, "pmdk-tools", "pmempool create blk 512 pool", "pool", FORCE,
     "pmempool check pool"),
    ("fio, engine libpmem, 256 random writes", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite"),
    ("the same with direct=1", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite --direct=1"),
    ("the same with direct=1 and sync=1", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite --direct=1 --sync=1"),
    ("fio, engine mmap, 256 random writes, msync after each", None, "fio", "truncate -s 1M pool",
     "pool", "", f"{FIO} --ioengine=mmap --rw=randwrite --fsync=1"),
    ("fio, engine pmemblk, 512 random writes", None, "fio", "", "pool", FORCE,
     "fio --name=fio --filename=pool,4096,32 --size=2m --bs=4k --thread --ioengine=pmemblk "
     "--rw=randwrite --direct=1"),
    ("stress-ng, msync of a file", None, "stress-ng", "mkdir folder", "folder", "",
     "stress-ng --msync 1 --msync-ops 20 --msync-bytes 1m --temp-path folder"),
    ("stress-ng, mmap of a file", None, "stress-ng", "mkdir folder", "folder", "",
     "stress-ng --mmap 1 --mmap-ops 1 --mmap-bytes 64k --mmap-file --temp-path folder"),
    ("fio, engine dev-dax", None, "fio", None, None, None, NO_DEVDAX),
    ("daxio", None, "pmdk-tools", None, None, None, NO_DEVDAX),
]
HEADER = ["program", "version", "stores", "KB stored", "KB past the caches", "clflush",
          "clflushopt", "clwb", "of clean lines", "flushed twice", "fences", "idle", "msync",
          "lines not flushed", "not fenced"]


def run(command, folder, limit=600):
    """Runs a shell command, and returns its exit code and its output."""
    try:
        result = subprocess.run(
            ["sh", "-c", command], cwd=folder, capture_output=True, text=True, errors="replace",
            timeout=limit, stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return 124, f"timed out after {limit} s"
    return result.returncode, result.stdout + result.stderr


def last_line(output):
    return (output.strip().splitlines() or ["no error message"])[-1]


def build(name, folder):
    """Builds a program. Returns the command and None, or None and the reason."""
    sources, headers, libraries = SOURCES[name]
    root = "/usr/share/doc"
    files = []
    for source in sources:
        found = sorted(glob.glob(os.path.join(root, source)))
        if not found:
            return None, f"{os.path.join(root, source)} does not exist"
        files += [file for file in found if os.path.basename(file) not in ("mapcli.c",)]
    files = list(dict.fromkeys(files))
    with open(os.path.join(folder, "ex_common.h"), "w") as out:
        out.write(COMMON)
    words = ["gcc", "-O2", "-g", "-w", "-I."]
    words += [f"-I{os.path.join(root, header)}" for header in headers]
    words += ["-o", name] + files + libraries
    code, output = run(" ".join(words), folder)
    if code:
        return None, f"gcc: {(output.strip().splitlines() or ['failed'])[0]}"
    command = " ".join(words).replace(OBJECTS, "lib/trace/tests/record/programs/objects.c")
    return command, None


def figure(number):
    return str(number) if number else "."


def part(number, whole):
    return f"{number} ({100 * number / whole:.0f} %)" if number else "."


def row(title, version, total):
    flushes = total["clflush"] + total["clflushopt"] + total["clwb"]
    fences = total["sfence"] + total["mfence"]
    kilobytes = lambda count: f"{count / 1000:.1f}" if count else "."
    cells = [
        title, version, figure(total["stores"]), kilobytes(total["stored_bytes"]),
        kilobytes(total["nt_bytes"]), figure(total["clflush"]), figure(total["clflushopt"]),
        figure(total["clwb"]), part(total["clean_flushes"], flushes),
        part(total["flushed_again"], flushes), figure(fences), part(total["idle_fences"], fences),
        figure(total["msync"]), figure(total["unflushed_lines"]), figure(total["unfenced_lines"]),
    ]
    return "| " + " | ".join(cells) + " |"


def version(package):
    code, output = run(f"dpkg-query -W -f '${{Version}}' {package}", "/")
    return output.strip() if code == 0 and output.strip() else None


def measure(program, folder, builds, title, needs, package, before, file, variables, command):
    """Returns a row with the command that repeats it, and None; or None and the reason."""
    if file is None:
        return None, command
    package_version = version(package)
    if package_version is None:
        return None, f"{package} is not installed"
    work = os.path.join(folder, re.sub(r"\W+", "-", title))
    os.makedirs(work)
    if needs:
        if needs not in builds:
            builds[needs] = build(needs, folder)
        if builds[needs][0] is None:
            return None, builds[needs][1]
        shutil.copy(os.path.join(folder, needs), work)
    if before:
        code, output = run(before, work)
        if code:
            return None, f"'{before}' failed: {last_line(output)}"
    words = f"{variables} ringfence trace --file {file} -- {command}".strip()
    code, output = run(words.replace("ringfence trace", f"{program} trace", 1), work)
    if code:
        return None, f"exit code {code}: {re.sub(r'process [0-9]+: ', '', last_line(output))}"
    code, output = run(f"{program} census ringfence-trace --json", work)
    if code:
        return None, output.strip()
    run("rm -rf ringfence-trace", work)
    counts = json.loads(output)
    if counts["events"] == 0:
        return None, "no operation on the mapped file was recorded"
    repeat = f"{before} && {words}" if before else words
    return (row(title, package_version, counts["total"]), repeat), None


def section(program, folder):
    """Returns the section about recorded programs."""
    rows, commands, failures, builds = [], [], [], {}
    for title, *rest in RUNS:
        result, reason = measure(program, folder, builds, title, *rest)
        if result is None:
            failures.append(f"- {title}: {reason}.")
            continue
        rows.append(result[0])
        commands.append(result[1])
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    processor = names[0] if names else "an unknown processor"
    text = f"""
## What programs execute

These programs were recorded on {processor}. The libraries choose instructions for the processor: without `clwb` they execute other flushes, and
without AVX-512 other stores. `PMEM_IS_PMEM_FORCE=1` makes PMDK's libraries flush the lines of an ordinary file instead of calling `msync`.

The table counts every fence, and the other operations on the named file:

- *of clean lines*: flushes of lines with nothing to write back. The share is that of all flushes.
- *flushed twice*: flushes of a line that the thread had already flushed since its last fence. The share is that of all flushes.
- *idle*: fences with nothing to wait for. The share is that of all fences.
- *lines not flushed*, *not fenced*: lines in that state at the end. With libpmemobj most of them are locks, which lie in the pool and need not be durable.

Creating an object pool flushes all of its lanes, although most of their lines were never stored to. The rows that include it show this.
The example maps use new random keys in each run, so their counts differ a little from run to run.

| {' | '.join(HEADER)} |
|{'---|' * 2}{'---:|' * (len(HEADER) - 2)}
""" + "\n".join(rows) + "\n"
    if failures:
        text += "\nNot run:\n\n" + "\n".join(failures) + "\n"
    build_commands = [command for command, _ in builds.values() if command]
    text += """
To repeat a row, build its program, run its command in an empty folder, and then run `ringfence census ringfence-trace`. PMDK's `-dev` packages
contain the examples. Their common header `ex_common.h` is not packaged; `scripts/comparisons/census_programs.py` contains the part that they need.

```sh
""" + "\n".join(build_commands + commands) + "\n```\n"
    return text
