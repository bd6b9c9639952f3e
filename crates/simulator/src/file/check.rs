//! What a machine file must keep to, beyond what its types say.

use std::collections::BTreeSet;

use crate::hardware::machine::Inclusion;
use ringfence_experiment::task::Target;
use ringfence_persist::{Flush, Width};

use super::leaves::{Leaf, is_at_or_below};
use super::{Description, Level, MachineFileError};

// Those that a run can tell apart.
const MOST_CLASSES: u32 = 16;

type Checked = Result<(), (String, String)>;

fn must(holds: bool, path: &str, why: impl Into<String>) -> Checked {
    if holds { Ok(()) } else { Err((path.to_owned(), why.into())) }
}

impl Description {
    /// Whether it describes a machine whose every value has a source.
    pub(super) fn check(&self, leaves: &[Leaf]) -> Result<(), MachineFileError> {
        // Values out of range first: what follows from them is no help.
        self.parts.check().map_err(|error| {
            let why = error.to_string();
            // It begins with a path.
            let path = why.split_whitespace().next().unwrap_or_default();
            MachineFileError { line: line_of(path, leaves), why }
        })?;
        self.names()
            .and_then(|()| self.processor())
            .and_then(|()| self.memory())
            .map_err(|(path, why)| MachineFileError { line: line_of(&path, leaves), why })?;
        for leaf in leaves.iter().filter(|leaf| leaf.wants_source()) {
            if self.source(&leaf.path).is_none_or(|source| source.trim().is_empty()) {
                let why = format!(
                    "nothing says where {} = {} comes from: name its source in [sources], under \
                     \"{}\" or a table that it is in",
                    leaf.path, leaf.value, leaf.path
                );
                return Err(MachineFileError { line: Some(leaf.line), why });
            }
        }
        for path in self.sources.keys() {
            if !leaves.iter().any(|leaf| leaf.wants_source() && is_at_or_below(&leaf.path, path)) {
                let why = format!("[sources] names \"{path}\", which is no value of this file");
                return Err(MachineFileError {
                    line: line_of(&format!("sources.{path}"), leaves),
                    why,
                });
            }
        }
        Ok(())
    }

    fn names(&self) -> Checked {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = !self.name.is_empty() && self.name.chars().all(plain);
        must(
            good,
            "name",
            format!(
                "name = \"{}\" is not made of lower case letters, digits and hyphens",
                self.name
            ),
        )?;
        must(
            !self.title.trim().is_empty(),
            "title",
            "title is empty: say in a few words which machine it is",
        )
    }

    fn processor(&self) -> Checked {
        let processor = &self.processor;
        must(
            (0.1..=10.0).contains(&processor.ghz),
            "processor.ghz",
            "processor.ghz must be from 0.1 to 10",
        )?;
        let step = processor.multiply_ns;
        must(
            (0.01..=1000.0).contains(&step),
            "processor.multiply_ns",
            "processor.multiply_ns must be from 0.01 to 1000",
        )?;
        let flush = processor.flush.contains(&Flush::Clflush);
        must(
            flush,
            "processor.flush",
            "processor.flush lacks \"clflush\", which every x86-64 processor has",
        )?;
        let width = processor.widths.contains(&Width::Sse2);
        must(
            width,
            "processor.widths",
            "processor.widths lacks \"sse2\", which every x86-64 processor has",
        )?;
        for (classes, path) in [
            (processor.classes, "processor.classes"),
            (processor.l2_classes, "processor.l2_classes"),
        ] {
            let holds = classes.is_none_or(|classes| (1..=MOST_CLASSES).contains(&classes));
            must(holds, path, format!("{path} must be from 1 to {MOST_CLASSES}"))?;
        }
        self.isolation()?;
        self.second_level()?;
        self.code_and_data()
    }

