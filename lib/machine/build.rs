//! Says in one sentence where this cannot be built, instead of in a hundred errors about assembly.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if architecture != "x86_64" {
        println!(
            "cargo::error=Ringfence measures x86-64 flush instructions and does not support \
             {architecture}."
        );
    }
}
