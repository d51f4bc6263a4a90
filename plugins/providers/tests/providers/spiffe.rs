//! `keyward-spiffe` against a Workload API of ours, and its certificate against `openssl s_server`.

use std::{
    fs,
    io::Cursor,
    path::Path,
    process::Command,
    sync::{Arc, mpsc},
};

use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use keyward_testing::authority::Authority;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    exchange::stand_in::{key, signed},
    openssl::Openssl,
    program::{Ended, Run},
};

const POD: &str = "spiffe://example.org/pod";
const OTHER: &str = "spiffe://example.org/other";

/// What the Workload API issues: tokens, and certificates with their keys.
struct Issues {
    tokens: bool,
    /// The id, the certificate and its key in DER, and the hint of each.
    certificates: Vec<(&'static str, Vec<u8>, Vec<u8>, &'static str)>,
    /// The authority of the certificates.
    authority: Vec<u8>,
}

/// A home with the socket of a Workload API. It ends with the test's process.
struct Lab {
    directory: TempDir,
}

impl Lab {
    fn new(issues: Issues) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api.sock");
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::bind(socket).unwrap();
                ready.send(()).unwrap();
                let issues = Arc::new(issues);
                while let Ok((stream, _)) = listener.accept().await {
                    let issues = Arc::clone(&issues);
                    tokio::spawn(async move {
                        let builder = h2::server::Builder::new();
                        let mut connection =
                            builder.handshake::<_, Cursor<Vec<u8>>>(stream).await.unwrap();
                        while let Some(Ok((request, respond))) = connection.accept().await {
                            tokio::spawn(answer(Arc::clone(&issues), request, respond));
                        }
                    });
                }
            });
        });
        is_ready.recv().unwrap();
        Self { directory }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let socket = format!("unix://{}", self.directory.path().join("api.sock").display());
        Run::named("keyward-spiffe").args(args).env("SPIFFE_ENDPOINT_SOCKET", socket).run()
    }

    fn status(&self, args: &[&str]) -> Value {
        let answer: Value = serde_json::from_str(&self.run(args).printed()).unwrap();
        answer["status"].clone()
    }
}

/// One call of gRPC.
async fn answer(
    issues: Arc<Issues>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Cursor<Vec<u8>>>,
) {
    let (parts, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = body.data().await {
        let _ = body.flow_control().release_capacity(part.len());
        bytes.extend_from_slice(&part);
    }
    let named = parts.headers.get("workload.spiffe.io").is_some_and(|value| value == "true");
    let message = match parts.uri.path() {
        _ if !named => Err("3"),
        "/SpiffeWorkloadAPI/FetchJWTSVID" if issues.tokens => Ok(tokens(&bytes[5..])),
        "/SpiffeWorkloadAPI/FetchX509SVID" if !issues.certificates.is_empty() => {
            Ok(certificates(&issues))
        }
        // Permission denied, which is how SPIRE answers a workload that it does not know.
        _ => Err("7"),
    };
    let head = Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
    if let Ok(message) = &message {
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        stream.send_data(Cursor::new(frame), false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", message.err().unwrap_or("0").parse().unwrap());
    trailers.insert("grpc-message", "no identity issued".parse().unwrap());
    stream.send_trailers(trailers).unwrap();
}

/// `JWTSVIDResponse`: a token for the audiences of the request, for the identity that it names or for both.
fn tokens(request: &[u8]) -> Vec<u8> {
    let fields = fields(request);
    let audience: Vec<&str> =
        fields.iter().filter(|(number, _)| *number == 1).map(|(_, text)| text.as_str()).collect();
    let wanted = fields.iter().find(|(number, _)| *number == 2).map(|(_, text)| text.as_str());
    let now = jiff::Timestamp::now().as_second();
    let key = key();
    let mut message = Vec::new();
    for id in [POD, OTHER] {
        if wanted.is_none_or(|wanted| wanted == id) {
            let claims = json!({"sub": id, "aud": audience, "iat": now, "exp": now + 300});
            let token = signed(&key, &claims);
            let hint = if id == POD { "pod" } else { "other" };
            let svid =
                [field(1, id.as_bytes()), field(2, token.as_bytes()), field(3, hint.as_bytes())];
            message.extend(field(1, &svid.concat()));
        }
    }
    message
}

/// `X509SVIDResponse`.
fn certificates(issues: &Issues) -> Vec<u8> {
    let svid = |(id, der, key, hint): &(&str, Vec<u8>, Vec<u8>, &str)| {
        let fields = [
            field(1, id.as_bytes()),
            field(2, der),
            field(3, key),
            field(4, &issues.authority),
            field(5, hint.as_bytes()),
        ];
        field(1, &fields.concat())
    };
    issues.certificates.iter().flat_map(svid).collect()
}

/// A field of protobuf with bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend(bytes);
    out
}

/// The texts of a short message.
fn fields(mut message: &[u8]) -> Vec<(u8, String)> {
    let mut found = Vec::new();
    while let [tag, length, rest @ ..] = message {
        let (text, rest) = rest.split_at(usize::from(*length));
        found.push((tag >> 3, String::from_utf8(text.to_vec()).unwrap()));
        message = rest;
    }
    found
}

/// Issues tokens alone.
fn tokens_only() -> Issues {
    Issues { tokens: true, certificates: Vec::new(), authority: Vec::new() }
}

/// Issues both for two identities. The PEM is the authority's.
fn everything() -> (Issues, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let certificates = [(POD, "pod"), (OTHER, "other")].map(|(id, hint)| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, hint);
        params.subject_alt_names = vec![SanType::URI(id.try_into().unwrap())];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, &issuer).unwrap();
        (id, leaf.der().to_vec(), key.serialize_der(), hint)
    });
    let authority = root.der().to_vec();
    (Issues { tokens: true, certificates: certificates.into(), authority }, root.pem())
}

