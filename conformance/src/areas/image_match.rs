use keyward_image::{Index, Name, Pattern, Reading};
use serde_json::Value;

pub(super) fn check(case: &Value) -> Result<(), String> {
    let text = |field: &str| case[field].as_str().ok_or(format!("`{field}` is not a text"));
    let (pattern, image) = (Pattern::parse(text("pattern")?), Name::parse(text("image")?));
    let wanted = case["match"].as_bool().ok_or("`match` is not a boolean")?;
    let valid = case["patternValid"].as_bool().unwrap_or(true);
    if pattern.is_ok() != valid {
        return Err(format!("the pattern is valid: {}, wanted {valid}", pattern.is_ok()));
    }
    // Where both are bad the reference names the pattern only.
    let fault = case["error"].as_str();
    if fault != Some("pattern_unparsable") && image.is_none() != (fault == Some("image_unparsable"))
    {
        return Err(format!("the image parses: {}", image.is_some()));
    }
    let seen = match (&pattern, &image) {
        (Ok(pattern), Some(image)) => {
            let plain = pattern.matches(image, Reading::Kubelet);
            let index = Index::new([pattern], Reading::Kubelet).first(image).is_some();
            if plain != index {
                return Err(format!("the plain matcher says {plain}, the index {index}"));
            }
            plain
        }
        _ => false,
    };
    if seen == wanted { Ok(()) } else { Err(format!("match: {seen}, wanted {wanted}")) }
}
