//! What a test asks of each envelope.

use std::convert::Infallible;

use serde_json::{Map, Value, json};
use tower_composure::tool::envelope::SCHEMA;

/// What must be in no envelope.
pub const SECRET: &str = "https://u:SECRET@10.0.0.7/p?card=4242";

/// An envelope, checked against its schema and for what must not be in it.
pub fn shown(answer: Result<Map<String, Value>, Infallible>) -> Value {
    let Ok(map) = answer;
    let value = Value::Object(map);
    if value["status"] == "error" {
        check(&value);
    }
    value
}

pub fn check(value: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    conforms(&schema, value, "envelope");
    let text = value.to_string();
    assert!(!text.contains("SECRET") && !text.contains("4242"), "{text}");
    let known = &schema["properties"]["error"]["properties"]["code"]["examples"];
    let code = &value["error"]["code"];
    let is_known = known.as_array().unwrap().contains(code);
    let is_ours = is_known || code == "CARD_DECLINED" || code == "BUSY";
    assert!(is_ours, "{code}");
    let action = value["action"].as_str().unwrap();
    assert_eq!(value["retryable"], action == "retry_later");
    assert_eq!(value.get("retry_after").is_some(), action == "retry_later");
    assert!(value.get("check_with").is_none() || action == "check_state");
}

/// The part of JSON Schema that the schema uses; anything else in it fails the test.
fn conforms(schema: &Value, value: &Value, at: &str) {
    for (word, rule) in schema.as_object().unwrap() {
        let holds = match word.as_str() {
            "$schema" | "title" | "description" | "examples" => true,
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_u64().unwrap() >= rule.as_u64().unwrap(),
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64(),
                other => panic!("a type that this test does not know: {other}"),
            },
            "required" => {
                let mut fields = rule.as_array().unwrap().iter();
                fields.all(|field| value.get(field.as_str().unwrap()).is_some())
            }
            "additionalProperties" => {
                let known = &schema["properties"];
                let mut names = value.as_object().unwrap().keys();
                rule == &json!(false) && names.all(|name| known.get(name).is_some())
            }
            "properties" => {
                for (name, inner) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        conforms(inner, field, name);
                    }
                }
                true
            }
            other => panic!("a word that this test does not know: {other}"),
        };
        assert!(holds, "{at}: {word} of {value}");
    }
}

/// `code`, `action`, `reason` and `attempts`.
pub fn short(value: &Value) -> (&str, &str, &str, u64) {
    (
        value["error"]["code"].as_str().unwrap(),
        value["action"].as_str().unwrap(),
        value["reason"].as_str().unwrap(),
        value["attempts"].as_u64().unwrap(),
    )
}