    fn isolation(&self) -> Checked {
        let (processor, ways) = (&self.processor, self.parts.llc.ways);
        must(
            processor.last_level.is_none_or(|level| [2, 3].contains(&level)),
            "processor.last_level",
            "processor.last_level must be 2 or 3",
        )?;
        let bits = processor.mask_bits.is_none_or(|bits| bits > 0 && ways % bits == 0);
        must(
            bits,
            "processor.mask_bits",
            format!("processor.mask_bits must divide the {ways} ways of llc"),
        )?;
        let classless = [
            (processor.mask_bits.is_some(), "mask_bits"),
            (processor.bandwidth_control, "bandwidth_control"),
            (processor.pseudo_lock.is_some(), "pseudo_lock"),
        ];
        for (given, key) in classless {
            let path = format!("processor.{key}");
            let holds = !given || processor.classes.is_some();
            must(
                holds,
                &path,
                format!("{path} needs processor.classes: without classes nothing is shared out"),
            )?;
        }
        let keeps =
            processor.pseudo_lock.is_none() || self.parts.llc.inclusion != Inclusion::Victim;
        must(
            keeps,
            "processor.pseudo_lock",
            "processor.pseudo_lock cannot be of a victim cache, which gives up a line that is hit",
        )?;
        let level = processor.pseudo_lock.map(|lock| if lock == Level::L2 { 2 } else { 3 });
        must(
            level.is_none_or(|level| level == self.last_level()),
            "processor.pseudo_lock",
            format!(
                "processor.pseudo_lock must be of the last level, which is level {}",
                self.last_level()
            ),
        )
    }

    fn second_level(&self) -> Checked {
        let (processor, ways) = (&self.processor, self.parts.l2.ways);
        must(
            processor.l2_classes.is_none() || self.last_level() == 3,
            "processor.l2_classes",
            "processor.l2_classes is of a second level below which there is a third: where llc is \
             the second level, processor.classes says it",
        )?;
        let path = "processor.l2_mask_bits";
        let holds = processor.l2_mask_bits.is_none() || processor.l2_classes.is_some();
        must(
            holds,
            path,
            format!("{path} needs processor.l2_classes: without classes nothing is shared out"),
        )?;
        let bits = processor.l2_mask_bits.is_none_or(|bits| bits > 0 && ways % bits == 0);
        must(bits, path, format!("{path} must divide the {ways} ways of l2"))
    }

    fn code_and_data(&self) -> Checked {
        let (processor, path) = (&self.processor, "processor.cdp");
        for level in &processor.cdp {
            let last = if *level == Level::L2 { 2 } else { 3 };
            let (classes, key) = match last == self.last_level() {
                true => (processor.classes, "classes"),
                false if last == 2 => (processor.l2_classes, "l2_classes"),
                false => (None, "last_level = 3"),
            };
            let why = format!(
                "{path} names \"l{last}\", whose ways are not shared out: that needs \
                 processor.{key}"
            );
            must(classes.is_some(), path, why)?;
            let two = classes.is_some_and(|classes| classes > 1);
            must(
                two,
                path,
                format!("{path} needs two classes at least: code and data have one each"),
            )?;
            let once = processor.cdp.iter().filter(|other| *other == level).count() == 1;
            must(once, path, format!("{path} names \"l{last}\" twice"))?;
        }
        Ok(())
    }

    // Whether experiments can name each memory, and every socket has some of its own.
    fn memory(&self) -> Checked {
        let mut named = BTreeSet::new();
        let sockets = self.parts.topology.sockets;
        for (place, node) in self.parts.nodes.iter().enumerate() {
            let path = format!("nodes[{place}].target");
            let target: Target =
                node.target.parse().map_err(|error| (path.clone(), format!("{path}: {error}")))?;
            let key = match target {
                Target::Dram => format!("dram of socket {}", node.socket),
                Target::Dax(_) | Target::DevDax(_) => node.target.clone(),
                Target::Node(id) => {
                    let why = format!(
                        "{path} = \"{}\": nodes below {sockets} are the sockets' own: use \
                         node:{sockets} or higher",
                        node.target
                    );
                    must(id >= sockets, &path, why)?;
                    node.target.clone()
                }
                Target::Tmpfs(_) | Target::File(_) => {
                    let why = format!(
                        "{path} = \"{}\" is no memory of its own: use dram, dax:/path, \
                         devdax:/dev/daxX.Y or node:N",
                        node.target
                    );
                    return Err((path, why));
                }
            };
            must(named.insert(key.clone()), &path, format!("{path}: there are two of {key}"))?;
            let gib = format!("nodes[{place}].gib");
            must(node.gib > 0, &gib, format!("{gib} is 0: leave the node out"))?;
        }
        for socket in 0..sockets {
            let dram = named.contains(&format!("dram of socket {socket}"));
            must(dram, "nodes", format!("socket {socket} has no node with target = \"dram\""))?;
        }
        Ok(())
    }
}

// Where a value stands, or the first of a table.
fn line_of(path: &str, leaves: &[Leaf]) -> Option<usize> {
    leaves.iter().find(|leaf| is_at_or_below(&leaf.path, path)).map(|leaf| leaf.line)
}
