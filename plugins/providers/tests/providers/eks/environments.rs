//! Environments and profile files, each with another source of credentials.

use crate::stage::Stage;

/// The name of an environment, and what makes it.
pub(super) type Case = (&'static str, fn(&mut Stage));

const KEYS: &str = "aws_access_key_id = {alice.key}\naws_secret_access_key = {alice.secret}\n";
const BOB: &str = "aws_access_key_id = {bob.key}\naws_secret_access_key = {bob.secret}\n";
const ROLE: &str = "role_arn = arn:aws:iam::123456789012:role/Dev\n";
const SSO: &str = "sso_account_id = 123456789012\nsso_role_name = Reader\n";
const START: &str = "sso_start_url = https://sso.example/start\nsso_region = us-east-1\n";
const FUTURE: &str = "2099-01-01T00:00:00Z";
const PAST: &str = "2020-01-01T00:00:00Z";
const PROCESS: &str =
    r#"printf '{"Version":1,"AccessKeyId":"{bob.key}","SecretAccessKey":"{bob.secret}"}'"#;

/// The program that prints bob's keys.
fn printer(stage: &mut Stage, text: &str) {
    stage.file("print keys", &format!("#!/bin/sh\n{text}\n"));
    let path = stage.path("print keys");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(path, mode).unwrap();
}

pub(super) const ENVIRONMENT: &[Case] = &[
    ("keys in the environment", |s| {
        s.env_keys("alice");
    }),
    ("keys and a session token", |s| {
        s.env_keys("alice").env("AWS_SESSION_TOKEN", "t");
    }),
    ("the older name of the session token", |s| {
        s.env_keys("alice").env("AWS_SECURITY_TOKEN", "t");
    }),
    ("an access key without its secret", |s| {
        s.env("AWS_ACCESS_KEY_ID", "{alice.key}");
    }),
    ("a secret without its access key", |s| {
        s.env("AWS_SECRET_ACCESS_KEY", "x");
    }),
    ("an empty access key", |s| {
        s.env("AWS_ACCESS_KEY_ID", "").env("AWS_SECRET_ACCESS_KEY", "x");
    }),
    ("an empty access key before a profile", |s| {
        s.env("AWS_ACCESS_KEY_ID", "").credentials(&format!("[default]\n{KEYS}"));
    }),
    ("keys beat AWS_PROFILE", |s| {
        s.env_keys("alice").env("AWS_PROFILE", "bob").credentials(&format!("[bob]\n{BOB}"));
    }),
    ("keys and an AWS_PROFILE that does not exist", |s| {
        s.env_keys("alice").env("AWS_PROFILE", "no");
    }),
    ("a profile on the command line beats keys", |s| {
        s.env_keys("alice").profile("bob").credentials(&format!("[bob]\n{BOB}"));
    }),
    ("keys that have an end", |s| {
        s.env_keys("alice").env("AWS_CREDENTIAL_EXPIRATION", FUTURE);
    }),
    ("an end that is no time", |s| {
        s.env_keys("alice").env("AWS_CREDENTIAL_EXPIRATION", "soon");
    }),
    ("nothing at all", |_| {}),
];

pub(super) const FILES: &[Case] = &[
    ("the default profile in the credentials file", |s| {
        s.credentials(&format!("[default]\n{KEYS}"));
    }),
    ("the default profile in the config file", |s| {
        s.config(&format!("[default]\n{KEYS}"));
    }),
    ("the default profile with the word profile", |s| {
        s.config(&format!("[profile default]\n{KEYS}"));
    }),
    ("the credentials file beats the config file", |s| {
        s.credentials(&format!("[default]\n{KEYS}")).config(&format!("[default]\n{BOB}"));
    }),
    ("AWS_PROFILE", |s| {
        s.env("AWS_PROFILE", "bob").credentials(&format!("[default]\n{KEYS}[bob]\n{BOB}"));
    }),
    ("AWS_DEFAULT_PROFILE beats AWS_PROFILE", |s| {
        s.env("AWS_PROFILE", "a").env("AWS_DEFAULT_PROFILE", "bob");
        s.credentials(&format!("[a]\n{KEYS}[bob]\n{BOB}"));
    }),
    ("a profile that does not exist", |s| {
        s.profile("no").credentials(&format!("[default]\n{KEYS}"));
    }),
    ("an access key without its secret in the credentials file", |s| {
        s.credentials("[default]\naws_access_key_id = {alice.key}\n");
    }),
    ("an access key without its secret in the config file", |s| {
        s.config("[default]\naws_access_key_id = {alice.key}\n");
    }),
    ("a session token in a file", |s| {
        s.credentials(&format!("[default]\n{KEYS}aws_session_token = t\n"));
    }),
    ("a profile with a blank in its name", |s| {
        s.env("AWS_PROFILE", "my team").config(&format!("[profile \"my team\"]\n{BOB}"));
    }),
    ("a section of the config file without the word profile", |s| {
        s.env("AWS_PROFILE", "bob").config(&format!("[bob]\n{BOB}"));
    }),
    ("a section of the credentials file with the word profile", |s| {
        s.env("AWS_PROFILE", "bob").credentials(&format!("[profile bob]\n{BOB}"));
    }),
    ("files at other places", |s| {
        s.file("else/a", &format!("[bob]\n{BOB}"))
            .env("AWS_SHARED_CREDENTIALS_FILE", "{home}/else/a");
        s.file("else/b", "[profile bob]\nregion = eu-west-1\n")
            .env("AWS_CONFIG_FILE", "{home}/else/b");
        s.profile("bob");
    }),
    ("a file that is no file of profiles", |s| {
        s.config("[default\nregion\n");
    }),
    ("comments and blank lines", |s| {
        s.credentials(&format!("# mine\n\n[default]\n; old\n{KEYS}\n"));
    }),
];

pub(super) const ROLES: &[Case] = &[
    ("a role with a source profile", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = a\n"))
            .credentials(&format!("[a]\n{KEYS}"));
    }),
    ("a role with a session name", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = a\nrole_session_name = me\n"));
        s.credentials(&format!("[a]\n{KEYS}"));
    }),
    ("a role whose source is a role", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = b\nrole_session_name = two\n[profile b]\nrole_arn = \
             arn:aws:iam::123456789012:role/Base\nsource_profile = a\nrole_session_name = one\n"
        ));
        s.credentials(&format!("[a]\n{KEYS}"));
    }),
    ("a role whose source is its own profile", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = default\nrole_session_name = me\n{KEYS}"
        ));
    }),
    ("roles that lead back to each other", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = b\n[profile b]\n{ROLE}source_profile = default\n"
        ));
    }),
    ("a role that is its own source without keys", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = default\n"));
    }),
    ("a role whose source does not exist", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = no\n"));
    }),
    ("a role whose source has no credentials", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = a\n[profile a]\nregion = us-east-1\n"
        ));
    }),
    ("a role with two kinds of sources", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = a\ncredential_source = Environment\n[profile a]\n{KEYS}"));
    }),
    ("a role without a source", |s| {
        s.config(&format!("[default]\n{ROLE}"));
    }),
    ("a role of the environment", |s| {
        s.env_keys("alice").profile("r");
        s.config(&format!(
            "[profile r]\n{ROLE}credential_source = Environment\nrole_session_name = me\n"
        ));
    }),
    ("a role of an empty environment", |s| {
        s.profile("r").config(&format!("[profile r]\n{ROLE}credential_source = Environment\n"));
    }),
    ("a role of a container", |s| {
        s.config(&format!(
            "[default]\n{ROLE}credential_source = EcsContainer\nrole_session_name = me\n"
        ));
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
        s.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer pod");
    }),
    ("a role of the instance", |s| {
        s.config(&format!(
            "[default]\n{ROLE}credential_source = Ec2InstanceMetadata\nrole_session_name = me\n"
        ));
        s.unset("AWS_EC2_METADATA_DISABLED").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "{standIn}");
    }),
    ("a role of an unknown source", |s| {
        s.config(&format!("[default]\n{ROLE}credential_source = Elsewhere\n"));
    }),
    ("a source in the wrong case", |s| {
        s.env_keys("alice").profile("r");
        s.config(&format!("[profile r]\n{ROLE}credential_source = environment\n"));
    }),
    ("an external id and a duration", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = a\nexternal_id = team-7\nduration_seconds = 900\nrole_session_name = me\n"
        ));
        s.credentials(&format!("[a]\n{KEYS}")).env("AWS_ENDPOINT_URL_STS", "{standIn}");
    }),
    ("a duration that is no number", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = a\nduration_seconds = x\nrole_session_name = me\n"
        ));
        s.credentials(&format!("[a]\n{KEYS}")).env("AWS_ENDPOINT_URL_STS", "{standIn}");
    }),
    ("a role that needs an MFA code", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = a\nmfa_serial = arn:aws:iam::1:mfa/alice\n"
        ));
        s.credentials(&format!("[a]\n{KEYS}"));
    }),
    ("an MFA device on the source profile alone", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = a\nrole_session_name = me\n"));
        s.credentials(&format!("[a]\n{KEYS}mfa_serial = arn:aws:iam::1:mfa/alice\n"));
    }),
    ("a role that STS refuses", |s| {
        s.config("[default]\nrole_arn = arn:aws:iam::1:role/Forbidden\nsource_profile = a\n");
        s.credentials(&format!("[a]\n{KEYS}")).env("AWS_ENDPOINT_URL_STS", "{standIn}");
    }),
    ("an STS that does not answer", |s| {
        s.config(&format!("[default]\n{ROLE}source_profile = a\n"))
            .credentials(&format!("[a]\n{KEYS}"));
        s.env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1").env("AWS_MAX_ATTEMPTS", "1");
    }),
];

