//! Functions between which a program chooses at run time, by the processor's features or by the
//! user's settings.
//!
//! Found are, in linked files for x86-64, functions among which
//!
//! - an IFUNC resolver chooses, or another function that returns one of them;
//! - code chooses that stores the address of one or another in the same variable, or in the same
//!   field of a structure;
//! - a table in data has several, at equal distances;
//!
//! where at least one has something for durability (of a variable, field or table, every other one)
//! and they need different features of the processor by their own instructions. If a processor can
//! run several, the choice is unknown: it depends on the program and its environment variables.

mod flow;
mod search;
mod step;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::code::{Counts, Functions, Image, Operation, needs};

use flow::follow;
use value::{Item, Known};

// Longer functions have other things to do than to choose.
const LONGEST: usize = 1 << 18;

// Pointers of a table are not farther apart.
const FARTHEST: u64 = 256;

/// What holds the address of the function that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// A symbol, for which an IFUNC resolver chooses.
    Ifunc,
    /// What a function returns.
    Returned,
    /// A variable.
    Variable,
    /// A field of a structure.
    Field,
    /// A table in data, from whose entries one is chosen.
    Table,
}

/// Functions between which a program chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CodeChoice"))]
pub struct Choice {
    /// The place that holds the address of the chosen function.
    pub holder: Holder,
    /// Its name: the symbol, the function that returns it, the variable, the field with the
    /// function that sets it, or the table.
    pub name: String,
    /// The functions, in the order of the file.
    pub variants: Vec<Variant>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variant {
    /// Its name; its address if the name was stripped.
    pub function: String,
    /// Its address, as addresses in the file go.
    pub address: u64,
    /// What it has.
    pub counts: Counts,
    /// The features of the processor that its instructions need, besides what every x86-64
    /// processor has, as Linux names them.
    pub needs: Vec<String>,
    /// The features that this machine lacks; `None` if that was not requested.
    pub lacks: Option<Vec<String>>,
}

/// Such as `IFUNC memcpy`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.holder {
            Holder::Ifunc => write!(f, "IFUNC {name}"),
            Holder::Returned => write!(f, "what {name} returns"),
            Holder::Variable => write!(f, "variable {name}"),
            Holder::Field => write!(f, "field {name}"),
            Holder::Table => write!(f, "table {name}"),
        }
    }
}

