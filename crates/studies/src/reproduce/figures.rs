//! Published figures, as their tables hold them.

use ringfence_experiment::plan::{Active, Case, Plan};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A figure as it was published, in its own unit, and the case of a shipped experiment that it
/// belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The experiment's name.
    pub experiment: String,
    /// The case: its arm and as many `role.parameter=value` as tell it from the arm's others, all
    /// separated by `; `.
    pub case: String,
    /// What took the time. Figures are set against each other only within one quantity and source.
    pub quantity: String,
    /// The unit; `s` is the only one.
    pub unit: String,
    /// The figure.
    pub value: f64,
    /// The case that it is set against; absent for those that only serve as such.
    pub against: Option<String>,
    /// A case on other hardware that is measured where this one cannot be: beside it, not in its
    /// place.
    pub instead: Option<String>,
    /// What that one is set against.
    pub instead_against: Option<String>,
    /// Where it was published.
    pub source: String,
    /// On what it was measured.
    pub machine: String,
    /// In what it may differ from what is measured here.
    pub remark: Option<String>,
}

impl Published {
    /// The figure that it is set against, of those that were published.
    pub fn reference<'a>(&self, all: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        let against = self.against.as_ref()?;
        let name = |row: &Self| (row.experiment.clone(), row.quantity.clone(), row.source.clone());
        all.into_iter().find(|other| other.case == *against && name(other) == name(self))
    }

    /// Whether another figure is this one, be it with a case on other hardware beside it or not.
    pub fn is_same(&self, other: &Self) -> bool {
        let name = |row: &Self| {
            (row.experiment.clone(), row.case.clone(), row.quantity.clone(), row.source.clone())
        };
        name(self) == name(other)
    }
}

/// Reads a table.
///
/// # Errors
/// One sentence with the line.
pub fn parse(text: &str) -> Result<Vec<Published>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for (number, row) in reader.deserialize().enumerate() {
        let row: Published = row.map_err(|error| error.to_string())?;
        let wrong = |what: &str| Err(format!("line {}: {what}", number + 2));
        if row.unit != "s" {
            return wrong("the unit must be s");
        }
        if !(row.value.is_finite() && row.value > 0.0) {
            return wrong("the value must be a time above zero");
        }
        if row.instead.is_some() != row.instead_against.is_some()
            || (row.instead.is_some() && row.against.is_none())
        {
            return wrong("'instead' and 'instead_against' go together, and need 'against'");
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The number of the case that a text such as `beside; writer.count=8` names.
///
/// # Errors
/// One sentence where no case fits, or several.
pub fn find_case(plan: &Plan, text: &str) -> Result<usize, String> {
    let mut parts = text.split("; ");
    let arm = parts.next().unwrap_or_default();
    let wanted: Vec<(&str, &str)> = parts
        .map(|part| {
            part.split_once('=')
                .ok_or_else(|| format!("'{part}' in '{text}' is not a role.parameter=value"))
        })
        .collect::<Result<_, _>>()?;
    let fits = |case: &usize| {
        let case = &plan.cases[*case];
        let has = |(key, value): &(&str, &str)| match case
            .params
            .iter()
            .find(|(known, _)| known == key)
        {
            Some((_, known)) => known == value,
            None => common(plan, case, key).is_some_and(|known| known == *value),
        };
        case.arm == arm && wanted.iter().all(has)
    };
    let found: Vec<usize> = (0..plan.cases.len()).filter(fits).collect();
    match found[..] {
        [one] => Ok(one),
        _ => Err(format!(
            "'{text}' names {} cases of {}, not one",
            found.len(),
            plan.experiment.name
        )),
    }
}

// The value of a parameter in which an experiment's cases do not differ.
fn common(plan: &Plan, case: &Case, key: &str) -> Option<String> {
    let (role, parameter) = key.split_once('.')?;
    let is_role = |active: &&Active| plan.experiment.roles[active.role].name == role;
    let active = case.active.iter().find(is_role)?;
    if parameter == "count" {
        return Some(active.count.to_string());
    }
    let task = Table::try_from(&plan.variants[active.role][active.variant].task).ok()?;
    Some(match task.get(parameter)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "experiment,case,quantity,unit,value,against,instead,instead_against,\
                        source,machine,remark\n";

    #[test]
    fn a_table_reads_with_quotes_and_without_what_is_absent() {
        let rows =
            parse(&format!("{HEAD}e,\"a; r.x=1\",\"mcf, ref\",s,1.50,,,,note,m,\n")).unwrap();
        assert_eq!(
            (rows[0].case.as_str(), rows[0].quantity.as_str(), rows[0].value),
            ("a; r.x=1", "mcf, ref", 1.5)
        );
        assert_eq!((&rows[0].against, &rows[0].remark), (&None, &None));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (row, part) in [
            ("e,a,q,ms,1,,,,n,m,\n", "line 2: the unit"),
            ("e,a,q,s,0,,,,n,m,\n", "line 2: the value"),
            ("e,a,q,s,NaN,,,,n,m,\n", "line 2: the value"),
            ("e,a,q,s,1,,b,c,n,m,\n", "line 2: 'instead' and 'instead_against' go together"),
            ("e,a,q,s,1,x,b,,n,m,\n", "line 2: 'instead' and 'instead_against' go together"),
            ("e,a,q,s,one,,,,n,m,\n", "line: 2"),
            ("e,a\n", "line: 2"),
        ] {
            let error = parse(&format!("{HEAD}{row}")).unwrap_err();
            assert!(error.contains(part), "{row}: {error}");
        }
        assert!(parse("experiment,case\n").unwrap().is_empty());
    }
}