pub(super) const WEB_IDENTITY: &[Case] = &[
    ("a web identity in the environment", |s| {
        s.file("token", "header.claims.signature")
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/token");
        s.env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/Pod")
            .env("AWS_ROLE_SESSION_NAME", "pod");
    }),
    ("a web identity without a role", |s| {
        s.file("token", "header.claims.signature")
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/token");
    }),
    ("a web identity whose file does not exist", |s| {
        s.env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/none")
            .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/Pod");
    }),
    ("a web identity in a profile", |s| {
        s.file("token", "header.claims.signature");
        s.config(&format!(
            "[default]\n{ROLE}web_identity_token_file = {{home}}/token\nrole_session_name = pod\n"
        ));
    }),
    ("a role of a profile before a web identity in the environment", |s| {
        s.file("token", "header.claims.signature")
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/token");
        s.env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/Pod");
        s.config(&format!(
            "[default]\n{ROLE}source_profile = a\nrole_session_name = me\n[profile a]\n{KEYS}"
        ));
    }),
    ("a web identity in the environment before keys in files", |s| {
        s.file("token", "header.claims.signature")
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/token");
        s.env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/Pod")
            .env("AWS_ROLE_SESSION_NAME", "pod");
        s.credentials(&format!("[default]\n{KEYS}"));
    }),
    ("a profile on the command line beats a web identity", |s| {
        s.file("token", "header.claims.signature")
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", "{home}/token");
        s.env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/Pod");
        s.credentials(&format!("[a]\n{KEYS}")).profile("a");
    }),
    ("a role whose source is a web identity", |s| {
        s.file("token", "header.claims.signature");
        s.config(&format!(
            "[default]\n{ROLE}source_profile = w\nrole_session_name = me\n[profile w]\nrole_arn = \
             arn:aws:iam::123456789012:role/Pod\nweb_identity_token_file = {{home}}/token\n"
        ));
    }),
];

