//! Label and field selectors.

use serde_json::Value;

/// Selects the objects of a list or watch.
#[derive(Debug, Default, Clone)]
pub(crate) struct Selector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone)]
struct Term {
    /// The way to the value inside the object.
    path: Vec<String>,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Reads both selectors of a request; the message says what is wrong with them.
    pub(crate) fn read(labels: &str, fields: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for term in split(labels) {
            let (key, test) = label(term)?;
            let path = ["metadata", "labels", key].map(str::to_owned).to_vec();
            terms.push(Term { path, test });
        }
        for term in split(fields) {
            let (key, test) =
                equality(term).ok_or_else(|| format!("invalid field selector: {term}"))?;
            let path = key.split('.').map(str::to_owned).collect();
            terms.push(Term { path, test });
        }
        Ok(Self { terms })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| term.matches(object))
    }
}

impl Term {
    fn matches(&self, object: &Value) -> bool {
        let value = self.path.iter().try_fold(object, |value, key| value.get(key));
        let text = value.map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        match (&self.test, text) {
            (Test::Exists, text) => text.is_some(),
            (Test::Missing, text) => text.is_none(),
            (Test::In(wanted), text) => wanted.contains(&text.unwrap_or_default()),
            (Test::NotIn(unwanted), text) => !unwanted.contains(&text.unwrap_or_default()),
        }
    }
}

/// Splits at the commas that are outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
}

fn label(term: &str) -> Result<(&str, Test), String> {
    if let Some((head, set)) = term.split_once('(') {
        let values = set
            .trim_end()
            .strip_suffix(')')
            .map(|set| set.split(',').map(|value| value.trim().to_owned()).collect());
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next(), values) {
            (Some(key), Some("in"), None, Some(values)) => Ok((key, Test::In(values))),
            (Some(key), Some("notin"), None, Some(values)) => Ok((key, Test::NotIn(values))),
            _ => Err(format!("unable to parse requirement: {term}")),
        };
    }
    if let Some(found) = equality(term) {
        return Ok(found);
    }
    let (key, test) = match term.strip_prefix('!') {
        Some(key) => (key.trim(), Test::Missing),
        None => (term, Test::Exists),
    };
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(format!("unable to parse requirement: {term}"));
    }
    Ok((key, test))
}

fn equality(term: &str) -> Option<(&str, Test)> {
    let values = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = term.split_once("!=") {
        return Some((key.trim(), Test::NotIn(values(value))));
    }
    let (key, value) = term.split_once("==").or_else(|| term.split_once('='))?;
    Some((key.trim(), Test::In(values(value))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_in_every_spelling() {
        let object = json!({ "metadata": { "labels": { "app": "web", "tier": "front" } } });
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app in (api, web),tier", true),
            ("app in (api)", false),
            ("app notin (api)", true),
            ("other notin (api)", true),
        ] {
            let read = Selector::read(selector, "").unwrap();
            assert_eq!(read.matches(&object), expected, "{selector}");
        }
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let object = json!({ "metadata": { "name": "a" }, "status": { "phase": "Running" } });
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name=b", false),
            ("status.phase!=Running", false),
            ("metadata.name=a,status.phase=Running", true),
            ("spec.nodeName=", true),
        ] {
            let read = Selector::read("", selector).unwrap();
            assert_eq!(read.matches(&object), expected, "{selector}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Selector::read("app in web", "").is_err());
        assert!(Selector::read("app near (web)", "").is_err());
        assert!(Selector::read("", "metadata.name").is_err());
    }
}
