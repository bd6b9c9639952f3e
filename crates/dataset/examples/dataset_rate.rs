//! How long a million samples take to append, to finish and to open: `dataset_rate NEW_FOLDER`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ringfence_dataset::{Dataset, Recorder};
use ringfence_experiment::Experiment;
use ringfence_experiment::class::Class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::placement::{Place, Placed};
use ringfence_experiment::plan::{Active, Case, Plan};
use ringfence_experiment::sample::Sample;

const EXPERIMENT: &str = "schema = 2\nname = 'rate'\nmetric = 'victim'\n\
    [[role]]\nname = 'victim'\ntask = { workload = 'chase' }\n[[arm]]\nname = 'alone'\nactive = \
    ['victim']\n";

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("name a new folder")?;
    let active = vec![Active { role: 0, count: 1, variant: 0 }];
    let case = Case {
        arm: "alone".into(),
        label: String::new(),
        params: vec![],
        active,
        baseline: None,
        between: None,
    };
    let placed = Placed { cpus: vec![vec![0]], places: vec![Place::Home], notes: vec![] };
    let plan = Plan::stored(Experiment::parse(EXPERIMENT)?, vec![case], vec![], placed)?;
    let mut recorder = Recorder::create(Path::new(&dir), &plan, &serde_json::Value::Null)?;

    let role: Arc<str> = "victim".into();
    let mut noise = 1_u64;
    let mut draw = |below: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 33) % below
    };
    let steps: Vec<Vec<Sample>> = (0..250_000_u32)
        .map(|step| {
            let sample = |position| Sample {
                trial: step / 1000,
                round: step / 100 % 10,
                step: step % 100,
                position,
                role: role.clone(),
                cpu: 3,
                class: Class::Sharing,
                ping_before_ns: Some(66.0 + draw(640) as f64 / 10.0),
                ping_after_ns: Some(66.0 + draw(640) as f64 / 10.0),
                start_ns: u64::from(step) * 90_000_000
                    + u64::from(position) * 22_000_000
                    + draw(100_000),
                length_ns: 20_000_000 + draw(100_000),
                busy_ns: 20_000_000 + draw(100_000),
                units: 250_000 + draw(20_000),
                cycles: Some(60_000_000 + draw(5_000_000)),
                instructions: Some(30_000_000 + draw(5_000_000)),
                llc_misses: step.is_multiple_of(2).then(|| draw(200_000)),
                ..Sample::default()
            };
            (0..4).map(sample).collect()
        })
        .collect();

    let begun = Instant::now();
    steps.iter().try_for_each(|step| recorder.append(step))?;
    println!("append  {:?} for {} steps", begun.elapsed(), steps.len());
    let begun = Instant::now();
    let unfinished = Dataset::open(Path::new(&dir))?;
    println!(
        "open    {:?} for {} samples of the journal",
        begun.elapsed(),
        unfinished.samples.len()
    );
    let begun = Instant::now();
    recorder.finish(&Ended::Complete)?;
    println!("finish  {:?}", begun.elapsed());
    let begun = Instant::now();
    let dataset = Dataset::open(Path::new(&dir))?;
    println!("open    {:?} for {} samples", begun.elapsed(), dataset.samples.len());
    println!("size    {} bytes", dataset.manifest.samples.as_ref().map_or(0, |file| file.bytes));
    assert!(dataset.samples == unfinished.samples);
    Ok(())
}
