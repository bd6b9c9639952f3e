//! `docs/schema/ringfence.json` is generated from the types that `--json` prints, and is exact:
//! `RINGFENCE_BLESS=1 cargo test -p ringfence --test answers schema` writes it again.

use std::fs;
use std::path::Path;

use ringfence_report::json;
use ringfence_studies::fixtures::survey_in;
use serde_json::{Map, Value};

use crate::support::Folder;
use crate::support::schema::{check, kinds, schema};

#[test]
fn the_schema_in_the_documentation_is_that_of_the_types() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/ringfence.json");
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        fs::write(&kept, json::schema()).unwrap();
    }
    assert!(
        json::schema() == fs::read_to_string(kept).unwrap(),
        "docs/schema/ringfence.json differs; RINGFENCE_BLESS=1 accepts it"
    );
}

// Each schema within a schema, with its place.
fn each<'s>(schema: &'s Value, at: &str, see: &mut dyn FnMut(&'s Map<String, Value>, &str)) {
    if let Some(rules) = schema.as_object() {
        see(rules, at);
    }
    let (fields, items) = (schema.as_object(), schema.as_array());
    let fields = fields.into_iter().flatten().map(|(name, part)| (name.clone(), part));
    let items = items.into_iter().flatten().enumerate();
    let items = items.map(|(place, part)| (place.to_string(), part));
    fields.chain(items).for_each(|(name, part)| each(part, &format!("{at}/{name}"), see));
}

#[test]
fn every_kind_and_field_is_described() {
    let schema = schema();
    each(&schema, "", &mut |rules, at| {
        // A variant of an enum, and a table by the names of instructions.
        let is_described_as_whole = rules.contains_key("description")
            && (at.contains("/oneOf/") || at == "/$defs/OperationCounts");
        for (name, field) in
            rules.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let says = ["description", "$ref", "const"].iter().any(|key| field.get(key).is_some());
            assert!(says || is_described_as_whole, "{at}/{name} is not described");
        }
    });
    let page = include_str!("../../../../docs/reference/json.md");
    for (says, _) in kinds(&schema) {
        let (kind, version) = says.strip_prefix("ringfence/").unwrap().rsplit_once('/').unwrap();
        assert!(version.parse::<u32>().unwrap() > 0, "{says}");
        assert!(
            page.contains(&format!("`{kind}`")),
            "docs/reference/json.md does not name '{kind}'"
        );
    }
}

// Two types of one name would be told apart by a number.
#[test]
fn every_definition_has_a_name_of_its_own() {
    for name in schema()["$defs"].as_object().unwrap().keys() {
        let is_numbered = name.ends_with(|c: char| c.is_ascii_digit());
        assert!(!is_numbered || name.ends_with("_uint32"), "{name}");
    }
}

#[test]
fn every_object_is_closed() {
    // Tasks as in an experiment file, whose parameters may be lists.
    let open = ["Tasks", "OneTask", "TaskSettings", "TaskEntry/properties/task"];
    each(&schema(), "", &mut |rules, at| {
        if rules.get("type").is_some_and(|kind| kind == "object") {
            let others = rules.get("additionalProperties").expect(at);
            let is_open = open.iter().any(|name| at == format!("/$defs/{name}"));
            assert_eq!(*others == true, is_open, "{at} takes anything");
        }
    });
}

// Changes each object within a document in turn.
fn change_each(document: &Value, at: &str, change: &mut dyn FnMut(&Value, &str)) {
    if document.is_object() {
        change(document, at);
    }
    let fields = document.as_object().into_iter().flatten();
    fields.for_each(|(name, part)| change_each(part, &format!("{at}/{name}"), change));
    let items = document.as_array().into_iter().flatten().enumerate();
    items.for_each(|(place, part)| change_each(part, &format!("{at}/{place}"), change));
}

#[test]
fn a_field_more_or_less_is_refused_and_so_is_another_type() {
    let dir = Folder::new();
    let made = survey_in(dir.path(), |_, _, _| 1.5);
    let mut document = serde_json::to_value(json::survey(&made, dir.path())).unwrap();
    keep_first(&mut document);
    let schema = schema();
    let survey = kinds(&schema).find(|(says, _)| *says == document["schema"]).unwrap().1;
    let mut accepted = Vec::new();
    change_each(&document, "", &mut |object, at| {
        let mut refuse = |what: &str, changed: Map<String, Value>| {
            let mut document = document.clone();
            *document.pointer_mut(at).unwrap() = changed.into();
            if check(&schema, survey, &document, "").is_empty() {
                accepted.push(format!("{at}: {what}"));
            }
        };
        let object = object.as_object().unwrap();
        let with = |name: &str, value: Value| {
            let mut changed = object.clone();
            changed.insert(name.into(), value);
            changed
        };
        refuse("more", with("more", 1.into()));
        for name in object.keys() {
            let mut less = object.clone();
            less.remove(name);
            // How many pairs there are by class: any may be missing.
            if !at.ends_with("/classes") {
                refuse(&format!("without {name}"), less);
            }
            refuse(&format!("{name} of another type"), with(name, Value::from(vec![0.5])));
        }
    });
    assert_eq!(accepted, [""; 0]);
}

// One case of a list stands for all.
fn keep_first(document: &mut Value) {
    match document {
        Value::Array(items) => {
            if items.first().is_some_and(Value::is_object) {
                items.truncate(1);
            }
            items.iter_mut().for_each(keep_first);
        }
        Value::Object(fields) => fields.values_mut().for_each(keep_first),
        _ => {}
    }
}