impl Variant {
    /// Whether this machine is known to have all that it needs.
    pub fn can_run(&self) -> bool {
        self.lacks.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Why choices are not detected in a file: a phrase behind "in".
pub fn not_detected(image: &Image) -> Option<&'static str> {
    match (image.is_linked(), image.bits) {
        // Their addresses are not final.
        (false, _) => Some("object files"),
        (true, 64) => None,
        (true, _) => Some("code for 32 bits"),
    }
}

/// What is chosen in a file, given all that it has, each with its address.
pub fn find(image: &Image, sites: &[(u64, Operation)]) -> Vec<Choice> {
    let for_durability = |(_, operation): &&(u64, Operation)| operation.is_for_durability();
    if not_detected(image).is_some() || !sites.iter().any(|site| for_durability(&site)) {
        return Vec::new();
    }
    let bodies: BTreeMap<u64, u64> =
        image.bodies().iter().map(|body| (body.start, body.end)).collect();
    let durable: BTreeSet<u64> = sites
        .iter()
        .filter(for_durability)
        .filter_map(|(address, _)| search::around(&bodies, *address))
        .collect();
    let functions: FxHashSet<u64> = bodies.keys().copied().collect();
    let pointers = image.pointers(&functions);
    let known = Known { functions: &functions, pointers: &pointers };
    let choosers = search::choosers(image, &bodies, &durable, &pointers);
    let tables = tables(&pointers, &durable);
    if choosers.is_empty() && tables.is_empty() {
        return Vec::new();
    }
    let resolvers = image.resolvers();
    let names = image.functions();
    let variant = |address: u64| -> Option<Variant> {
        let body = address..*bodies.get(&address)?;
        variant(image, sites, body, name(image, &names, address))
    };

    let mut groups: BTreeMap<Key, (String, BTreeSet<u64>)> = BTreeMap::new();
    for chooser in choosers {
        let code = image.code(chooser..bodies[&chooser]);
        let Some(code) = code.filter(|code| code.len() <= LONGEST) else { continue };
        let facts = follow(code, chooser, &known);
        let own = || name(image, &names, chooser);
        // A register that was stored from may hold the same in the end, which is not what a
        // function returns.
        if !facts.stores.values().any(|stored| *stored == facts.returns) {
            let (holder, name) = match resolvers.get(&chooser) {
                Some(symbol) => (Holder::Ifunc, symbol.clone().unwrap_or_else(own)),
                None => (Holder::Returned, own()),
            };
            groups.insert((holder, chooser, Item::Address(chooser)), (name, facts.returns));
        }
        for (place, functions) in facts.stores {
            let (key, name) = match place {
                Item::Address(address) => {
                    ((Holder::Variable, address, place), data_name(image, address))
                }
                Item::Left { offset, .. } => {
                    ((Holder::Field, chooser, place), format!("+{offset:#x}, set by {}", own()))
                }
            };
            groups.entry(key).or_insert((name, BTreeSet::new())).1.extend(functions);
        }
    }
    for (address, functions) in tables {
        let name = data_name(image, address);
        // Which of a class's functions is called, is said by its name.
        if !image.is_linkage(address) && !name.starts_with("vtable for ") {
            groups.insert((Holder::Table, address, Item::Address(address)), (name, functions));
        }
    }
    let choice = |((holder, ..), (name, functions)): (Key, (String, BTreeSet<u64>))| Choice {
        holder,
        name,
        variants: functions.into_iter().filter_map(variant).collect(),
    };
    groups.into_iter().map(choice).filter(is_choice).collect()
}

fn variant(
    image: &Image,
    sites: &[(u64, Operation)],
    body: Range<u64>,
    function: String,
) -> Option<Variant> {
    let mut counts = Counts::default();
    sites
        .iter()
        .filter(|(at, _)| body.contains(at))
        .for_each(|(_, operation)| counts.add(*operation));
    let address = body.start;
    let needs = needs(image.code(body)?).into_iter().collect();
    Some(Variant { function, address, counts, needs, lacks: None })
}

// What holds it, the function that sets it or where it is, and the place.
type Key = (Holder, u64, Item);

fn data_name(image: &Image, address: u64) -> String {
    image.data_name(address).unwrap_or_else(|| format!("unnamed at {address:#x}"))
}

// Functions that differ in what they need. A list of functions of all kinds is none, though some of
// them be such.
fn is_choice(choice: &Choice) -> bool {
    let variants = &choice.variants;
    let durable = variants.iter().filter(|variant| variant.counts.are_for_durability()).count();
    let least = match choice.holder {
        Holder::Ifunc | Holder::Returned => 1,
        Holder::Variable | Holder::Field | Holder::Table => variants.len().div_ceil(2),
    };
    durable >= least.max(1) && variants.iter().any(|variant| variant.needs != variants[0].needs)
}

fn name(image: &Image, names: &Functions, address: u64) -> String {
    let function = image.place(address).and_then(|(section, offset)| names.at(section, offset));
    function.map_or_else(|| format!("unnamed at {address:#x}"), crate::code::Function::name)
}

// Pointers to such functions at equal distances, by the address of the first.
fn tables(pointers: &BTreeMap<u64, u64>, durable: &BTreeSet<u64>) -> Vec<(u64, BTreeSet<u64>)> {
    let of_these: Vec<(u64, u64)> = pointers
        .iter()
        .filter(|(_, target)| durable.contains(*target))
        .map(|(a, b)| (*a, *b))
        .collect();
    let mut found = Vec::new();
    let mut rest = &of_these[..];
    while let [(first, _), (second, _), ..] = rest {
        let step = second - first;
        let together = rest.windows(2).take_while(|pair| pair[1].0 - pair[0].0 == step).count() + 1;
        if step > FARTHEST {
            rest = &rest[1..];
            continue;
        }
        found.push((*first, rest[..together].iter().map(|(_, target)| *target).collect()));
        rest = &rest[together..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_pointers_at_equal_distances() {
        let pointers = BTreeMap::from([
            (0x100, 1),
            (0x118, 2),
            (0x128, 9),
            (0x130, 3),
            (0x1000, 1),
            (0x2000, 2),
            (0x2008, 3),
        ]);
        let durable = BTreeSet::from([1, 2, 3]);
        let found = tables(&pointers, &durable);
        assert_eq!(found, [(0x100, BTreeSet::from([1, 2, 3])), (0x2000, BTreeSet::from([2, 3]))]);
        assert!(tables(&pointers, &BTreeSet::from([9])).is_empty());
    }
}
