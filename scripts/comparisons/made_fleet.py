#!/usr/bin/env python3
"""Makes a fleet of many hosts out of one task of a real one, and times how long it takes to gather and to report it.

    scripts/comparisons/made_fleet.py RINGFENCE FLEET MADE [HOSTS]

FLEET is the folder of a fleet with at least one task that is done, such as of 'ringfence fleet submit FLEET --local 1 -- survey
--quick'. In MADE each of HOSTS hosts (1000) has its samples, and its figures times a factor of its own: hosts differ by 5 %, on two kernels
that differ by 2 %, and three hosts by a factor of 2.5. That report finds these three, and no other, is checked.
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

ringfence, fleet, made = sys.argv[1:4]
hosts = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
fleet, made = pathlib.Path(fleet), pathlib.Path(made)
odd = {hosts // 7, hosts // 3, hosts // 2}
random.seed(1)

attempt = sorted(fleet.glob("tasks/*/attempt-[0-9]*"))[0]
figures = pyarrow.parquet.read_table(attempt / "rows/figures.parquet")
facts = json.loads((attempt / "host.json").read_text())
outcome = json.loads((attempt / "outcome.json").read_text())
started = json.loads((attempt / "started.json").read_text())
written = json.loads((attempt / "rows/written.json").read_text())
shutil.rmtree(made, ignore_errors=True)
(made / "nodes").mkdir(parents=True)
(made / "submissions").mkdir()
(made / "ringfence").write_text("")
spec = (fleet / "fleet.toml").read_text().splitlines()
spec = [f"tasks = {hosts}" if line.startswith("tasks = ") else line for line in spec]
(made / "fleet.toml").write_text("\n".join(spec) + "\n")


def replaced(table, name, values):
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pyarrow.array(values, table.schema.field(place).type))


for host in range(1, hosts + 1):
    own = made / f"tasks/{host:04}/attempt-1"
    (own / "rows").mkdir(parents=True)
    kernel = "6.1.0" if host % 2 else "6.6.0"
    node = f"made{host:04}"
    (own / "host.json").write_text(json.dumps(facts | {"node": node, "hostname": node, "kernel": kernel}))
    (own / "outcome.json").write_text(json.dumps(outcome | {"task": host, "attempt": 1, "node": node}))
    (own / "started.json").write_text(json.dumps(started | {"node": node}))
    (own.parent / "first.json").write_text('{"attempt":1}')
    for part in written["tables"]:
        shutil.copy(attempt / f"rows/{part['table']}.parquet", own / "rows")
    rows = figures.num_rows
    table = replaced(figures, "node", [node] * rows)
    table = replaced(table, "kernel", [kernel] * rows)
    table = replaced(table, "task", [host] * rows)
    factors = [
        random.lognormvariate(0, 0.05) * (1.02 if kernel == "6.6.0" else 1) * (2.5 if host in odd and row < 8 else 1)
        for row in range(rows)
    ]
    for name in ("value", "low", "high"):
        values = [value and value * factor for value, factor in zip(table.column(name).to_pylist(), factors)]
        table = replaced(table, name, values)
    pyarrow.parquet.write_table(table, own / "rows/figures.parquet")
    content = (own / "rows/figures.parquet").read_bytes()
    for part in written["tables"]:
        if part["table"] == "figures":
            part |= {"bytes": len(content), "xxh64": xxhash.xxh64_hexdigest(content)}
    (own / "rows/written.json").write_text(json.dumps(written))
print(f"{hosts} hosts, {figures.num_rows} figures each, {pyarrow.parquet.read_metadata(attempt / 'rows/samples.parquet').num_rows} samples each")

for words in (["gather", made], ["report", made, "--json"], ["report", made, "--compare", "kernel=6.1:6.6", "--html", f"{made}.html"]):
    begun = time.monotonic()
    ran = subprocess.run([ringfence, "fleet", *map(str, words)], capture_output=True, text=True, check=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{words[0]:8} {time.monotonic() - begun:6.2f} s, at most {most:.0f} MiB of any so far")
    if words[-1] == "--json":
        report = json.loads(ran.stdout)
        nodes = {report["hosts"][outlier["host"]]["task"] for figure in report["figures"] for outlier in figure["outliers"]}
        print("outliers:", sorted(nodes), "planted:", sorted(odd))
        assert odd <= nodes, nodes
