use keyward_protocol::{
    Secret,
    image::{Request, Version},
};

use crate::Refusal;

/// The request to an image credential provider.
///
/// [`serve_image`](crate::serve_image) reads it from stdin. A provider with a `main` of its own does
/// so with [`ImageQuestion::from_bytes`]. Every version of the protocol is read, and the original
/// proposal's `{"image":…}`; unknown fields are ignored.
#[derive(Debug, Clone)]
pub struct ImageQuestion {
    request: Request,
}

impl ImageQuestion {
    /// Parses the question in these bytes. Errors contain none of their text.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refusal> {
        let request = Request::read(bytes)
            .map_err(|error| Refusal::BadConfig(format!("cannot read the request: {error}")))?;
        if request.image.is_empty() {
            return Err(Refusal::bad_config("the request names no image"));
        }
        Ok(Self { request })
    }

    /// The image's full name, without tag and digest: `registry.example:5000/team/app`.
    pub fn image(&self) -> &str {
        &self.request.image
    }

    /// The image's registry: what is before the first slash, with its port.
    pub fn registry(&self) -> &str {
        self.request.image.split('/').next().unwrap_or_default()
    }

    /// The version of the request, in which the answer is given; `None` is the original proposal's form.
    pub fn version(&self) -> Option<Version> {
        self.request.version
    }

    /// The token of the pod's service account; present only if the node's configuration has
    /// `tokenAttributes` for this provider.
    pub fn token(&self) -> Option<&Secret> {
        self.request.token.as_ref()
    }

    /// The service account token, or an error for a provider that cannot work without one.
    pub fn require_token(&self) -> Result<&Secret, Refusal> {
        self.token().ok_or_else(|| {
            Refusal::bad_config(
                "the request has no service account token\n\n\
                 hint: set `tokenAttributes` for this provider in the node's configuration",
            )
        })
    }

    /// The value of an annotation of the pod's service account. Only annotations that the configuration
    /// lists are passed on.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let mut all = self.request.annotations.iter();
        all.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All annotations of the pod's service account that are passed on, with their values.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.request.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// An annotation, or an error if the provider cannot work without it.
    pub fn require_annotation(&self, name: &str) -> Result<&str, Refusal> {
        self.annotation(name).ok_or_else(|| {
            Refusal::BadConfig(format!(
                "the request has no annotation `{name}` of the service account\n\n\
                 hint: list it in `tokenAttributes.requiredServiceAccountAnnotationKeys`, and \
                 annotate the service account"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn token_and_annotations_arrive_and_hide() {
        let text = br#"{"kind":"CredentialProviderRequest","new":1,
            "apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io:5000/team/app",
            "serviceAccountToken":"hush","serviceAccountAnnotations":{"r.io/role":"reader"}}"#;
        let question = ImageQuestion::from_bytes(text).unwrap();
        assert_eq!((question.image(), question.registry()), ("r.io:5000/team/app", "r.io:5000"));
        assert_eq!(question.require_token().unwrap().expose(), "hush");
        assert_eq!(question.require_annotation("r.io/role").unwrap(), "reader");
        assert!(question.require_annotation("other").is_err());
        assert!(!format!("{question:?}").contains("hush"));
    }

    #[test]
    fn the_original_proposals_form_needs_no_type_meta() {
        for text in [
            r#"{"image":"r.io/x"}"#,
            r#"{"kind":"RegistryCredentialPluginRequest","apiVersion":"v1alpha1","image":"r.io/x"}"#,
        ] {
            let question = ImageQuestion::from_bytes(text.as_bytes()).unwrap();
            assert_eq!((question.version(), question.image()), (None, "r.io/x"));
            assert!(question.require_token().is_err());
        }
    }

    #[test]
    fn what_is_no_question_is_refused_and_not_repeated() {
        for text in [
            r#"{"image":"hush"#,
            r#"{"kind":"hush","image":"r.io/x"}"#,
            r#"{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io/hush"}"#,
            r#"{"kind":"CredentialProviderRequest","apiVersion":"hush","image":"r.io/x"}"#,
            r#"{"kind":"RegistryCredentialPluginRequest","apiVersion":"hush","image":"r.io/x"}"#,
            r#"{"image":""}"#,
            "[]",
        ] {
            let refusal = ImageQuestion::from_bytes(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{text}");
            assert!(!refusal.to_string().contains("hush"), "{refusal}");
        }
    }
}