pub(super) const PROCESSES: &[Case] = &[
    ("a program that prints keys", |s| {
        printer(s, PROCESS);
        s.config("[default]\ncredential_process = \"{home}/print keys\"\n");
    }),
    ("a program with quoted arguments", |s| {
        let text = r#"[ "$1 $2" = "a b c" ] || exit 3"#;
        printer(s, &format!("{text}\n{PROCESS}"));
        s.config("[default]\ncredential_process = '{home}/print keys' \"a b\" c\n");
    }),
    ("a program that fails", |s| {
        printer(s, "echo no >&2; exit 1");
        s.config("[default]\ncredential_process = '{home}/print keys'\n");
    }),
    ("a program that prints another version", |s| {
        printer(s, &PROCESS.replace("\"Version\":1", "\"Version\":2"));
        s.config("[default]\ncredential_process = '{home}/print keys'\n");
    }),
    ("a program that prints no JSON", |s| {
        printer(s, "echo hello");
        s.config("[default]\ncredential_process = '{home}/print keys'\n");
    }),
    ("a program that prints no secret", |s| {
        printer(s, "echo '{\"Version\":1,\"AccessKeyId\":\"A\"}'");
        s.config("[default]\ncredential_process = '{home}/print keys'\n");
    }),
    ("a program before keys in the config file", |s| {
        printer(s, PROCESS);
        s.config(&format!("[default]\ncredential_process = '{{home}}/print keys'\n{KEYS}"));
    }),
    ("keys in the credentials file before a program", |s| {
        printer(s, PROCESS);
        s.config("[default]\ncredential_process = '{home}/print keys'\n")
            .credentials(&format!("[default]\n{KEYS}"));
    }),
    ("a role whose source is a program", |s| {
        printer(s, PROCESS);
        s.config(&format!(
            "[default]\n{ROLE}source_profile = p\nrole_session_name = me\n[profile p]\ncredential_process = \
             '{{home}}/print keys'\n"
        ));
    }),
];

