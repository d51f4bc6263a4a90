//! Certificates, keys and authorities, and the key exchange.

use serde_json::json;

use super::{List, Listener, Setting, Stage, VERSIONS};
use crate::transport::pki::{Issued, KEYS, Leaf, USUAL, authorities};

/// Every authority with every kind of key, for servers and for clients, in both versions.
pub(super) fn pairs(list: &mut List) {
    for (name, version) in VERSIONS {
        for authority in authorities() {
            for key in KEYS {
                let by = authority.clone();
                list.add(format!("server {key} by {authority}, TLS {name}"), move |stage| {
                    let issued = stage.pki.issue(&Leaf::server(&by, key))?;
                    let port = stage.open(&issued, "", &Listener::of(version))?;
                    Ok(Setting::new(port, &stage.pki.authority(&by)?))
                });
                let by = authority.clone();
                list.add(format!("client {key} by {authority}, TLS {name}"), move |stage| {
                    let (setting, issued) = stage.with_client(version, &Leaf::client(&by, key))?;
                    Ok(setting.showing(&issued.certificate, &issued.key, false))
                });
            }
        }
        for key in KEYS {
            list.add(format!("client {key}, X.509 v1, TLS {name}"), move |stage| {
                let leaf = Leaf { v1: true, ..Leaf::client(USUAL, key) };
                let (setting, issued) = stage.with_client(version, &leaf)?;
                Ok(setting.showing(&issued.certificate, &issued.key, false))
            });
        }
        for (what, order) in [("sent", 0), ("kept back", 1), ("sent twice", 2)] {
            list.add(format!("server's intermediate {what}, TLS {name}"), move |stage| {
                let leaf = Leaf { intermediate: true, ..Leaf::server(USUAL, "p256") };
                let issued = stage.pki.issue(&leaf)?;
                let chain = match order {
                    0 => issued.intermediate.clone(),
                    1 => String::new(),
                    _ => issued.intermediate.repeat(2),
                };
                let port = stage.open(&issued, &chain, &Listener::of(version))?;
                Ok(Setting::new(port, &stage.pki.authority(USUAL)?))
            });
            list.add(format!("client's intermediate {what}, TLS {name}"), move |stage| {
                let leaf = Leaf { intermediate: true, ..Leaf::client(USUAL, "p256") };
                let (setting, issued) = stage.with_client(version, &leaf)?;
                let more = issued.intermediate.repeat([1, 0, 2][order]);
                Ok(setting.showing(&format!("{}{more}", issued.certificate), &issued.key, false))
            });
        }
    }
}

/// Certificates that should not be accepted.
pub(super) fn faults(list: &mut List) {
    type Spoil = fn(Leaf) -> Leaf;
    let faults: [(&str, Spoil); 5] = [
        ("over", |leaf| Leaf { years: (2000, 2001), ..leaf }),
        ("not yet valid", |leaf| Leaf { years: (2090, 2099), ..leaf }),
        ("of another name", |leaf| Leaf { name: "DNS:other.example", ..leaf }),
        ("for another use", |leaf| Leaf { usage: "codeSigning", ..leaf }),
        ("of version 1", |leaf| Leaf { v1: true, ..leaf }),
    ];
    for (name, version) in VERSIONS {
        for (what, spoil) in faults {
            for insecure in [false, true] {
                let checked = if insecure { "not checked" } else { "checked" };
                list.add(format!("server {what}, {checked}, TLS {name}"), move |stage| {
                    let issued = stage.pki.issue(&spoil(Leaf::server(USUAL, "p256")))?;
                    let port = stage.open(&issued, "", &Listener::of(version))?;
                    let setting = Setting::new(port, &stage.pki.authority(USUAL)?);
                    if !insecure {
                        return Ok(setting);
                    }
                    let mut setting = setting.with("insecure-skip-tls-verify", json!(true));
                    setting.cluster["certificate-authority-data"].take();
                    Ok(setting)
                });
            }
            list.add(format!("client {what}, TLS {name}"), move |stage| {
                let leaf = spoil(Leaf::client(USUAL, "p256"));
                let (setting, issued) = stage.with_client(version, &leaf)?;
                Ok(setting.showing(&issued.certificate, &issued.key, false))
            });
        }
        list.add(format!("server of an unknown authority, TLS {name}"), move |stage| {
            let other = stage.pki.authority("rsa-sha256")?;
            Ok(stage.usual(&Listener::of(version))?.trusting(&other, false))
        });
        list.add(format!("client of an unknown authority, TLS {name}"), move |stage| {
            let clients = stage.pki.authority("rsa-sha256")?;
            let setting = stage.usual(&Listener { clients, ..Listener::of(version) })?;
            let issued = stage.pki.issue(&Leaf::client(USUAL, "p256"))?;
            Ok(setting.showing(&issued.certificate, &issued.key, false))
        });
        list.add(format!("insecure beside an authority, TLS {name}"), move |stage| {
            let setting = stage.usual(&Listener::of(version))?;
            Ok(setting.with("insecure-skip-tls-verify", json!(true)))
        });
    }
}

