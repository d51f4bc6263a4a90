//! A software bill of materials: `CycloneDX` 1.5, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    dependencies::{Dependency, Id},
    package::Release,
};

/// The document.
pub fn write(dependencies: &BTreeMap<Id, Dependency>, release: &Release) -> Result<String, String> {
    let product = format!("pkg:generic/keyward@{}", release.version);
    let components: Vec<Value> =
        dependencies.iter().map(|(id, dependency)| component(id, dependency)).collect();
    let mut edges: Vec<Value> = dependencies
        .iter()
        .map(|(id, dependency)| {
            let uses: Vec<String> = dependency.uses.iter().map(purl).collect();
            json!({ "ref": purl(id), "dependsOn": uses })
        })
        .collect();
    let programs: Vec<String> = dependencies
        .keys()
        .filter(|(name, _)| PROGRAMS.contains(&name.as_str()))
        .map(purl)
        .collect();
    edges.push(json!({ "ref": product, "dependsOn": programs }));
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.timestamp()?,
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": "keyward",
                "version": release.version,
                "purl": product,
                "licenses": [{ "expression": release.license }],
            },
        },
        "components": components,
        "dependencies": edges,
    });
    let mut text = serde_json::to_string_pretty(&document).map_err(|e| e.to_string())?;
    text.push('\n');
    Ok(text)
}

/// The crates of the programs.
pub const PROGRAMS: [&str; 6] = [
    "keyward-cli",
    "keyward-agent",
    "keyward-exec",
    "keyward-node",
    "keyward-pkcs11",
    "keyward-providers",
];

fn component(id: &Id, dependency: &Dependency) -> Value {
    let (name, version) = id;
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(id),
        "name": name,
        "version": version,
        "purl": purl(id),
        "licenses": [{ "expression": dependency.license }],
    });
    if let Some(checksum) = &dependency.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &dependency.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// The package URL, which also serves as the reference.
fn purl((name, version): &Id) -> String {
    // A `+` would be read as a space.
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}
