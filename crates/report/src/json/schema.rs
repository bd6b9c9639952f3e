//! The JSON Schema of all documents, generated from their types.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::Unknown;
use ringfence_experiment::class::Class;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::{
    census, claims, compare, crash, describe, doctor, experiment, explain, fleet, lock, machine,
    pair, prove, reproduce, resctrl, survey, topology, tune, versus, whatif,
};

/// The schema of every document of `--json`, as kept in `docs/schema/ringfence.json`.
pub fn schema() -> String {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut documents = documents(&mut generator);
    let unknown = generator.subschema_for::<Unknown>();
    generator.subschema_for::<Class>(); // Maps by class refer to it.
    let definitions = generator.take_definitions(true);
    let mut exact = Exact { unknown, definitions: definitions.clone() };
    documents.iter_mut().for_each(|document| exact.transform(document));
    let definitions = definitions.into_iter().map(|(name, definition)| {
        let mut definition = Schema::try_from(definition).expect("a definition is a schema");
        exact.transform(&mut definition);
        (name, definition)
    });
    let mut definitions: BTreeMap<String, Schema> = definitions.collect();
    // A definition may be in use by another one that is not.
    loop {
        let all = json!([documents, definitions]).to_string();
        let before = definitions.len();
        definitions.retain(|name, _| all.contains(&format!("\"#/$defs/{name}\"")));
        if definitions.len() == before {
            break;
        }
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ringfence:json:2",
        "title": "What ringfence prints with --json",
        "description": "Every document states its kind in `schema`. A figure that is not known is \
                        an object with `unknown`; what does not apply is null. Times are ns \
                        unless a name says otherwise.",
        "oneOf": documents,
        "$defs": definitions,
    });
    let mut text = String::new();
    write(&schema, 0, &mut text);
    text.replace("Result_of_", "EstimateOf").replace("_or_NotEstimable", "") + "\n"
}

// Makes a schema say what is printed, and nothing besides.
struct Exact {
    unknown: Schema,
    definitions: Map<String, Value>,
}

impl Transform for Exact {
    fn transform(&mut self, schema: &mut Schema) {
        let Some(rules) = schema.as_object_mut() else { return };
        rules.remove("format");
        rules.remove("default");
        if let Some(Value::String(text)) = rules.get_mut("description") {
            *text = plain(text);
        }
        self.say_why_a_figure_is_unknown(rules);
        self.merge_reference(rules);
        self.close_each_alternative(rules);
        refuse_absence_as_null(rules);
        let has_fields = rules.contains_key("properties");
        if has_fields && !rules.contains_key("additionalProperties") {
            rules.insert("additionalProperties".into(), false.into());
        }
        transform_subschemas(self, schema);
    }
}

impl Exact {
    // Every result in a document is a figure, and written by `serialize_estimate`.
    fn say_why_a_figure_is_unknown(&self, rules: &mut Map<String, Value>) {
        let Some(figure) = rules.get("oneOf").and_then(|either| either[0]["properties"].get("Ok"))
        else {
            return;
        };
        let either = json!([figure, self.unknown]);
        rules.remove("oneOf");
        rules.insert("anyOf".into(), either);
    }

    // A reference with fields besides: their union, so that it can be closed.
    fn merge_reference(&self, rules: &mut Map<String, Value>) {
        if rules.contains_key("properties")
            && let Some(Value::String(reference)) = rules.remove("$ref")
        {
            let name = reference.trim_start_matches("#/$defs/");
            merge(rules, &self.definitions[name]);
        }
    }

    // Fields besides alternatives, as of a flattened enum, become fields of each.
    fn close_each_alternative(&self, rules: &mut Map<String, Value>) {
        let has_fields = |part: &Value| part.get("properties").is_some();
        let Some(Value::Array(alternatives)) = rules.get_mut("oneOf") else { return };
        if !alternatives.iter().any(has_fields) || !rules.contains_key("properties") {
            return;
        }
        let mut shared = Map::new();
        for key in ["type", "properties", "required"] {
            shared.extend(rules.remove_entry(key));
        }
        let shared = Value::Object(shared);
        for alternative in rules["oneOf"].as_array_mut().into_iter().flatten() {
            let alternative = alternative.as_object_mut().expect("an alternative has rules");
            self.merge_reference(alternative);
            merge(alternative, &shared);
        }
    }
}

fn merge(rules: &mut Map<String, Value>, others: &Value) {
    for (key, rule) in others.as_object().into_iter().flatten() {
        match (rules.get_mut(key), rule) {
            (Some(Value::Object(fields)), Value::Object(more)) => fields.extend(more.clone()),
            (Some(Value::Array(names)), Value::Array(more)) => names.extend(more.clone()),
            (Some(_), _) => {}
            (None, _) => _ = rules.insert(key.clone(), rule.clone()),
        }
    }
}

