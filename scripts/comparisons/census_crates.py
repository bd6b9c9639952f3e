"""What the code of published Rust crates has: built as a throwaway package depends on them, and counted in their rlib."""

import json
import os
import re
import subprocess

# Name and what a manifest says of it besides the version.
DURABLE = [("corundum", ""), ("pmdk", ""), ("pmdk-sys", ""), ("pmemobj-sys", ""), ("nvml-sys", ""), ("clf", "")]
OTHERS = [("memmap2", ""), ("sled", ""), ("redb", ""), ("persy", ""), ("lmdb-rkv-sys", ""),
          ("libsqlite3-sys", 'features = ["bundled"]'), ("libmimalloc-sys", ""), ("zstd-sys", ""), ("ring", ""),
          ("blake3", ""), ("memchr", ""), ("crossbeam-epoch", ""), ("parking_lot_core", "")]
LIMIT_S = 300


def manifest(name, more):
    words = ", ".join(part for part in ('version = "*"', more) if part)
    return f'[package]\nname = "throwaway"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n' \
           f"[dependencies]\n{name} = {{ {words} }}\n"


def reason(done):
    """The first error in a line, without addresses: the compiler's, or else cargo's."""
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = [one["message"]["message"] for one in messages
              if one.get("reason") == "compiler-message" and one["message"]["level"] == "error"]
    lines = [line.strip() for line in done.stderr.splitlines()]
    errors += [line for line in lines if line.startswith("error")] or lines or ["it says nothing"]
    text = re.sub(r"^error(\[\w+\])?: |\(?https?://\S+|`[^`]*/[^`]*`|/\S+", "", errors[0])
    return re.sub(r"\s+", " ", text).strip(" :.?")


def census(program, name, more, folder):
    """The version and what was found; None and the reason where there is none."""
    place = os.path.join(folder, f"crate-{name}")
    os.makedirs(os.path.join(place, "src"))
    with open(os.path.join(place, "Cargo.toml"), "w") as out:
        out.write(manifest(name, more))
    open(os.path.join(place, "src/lib.rs"), "w").close()
    target = os.path.join(folder, "crates-target")
    words = ["cargo", "build", "--release", "--message-format=json", "--target-dir", target]
    # Where the distribution has static libraries, some crates take them in.
    environment = os.environ | {"RUSTFLAGS": "-L native=/usr/lib/x86_64-linux-gnu"}
    try:
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"it was not built within {LIMIT_S} s"
    if done.returncode:
        return None, f"it is not built: {reason(done)}"
    # Of several versions, the last one that was built is the one that was asked for.
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    mine = [one for one in messages if one.get("reason") == "compiler-artifact" and is_library(one, name)]
    if not mine:
        return None, "no library was built of it"
    version = re.search(r"[#@]([^#@]+)$", mine[-1]["package_id"]).group(1)
    library = [file for file in mine[-1]["filenames"] if file.endswith(".rlib")]
    said = subprocess.run([program, "census", "--json", *library], capture_output=True, text=True)
    if said.returncode:
        # Nothing but declarations and what is compiled with its users.
        return None, f"{version}: its library has no code of its own" if re.search("no object files|no code found", said.stderr) else said.stderr
    return version, json.loads(said.stdout)


def is_library(message, name):
    package = message["package_id"].rsplit("#", 1)[-1]
    named = package.split("@")[0] == name or message["package_id"].rsplit("#", 1)[0].endswith(f"/{name}")
    own = message["target"]["name"].replace("-", "_") == name.replace("-", "_")
    return (named or own) and "lib" in message["target"]["kind"]
