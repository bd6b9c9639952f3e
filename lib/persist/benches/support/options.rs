//! The command line of a bench.

use ringfence_persist::{Medium, Pages, Request};

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether to measure; else only what can be checked without a clock. `cargo bench` passes
    /// `--bench`.
    pub measure: bool,
    /// Rounds that are reported.
    pub rounds: Option<usize>,
    /// A short run.
    pub quick: bool,
    /// Bytes mapped.
    pub size: usize,
    /// Where.
    pub target: String,
    /// The CPUs to run on: producer and consumer.
    pub cpus: Vec<u32>,
    /// Seed of the orders drawn.
    pub seed: u64,
}

const USAGE: &str = "--quick, --rounds N, --size BYTES (or 64MiB, 1GiB), --target dram|node:N|PATH \
                     (a directory or \
                     new file on a DAX file system, or /dev/daxX.Y), --cpus A,B, --seed N";

impl Options {
    /// Reads the command line.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            measure: false,
            rounds: None,
            quick: false,
            size: 1 << 30,
            target: "dram".into(),
            cpus: Vec::new(),
            seed: 1,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value: {USAGE}"));
            match arg.as_str() {
                "--bench" => options.measure = true,
                "--quick" => options.quick = true,
                "--rounds" => {
                    let rounds = number(&value()?)?;
                    if rounds < 3 {
                        return Err("fewer than 3 rounds give no interval".into());
                    }
                    options.rounds = Some(rounds);
                }
                "--size" => options.size = bytes(&value()?)?,
                "--target" => options.target = value()?,
                "--cpus" => {
                    let list = value()?;
                    options.cpus = list.split(',').map(number).collect::<Result<_, _>>()?;
                }
                "--seed" => options.seed = number::<u64>(&value()?)?.max(1),
                other => return Err(format!("{other} is not known: {USAGE}")),
            }
        }
        Ok(options)
    }

    /// What to map for `len` bytes of it.
    pub fn request(&self, len: usize) -> Result<Request, String> {
        let medium = match self.target.as_str() {
            "dram" => Medium::Dram,
            target => match target.strip_prefix("node:") {
                Some(node) => Medium::Node(number(node)?),
                None if target.starts_with("/dev/dax") => Medium::DevDax(target.into()),
                None => Medium::Dax(target.into()),
            },
        };
        Ok(Request { medium, len, pages: Pages::Base })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number that fits here: {USAGE}"))
}

fn bytes(text: &str) -> Result<usize, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let unit = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(format!("'{other}' is not a unit of size: B, KiB, MiB, GiB")),
    };
    number::<usize>(digits)?.checked_mul(unit).ok_or_else(|| format!("{text} is too much"))
}
