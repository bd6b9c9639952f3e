"""What programs execute: recorded by 'ringfence trace', counted by 'ringfence census'."""

import glob
import json
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
OBJECTS = os.path.join(HERE, "../../lib/trace/tests/record/programs/objects.c")

# What PMDK's examples share, and Debian does not package.
COMMON = """#include <stdint.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>
#define CREATE_MODE_RW (S_IWUSR | S_IRUSR)
static inline int file_exists(const char *path) { return access(path, F_OK); }
static inline int find_last_set_64(uint64_t value) { return 63 - __builtin_clzll(value); }
"""

# Programs that are built here: sources below /usr/share/doc, folders with headers, libraries. The -dev packages have them.
OBJ, LOG, BLK, PMEM = (f"lib{name}-dev/examples" for name in ("pmemobj", "pmemlog", "pmemblk", "pmem"))
BUILT = {
    "data_store": (
        [f"{OBJ}/map/data_store.c", f"{OBJ}/map/map*.c", f"{OBJ}/tree_map/*_map.c", f"{OBJ}/hashmap/hashmap_*.c",
         f"{OBJ}/list_map/*.c"],
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

def made(layout):
    """Making a pool writes megabytes: where it can be made before, only what comes then is recorded."""
    return f"pmempool create --size 32M --layout {layout} obj pool"


# Title; what is built for it; the package whose version counts; what is made before; the file or folder; variables; command.
RUNS = [
    *((f"libpmemobj, example map: {name}, 500 insertions and removals", "data_store", "libpmemobj1", made("data_store"),
       "pool", FORCE, f"./data_store {name} pool 500") for name in MAPS),
    ("libpmemobj, example btree: one insertion", "btree", "libpmemobj1", made("btree"), "pool", FORCE,
     "./btree pool i 1 one"),
    ("libpmemobj, example fifo: one insertion", "fifo", "libpmemobj1", made("list"), "pool", FORCE,
     "./fifo pool insert a"),
    ("libpmemobj, example slab_allocator", "slab", "libpmemobj1", made("btree"), "pool", FORCE, "./slab pool"),
    ("libpmemobj, example pmemlog: makes a pool, three entries", "obj_pmemlog", "libpmemobj1", "", "pool", FORCE,
     "./obj_pmemlog c pool a:one a:two a:three"),
    ("libpmemobj, example pmemblk: makes a pool, two blocks", "obj_pmemblk", "libpmemobj1", "", "pool", FORCE,
     "./obj_pmemblk c pool 512 w:1:one w:2:two"),
    ("libpmemobj, objects.c: makes a pool, 100 transactions", "objects", "libpmemobj1", "", "pool", FORCE, "./objects pool 100"),
    ("the same without clwb", "objects", "libpmemobj1", "", "pool", f"{FORCE} PMEM_NO_CLWB=1", "./objects pool 100"),
    ("the same without clflushopt, too", "objects", "libpmemobj1", "", "pool",
     f"{FORCE} PMEM_NO_CLWB=1 PMEM_NO_CLFLUSHOPT=1", "./objects pool 100"),
    ("the same without non-temporal stores", "objects", "libpmemobj1", "", "pool", f"{FORCE} PMEM_NO_MOVNT=1",
     "./objects pool 100"),
    ("libpmemlog, example addlog: one entry of 100 lines", "addlog", "libpmemlog1", "truncate -s 4M pool", "pool", FORCE,
     "./addlog pool $(seq -f entry-%g 100)"),
    ("libpmemblk, example assetdb: 100 blocks", "asset_load", "libpmemblk1",
     "truncate -s 32M pool && seq -f asset-%g 100 > list", "pool", FORCE, "./asset_load pool list"),
    ("libpmem, example full_copy: 1 MiB", "full_copy", "libpmem1", "head -c 1M /dev/zero > from", "pool", FORCE,
     "./full_copy from pool"),
    ("libpmem, example simple_copy: 4 KiB", "simple_copy", "libpmem1", "head -c 4096 /dev/zero > from", "pool", FORCE,
     "./simple_copy from pool"),
    ("pmempool create of an object pool", None, "pmdk-tools", "", "pool", FORCE, "pmempool create obj pool"),
    ("pmempool create of a log pool", None, "pmdk-tools", "", "pool", FORCE, "pmempool create log pool"),
    ("pmempool create of a block pool", None, "pmdk-tools", "", "pool", FORCE, "pmempool create blk 512 pool"),
    ("pmempool create of a block pool, its blocks laid out", None, "pmdk-tools", "", "pool", FORCE,
     "pmempool create --write-layout blk 4096 pool"),
    ("pmempool check", None, "pmdk-tools", "pmempool create blk 512 pool", "pool", FORCE, "pmempool check pool"),
    ("fio, engine libpmem, 256 random writes", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite"),
    ("the same with direct=1", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite --direct=1"),
    ("the same with direct=1 and sync=1", None, "fio", "truncate -s 1M pool", "pool", FORCE,
     f"{FIO} --ioengine=libpmem --rw=randwrite --direct=1 --sync=1"),
    ("fio, engine mmap, 256 random writes, msync after each", None, "fio", "truncate -s 1M pool", "pool", "",
     f"{FIO} --ioengine=mmap --rw=randwrite --fsync=1"),
    ("fio, engine pmemblk, 512 random writes", None, "fio", "", "pool", FORCE,
     "fio --name=fio --filename=pool,4096,32 --size=2m --bs=4k --thread --ioengine=pmemblk --rw=randwrite --direct=1"),
    ("stress-ng, msync of a file", None, "stress-ng", "mkdir folder", "folder", "",
     "stress-ng --msync 1 --msync-ops 20 --msync-bytes 1m --temp-path folder"),
    ("stress-ng, mmap of a file", None, "stress-ng", "mkdir folder", "folder", "",
     "stress-ng --mmap 1 --mmap-ops 1 --mmap-bytes 64k --mmap-file --temp-path folder"),
    ("fio, engine dev-dax", None, "fio", None, None, None, "a device of persistent memory in mode devdax is not here"),
    ("daxio", None, "pmdk-tools", None, None, None, "a device of persistent memory in mode devdax is not here"),
]
HEADS = ["program", "version", "stores", "KB stored", "KB past the caches", "clflush", "clflushopt", "clwb",
         "of clean lines", "flushed twice", "fences", "idle", "msync", "lines not flushed", "not fenced"]


def run(command, folder, limit=600):
    """A shell's command: its exit code, and what it printed."""
    try:
        done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return 124, f"it did not end within {limit} s"
    return done.returncode, done.stdout + done.stderr


def build(name, folder):
    """The command that builds it, or None with the reason."""
    sources, headers, libraries = BUILT[name]
    root = "/usr/share/doc"
    files = []
    for source in sources:
        found = sorted(glob.glob(os.path.join(root, source)))
        if not found:
            return None, f"{os.path.join(root, source)} is not there"
        files += [file for file in found if os.path.basename(file) not in ("mapcli.c",)]
    files = list(dict.fromkeys(files))
    with open(os.path.join(folder, "ex_common.h"), "w") as out:
        out.write(COMMON)
    words = ["gcc", "-O2", "-g", "-w", "-I."] + [f"-I{os.path.join(root, one)}" for one in headers]
    words += ["-o", name] + files + libraries
    code, said = run(" ".join(words), folder)
    if code:
        return None, f"gcc: {(said.strip().splitlines() or ['it failed'])[0]}"
    shown = " ".join(words).replace(OBJECTS, "lib/trace/tests/record/programs/objects.c")
    return shown, None


def figure(number):
    return str(number) if number else "."


def part(number, whole):
    return f"{number} ({100 * number / whole:.0f} %)" if number else "."


def row(title, version, total):
    flushes = total["clflush"] + total["clflushopt"] + total["clwb"]
    fences = total["sfence"] + total["mfence"]
    kilobytes = lambda many: f"{many / 1000:.1f}" if many else "."
    cells = [
        title, version, figure(total["stores"]), kilobytes(total["stored_bytes"]), kilobytes(total["nt_bytes"]),
        figure(total["clflush"]), figure(total["clflushopt"]), figure(total["clwb"]),
        part(total["clean_flushes"], flushes), part(total["flushed_again"], flushes), figure(fences),
        part(total["idle_fences"], fences), figure(total["msync"]), figure(total["unflushed_lines"]), figure(total["unfenced_lines"]),
    ]
    return "| " + " | ".join(cells) + " |"


def version(package):
    code, said = run(f"dpkg-query -W -f '${{Version}}' {package}", "/")
    return said.strip() if code == 0 and said.strip() else None


def one(program, folder, built, title, needs, package, before, file, variables, command):
    """A row and how to repeat it; or None and the reason."""
    if file is None:
        return None, command
    known = version(package)
    if known is None:
        return None, f"{package} is not installed"
    place = os.path.join(folder, re.sub(r"\W+", "-", title))
    os.makedirs(place)
    if needs:
        if needs not in built:
            built[needs] = build(needs, folder)
        if built[needs][0] is None:
            return None, built[needs][1]
        shutil.copy(os.path.join(folder, needs), place)
    if before:
        code, said = run(before, place)
        if code:
            return None, f"'{before}' failed: {(said.strip().splitlines() or ['it says nothing'])[-1]}"
    words = f"{variables} ringfence trace --file {file} -- {command}".strip()
    code, said = run(words.replace("ringfence trace", f"{program} trace", 1), place)
    if code:
        why = (said.strip().splitlines() or ["it says nothing"])[-1]
        return None, f"exit code {code}: {re.sub(r'process [0-9]+: ', '', why)}"
    code, said = run(f"{program} census ringfence-trace --json", place)
    if code:
        return None, said.strip()
    run("rm -rf ringfence-trace", place)
    found = json.loads(said)
    if found["events"] == 0:
        return None, "it did nothing with the file that it maps"
    return (row(title, known, found["total"]), f"{before} && {words}" if before else words), None


def section(program, folder):
    """The page's section."""
    rows, commands, left, built = [], [], [], {}
    for title, *rest in RUNS:
        found, why = one(program, folder, built, title, *rest)
        if found is None:
            left.append(f"- {title}: {why}.")
            continue
        rows.append(found[0])
        commands.append(found[1])
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    processor = names[0] if names else "an unknown processor"
    text = f"""
## What programs execute

Recorded on {processor}, with whatever the libraries choose there: on a processor without `clwb` they execute other flushes, and
without AVX-512 other stores. `PMEM_IS_PMEM_FORCE=1` makes PMDK's libraries flush the lines of an ordinary file instead of calling
`msync`. Counted is what touches the file that is named, and every fence: *of clean lines* are flushes with nothing to write back,
*flushed twice* those of a line that the thread had flushed since its last fence, *idle* fences with nothing to wait for, and *lines
not flushed* or *not fenced* what was left so in the end: of libpmemobj mostly locks, which lie in the pool and need not last. Shares are
of all flushes, and of all fences. Making a pool for objects flushes all of its lanes, to most lines of which nothing was stored, as the
rows show that include it. The example maps draw their keys anew in each run, so their counts differ a little from run to run.

| {' | '.join(HEADS)} |
|{'---|' * 2}{'---:|' * (len(HEADS) - 2)}
""" + "\n".join(rows) + "\n"
    if left:
        text += "\nNot run:\n\n" + "\n".join(left) + "\n"
    builds = [shown for shown, _ in built.values() if shown]
    text += f"""
To repeat a row, build its program, run its command in an empty folder, and then `ringfence census ringfence-trace`. `-dev` packages
of PMDK have the examples; `ex_common.h`, which they share, is not packaged: `scripts/comparisons/census_programs.py` has what they need of it.

```sh
""" + "\n".join(builds + commands) + "\n```\n"
    return text
