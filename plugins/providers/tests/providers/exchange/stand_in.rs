//! A token service, an OpenBao and a registry's login service on loopback, which believe nothing: they verify the
//! service account's token, and remember every request whole.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
        UnparsedPublicKey,
    },
};
use serde_json::{Value, json};

/// Who the pod is.
pub(crate) const POD: &str = "system:serviceaccount:team:puller";

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// An answer in the place of the right one.
#[derive(Debug, Clone)]
pub(crate) struct Instead {
    pub(crate) status: &'static str,
    pub(crate) headers: String,
    pub(crate) body: String,
}

/// The services. They end with this value.
pub(crate) struct StandIn {
    pub(crate) url: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    key: EcdsaKeyPair,
    asked: Mutex<Vec<Asked>>,
    instead: Mutex<Option<Instead>>,
    patch: Mutex<Value>,
    end: AtomicBool,
}

impl StandIn {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            key: key(),
            asked: Mutex::default(),
            instead: Mutex::default(),
            patch: Mutex::new(Value::Null),
            end: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if own.end.load(Ordering::SeqCst) {
                    return;
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || own.serve(stream));
            }
        });
        Self { url, shared, thread: Some(thread) }
    }

    /// A token of the pod's service account, valid for this many seconds.
    pub(crate) fn pod_token(&self, seconds: i64) -> String {
        let now = Timestamp::now().as_second();
        signed(
            &self.shared.key,
            &json!({"iss": "https://kubernetes.default.svc", "sub": POD, "aud": ["exchange"],
                "iat": now, "exp": now + seconds}),
        )
    }

    /// Answers like this from now on.
    pub(crate) fn answer(&self, instead: Option<Instead>) {
        *self.shared.instead.lock().unwrap() = instead;
    }

    /// Changes members of the right answers from now on; `null` removes them.
    pub(crate) fn patch(&self, patch: Value) {
        *self.shared.patch.lock().unwrap() = patch;
    }

    /// The requests since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.asked.lock().unwrap())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        let _ = self.thread.take().unwrap().join();
    }
}

impl Asked {
    /// The fields of a form, in the order of their names.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        let pairs = self.body.split('&').filter_map(|pair| pair.split_once('='));
        let plain = |text: &str| {
            let text = text.replace('+', " ");
            percent_encoding::percent_decode_str(&text).decode_utf8().unwrap().into_owned()
        };
        let mut pairs: Vec<_> = pairs.map(|(name, value)| (plain(name), plain(value))).collect();
        pairs.sort();
        pairs
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let asked = read(&stream)?;
        self.asked.lock().unwrap().push(asked.clone());
        let instead = self.instead.lock().unwrap().clone();
        let answer = instead.unwrap_or_else(|| match self.right(&asked) {
            Ok(json) => Instead {
                status: "200 OK",
                headers: String::new(),
                body: patched(json, &self.patch.lock().unwrap()).to_string(),
            },
            Err((status, json)) => {
                Instead { status, headers: String::new(), body: json.to_string() }
            }
        });
        write!(
            stream,
            "HTTP/1.1 {}\r\nContent-Type: application/json\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
            answer.status,
            answer.headers,
            answer.body.len(),
            answer.body
        )
        .ok()
    }

    /// The right answer, or what is wrong with the request.
    fn right(&self, asked: &Asked) -> Result<Value, (&'static str, Value)> {
        let json: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        match asked.line.as_str() {
            "POST /token" => self.exchange(asked),
            "POST /v1/auth/jwt/login" | "POST /v1/auth/k8s/prod/login" => {
                let who = self.verify(json["jwt"].as_str().unwrap_or_default());
                let forbidden = |why: &str| ("403 Forbidden", json!({ "errors": [why] }));
                let who = who.map_err(forbidden)?;
                if json["role"] != "puller" {
                    return Err(("400 Bad Request", json!({ "errors": ["role is unknown"] })));
                }
                Ok(json!({"auth": {"client_token": format!("hvs.{who}"), "lease_duration": 1200}}))
            }
            line if line.starts_with("GET /v1/") => {
                if asked.headers.get("x-vault-token") != Some(&format!("hvs.{POD}")) {
                    return Err(("403 Forbidden", json!({ "errors": ["permission denied"] })));
                }
                let login = json!({"username": "puller", "password": "s3cr3t-one"});
                match line {
                    "GET /v1/secret/data/registry" => {
                        Ok(json!({"lease_id": "", "lease_duration": 0,
                            "data": {"data": login, "metadata": {"version": 3}}}))
                    }
                    "GET /v1/registry/creds/puller" => {
                        Ok(json!({"lease_id": "l/1", "lease_duration": 600, "data": login}))
                    }
                    _ => Err(("404 Not Found", json!({ "errors": [] }))),
                }
            }
            "POST /login" => {
                let who = self.verify(json["oidc_token"].as_str().unwrap_or_default());
                who.map_err(|why| ("401 Unauthorized", json!({ "message": why })))?;
                Ok(json!({"result": [{"user": "puller", "key": "s3cr3t-one"}],
                    "expires": "2130-01-01T00:00:00Z"}))
            }
            _ => Err(("404 Not Found", json!({ "message": "not found" }))),
        }
    }

    /// RFC 8693, section 2.
    fn exchange(&self, asked: &Asked) -> Result<Value, (&'static str, Value)> {
        let form = asked.form();
        let value = |name: &str| {
            let mut values = form.iter().filter(|(known, _)| known == name);
            values.next().map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let bad = |why: &str| {
            ("400 Bad Request", json!({"error": "invalid_request", "error_description": why}))
        };
        if asked.headers.get("content-type").map(String::as_str)
            != Some("application/x-www-form-urlencoded")
        {
            return Err(bad("not a form"));
        }
        if value("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
            return Err(bad("another grant"));
        }
        if value("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt" {
            return Err(bad("subject_token_type"));
        }
        let who = self.verify(value("subject_token")).map_err(bad)?;
        let kind = match value("requested_token_type") {
            "" => "urn:ietf:params:oauth:token-type:access_token",
            kind => kind,
        };
        Ok(json!({"access_token": format!("access-of-{who}"), "issued_token_type": kind,
            "token_type": "Bearer", "expires_in": 900}))
    }

    /// Whose token it is, if it is good.
    fn verify(&self, token: &str) -> Result<String, &'static str> {
        let (signed, signature) = token.rsplit_once('.').ok_or("not a JWT")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "not base64")?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).map_err(|_| "bad signature")?;
        let claims = signed.split_once('.').ok_or("no claims")?.1;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| "not base64")?;
        let claims: Value = serde_json::from_slice(&claims).map_err(|_| "not JSON")?;
        if claims["aud"] != json!(["exchange"]) {
            return Err("another audience");
        }
        if claims["exp"].as_i64().unwrap_or_default() <= Timestamp::now().as_second() {
            return Err("expired");
        }
        Ok(claims["sub"].as_str().unwrap_or_default().to_owned())
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let line = first.rsplit_once(" HTTP/")?.0.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line, headers, body: String::from_utf8(body).ok()? })
}

fn patched(mut value: Value, patch: &Value) -> Value {
    for (name, new) in patch.as_object().into_iter().flatten() {
        match new {
            Value::Null => _ = value.as_object_mut().unwrap().remove(name),
            new => value[name] = new.clone(),
        }
    }
    value
}

/// A token with these claims.
pub(crate) fn signed(key: &EcdsaKeyPair, claims: &Value) -> String {
    let text = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", text(&json!({"alg": "ES256", "kid": "one"})), text(claims));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

pub(crate) fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}