/// Files with authorities, as people write them.
pub(super) fn bundles(list: &mut List) {
    type Write = fn(&str, &str) -> String;
    let bundles: &[(&str, Write)] = &[
        ("alone", |good, _| good.to_owned()),
        ("with comments", |good, _| format!("# our authority\nsubject=x\n\n{good}# end\n")),
        ("with CRLF", |good, _| good.replace('\n', "\r\n")),
        ("without a last newline", |good, _| good.trim_end().to_owned()),
        ("after another", |good, other| format!("{other}{good}")),
        ("before another", |good, other| format!("{good}{other}")),
        ("twice", |good, _| good.repeat(2)),
        ("after a truncated block", |good, other| format!("{}\n{good}", &other[..other.len() / 2])),
        ("before a truncated block", |good, other| format!("{good}{}", &other[..other.len() / 2])),
        ("truncated", |good, _| good[..good.len() / 2].to_owned()),
        ("empty", |_, _| String::new()),
        ("only blanks", |_, _| " \n\n".to_owned()),
        ("no PEM", |_, _| "not a certificate\n".to_owned()),
        ("with a mark of byte order", |good, _| format!("\u{feff}{good}")),
        ("with indented lines", |good, _| good.replace('\n', "\n  ")),
        ("under another label", |good, _| {
            good.replace("BEGIN CERT", "BEGIN X509 CERT").replace("END CERT", "END X509 CERT")
        }),
        ("as a trusted one", |good, _| {
            good.replace("BEGIN CERT", "BEGIN TRUSTED CERT").replace("END CERT", "END TRUSTED CERT")
        }),
        ("with headers in the block", |good, _| good.replacen("-----\n", "-----\nA: b\n\n", 1)),
        ("with text on the line before", |good, _| format!("x {good}")),
        ("with a block of rubbish before", |good, _| {
            format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{good}")
        }),
        ("with a block that is no Base64 before", |good, _| {
            format!("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n{good}")
        }),
    ];
    for (what, write) in bundles {
        for in_file in [false, true] {
            let place = if in_file { "in a file" } else { "inline" };
            list.add(format!("authority {what}, {place}"), move |stage| {
                let good = stage.pki.authority(USUAL)?;
                let other = stage.pki.authority("p384-sha384")?;
                let setting = stage.usual(&Listener::of(0x0304))?;
                Ok(setting.trusting(&write(&good, &other), in_file))
            });
        }
    }
    list.add("authority in a file that is missing".to_owned(), |stage| {
        let mut setting = stage.usual(&Listener::of(0x0304))?.trusting("", true);
        setting.files.clear();
        Ok(setting)
    });
}

/// Writes a certificate and its key otherwise.
type SpoilPair = fn(&Stage, Issued) -> Result<(String, String), String>;

