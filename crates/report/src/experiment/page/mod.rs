//! The experiments as files, to run them again.

pub(crate) mod costs;
pub(crate) mod frontier;
pub(crate) mod not_run;
pub(crate) mod on_disk;
pub(crate) mod placement;
pub(crate) mod probes;
pub(crate) mod slowdowns;
pub(crate) mod timeline;

use maud::{Markup, html};

use crate::html::document::copy;
use crate::html::{Digest, Section};
use crate::text::clean;

/// The file of each dataset, to copy.
pub(crate) fn section(digests: &[&Digest]) -> Section {
    let simulated = digests.iter().any(|digest| digest.findings.simulated);
    let run = if simulated {
        "ringfence run FILE.toml --machine MACHINE"
    } else {
        "ringfence run FILE.toml"
    };
    let body = html! {
        p { "Save it as a file and run \
             it: " code { (run) } ". The same file is in the dataset's folder \
                                   as " code { "experiment.toml" } "." }
        @for digest in digests { (file(digest)) }
    };
    let title = if digests.len() == 1 { "The experiment" } else { "The experiments" };
    Section { id: "experiment", title: title.into(), body }
}

fn file(digest: &Digest) -> Markup {
    let experiment = &digest.findings.plan.experiment;
    html! {
        details class="file" {
            summary {
                (clean(&experiment.name))
                @if let Some(question) = &experiment.question { ": " (clean(question)) }
            }
            (copy("the experiment"))
            pre { code { (experiment.to_toml()) } }
        }
    }
}