pub(super) const SINGLE_SIGN_ON: &[Case] = &[
    ("SSO without a session", |s| {
        s.config(&format!("[default]\n{SSO}{START}")).env("AWS_ENDPOINT_URL_SSO", "{standIn}");
        s.sso_token("https://sso.example/start", "sso-token", FUTURE, "");
    }),
    ("SSO with a session", |s| {
        s.config(&format!("[default]\nsso_session = corp\n{SSO}[sso-session corp]\n{START}"));
        s.env("AWS_ENDPOINT_URL_SSO", "{standIn}").sso_token("corp", "sso-token", FUTURE, "");
    }),
    ("an SSO session that is renewed", |s| {
        s.config(&format!("[default]\nsso_session = corp\n{SSO}[sso-session corp]\n{START}"));
        s.env("AWS_ENDPOINT_URL_SSO", "{standIn}").env("AWS_ENDPOINT_URL_SSO_OIDC", "{standIn}");
        let more = format!(
            r#","refreshToken":"refresh","clientId":"c","clientSecret":"s","registrationExpiresAt":"{FUTURE}""#
        );
        s.sso_token("corp", "old", PAST, &more);
    }),
    ("SSO without a login", |s| {
        s.config(&format!("[default]\n{SSO}{START}")).env("AWS_ENDPOINT_URL_SSO", "{standIn}");
    }),
    ("SSO without a region", |s| {
        s.config(&format!("[default]\n{SSO}sso_start_url = https://sso.example/start\n"));
    }),
    ("an SSO session that does not exist", |s| {
        s.config(&format!("[default]\nsso_session = no\n{SSO}{START}"));
    }),
    ("an SSO session that contradicts its profile", |s| {
        s.config(&format!(
            "[default]\nsso_session = corp\nsso_region = eu-west-1\n{SSO}[sso-session corp]\n{START}"
        ));
    }),
    ("a login that has ended", |s| {
        s.config(&format!("[default]\n{SSO}{START}")).env("AWS_ENDPOINT_URL_SSO", "{standIn}");
        s.sso_token("https://sso.example/start", "sso-token", PAST, "");
    }),
    ("a login that the portal refuses", |s| {
        s.config(&format!("[default]\n{SSO}{START}")).env("AWS_ENDPOINT_URL_SSO", "{standIn}");
        s.sso_token("https://sso.example/start", "wrong", FUTURE, "");
    }),
    ("a role whose source is SSO", |s| {
        s.config(&format!(
            "[default]\n{ROLE}source_profile = c\nrole_session_name = me\n[profile c]\n{SSO}{START}"
        ));
        s.env("AWS_ENDPOINT_URL_SSO", "{standIn}").env("AWS_ENDPOINT_URL_STS", "{standIn}");
        s.sso_token("https://sso.example/start", "sso-token", FUTURE, "");
    }),
    ("SSO before keys of the same profile", |s| {
        s.config(&format!("[default]\n{SSO}{START}{KEYS}"))
            .env("AWS_ENDPOINT_URL_SSO", "{standIn}");
        s.sso_token("https://sso.example/start", "sso-token", FUTURE, "");
    }),
];

pub(super) const MACHINES: &[Case] = &[
    ("a container", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
        s.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer pod");
    }),
    ("a container whose token is in a file", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
        s.file("pod", "Bearer pod").env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "{home}/pod");
    }),
    ("a container that refuses", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
    }),
    ("a container at a foreign address", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/container/a");
    }),
    ("a token with a line break", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
        s.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer\npod");
    }),
    ("keys in a file before a container", |s| {
        s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
        s.credentials(&format!("[default]\n{KEYS}"));
    }),
    ("an instance", |s| {
        s.unset("AWS_EC2_METADATA_DISABLED").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "{standIn}");
    }),
    ("an instance whose metadata is disabled", |s| {
        s.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "{standIn}");
    }),
    ("no instance", |s| {
        s.unset("AWS_EC2_METADATA_DISABLED")
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1/");
    }),
    ("an instance that the config file names", |s| {
        s.unset("AWS_EC2_METADATA_DISABLED")
            .config("[default]\nec2_metadata_service_endpoint = {standIn}\n");
    }),
];
