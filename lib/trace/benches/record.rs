//! What recording costs: for an event, and for work that has nothing to do with the recorded file.
//!
//! One program runs as it is and recorded, in turn; figures are medians of the runs, with the least
//! and the greatest. The ratio is the median of those within one round, with a 95 % interval by the
//! sign test.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Writer};

const ROUNDS: usize = 15;
// Of 15 values in order, 4th and 12th: the median lies outside with a probability of 3.5 %.
const BOUNDS: (usize, usize) = (3, 11);

type Figures = BTreeMap<String, Vec<f64>>;

fn read(text: &str, figures: &mut Figures) {
    for line in text.lines() {
        if let Some((name, Ok(value))) =
            line.split_once(' ').map(|(name, value)| (name, value.parse()))
        {
            figures.entry(name.to_owned()).or_default().push(value);
        }
    }
}

fn shown(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    format!(
        "{:>12.1} [{:.1}, {:.1}]",
        values[values.len() / 2],
        values[0],
        values[values.len() - 1]
    )
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = folder.path().join("costs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs/costs.c");
    let built = Command::new("gcc")
        .args(["-O2", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("not run, because gcc did not build the program");
        return;
    }
    let file = folder.path().join("file");
    let (mut native, mut recorded) = (Figures::new(), Figures::new());
    for round in 0..ROUNDS {
        let ran =
            Command::new(&program).arg(&file).stderr(Stdio::inherit()).output().expect("it starts");
        read(&String::from_utf8_lossy(&ran.stdout), &mut native);
        let output = folder.path().join("output");
        let script = format!("exec \"$@\" > {}", output.display());
        let mut command: Vec<_> = ["sh", "-c", &script, "sh"].map(Into::into).into();
        command.extend([program.clone().into(), file.clone().into()]);
        let trace = folder.path().join(format!("trace-{round}"));
        let mut writer = Writer::create(&trace, About::default()).expect("a trace can be made");
        let options = Options { command, files: vec![file.clone()], ..Options::default() };
        let outcome = record(options, &mut writer).expect("it can be recorded");
        writer.finish(outcome.ended).expect("the trace can be written");
        read(
            &std::io::read_to_string(File::open(output).expect("it is there")).expect("it is text"),
            &mut recorded,
        );
    }
    println!("{:<16}{:>28}{:>34}  ratio", "ns", "as it is", "recorded");
    for (name, native) in &mut native {
        let recorded = recorded.get_mut(name).expect("both runs have it");
        let mut ratios: Vec<f64> =
            native.iter().zip(&*recorded).map(|(one, other)| other / one).collect();
        ratios.sort_by(f64::total_cmp);
        let (ratio, from, to) = (ratios[ROUNDS / 2], ratios[BOUNDS.0], ratios[BOUNDS.1]);
        let (one, other) = (shown(native), shown(recorded));
        println!("{name:<16}{one:>28}{other:>34}  {ratio:.3} [{from:.3}, {to:.3}]");
    }
}
