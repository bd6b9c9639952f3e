//! `versus`: commands, interleaved.

use std::time::Instant;

use ringfence_json as json;
use ringfence_versus::{Flags, Question, Trouble, Verdict, Watch, conduct};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::host;

pub fn run(flags: &Flags) -> Result<(), Failure> {
    let question = Question::new(flags).map_err(Failure::Usage)?;
    let dir = flags.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir("versus"));
    let stop = host::stop_on_signals()?;
    let mut told = Told(Show::new(flags.quiet));
    told.0.begin("versus");
    let done = conduct(&question, &dir, &stop, &mut told);
    told.0.end();
    let done = done.map_err(failure)?;
    if flags.json {
        output::print_json(&json::versus(&done.findings, &dir))?;
    } else if flags.style.as_deref() != Some("none") {
        let text = ringfence_versus::versus(&done.findings, &output::style());
        output::print(&format!("{text}\nruns: {}\n", dir.display()))?;
    }
    match (done.trouble, done.findings.verdict) {
        (Some(trouble), _) => Err(failure(trouble)),
        (None, Verdict::OverBudget) => Err(Failure::Verdict(Exit::BudgetMissed)),
        (None, Verdict::Undecided | Verdict::NotEstimable) if done.findings.settings.budget.is_some() => {
            Err(Failure::Verdict(Exit::Undecided))
        }
        (None, _) => Ok(()),
    }
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Interrupted => Failure::Failed("interrupted".into()),
        Trouble::Usage(why) => Failure::Usage(why),
        Trouble::Failed(why) => Failure::Failed(why),
    }
}

struct Told(Show);

impl Watch for Told {
    fn note(&mut self, text: &str) {
        ringfence_study::Watch::note(&mut self.0, text);
    }

    fn share(&mut self, began: Instant, share: f64) {
        self.0.share(began, share);
    }
}
