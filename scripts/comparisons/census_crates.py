"""Counts the instructions of published Rust crates.

Each crate is built as the dependency of a temporary package, and counted in its rlib.
"""

import json
import os
import re
import subprocess

# Each crate's name, and fields of its dependency in the manifest besides the version.
DURABLE = [
    ("corundum", ""),
    ("pmdk", ""),
    ("pmdk-sys", ""),
    ("pmemobj-sys", ""),
    ("nvml-sys", ""),
    ("clf", ""),
]
OTHERS = [
    ("memmap2", ""),
    ("sled", ""),
    ("redb", ""),
    ("persy", ""),
    ("lmdb-rkv-sys", ""),
    ("libsqlite3-sys", 'features = ["bundled"]'),
    ("libmimalloc-sys", ""),
    ("zstd-sys", ""),
    ("ring", ""),
    ("blake3", ""),
    ("memchr", ""),
    ("crossbeam-epoch", ""),
    ("parking_lot_core", ""),
]
LIMIT_S = 300


def manifest(name, fields):
    fields = ", ".join(field for field in ('version = "*"', fields) if field)
    return (
        '[package]\nname = "throwaway"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f"[dependencies]\n{name} = {{ {fields} }}\n"
    )


def reason(result):
    """Returns the compiler's first error, otherwise cargo's, as one line without paths and URLs."""
    messages = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    messages = [one["message"] for one in messages if one.get("reason") == "compiler-message"]
    errors = [message["message"] for message in messages if message["level"] == "error"]
    lines = [line.strip() for line in result.stderr.splitlines()]
    errors += [line for line in lines if line.startswith("error")] or lines or ["no error message"]
    text = re.sub(r"^error(\[\w+\])?: |\(?https?://\S+|`[^`]*/[^`]*`|/\S+", "", errors[0])
    return re.sub(r"\s+", " ", text).strip(" :.?")


def census(program, name, fields, folder):
    """Returns the version and the counts, or None and a phrase that follows the crate's name."""
    package = os.path.join(folder, f"crate-{name}")
    os.makedirs(os.path.join(package, "src"))
    with open(os.path.join(package, "Cargo.toml"), "w") as out:
        out.write(manifest(name, fields))
    open(os.path.join(package, "src/lib.rs"), "w").close()
    target = os.path.join(folder, "crates-target")
    command = ["cargo", "build", "--release", "--message-format=json", "--target-dir", target]
    # Some crates include static libraries of the distribution if they exist.
    environment = os.environ | {"RUSTFLAGS": "-L native=/usr/lib/x86_64-linux-gnu"}
    try:
        build = subprocess.run(
            command, cwd=package, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return None, f"does not build within {LIMIT_S} s"
    if build.returncode:
        return None, f"does not build: {reason(build)}"
    # With several versions of a crate, cargo builds the requested one last.
    messages = [json.loads(line) for line in build.stdout.splitlines() if line.startswith("{")]
    artifacts = [message for message in messages
                 if message.get("reason") == "compiler-artifact" and is_library(message, name)]
    if not artifacts:
        return None, "builds no library"
    version = re.search(r"[#@]([^#@]+)$", artifacts[-1]["package_id"]).group(1)
    library = [file for file in artifacts[-1]["filenames"] if file.endswith(".rlib")]
    result = subprocess.run([program, "census", "--json", *library], capture_output=True, text=True)
    if result.returncode:
        # The library has only declarations, and code that is compiled into the calling crate.
        if re.search("no object files|no code found", result.stderr):
            return None, f"{version} has no code in its library"
        return None, f"{version} cannot be counted: {result.stderr.strip()}"
    return version, json.loads(result.stdout)


def is_library(message, name):
    """Whether a message of cargo is about the library of a crate."""
    source, _, package = message["package_id"].rpartition("#")
    of_package = package.split("@")[0] == name or source.endswith(f"/{name}")
    of_target = message["target"]["name"].replace("-", "_") == name.replace("-", "_")
    return (of_package or of_target) and "lib" in message["target"]["kind"]
