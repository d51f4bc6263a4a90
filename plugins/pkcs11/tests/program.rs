//! The program `keyward` with tokens: the proposal's own kubeconfig, PINs, and enrolment.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Stdio},
    sync::Arc,
};

use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11},
    object::{Attribute, AttributeType, ObjectClass},
    session::UserType,
    types::AuthPin,
};
use keyward_testing::{
    authority::Authority,
    plugin,
    server::{Deed, Fault, Server, User},
};
use serde_json::json;
use support::{Lab, PIN, hides_pins, ok};

fn server(lab: &Lab) -> Server {
    let authority = Arc::new(Authority::new("lab authority").unwrap());
    lab.trust(&authority);
    Server::setup().authority(authority).start().unwrap()
}

/// The excerpt of the proposal, but for paths and numbers.
#[test]
fn the_proposals_kubeconfig_works_with_a_key_that_cannot_be_taken_out() {
    let lab = Lab::soft();
    let server = server(&lab);
    lab.enrol("other", "p256");
    lab.enrol("my-user", "rsa2048");
    let listed = lab.pkcs11_tool(&["--list-objects", "--type", "privkey", "--id", "02"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("sensitive, always sensitive, never extractable"), "{listed}");
    // The module finds its tokens by a variable, which a test cannot set for itself.
    let myself = std::env::current_exe().unwrap();
    let mut asking = lab.tool(myself.to_str().unwrap(), "keyward-pkcs11");
    let output = ok(asking.args(["--ignored", "--exact", "asking_for_the_key_gives_nothing"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");

    let kubeconfig = format!(
        r#"apiVersion: v1
kind: Config
current-context: my-context
clusters:
- name: my-cluster
  cluster:
    server: {server}
    certificate-authority: {authority}
contexts:
- name: my-context
  context:
    cluster: my-cluster
    user: my-user
users:
- name: my-user
  user:
    auth-provider:
      config:
        pathExec: "{plugin}"
        pathLib: "{module}"
        objectId: "2"
        slotId: "0"
        pin: "{PIN}"
      name: externalSigner
"#,
        server = server.url(),
        authority = lab.path("ca.pem").display(),
        plugin = env!("CARGO_BIN_EXE_keyward-pkcs11"),
        module = lab.module.display(),
    );
    fs::write(lab.path("config"), kubeconfig).unwrap();
    let keyward = |arguments: &[&str]| {
        let mut command = lab.tool(plugin::keyward().to_str().unwrap(), "keyward");
        let output = ok(command.env("KUBECONFIG", lab.path("config")).args(arguments));
        hides_pins(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(keyward(&["get", "--raw", "/version"]).contains("gitVersion"));
    let seen = keyward(&["get", "--raw", "/whoami"]);
    assert!(seen.contains(r#""username":"my-user""#), "{seen}");
}

#[test]
#[ignore = "the test above runs it, with a token"]
fn asking_for_the_key_gives_nothing() {
    let module = Pkcs11::new(support::module("libsofthsm2.so", "softhsm2")).unwrap();
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    let slot = module.get_slots_with_initialized_token().unwrap()[0];
    let session = module.open_ro_session(slot).unwrap();
    session.login(UserType::User, Some(&AuthPin::from(PIN.to_owned()))).unwrap();
    let wanted = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Id(vec![2])];
    let key = session.find_objects(&wanted).unwrap()[0];
    let secret = [AttributeType::PrivateExponent, AttributeType::Prime1];
    assert_eq!(session.get_attributes(key, &secret).unwrap(), []);
    let flags =
        session.get_attributes(key, &[AttributeType::Sensitive, AttributeType::Extractable]);
    assert_eq!(flags.unwrap(), [Attribute::Sensitive(true), Attribute::Extractable(false)]);
}

#[test]
fn twenty_commands_with_a_wrong_pin_in_a_file_try_it_once() {
    let mut lab = Lab::soft();
    let server = server(&lab);
    lab.enrol("me", "p256");
    lab.spy();
    lab.write_pin("pin", "wrong-marked");
    let uri = lab.uri("me");
    for number in 0..20 {
        let mut command = lab.keyward(&server.url(), &[("uri", &uri)]);
        let output = command.args(["get", "--raw", "/version"]).output().unwrap();
        hides_pins(&output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        let why = if number == 0 { "is wrong for token `lab`" } else { "last PIN was wrong" };
        assert!(said.contains(why), "{number}: {said}");
    }
    assert_eq!(lab.spied("C_Login"), 1);
}

/// From an empty token to `keyward whoami` by the three commands of docs/pkcs11.md and one approval.
#[test]
fn an_empty_token_is_enrolled_by_three_commands_and_one_approval() {
    let lab = Lab::soft();
    let server = server(&lab);
    let users = stage(&lab, &server);

    ok(lab.plugin().args(["keygen", "--kind", "p256"]).arg(lab.uri("jane")));
    let mut enrolling = Enrolling::start(&lab, &server, &users, &["--group", "devs"]);
    let request = enrolling.name();
    decide(&lab, &server, "approve", &request);
    let said = enrolling.finish(0);
    assert!(said.contains("user `jane` is ready to use"), "{said}");
    let mut command = lab.keyward_as(&server.url(), &users);
    let output = ok(command.arg("whoami"));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("jane") && shown.contains("[devs system:authenticated]"), "{shown}");

    // The request says who asked for it, and the certificate lives as long as was wanted.
    let kept = server.store().all("certificatesigningrequests.certificates.k8s.io");
    assert_eq!(kept[0]["spec"]["username"], "newcomer");
    assert_eq!(kept[0]["spec"]["expirationSeconds"], 7200);
}

#[test]
fn a_request_that_was_made_before_is_gone_on_with() {
    let lab = Lab::soft();
    let server = server(&lab);
    let users = stage(&lab, &server);
    ok(lab.plugin().args(["keygen", "--kind", "rsa2048"]).arg(lab.uri("jane")));
    let mut enrolling = Enrolling::start(&lab, &server, &users, &["--wait", "1ms"]);
    let request = enrolling.name();
    let said = enrolling.finish(1);
    assert!(said.contains(&format!("--request {request}")), "{said}");
    decide(&lab, &server, "approve", &request);
    let mut command = lab.keyward_as(&server.url(), &users);
    let arguments = ["enroll", "--bootstrap-user", "newcomer", "--request", &request];
    hides_pins(&ok(command.args(arguments)));
    let output = ok(lab.keyward_as(&server.url(), &users).arg("whoami"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("jane"));
}

/// Where requests for certificates are.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/";

#[test]
fn a_server_that_is_away_for_a_while_is_waited_for() {
    let lab = Lab::soft();
    let server = server(&lab);
    let users = stage(&lab, &server);
    ok(lab.plugin().args(["keygen", "--kind", "p256"]).arg(lab.uri("jane")));
    let away = |deed| Fault::on(REQUESTS, deed).user("newcomer").times(1);
    let unavailable = || Deed::Answer(http::StatusCode::SERVICE_UNAVAILABLE);

    // No time to wait: what was reached so far is not lost.
    server.faults().add(away(unavailable()));
    let mut enrolling = Enrolling::start(&lab, &server, &users, &["--wait", "1ms"]);
    let request = enrolling.name();
    let said = enrolling.finish(1);
    assert!(said.contains(&format!("--request {request}")), "{said}");
    server.faults().clear();

    let mut enrolling = Enrolling::start(&lab, &server, &users, &[]);
    let request = enrolling.name();
    server.faults().add(away(unavailable()));
    server.faults().add(away(Deed::Cut));
    // The certificate comes, and cannot be stored.
    fs::set_permissions(lab.path("pin"), fs::Permissions::from_mode(0o644)).unwrap();
    decide(&lab, &server, "approve", &request);
    let said = enrolling.finish(1);
    assert!(said.contains("still waiting"), "{said}");
    assert!(said.contains("failed to run `import`"), "{said}");
    assert!(said.contains(&format!("--request {request}")), "{said}");

    fs::set_permissions(lab.path("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = lab.keyward_as(&server.url(), &users);
    let arguments = ["enroll", "--bootstrap-user", "newcomer", "--request", &request];
    hides_pins(&ok(command.args(arguments)));
}

#[test]
fn a_denied_request_and_a_token_without_a_key_are_told_as_that() {
    let lab = Lab::soft();
    let server = server(&lab);
    let users = stage(&lab, &server);
    let said = Enrolling::start(&lab, &server, &users, &[]).finish(1);
    assert!(said.contains("it shows no key at all"), "{said}");
    assert_eq!(server.store().all("certificatesigningrequests.certificates.k8s.io").len(), 0);

    ok(lab.plugin().arg("keygen").arg(lab.uri("jane")));
    let mut enrolling = Enrolling::start(&lab, &server, &users, &[]);
    let request = enrolling.name();
    decide(&lab, &server, "deny", &request);
    let said = enrolling.finish(1);
    assert!(said.contains(&format!("certificate request `{request}` was denied")), "{said}");

    // Somebody has to be named who asks, and a user with a signer to ask for.
    for (arguments, why) in [
        (&["enroll", "--name", "jane"][..], "no user given who may request"),
        (&["enroll", "--bootstrap-user", "newcomer", "--name", ""], "--name"),
        (
            &["enroll", "--context", "newcomer", "--bootstrap-user", "newcomer", "--name", "x"],
            "user `newcomer` has no external signer",
        ),
    ] {
        let output = lab.keyward_as(&server.url(), &users).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

/// The users of the kubeconfig: `jane`, whose key is in the token; `newcomer`, who may ask; `admin`.
fn stage(lab: &Lab, server: &Server) -> Vec<(&'static str, serde_json::Value)> {
    server.users().token("newcomers-token", User::new("newcomer"));
    server.users().token("admins-token", User::new("admin"));
    let config = json!({
        "pathExec": env!("CARGO_BIN_EXE_keyward-pkcs11"),
        "uri": lab.uri("jane"),
    });
    vec![
        ("jane", json!({ "auth-provider": { "name": "externalSigner", "config": config } })),
        ("newcomer", json!({ "token": "newcomers-token" })),
        ("admin", json!({ "token": "admins-token" })),
    ]
}

fn decide(lab: &Lab, server: &Server, verdict: &str, request: &str) {
    let users = [("admin", json!({ "token": "admins-token" }))];
    fs::write(lab.path("admin"), lab.kubeconfig(&server.url(), &users)).unwrap();
    let found = keyward_testing::kubectl::installed();
    let mut kubectl = lab.tool(found.path.to_str().unwrap(), "kubernetes-client");
    kubectl.env("KUBECONFIG", lab.path("admin")).env("HOME", lab.folder.path());
    ok(kubectl.args(["certificate", verdict, request]));
}

/// `keyward enroll`, while it waits.
struct Enrolling {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Enrolling {
    fn start(
        lab: &Lab,
        server: &Server,
        users: &[(&str, serde_json::Value)],
        more: &[&str],
    ) -> Self {
        let mut command = lab.keyward_as(&server.url(), users);
        command
            .args(["enroll", "--context", "jane", "--bootstrap-context", "newcomer"])
            .args(["--name", "jane", "--expiration", "2h"])
            .args(more);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, said: String::new() }
    }

    /// What the cluster calls the request.
    fn name(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended: {}", self.said);
            self.said.push_str(&line);
            if let Some((_, name)) = line.split_once("kubectl certificate approve ") {
                return name.trim().to_owned();
            }
        }
    }

    fn finish(mut self, code: i32) -> String {
        self.stderr.read_to_string(&mut self.said).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{}", self.said);
        assert!(!self.said.contains("marked"), "{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Enrolling {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_module_that_anybody_can_write_is_not_loaded() {
    let lab = Lab::soft();
    let copy = lab.path("module.so");
    fs::copy(&lab.module, &copy).unwrap();
    let uri = format!("pkcs11:?module-path={}", copy.display());
    for (mode, loaded) in [(0o755, true), (0o757, false)] {
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
        let output = lab.plugin().args(["list", &uri]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), loaded, "{mode:o}: {said}");
        assert_eq!(said.contains("can be written by everybody"), !loaded, "{said}");
    }
}
