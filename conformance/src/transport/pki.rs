//! Keys and certificates of every kind that a cluster may have, made with openssl when first asked for.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// Kinds of keys.
pub(super) const KEYS: &[&str] = &["rsa", "p256", "p384", "p521", "ed25519"];

/// The authority of cases that are about something else.
pub(super) const USUAL: &str = "p256-sha256";

/// A certificate to issue.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// Kind of key and hash, such as `p521-sha256`.
    pub(super) authority: String,
    /// Whether another authority stands between.
    pub(super) intermediate: bool,
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    /// First and last year.
    pub(super) years: (u16, u16),
    /// X.509 version 1, which has no extensions.
    pub(super) v1: bool,
}

/// A certificate, its key and, where there is one, the intermediate's certificate.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) intermediate: String,
}

/// Authorities and what they have issued.
pub(super) struct Pki {
    directory: TempDir,
    issued: RefCell<HashMap<String, Issued>>,
}

impl Leaf {
    pub(super) fn server(authority: &str, key: &'static str) -> Self {
        Self {
            authority: authority.to_owned(),
            intermediate: false,
            key,
            name: "DNS:localhost,DNS:api.example,IP:127.0.0.1,IP:::1",
            usage: "serverAuth",
            years: (2020, 2099),
            v1: false,
        }
    }

    pub(super) fn client(authority: &str, key: &'static str) -> Self {
        Self { name: "DNS:client", usage: "clientAuth", ..Self::server(authority, key) }
    }
}

/// Every kind of authority: each curve and RSA with each hash.
pub(super) fn authorities() -> Vec<String> {
    let hashed = |key: &str| ["sha256", "sha384", "sha512"].map(|hash| format!("{key}-{hash}"));
    KEYS[..4].iter().flat_map(|key| hashed(key)).chain(["ed25519-default".to_owned()]).collect()
}

