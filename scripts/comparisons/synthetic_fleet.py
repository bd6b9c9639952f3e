#!/usr/bin/env python3
"""Creates a synthetic fleet from one task of a real one, and times 'gather' and 'report' with it.

    scripts/comparisons/synthetic_fleet.py RINGFENCE FLEET OUT [HOSTS]

FLEET is the folder of a fleet with at least one completed task, for example of 'ringfence fleet
submit FLEET --local 1 -- survey --quick'. OUT gets a fleet of HOSTS hosts (default: 1000). Each has
the samples of that task, and its figures with a random factor: hosts differ by 5 %, the two kernels
differ by 2 %, and three hosts are outliers by a factor of 2.5. The script prints the outliers of
the report, and fails if one of these three is missing.
"""

import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import xxhash

ringfence, fleet, out = sys.argv[1:4]
hosts = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
fleet, out = pathlib.Path(fleet), pathlib.Path(out)
planted = {hosts // 7, hosts // 3, hosts // 2}
random.seed(1)

attempt = sorted(fleet.glob("tasks/*/attempt-[0-9]*"))[0]
figures = pyarrow.parquet.read_table(attempt / "rows/figures.parquet")
facts = json.loads((attempt / "host.json").read_text())
outcome = json.loads((attempt / "outcome.json").read_text())
started = json.loads((attempt / "started.json").read_text())
written = json.loads((attempt / "rows/written.json").read_text())
shutil.rmtree(out, ignore_errors=True)
(out / "nodes").mkdir(parents=True)
(out / "submissions").mkdir()
(out / "ringfence").write_text("")
spec = (fleet / "fleet.toml").read_text().splitlines()
spec = [f"tasks = {hosts}" if line.startswith("tasks = ") else line for line in spec]
(out / "fleet.toml").write_text("\n".join(spec) + "\n")


def replace(table, name, values):
    index = table.schema.get_field_index(name)
    field = table.schema.field(index)
    return table.set_column(index, field, pyarrow.array(values, field.type))


for host in range(1, hosts + 1):
    own = out / f"tasks/{host:04}/attempt-1"
    (own / "rows").mkdir(parents=True)
    kernel = "6.1.0" if host % 2 else "6.6.0"
    node = f"synthetic{host:04}"
    own_facts = facts | {"node": node, "hostname": node, "kernel": kernel}
    (own / "host.json").write_text(json.dumps(own_facts))
    own_outcome = outcome | {"task": host, "attempt": 1, "node": node}
    (own / "outcome.json").write_text(json.dumps(own_outcome))
    (own / "started.json").write_text(json.dumps(started | {"node": node}))
    (own.parent / "first.json").write_text('{"attempt":1}')
    for part in written["tables"]:
        shutil.copy(attempt / f"rows/{part['table']}.parquet", own / "rows")
    rows = figures.num_rows
    table = replace(figures, "node", [node] * rows)
    table = replace(table, "kernel", [kernel] * rows)
    table = replace(table, "task", [host] * rows)
    of_kernel = 1.02 if kernel == "6.6.0" else 1
    factors = [
        random.lognormvariate(0, 0.05) * of_kernel * (2.5 if host in planted and row < 8 else 1)
        for row in range(rows)
    ]
    for name in ("value", "low", "high"):
        column = table.column(name).to_pylist()
        values = [value and value * factor for value, factor in zip(column, factors)]
        table = replace(table, name, values)
    pyarrow.parquet.write_table(table, own / "rows/figures.parquet")
    content = (own / "rows/figures.parquet").read_bytes()
    for part in written["tables"]:
        if part["table"] == "figures":
            part |= {"bytes": len(content), "xxh64": xxhash.xxh64_hexdigest(content)}
    (own / "rows/written.json").write_text(json.dumps(written))
samples = pyarrow.parquet.read_metadata(attempt / "rows/samples.parquet").num_rows
print(f"{hosts} hosts, {figures.num_rows} figures each, {samples} samples each")

for words in (
    ["gather", out],
    ["report", out, "--json"],
    ["report", out, "--compare", "kernel=6.1:6.6", "--html", f"{out}.html"],
):
    start = time.monotonic()
    command = [ringfence, "fleet", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{words[0]:8} {seconds:6.2f} s, peak memory of all commands so far: {peak:.0f} MiB")
    if words[-1] == "--json":
        report = json.loads(result.stdout)
        outliers = [outlier for figure in report["figures"] for outlier in figure["outliers"]]
        tasks = {report["hosts"][outlier["host"]]["task"] for outlier in outliers}
        print("outliers:", sorted(tasks), "planted:", sorted(planted))
        assert planted <= tasks, tasks