/// How keys and certificates of clients are written.
pub(super) fn keys(list: &mut List) {
    for (name, version) in VERSIONS {
        for key in KEYS {
            // Ed25519 has no form of its own.
            let forms: &[bool] = if *key == "ed25519" { &[false] } else { &[false, true] };
            for &traditional in forms {
                let form = if traditional { "PKCS#1 or SEC1" } else { "PKCS#8" };
                list.add(
                    format!("client key {key} in {form}, in a file, TLS {name}"),
                    move |stage| {
                        let (setting, issued) =
                            stage.with_client(version, &Leaf::client(USUAL, key))?;
                        let text = if traditional {
                            stage
                                .pki
                                .convert(&issued.key, &["pkey", "-in", "input", "-traditional"])?
                        } else {
                            issued.key.clone()
                        };
                        Ok(setting.showing(&issued.certificate, &text, true))
                    },
                );
            }
        }
    }
    let pairs: &[(&str, SpoilPair)] = &[
        ("encrypted, PKCS#8", |stage, pair| {
            let args = ["pkcs8", "-topk8", "-in", "input", "-passout", "pass:x"];
            Ok((pair.certificate, stage.pki.convert(&pair.key, &args)?))
        }),
        ("encrypted, SEC1", |stage, pair| {
            let args = ["ec", "-in", "input", "-aes256", "-passout", "pass:x"];
            Ok((pair.certificate, stage.pki.convert(&pair.key, &args)?))
        }),
        ("of another key", |stage, pair| {
            let other = stage.pki.issue(&Leaf::client(USUAL, "p384"))?;
            Ok((pair.certificate, other.key))
        }),
        ("of another kind", |stage, pair| {
            let other = stage.pki.issue(&Leaf::client(USUAL, "rsa"))?;
            Ok((pair.certificate, other.key))
        }),
        ("after its parameters", |stage, pair| {
            let parameters = stage.pki.convert("", &["ecparam", "-name", "prime256v1"])?;
            let key = stage.pki.convert(&pair.key, &["pkey", "-in", "input", "-traditional"])?;
            Ok((pair.certificate, format!("{parameters}{key}")))
        }),
        ("with CRLF", |_, pair| {
            Ok((pair.certificate.replace('\n', "\r\n"), pair.key.replace('\n', "\r\n")))
        }),
        ("with comments", |_, pair| {
            Ok((format!("# me\n{}", pair.certificate), format!("# mine\n{}", pair.key)))
        }),
        ("and certificate in both", |_, pair| {
            let both = format!("{}{}", pair.key, pair.certificate);
            Ok((both.clone(), both))
        }),
        ("empty", |_, pair| Ok((pair.certificate, String::new()))),
        ("truncated", |_, pair| {
            let half = pair.key[..pair.key.len() / 2].to_owned();
            Ok((pair.certificate, half))
        }),
        ("under another label", |_, pair| {
            Ok((pair.certificate, pair.key.replace("PRIVATE KEY", "EC PRIVATE KEY")))
        }),
        ("good, certificate empty", |_, pair| Ok((String::new(), pair.key))),
        ("good, certificate truncated", |_, pair| {
            Ok((pair.certificate[..pair.certificate.len() / 2].to_owned(), pair.key))
        }),
        ("good, certificate after a truncated one", |_, pair| {
            let half = &pair.certificate[..pair.certificate.len() / 2];
            Ok((format!("{half}\n{}", pair.certificate), pair.key))
        }),
    ];
    for (what, spoil) in pairs {
        for in_file in [false, true] {
            let place = if in_file { "in files" } else { "inline" };
            list.add(format!("client key {what}, {place}"), move |stage| {
                let (setting, issued) = stage.with_client(0x0304, &Leaf::client(USUAL, "p256"))?;
                let (certificate, key) = spoil(stage, issued)?;
                Ok(setting.showing(&certificate, &key, in_file))
            });
        }
    }
}

/// A server that knows one key exchange only.
pub(super) fn exchanges(list: &mut List, hybrid: bool) {
    let curves = [("P-256", 23), ("P-384", 24), ("P-521", 25), ("X25519", 29)];
    for (name, version) in VERSIONS {
        for (curve, id) in curves {
            list.add(format!("key exchange {curve}, TLS {name}"), move |stage| {
                stage.usual(&Listener { curves: vec![id], ..Listener::of(version) })
            });
        }
    }
    if hybrid {
        list.add("key exchange X25519MLKEM768, TLS 1.3".to_owned(), |stage| {
            stage.usual(&Listener { curves: vec![4588], ..Listener::of(0x0304) })
        });
    }
}
