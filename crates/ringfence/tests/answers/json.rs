//! What `--json` prints is what `docs/schema/ringfence.json` says. Every test that reads such
//! output checks it (`Output::json`); here is that the check would fail, and the kinds that no
//! other test prints.

use std::path::Path;

use ringfence_machine::fixtures;
use ringfence_report::html::{Compared, Digest};
use ringfence_report::json;
use ringfence_studies::compare;
use ringfence_studies::findings;
use ringfence_studies::fixtures::survey_in;
use ringfence_studies::lock::Misses;
use ringfence_studies::survey::Survey;
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::schema::{check, problems, schema};
use crate::support::{Folder, check_json, ringfence};

fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn documents_that_are_wrong_are_refused() {
    let good = value(&json::lock_misses(&[Misses {
        bytes: 64,
        asked: vec![1],
        misses: vec![0, 2],
        lines: 1,
    }]));
    assert!(problems(&good).is_empty(), "{:?}", problems(&good));
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        problems(&document)
    };
    for (change, part) in [
        (
            &(|d: &mut Value| d["schema"] = "ringfence/lock-misses/1".into())
                as &dyn Fn(&mut Value),
            "not a kind",
        ),
        (&|d| d["more"] = 1.into(), "/more: nothing may stand here"),
        (&|d| d["misses"][0]["more"] = 1.into(), "/misses/0/more: nothing may stand here"),
        (&|d| _ = d["misses"][0].as_object_mut().unwrap().remove("lines"), "'lines' is missing"),
        (&|d| d["misses"][0]["bytes"] = (-1).into(), "/misses/0/bytes: at least 0"),
        (&|d| d["misses"][0]["bytes"] = 1.5.into(), "/misses/0/bytes: the type is \"integer\""),
        (&|d| d["misses"][0]["misses"][1] = "two".into(), "/misses/0/misses/1: the type"),
        (&|d| d["misses"] = Value::Null, "/misses: the type is \"array\""),
    ] {
        let found = wrong(change);
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    }
}

#[test]
fn each_rule_can_fail() {
    for (rule, good, bad) in [
        (json!({ "type": ["string", "null"] }), json!(null), json!(1)),
        (json!({ "const": "a" }), json!("a"), json!("b")),
        (json!({ "enum": ["a", "b"] }), json!("b"), json!("c")),
        (json!({ "minLength": 1 }), json!("a"), json!("")),
        (json!({ "maxLength": 1 }), json!("a"), json!("ab")),
        (json!({ "minItems": 1 }), json!([1]), json!([])),
        (json!({ "maxItems": 1 }), json!([1]), json!([1, 2])),
        (json!({ "minimum": 1 }), json!(1), json!(0)),
        (json!({ "maximum": 255 }), json!(255), json!(256)),
        (
            json!({ "additionalProperties": { "type": "null" } }),
            json!({ "a": null }),
            json!({ "a": 1 }),
        ),
        (
            json!({ "patternProperties": { r"^\d+$": { "type": "null" } } }),
            json!({ "0": null, "a": 1 }),
            json!({ "0": 1 }),
        ),
        (
            json!({ "patternProperties": { r"^\d+$": true }, "additionalProperties": false }),
            json!({ "0": null }),
            json!({ "a": null }),
        ),
        (json!({ "propertyNames": { "enum": ["a"] } }), json!({ "a": 1 }), json!({ "b": 1 })),
        (
            json!({ "prefixItems": [{ "type": "null" }], "items": false }),
            json!([null]),
            json!([null, 1]),
        ),
        (json!({ "prefixItems": [{ "type": "null" }] }), json!([null]), json!([1])),
        (json!({ "anyOf": [{ "type": "null" }, { "type": "string" }] }), json!("a"), json!(1)),
        (json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] }), json!(1.5), json!(1)),
        (json!({ "$ref": "#/$defs/Precision" }), json!({ "median": 0.1, "worst": 0.2 }), json!({})),
    ] {
        let root = schema();
        assert!(check(&root, &rule, &good, "").is_empty(), "{rule} refuses {good}");
        assert!(!check(&root, &rule, &bad, "").is_empty(), "{rule} takes {bad}");
    }
}

#[test]
fn what_looks_at_a_machine_keeps_to_it() {
    for tree in [
        fixtures::xeon_2s64t(),
        fixtures::zen_multi_llc(),
        fixtures::cxl_node(),
        fixtures::vm_2cpu(),
    ] {
        let root = tree.root().path("/");
        for verb in ["topology", "doctor"] {
            ringfence(&[verb, "--json", "--root", root.to_str().unwrap()]).json();
        }
    }
    ringfence(&["topology", "--json"]).json();
    ringfence(&["doctor", "--json"]).json();
    ringfence(&["explain", "--json", "/dev/shm"]).json();
}

#[test]
fn a_survey_and_its_datasets_keep_to_it() {
    let dir = Folder::new();
    let made = survey_in(dir.path(), |victim, instruction, paced| {
        if victim == "chase" && !paced && instruction.label() == "clwb" { 3.0 } else { 1.0 }
    });
    check_json(&value(&json::survey(&made, dir.path())));
    let (mut digests, mut compared) = (Vec::new(), Vec::new());
    let again = Survey::open(dir.path(), |dataset| {
        let comparison = compare::compare(dataset, dataset).unwrap();
        let side = dataset.dir.display().to_string();
        let name = dataset.plan.experiment.name.clone();
        compared.push(Compared { name, before: side.clone(), after: side, comparison });
        digests.push((dataset.dir.clone(), Digest::new(dataset)));
        check_json(&value(&json::experiment(&findings::Findings::from(dataset), &dataset.dir)));
    });
    check_json(&value(&json::survey(&again.unwrap(), dir.path())));
    check_json(&value(&json::datasets(&digests)));
    let refused = [("cost".to_string(), "these cannot be compared".to_string())];
    let alone = [(compare::Side::Before, "x".to_string())];
    check_json(&value(&json::comparisons(&compared, &refused, &alone)));
    let shown = ringfence(&["show", "--json", dir.path().to_str().unwrap()]).json();
    assert_eq!(shown["answer"], value(&json::survey(&made, Path::new("")))["answer"]);
}
