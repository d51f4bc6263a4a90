//! The question that asks a server who it authenticates us as.

use http::{
    Request,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};

use crate::Body;

/// The versions of the API, newest first; older servers have only the older ones.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Requests for a `SelfSubjectReview`, one for each version of the API, newest first. A server that does
/// not have a version answers 404: send the next one. The answer has the user in `status.userInfo`.
///
/// ```
/// let paths = keyward::self_subject_reviews().map(|request| request.uri().to_string());
/// assert_eq!(paths.last().unwrap(), "/apis/authentication.k8s.io/v1alpha1/selfsubjectreviews");
/// ```
pub fn self_subject_reviews() -> impl Iterator<Item = Request<Body>> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    VERSIONS.into_iter().filter_map(|version| {
        let group = format!("authentication.k8s.io/{version}");
        let object = format!("{{\"kind\":\"SelfSubjectReview\",\"apiVersion\":\"{group}\"}}");
        Request::post(format!("/apis/{group}/selfsubjectreviews"))
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, JSON)
            .body(Body::from(object))
            .ok()
    })
}
