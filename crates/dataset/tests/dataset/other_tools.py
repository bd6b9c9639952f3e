"""Reads a table with one tool and compares types and values.

Arguments: TOOL TABLE EXPECTED.json TYPES SCHEMA, where EXPECTED.json is an array of rows and TYPES maps
columns to text, f64, u64, u32 or bool.
"""

import json
import sys

tool, table, expected, stated, schema = sys.argv[1:]
expected = json.load(open(expected))
stated = json.loads(stated)


def of(kinds):
    """The type wanted for each column, from (text, f64, u64, u32, bool)."""
    kinds = dict(zip(("text", "f64", "u64", "u32", "bool"), kinds))
    return [kinds[stated[name]] for name in expected[0]]


if tool == "pyarrow":
    import pyarrow.parquet

    data = pyarrow.parquet.read_table(table)
    types = [str(field.type) for field in data.schema]
    wanted = of(["string", "double", "uint64", "uint32", "bool"])
    rows = data.to_pylist()
    assert data.schema.metadata[b"ringfence.schema"] == schema.encode(), data.schema.metadata
elif tool == "duckdb":
    import duckdb

    data = duckdb.sql(f"select * from '{table}'")
    types = [str(kind) for kind in data.types]
    wanted = of(["VARCHAR", "DOUBLE", "UBIGINT", "UINTEGER", "BOOLEAN"])
    rows = [dict(zip(data.columns, row)) for row in data.fetchall()]
elif tool == "polars":
    import polars

    data = polars.read_parquet(table)
    types = [str(kind) for kind in data.dtypes]
    wanted = of(["String", "Float64", "UInt64", "UInt32", "Boolean"])
    rows = data.to_dicts()
elif tool == "pandas":
    import pandas

    data = pandas.read_parquet(table, dtype_backend="numpy_nullable")
    types = [str(kind).lower() for kind in data.dtypes]
    wanted = of(["string", "float64", "uint64", "uint32", "boolean"])
    data = data.astype(object).where(data.notna(), None)
    rows = data.to_dict("records")

assert types == wanted, (types, wanted)
assert len(rows) == len(expected), (len(rows), len(expected))
for ours, theirs in zip(expected, rows):
    assert ours == theirs, (ours, theirs)
