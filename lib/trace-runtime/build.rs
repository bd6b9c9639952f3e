//! Builds the runtime that goes into recorded processes: an executable of its own, without any library, linked to
//! the address where it lies in each of them.

use std::path::{Path, PathBuf};
use std::process::Command;

// What it is linked with: nothing, at the places that the script says.
const LINK: [&str; 8] = [
    "-nostdlib",
    "-nostartfiles",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
    "-Wl,-z,norelro",
    "-Wl,--no-eh-frame-hdr",
];

fn main() {
    println!("cargo::rerun-if-changed=runtime");
    let out = PathBuf::from(variable("OUT_DIR")).join("runtime.elf");
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("runtime");
    let is_ours = variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if !is_ours {
        // Recording says then that it is not for this machine.
        std::fs::write(&out, []).expect("the build's folder can be written to");
        return;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition=2024", "--crate-name=ringfence_runtime", "--crate-type=bin"]);
    // It needs nothing of either system: the one that is built on is always installed.
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let chosen = if host.starts_with("x86_64-") && host.contains("-linux-") { host } else { target };
    compiler.args(["--target", &chosen]);
    if chosen.contains("musl") {
        // Otherwise its own start comes before ours.
        compiler.args(["-C", "link-self-contained=no"]);
    }
    // In stubs, only the SSE registers are saved, as instructions without AVX leave the rest of them alone.
    for option in
        ["opt-level=2", "panic=abort", "relocation-model=pic", "target-feature=-avx", "strip=symbols"]
    {
        compiler.args(["-C", option]);
    }
    for option in LINK {
        compiler.args(["-C", &format!("link-arg={option}")]);
    }
    compiler.args(["-C", &format!("link-arg=-Wl,-T,{}", folder.join("link.ld").display())]);
    let status = compiler.arg("-o").arg(&out).arg(folder.join("main.rs")).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("the compiler did not build the runtime: {status}"),
        Err(error) => panic!("the compiler could not be started: {error}"),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