impl Pki {
    pub(super) fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
        let config = "[req]\ndistinguished_name = dn\n[dn]\n[ca]\ndefault_ca = d\n[d]\ndatabase = index\n\
                      new_certs_dir = .\npolicy = p\nunique_subject = no\ndefault_md = default\nrand_serial = yes\n\
                      [p]\ncommonName = supplied\n";
        write(&directory.path().join("config"), config)?;
        write(&directory.path().join("index"), "")?;
        Ok(Self { directory, issued: RefCell::default() })
    }

    /// The authority's own certificate.
    pub(super) fn authority(&self, name: &str) -> Result<String, String> {
        let path = self.path(&format!("{name}.crt"));
        if !path.is_file() {
            let (key, hash) = name.split_once('-').unwrap_or((name, "sha256"));
            let key = self.key(&format!("authority-{key}"), key)?;
            let subject = format!("/CN={name}");
            let mut args =
                vec!["req", "-x509", "-new", "-config", "config", "-days", "3650", "-key", &key];
            args.extend(["-subj", &subject, "-addext", "basicConstraints=critical,CA:TRUE"]);
            args.extend(["-addext", "keyUsage=critical,keyCertSign,cRLSign"]);
            args.extend(["-addext", "subjectKeyIdentifier=hash"]);
            let (hash, file) = (format!("-{hash}"), format!("{name}.crt"));
            if hash != "-default" {
                args.push(&hash);
            }
            args.extend(["-out", &file]);
            self.openssl(&args)?;
        }
        fs::read_to_string(&path).map_err(|e| e.to_string())
    }

    /// Issues the certificate, or returns the one issued before.
    pub(super) fn issue(&self, leaf: &Leaf) -> Result<Issued, String> {
        let name = format!("{leaf:?}");
        if let Some(issued) = self.issued.borrow().get(&name) {
            return Ok(issued.clone());
        }
        self.authority(&leaf.authority)?;
        let count = self.issued.borrow().len();
        let (algorithm, _) = leaf.authority.split_once('-').unwrap_or((&leaf.authority, ""));
        let mut issuer = (format!("{}.crt", leaf.authority), format!("authority-{algorithm}.key"));
        let mut intermediate = String::new();
        if leaf.intermediate {
            let key = self.key("intermediate", "p256")?;
            let file = format!("intermediate-{count}.crt");
            let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n";
            self.sign(&issuer, &key, "between", extensions, (2020, 2099), "sha256", &file)?;
            intermediate = fs::read_to_string(self.path(&file)).map_err(|e| e.to_string())?;
            issuer = (file, key);
        }
        let key = self.key(&format!("leaf-{}-{}", leaf.usage, leaf.key), leaf.key)?;
        let file = format!("leaf-{count}.crt");
        let hash = leaf.authority.split_once('-').map_or("sha256", |(_, hash)| hash);
        let hash = if leaf.intermediate { "sha256" } else { hash };
        if leaf.v1 {
            self.openssl(&[
                "req", "-new", "-config", "config", "-key", &key, "-subj", "/CN=v1", "-out", "csr",
            ])?;
            let serial = format!("{}", 0x1000 + count);
            let mut args =
                vec!["x509", "-req", "-in", "csr", "-CA", &issuer.0, "-CAkey", &issuer.1];
            args.extend(["-set_serial", &serial, "-days", "3650", "-out", &file]);
            self.openssl(&args)?;
        } else {
            let extensions = format!(
                "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={}\n\
                 subjectAltName={}\n",
                leaf.usage, leaf.name
            );
            self.sign(&issuer, &key, "leaf", &extensions, leaf.years, hash, &file)?;
        }
        let read = |file: &str| fs::read_to_string(self.path(file)).map_err(|e| e.to_string());
        let pair = Issued { certificate: read(&file)?, key: read(&key)?, intermediate };
        self.issued.borrow_mut().insert(name, pair.clone());
        Ok(pair)
    }

    #[expect(clippy::too_many_arguments, reason = "they are the arguments of one openssl command")]
    fn sign(
        &self,
        issuer: &(String, String),
        key: &str,
        name: &str,
        extensions: &str,
        years: (u16, u16),
        hash: &str,
        file: &str,
    ) -> Result<(), String> {
        let subject = format!("/CN={name}");
        self.openssl(&[
            "req", "-new", "-config", "config", "-key", key, "-subj", &subject, "-out", "csr",
        ])?;
        write(&self.path("extensions"), extensions)?;
        let (start, end) = (format!("{}0101000000Z", years.0), format!("{}0101000000Z", years.1));
        let mut args = vec!["ca", "-batch", "-notext", "-config", "config"];
        args.extend(["-cert", &issuer.0, "-keyfile", &issuer.1, "-in", "csr", "-out", file]);
        args.extend([
            "-startdate",
            &start,
            "-enddate",
            &end,
            "-extfile",
            "extensions",
            "-md",
            hash,
        ]);
        self.openssl(&args).map(drop)
    }

    /// A key's file; made when it is not there.
    fn key(&self, name: &str, kind: &str) -> Result<String, String> {
        let file = format!("{name}.key");
        if !self.path(&file).is_file() {
            let curve = format!("ec_paramgen_curve:P-{}", kind.trim_start_matches('p'));
            let algorithm: &[&str] = match kind {
                "rsa" => &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
                "ed25519" => &["-algorithm", "ED25519"],
                _ => &["-algorithm", "EC", "-pkeyopt", &curve],
            };
            let args = [&["genpkey", "-out", &file], algorithm].concat();
            self.openssl(&args)?;
        }
        Ok(file)
    }

    /// Gives `text` to an openssl command and returns what it prints.
    pub(super) fn convert(&self, text: &str, args: &[&str]) -> Result<String, String> {
        write(&self.path("input"), text)?;
        self.openssl(args)
    }

    fn openssl(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new("openssl")
            .args(args)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("openssl (Debian package `openssl`): {e}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("`openssl {}` failed: {}", args.join(" "), why.trim()))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
}
