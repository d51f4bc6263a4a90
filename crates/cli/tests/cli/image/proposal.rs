//! The form of the original proposal, with its own sample.

use super::runs;
use crate::stage::Stage;

/// The sample, with the quotes that YAML needs.
const SAMPLE: &str = "\
kind: credentialprovider
apiVersion: v1alpha1
providers:
-
  name: ecr-creds
  imageMatchers:
  - '*.dkr.ecr.*.amazonaws.com'
  - '*.dkr.ecr.*.amazonaws.com.cn'
  extraArgs:
    region: us-west-2
";

const IMAGE: &str = "012345678910.dkr.ecr.us-east-1.amazonaws.com/my-image";

/// A provider that answers in the proposal's form, and notes how it was called.
fn stage(expiry: &str) -> Stage {
    let stage = Stage::new();
    stage.plugin(
        "ecr-creds",
        &format!(
            "echo run >>\"$STAGE/ecr-creds.runs\"\n\
             echo \"REGION=$REGION $(basename \"$0\") $*\" >\"$STAGE/called\"\n\
             cat >\"$STAGE/told\"\n\
             echo '{{\"username\":\"AWS\",\"password\":\"from-'\"$REGION\"'\"{expiry}}}'"
        ),
    );
    stage.write("providers.yaml", SAMPLE);
    stage
}

#[test]
fn the_proposals_own_sample_works_with_a_provider_called_ecr_creds() {
    let stage = stage("");
    let ran = stage.run(&format!("image credentials --config providers.yaml -o basic {IMAGE}:1.0"));
    assert_eq!(ran.good(), "AWS:from-us-west-2\n");
    assert_eq!(stage.read("called"), "REGION=us-west-2 ecr-creds get-credentials\n");
    assert_eq!(stage.read("told"), format!("{{\"image\":\"{IMAGE}\"}}\n"));
    let ran =
        stage.run("image credentials --config providers.yaml -o basic 1.dkr.ecr.x.amazonaws.org/a");
    assert!(ran.bad(1).contains("no provider has a pattern that matches it"), "{}", ran.stderr);
}

#[test]
fn an_answer_without_expiry_is_not_kept_and_one_with_is() {
    for (expiry, expected) in [("", 2), (",\"expirationTimestamp\":\"2999-01-01T00:00:00Z\"", 1)] {
        let stage = stage(expiry);
        let words = format!("image explain --config providers.yaml {IMAGE} {IMAGE}");
        let text = stage.run(&words).good().to_owned();
        assert_eq!(runs(&stage, "ecr-creds"), expected, "{text}");
        assert!(text.contains("in a form that no kubelet supports"), "{text}");
    }
}

#[test]
fn a_port_of_the_image_does_not_matter_where_the_matcher_has_none() {
    let stage = stage("");
    let image = IMAGE.replace("/my", ":8443/my");
    let ran = stage.run(&format!("image credentials --config providers.yaml -o basic {image}"));
    assert_eq!(ran.good(), "AWS:from-us-west-2\n");
}

#[test]
fn an_unquoted_star_gets_an_error_that_says_to_quote_it() {
    let stage = stage("");
    stage.write("providers.yaml", &SAMPLE.replace('\'', ""));
    let ran = stage.run(&format!("image credentials --config providers.yaml {IMAGE}"));
    let said = stage.steady(ran.bad(1));
    assert!(said.contains("a pattern that begins with `*` needs quotes"), "{said}");
    assert!(said.contains("providers.yaml`, line 7"), "{said}");
}
