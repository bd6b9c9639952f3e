//! Builds the crate once more, as an executable without any library, linked to the address where it
//! lies in each recorded process.

use std::path::PathBuf;
use std::process::Command;

// Linked with nothing, at the places that the script says.
const LINK: [&str; 9] = [
    "-nostdlib",
    "-nostartfiles",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
    "-Wl,-z,norelro",
    "-Wl,--no-eh-frame-hdr",
    "-Wl,-T,link.ld",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(executable)");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=link.ld");
    let out = PathBuf::from(variable("OUT_DIR")).join("runtime.elf");
    let is_supported =
        variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if !is_supported {
        // Recording says then that it is not for this machine.
        std::fs::write(&out, []).expect("the build's folder can be written to");
        return;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    // Relative paths, so that the executable does not depend on where its source is.
    compiler.current_dir(variable("CARGO_MANIFEST_DIR")).arg("src/lib.rs");
    compiler.args(["--crate-name=ringfence_trace_runtime", "--crate-type=bin", "--edition=2024"]);
    compiler.args(["--cfg=executable", "--check-cfg=cfg(executable)"]);
    // It needs nothing of either system: the one that is built on is always installed.
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let is_usable = host.starts_with("x86_64-") && host.contains("-linux-");
    let chosen = if is_usable { host } else { target };
    compiler.args(["--target", &chosen]);
    if chosen.contains("musl") {
        // Otherwise its own start comes before ours.
        compiler.args(["-C", "link-self-contained=no"]);
    }
    // In stubs, only the SSE registers are saved: instructions without AVX leave the rest alone.
    for option in [
        "opt-level=2",
        "panic=abort",
        "relocation-model=pic",
        "target-feature=-avx",
        "strip=symbols",
    ] {
        compiler.args(["-C", option]);
    }
    for option in LINK {
        compiler.args(["-C", &format!("link-arg={option}")]);
    }
    let built = compiler.arg("-o").arg(&out).output().expect("the compiler can be started");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the executable was not built: {}\n{said}", built.status);
    // Cargo shows what a build script says only where it fails.
    for line in said.lines() {
        println!("cargo::warning={line}");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