fn claims(status: &Value) -> Value {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let token = status["token"].as_str().unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

#[test]
fn a_token_is_for_the_audiences_and_ends_before_it_does() {
    let lab = Lab::new(tokens_only());
    let status = lab.status(&["--audience=cluster", "--audience=other"]);
    let claims = claims(&status);
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!(POD), &json!(["cluster", "other"])));
    let end: jiff::Timestamp = status["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    let early = claims["exp"].as_i64().unwrap() - end.as_second();
    assert!((1..=10).contains(&early), "{early}");
}

#[test]
fn a_server_accepts_the_certificate() {
    let (issues, authority) = everything();
    let lab = Lab::new(issues);
    let path = |name: &str| lab.directory.path().join(name);
    fs::write(path("ca.pem"), authority).unwrap();
    let servers = Authority::new("spiffe tests").unwrap();
    fs::write(path("server-ca.pem"), servers.pem()).unwrap();
    let server = Openssl::start(lab.directory.path(), &servers, "-tls1_3");
    let status = lab.status(&["--x509", "--audience=cluster"]);
    fs::write(path("chain.pem"), status["clientCertificateData"].as_str().unwrap()).unwrap();
    fs::write(path("key.pem"), status["clientKeyData"].as_str().unwrap()).unwrap();
    assert_eq!(claims(&status)["sub"], POD);
    let page = curl(&server.url, lab.directory.path());
    assert!(page.contains(&format!("URI:{POD}")), "{page}");
}

fn curl(url: &str, directory: &Path) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--cacert", "server-ca.pem"])
        .args(["--cert", "chain.pem", "--key", "key.pem", url])
        .current_dir(directory)
        .output()
        .expect("`curl` starts; it is in the Debian package curl");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_of_several_identities_is_selected_by_id_or_hint() {
    let lab = Lab::new(everything().0);
    let id = format!("--spiffe-id={OTHER}");
    for select in [id.as_str(), "--hint=other"] {
        let status = lab.status(&["--audience=cluster", "--x509", select]);
        assert_eq!(claims(&status)["sub"], OTHER);
        let report = lab.run(&["--x509", select, "--explain"]).printed();
        assert!(report.contains(&format!("used     X.509-SVID: `{OTHER}` until ")), "{report}");
        assert!(!report.contains("PRIVATE KEY"), "{report}");
    }
    let ended = lab.run(&["--x509", "--hint=nobody"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""));
    assert!(ended.stderr.contains(&format!("it has `{POD}`, `{OTHER}`")), "{ended:?}");
}

#[test]
fn what_gives_no_identity_is_said_with_its_reason() {
    let lab = Lab::new(tokens_only());
    let away = "--socket=unix:///no/such/socket";
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "give `--audience` for a token, `--x509` for a certificate"),
        (&["--x509"], 4, "hint: register it"),
        (&["--x509", "--socket=http://x"], 2, "is no address of a Workload API"),
        (&["--x509", "--spiffe-id=https://x"], 2, "`--spiffe-id`"),
        (&["--x509", away], 1, "`unix:///no/such/socket` cannot be used"),
        (&["--x509", "word"], 2, "there is no command `word`"),
    ];
    for (args, code, why) in cases {
        let ended = lab.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(*code), ""), "{args:?} {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    }
    let ended = Run::named("keyward-spiffe").args(["--x509"]).run();
    assert!(ended.code == Some(2) && ended.stderr.contains("SPIFFE_ENDPOINT_SOCKET"), "{ended:?}");
}