// What may be left out is left out, and is never null.
fn refuse_absence_as_null(rules: &mut Map<String, Value>) {
    let required = rules.get("required").cloned().unwrap_or_default();
    let required = |name: &String| {
        required.as_array().is_some_and(|names| names.iter().any(|known| known == name))
    };
    let Some(Value::Object(fields)) = rules.get_mut("properties") else { return };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !required(name)) {
        let Value::Object(field) = field else { continue };
        if let Some(Value::Array(types)) = field.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                field["type"] = only.clone();
            }
        }
        if let Some(Value::Array(either)) = field.get("anyOf").cloned()
            && let [Value::Object(only), null] = either.as_slice()
            && null["type"] == "null"
        {
            field.remove("anyOf");
            merge(field, &only.clone().into());
        }
    }
}

// A doc comment for readers of JSON: without links, and with null for `None`.
fn plain(doc: &str) -> String {
    let (mut text, mut rest) = (String::new(), doc);
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").expect("a link ends");
        text += before;
        text += &format!("`{}`", name.rsplit("::").next().unwrap_or(name));
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    let text = text + rest;
    text.replace("`None`", "null").split_whitespace().collect::<Vec<_>>().join(" ")
}

// A field a line: a value that is long only because of its description stays on its line.
fn write(value: &Value, indent: usize, out: &mut String) {
    let line = value.to_string();
    let parts: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, part)| (Some(name), part)).collect(),
        Value::Array(items) => items.iter().map(|item| (None, item)).collect(),
        _ => Vec::new(),
    };
    let has_parts = line.contains("\"properties\":") || line.contains("\"oneOf\":");
    let is_described = value.get("description").is_some_and(Value::is_string);
    if parts.is_empty() || !has_parts && (is_described || line.len() <= 160) {
        return out.push_str(&line);
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    out.push(open);
    for (place, (name, part)) in parts.into_iter().enumerate() {
        out.push_str(if place == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(indent + 2));
        if let Some(name) = name {
            out.push_str(&format!("{}: ", json!(name)));
        }
        write(part, indent + 2, out);
    }
    out.push_str(&format!("\n{}{close}", " ".repeat(indent)));
}

fn documents(to: &mut SchemaGenerator) -> Vec<Schema> {
    vec![
        document::<experiment::json::Measured>(to),
        document::<experiment::json::Datasets>(to),
        document::<survey::json::Survey>(to),
        document::<prove::json::Proof>(to),
        document::<pair::json::Pairs>(to),
        document::<versus::json::Versus>(to),
        document::<tune::json::TunedDocument>(to),
        document::<tune::json::TunedFilesDocument>(to),
        document::<reproduce::json::ReproducedDocument>(to),
        document::<reproduce::json::SimulatedDocument>(to),
        document::<compare::json::Comparisons>(to),
        document::<claims::json::Claims>(to),
        document::<fleet::json::FleetStatus>(to),
        document::<fleet::json::FleetReport>(to),
        document::<whatif::json::WhatIf>(to),
        document::<machine::json::Machine>(to),
        document::<machine::json::Machines>(to),
        document::<describe::json::MachineCheck>(to),
        document::<describe::json::MachineSensitivity>(to),
        document::<describe::json::Calibrated>(to),
        document::<topology::json::Topology>(to),
        document::<doctor::json::Doctor>(to),
        document::<crash::json::Crash>(to),
        document::<explain::json::Explanation>(to),
        document::<census::json::Census>(to),
        document::<census::json::CensusDiff>(to),
        document::<census::json::CensusRun>(to),
        document::<census::json::CensusRunDiff>(to),
        document::<resctrl::json::Resctrl>(to),
        document::<resctrl::json::PutBackDocument>(to),
        document::<resctrl::json::ResctrlWatch>(to),
        document::<resctrl::json::RestoredDocument>(to),
        document::<experiment::json::LockMeasured>(to),
        document::<lock::json::LockList>(to),
        document::<lock::json::LockMisses>(to),
    ]
}

// With `schema`, which serde writes and schemars leaves out.
fn document<T: JsonSchema>(to: &mut SchemaGenerator) -> Schema {
    let mut document = T::json_schema(to);
    let kind = json!({
        "properties": { "schema": { "const": T::schema_name() } },
        "required": ["schema"],
    });
    merge(document.ensure_object(), &kind);
    document
}
