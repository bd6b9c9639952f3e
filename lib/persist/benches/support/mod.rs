//! What both benches need: options, intervals, tables, libraries that may be absent.

pub mod foreign;
pub mod options;
pub mod stats;
pub mod table;

use std::path::{Path, PathBuf};

use rand::Shuffle;

/// Drawing orders: xorshift64*, so that a seed repeats a run (Vigna, ACM TOMS 42, 2016).
pub mod rand {
    /// The state; never zero.
    #[derive(Debug, Clone)]
    pub struct Xorshift(pub u64);

    impl Xorshift {
        /// The next number.
        #[inline(always)]
        pub fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        /// Below `bound`.
        #[inline(always)]
        pub fn below(&mut self, bound: usize) -> usize {
            ((u128::from(self.next()) * bound as u128) >> 64) as usize
        }
    }

    /// A random order.
    pub trait Shuffle {
        /// Draws it.
        fn shuffle(&mut self, rng: &mut Xorshift);
    }

    impl<T> Shuffle for [T] {
        fn shuffle(&mut self, rng: &mut Xorshift) {
            for i in (1..self.len()).rev() {
                self.swap(i, rng.below(i + 1));
            }
        }
    }
}

/// 0 to `count` in a random order.
pub fn order(count: usize, rng: &mut rand::Xorshift) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(rng);
    order
}

/// Prints a report and writes it to `target/bench/NAME.md`.
pub fn publish(name: &str, report: &table::Report) -> Result<(), String> {
    println!("{}", report.text());
    let path = folder().join(format!("{name}.md"));
    let write = || {
        std::fs::create_dir_all(path.parent().expect("it has one"))?;
        std::fs::write(&path, report.markdown())
    };
    write().map_err(|error| format!("{}: {error}", path.display()))?;
    println!("also in {}", path.display());
    Ok(())
}

// Cargo tells benches of target/tmp alone.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target").join("bench")
}

/// The machine in one line: processor, CPUs, load.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("?", |(_, value)| value.trim()).to_owned()
    };
    format!(
        "{} ({}), {} CPUs{}, Linux {}, load {} when it ended",
        field("model name"),
        ringfence_persist::policy::Fingerprint::here(),
        cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
        if field("flags").split(' ').any(|flag| flag == "hypervisor") {
            " of a virtual machine"
        } else {
            ""
        },
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or("?"),
    )
}
