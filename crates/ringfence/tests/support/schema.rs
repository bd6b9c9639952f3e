//! Checks JSON against `docs/schema/ringfence.json`, with as much of JSON Schema (2020-12) as that
//! uses. A keyword that is not known here fails, so that no rule of the schema goes unchecked.

use serde_json::{Map, Value};

/// The schema.
pub fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/schema/ringfence.json"))
        .expect("the schema is JSON")
}

/// What a document of the program gets wrong; empty where nothing is. It is checked against its own
/// kind alone, so that the messages are useful.
pub fn problems(document: &Value) -> Vec<String> {
    let schema = schema();
    match kinds(&schema).find(|(says, _)| *says == document["schema"]).map(|(_, kind)| kind) {
        Some(kind) => check(&schema, kind, document, ""),
        None => {
            vec![format!("'schema' is {}, which is not a kind of docs/schema", document["schema"])]
        }
    }
}

/// The kinds of documents, each with what it says in `schema`.
pub fn kinds(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let kinds = schema["oneOf"].as_array().expect("there are kinds");
    kinds.iter().map(|kind| {
        // Of several forms, each says the same.
        let form = kind.get("oneOf").map_or(kind, |forms| &forms[0]);
        let says = form["properties"]["schema"]["const"].as_str();
        (says.expect("a kind says what it is"), kind)
    })
}

fn target<'a>(root: &'a Value, reference: &str) -> &'a Value {
    let pointer = reference.strip_prefix('#').expect("references stay in the file");
    root.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

/// What a value gets wrong, each with its place.
pub fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let rules = match schema {
        Value::Bool(true) => return Vec::new(),
        Value::Bool(false) => return vec![format!("{at}: nothing may stand here")],
        Value::Object(rules) => rules,
        other => panic!("{other} is not a schema"),
    };
    let mut wrong = Vec::new();
    for (keyword, rule) in rules {
        wrong.extend(keyword_wrong(root, rules, keyword, rule, value, at));
    }
    wrong
}

fn keyword_wrong(
    root: &Value,
    rules: &Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
    at: &str,
) -> Vec<String> {
    let fails = |holds: bool, what: &str| match holds {
        true => Vec::new(),
        false => vec![format!("{at}: {what} {rule}, and it is {}", brief(value))],
    };
    let (object, array) = (value.as_object(), value.as_array());
    let letters = value.as_str().map(|text| text.chars().count());
    let limit = || rule.as_u64().expect("a count") as usize;
    match keyword {
        "description" | "title" | "$schema" | "$id" | "$defs" => Vec::new(),
        "$ref" => check(root, target(root, rule.as_str().unwrap()), value, at),
        "type" => {
            let known =
                rule.as_array().map_or_else(|| vec![rule], |several| several.iter().collect());
            fails(known.iter().any(|name| is(value, name.as_str().unwrap())), "the type is")
        }
        "const" => fails(value == rule, "it should be"),
        "enum" => fails(rule.as_array().unwrap().contains(value), "it should be one of"),
        "minimum" => {
            fails(value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()), "at least")
        }
        "maximum" => {
            fails(value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()), "at most")
        }
        "minLength" => fails(letters.is_none_or(|count| count >= limit()), "so long at least:"),
        "maxLength" => fails(letters.is_none_or(|count| count <= limit()), "so long at most:"),
        "minItems" => fails(array.is_none_or(|array| array.len() >= limit()), "so many at least:"),
        "maxItems" => fails(array.is_none_or(|array| array.len() <= limit()), "so many at most:"),
        "required" => {
            let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            let missing =
                names.filter(|name| object.is_some_and(|object| !object.contains_key(*name)));
            missing.map(|name| format!("{at}: '{name}' is missing")).collect()
        }
        "anyOf" | "oneOf" => {
            let tried: Vec<Vec<String>> =
                rule.as_array().unwrap().iter().map(|rule| check(root, rule, value, at)).collect();
            let fit = tried.iter().filter(|wrong| wrong.is_empty()).count();
            match fit {
                0 => tried.into_iter().min_by_key(Vec::len).unwrap_or_default(),
                1 => Vec::new(),
                _ if keyword == "anyOf" => Vec::new(),
                _ => vec![format!("{at}: it is {fit} of several things of which it should be one")],
            }
        }
        _ => parts_wrong(root, rules, keyword, rule, value, at),
    }
}

// By a keyword about what a value holds.
fn parts_wrong(
    root: &Value,
    rules: &Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
    at: &str,
) -> Vec<String> {
    let (object, array) = (value.as_object(), value.as_array());
    match keyword {
        "properties" => {
            let known = rule.as_object().unwrap().iter();
            let present = known.filter_map(|(name, rule)| Some((name, rule, object?.get(name)?)));
            present
                .flat_map(|(name, rule, value)| check(root, rule, value, &format!("{at}/{name}")))
                .collect()
        }
        "additionalProperties" => {
            let named = |name: &String| {
                let fields =
                    rules.get("properties").is_some_and(|fields| fields.get(name).is_some());
                fields || rules.contains_key("patternProperties") && is_number(name)
            };
            let others = object.into_iter().flatten().filter(|(name, _)| !named(name));
            others
                .flat_map(|(name, value)| check(root, rule, value, &format!("{at}/{name}")))
                .collect()
        }
        "patternProperties" => {
            let rule = &rule.as_object().unwrap()[r"^\d+$"];
            let numbered = object.into_iter().flatten().filter(|(name, _)| is_number(name));
            numbered
                .flat_map(|(name, value)| check(root, rule, value, &format!("{at}/{name}")))
                .collect()
        }
        "propertyNames" => {
            let names = object.into_iter().flat_map(Map::keys);
            names.flat_map(|name| check(root, rule, &Value::from(name.as_str()), at)).collect()
        }
        "prefixItems" => {
            let pairs = rule.as_array().unwrap().iter().zip(array.into_iter().flatten());
            let pairs = pairs.enumerate();
            pairs
                .flat_map(|(n, (rule, value))| check(root, rule, value, &format!("{at}/{n}")))
                .collect()
        }
        "items" => {
            let first = rules.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            let rest = array.into_iter().flatten().enumerate().skip(first);
            rest.flat_map(|(n, value)| check(root, rule, value, &format!("{at}/{n}"))).collect()
        }
        other => panic!("{at}: this test does not know the keyword '{other}'"),
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("'{other}' is not a type"),
    }
}

fn brief(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}
