//! What a survey advises, in sentences.

use ringfence_analysis::estimate::Interval;
use ringfence_studies::survey::advice::{Advice, AfterClwb, Beside, Pacing};
use ringfence_studies::survey::answer::{ForBlock, Seen};

use crate::survey::headline::{CHANCE, TOO_NOISY, at_most, left, ns, slower};
use crate::text::{capital, listed};

/// One thing that is advised, in a sentence.
pub fn advice(said: &Advice) -> String {
    match said {
        Advice::Cheapest(block) => cheapest(block),
        Advice::FenceOnce { instruction, per_line, per_block } => {
            fence_once(instruction, per_line, per_block)
        }
        Advice::Reload { line, clwb_ns, cached_ns, evicting_ns } => {
            reload(*line, [*clwb_ns, *cached_ns, *evicting_ns])
        }
        Advice::Beside { victim, writers, at_most } => beside(victim, writers, *at_most),
        Advice::Paced { victim, writer: name, pacing: Pacing::Helps, at_most: most, .. } => {
            format!(
                "Paced to the slowest writer's rate, {name} is not seen to slow {victim} ({}): \
                 pacing helps.",
                left(Some(*most))
            )
        }
        Advice::Paced { victim, writer: name, pacing, slowdown, .. } => {
            let what = match pacing {
                Pacing::HelpsInPart => "its speed is part of the cause, not all of it",
                _ => "its speed alone is not the cause",
            };
            let how = slower(slowdown);
            format!(
                "Paced to the slowest writer's rate, {name} still slows {victim} ({how}): \
                     {what}."
            )
        }
        Advice::Moved => {
            "The CPUs did not stay where they were: by their round trip they shared a cache at \
             some times and did not at others. Compare the figures by class: the host moves what \
             this machine sees as cores."
                .into()
        }
    }
}

/// What a short answer advises. Where no slowdown was seen and a large one could have been missed,
/// one sentence says so for all such victims together.
pub(crate) fn brief(all: &[Advice]) -> Vec<String> {
    let (mut texts, mut noisy, mut missed) = (Vec::new(), Vec::new(), 0.0_f64);
    let mut unknown = Vec::new();
    for one in all {
        match one {
            Advice::Beside { victim, writers, at_most: Some(most) } if *most > TOO_NOISY => {
                missed = missed.max(*most);
                let figures =
                    writers.iter().any(|one| matches!(one.seen, Seen::Slows | Seen::Perhaps));
                match figures {
                    true => texts.push(beside(victim, writers, Some(*most))),
                    false => noisy.push(victim.as_str()),
                }
            }
            Advice::Beside { victim, writers, .. }
                if writers.iter().all(|one| one.seen == Seen::NotKnown) =>
            {
                unknown.push(victim.as_str());
            }
            // A rate at which nothing could be seen is no remedy.
            Advice::Paced { pacing: Pacing::Helps, at_most, .. } if *at_most > TOO_NOISY => {}
            other => texts.push(advice(other)),
        }
    }
    if !unknown.is_empty() {
        let unknown = listed(&unknown, "or");
        texts.push(format!("Whether writers on the next core slow {unknown} is not known."));
    }
    if !noisy.is_empty() {
        texts.push(format!(
            "This machine is too busy to tell whether writers on the next core slow {}: a \
             slowdown below {} could be missed.",
            listed(&noisy, "or"),
            at_most(missed)
        ));
    }
    texts
}

fn cheapest(block: &ForBlock) -> String {
    let methods = block.cheapest();
    let costs: Vec<String> = methods
        .iter()
        .map(|method| format!("{} at {}", method.instruction, ns(method.cost.value)))
        .collect();
    let mut text = format!(
        "{} ({} blocks made durable one by one) cost least with {} a line",
        capital(block.what),
        block.block,
        listed(&costs, "or")
    );
    if methods.len() > 1 {
        text += ", which could not be told apart";
    }
    // Against each of the tied ones it is dearer; the factor is one of the first.
    if let (Some(next), [best]) = (block.next(), &methods[..]) {
        let times = next.cost.value / best.cost.value;
        let factor = if times < 1.95 {
            format!("{:.0} % less than {}", (1.0 - 1.0 / times) * 100.0, next.instruction)
        } else {
            format!("{times:.1} times less than {}", next.instruction)
        };
        text += &format!(", {factor} ({})", ns(next.cost.value));
    } else if let Some(next) = block.next() {
        text += &format!("; the next is {} ({})", next.instruction, ns(next.cost.value));
    }
    text + "."
}

fn fence_once(instruction: &str, per_line: &Interval, per_block: &Interval) -> String {
    format!(
        "A fence after every line makes a 4KiB {instruction} write {:.1} times as expensive as one \
         fence at its end ({} against {} a line): flush first, fence once.",
        per_line.value / per_block.value,
        ns(per_line.value),
        ns(per_block.value),
    )
}

fn reload(line: AfterClwb, [clwb, cached, evicting]: [f64; 3]) -> String {
    let figures = format!(
        "{} to load a line again, {} when cached, {} after an evicting flush",
        ns(clwb),
        ns(cached),
        ns(evicting)
    );
    match line {
        AfterClwb::Kept => format!(
            "clwb keeps the line in the cache here ({figures}): use it for lines that are soon \
             used again."
        ),
        AfterClwb::Evicted => {
            format!(
                "clwb evicts the line here, as clflushopt does ({figures}): it saves no reload."
            )
        }
        AfterClwb::Farther => format!(
            "clwb leaves the line in a farther cache here ({figures}): using it again costs less \
             than after clflushopt, but is not free."
        ),
    }
}

// Every writer is named once, under what its own figure says.
fn beside(victim: &str, writers: &[Beside], most: Option<f64>) -> String {
    let with = |seen: Seen| writers.iter().filter(move |one| one.seen == seen);
    let names = |seen: Seen| with(seen).map(|one| one.writer.as_str()).collect::<Vec<_>>();
    let mut slowed: Vec<&Beside> = with(Seen::Slows).collect();
    let low = |one: &Beside| one.slowdown.map_or(0.0, |slowdown| slowdown.low);
    slowed.sort_by(|a, b| low(b).total_cmp(&low(a)));
    let how = |one: &Beside| format!("{} with {}", slower(&one.slowdown), one.writer);
    let mut parts: Vec<String> = slowed.into_iter().map(how).collect();
    let perhaps: Vec<String> = with(Seen::Perhaps).map(how).collect();
    if !perhaps.is_empty() {
        parts.push(format!("perhaps {}, {CHANCE}", listed(&perhaps, "and")));
    }
    let unknown = names(Seen::NotKnown);
    if !unknown.is_empty() {
        parts.push(format!("not known with {}", listed(&unknown, "and")));
    }
    let calm = names(Seen::No);
    if calm.len() == writers.len() {
        return format!("No writer was seen to slow {victim} on the next core; {}.", left(most));
    }
    if !calm.is_empty() {
        let calm = listed(&calm, "and");
        parts.push(format!("no slowdown seen with {calm} ({})", left(most)));
    }
    format!("{} next to a writer on the next core: {}.", capital(victim), parts.join("; "))
}
