//! A provider on loopback that does what it is told, right or wrong. No real provider lies.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

/// How an ID token is signed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Sign {
    /// With the provider's key.
    #[default]
    Right,
    /// With another key under the same id.
    OtherKey,
    /// Not at all, with the algorithm `none`.
    None,
    /// With the client's secret.
    Hmac,
}

/// What is wrong. Patches replace members, and `null` removes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lies {
    pub(crate) metadata: Value,
    pub(crate) claims: Value,
    /// Claims of ID tokens that refresh tokens bring, on top of `claims`.
    pub(crate) refreshed: Value,
    /// Members of the token endpoint's answer to a refresh token.
    pub(crate) refresh: Value,
    /// Members of the token endpoint's every answer.
    pub(crate) answer: Value,
    /// Parameters of the browser's return.
    pub(crate) back: Value,
    /// Members of the answer to a request for a device code; without any there is no such endpoint.
    pub(crate) device: Value,
    pub(crate) sign: Sign,
    /// How many times the set of keys is empty first.
    pub(crate) keyless: usize,
    /// How far the provider's clock is ahead.
    pub(crate) ahead: SignedDuration,
}

/// A provider that runs. It ends with this value.
pub(crate) struct Liar {
    pub(crate) issuer: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    issuer: String,
    lies: Mutex<Lies>,
    nonce: Mutex<Option<String>>,
    requests: Mutex<Vec<String>>,
    end: AtomicBool,
    key: EcdsaKeyPair,
    other: EcdsaKeyPair,
}

impl Liar {
    pub(crate) fn start(lies: Lies) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let shared = Arc::new(Shared {
            issuer: issuer.clone(),
            lies: Mutex::new(lies),
            nonce: Mutex::default(),
            requests: Mutex::default(),
            end: AtomicBool::new(false),
            key: key(),
            other: key(),
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
        Self { issuer, shared, thread: Some(thread) }
    }

    /// Lies differently from now on.
    pub(crate) fn lie(&self, lies: Lies) {
        *self.shared.lies.lock().unwrap() = lies;
    }

    /// The requests so far: method, path and, of forms, the body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.issuer.trim_start_matches("http://"));
        let _ = self.thread.take().unwrap().join();
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut first = String::new();
        reader.read_line(&mut first).ok()?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.requests.lock().ok()?.push(format!("{method} {path} {body}").trim().to_owned());
        let lies = self.lies.lock().ok()?.clone();
        let now = now() + lies.ahead;
        let (status, header, text) = match path {
            "/.well-known/openid-configuration" => ("200 OK", String::new(), self.metadata(&lies)),
            "/jwks" => ("200 OK", String::new(), self.keys()),
            "/auth" => {
                ("302 Found", format!("Location: {}\r\n", self.back(query, &lies)), String::new())
            }
            "/device" => ("200 OK", String::new(), self.device(&lies)),
            "/page" => ("200 OK", String::new(), String::new()),
            // Whoever opens the page confirms the code.
            "/token" if body.contains("device_code=") && !self.was_asked("GET /page") => {
                let pending = json!({ "error": "authorization_pending" });
                ("400 Bad Request", String::new(), pending.to_string())
            }
            "/token" => ("200 OK", String::new(), self.answer(&body, &lies, now)),
            _ => ("404 Not Found", String::new(), String::new()),
        };
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT");
        write!(
            stream,
            "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: application/json\r\n{header}\
             Connection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
        .ok()
    }

    fn was_asked(&self, request: &str) -> bool {
        self.requests.lock().unwrap().iter().any(|asked| asked == request)
    }

    fn device(&self, lies: &Lies) -> String {
        patched(
            json!({
                "device_code": "the-device", "user_code": "ABCD", "expires_in": 600, "interval": 1,
                "verification_uri": format!("{}/page", self.issuer),
            }),
            &lies.device,
        )
        .to_string()
    }

    fn metadata(&self, lies: &Lies) -> String {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let device = lies.device.is_object().then(|| at("/device"));
        patched(
            json!({
                "device_authorization_endpoint": device,
                "issuer": self.issuer, "authorization_endpoint": at("/auth"), "token_endpoint": at("/token"),
                "jwks_uri": at("/jwks"), "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
            }),
            &lies.metadata,
        )
        .to_string()
    }

    fn keys(&self) -> String {
        let mut lies = self.lies.lock().unwrap();
        if lies.keyless > 0 {
            lies.keyless -= 1;
            return json!({ "keys": [] }).to_string();
        }
        let point = self.key.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "kid": "one",
            "x": text(&point[1..33]), "y": text(&point[33..]),
        }] })
        .to_string()
    }

    /// Where the browser goes at once: back, with a code.
    fn back(&self, query: &str, lies: &Lies) -> String {
        let value = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            pair.map(|value| String::from_utf8(percent(value)).unwrap())
        };
        *self.nonce.lock().unwrap() = value("nonce");
        let parameters = patched(
            json!({ "code": "the-code", "state": value("state").unwrap(), "iss": self.issuer }),
            &lies.back,
        );
        let parameters: Vec<String> = parameters
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
            .collect();
        format!("{}?{}", value("redirect_uri").unwrap(), parameters.join("&"))
    }

    fn answer(&self, body: &str, lies: &Lies, now: Timestamp) -> String {
        let refreshes = body.contains("grant_type=refresh_token");
        let mut claims = json!({
            "iss": self.issuer, "sub": "ann", "aud": "tester", "iat": now.as_second(),
            "exp": now.as_second() + 600,
        });
        if let Some(nonce) = self.nonce.lock().unwrap().clone().filter(|_| !refreshes) {
            claims["nonce"] = nonce.into();
        }
        claims = patched(claims, &lies.claims);
        if refreshes {
            claims = patched(claims, &lies.refreshed);
        }
        let mut answer = json!({
            "access_token": "opaque", "token_type": "Bearer", "expires_in": 300,
            "refresh_token": "refresh-me", "id_token": self.sign(&claims, lies.sign),
        });
        answer = patched(answer, &lies.answer);
        if refreshes {
            answer = patched(answer, &lies.refresh);
        }
        answer.to_string()
    }

    fn sign(&self, claims: &Value, sign: Sign) -> String {
        let algorithm = match sign {
            Sign::Right | Sign::OtherKey => "ES256",
            Sign::None => "none",
            Sign::Hmac => "HS256",
        };
        let header = json!({ "alg": algorithm, "kid": "one" }).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let random = SystemRandom::new();
        let signature = match sign {
            Sign::Right => self.key.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            Sign::OtherKey => {
                self.other.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec()
            }
            Sign::None => Vec::new(),
            Sign::Hmac => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, b"s3cr3t");
                hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
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

fn percent(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
