"""google-auth as a judge of the providers for Google, and a stand-in for Google's servers.

The stand-in checks assertions and signatures, and returns as token a digest of the whole request without what differs from
one time to the next (checked instead). So equal tokens mean equal requests. Questions are lines of JSON on stdin.
"""

import base64
import collections
import datetime
import hashlib
import hmac
import json
import os
import ssl
import sys
import threading
import time
import urllib.parse
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

import google.auth
import google.auth._cloud_sdk
import google.auth.exceptions
import google.auth.iam
import google.auth.transport.requests
import google.oauth2.credentials
from google.auth.compute_engine import _metadata
from google.oauth2 import gdch_credentials, service_account

GOOGLE_TOKEN = "https://oauth2.googleapis.com/token"
AWS_SECRETS = {"AKIDENV": "aws-secret", "ASIAROLE": "aws-role-secret"}
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(key, form):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def checked_assertion(token, url):
    """The claims of an assertion without those that change, after a check of all of them."""
    head, body, signature = token.split(".")
    header, claims = json.loads(decode(head)), json.loads(decode(body))
    signed, raw = f"{head}.{body}".encode(), decode(signature)
    if header["alg"] == "RS256":
        RSA.public_key().verify(raw, signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        assert header["alg"] == "ES256" and len(raw) == 64, header
        r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
        EC.public_key().verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    issued, ends = claims.pop("iat"), claims.pop("exp")
    assert abs(issued - time.time()) < 60, "issued at another time"
    assert ends - issued == 3600, "another lifetime"
    # google-auth names Google's endpoint whatever the file says; the libraries in Go name the file's.
    assert claims.pop("aud") in (GOOGLE_TOKEN, url), "another audience"
    return {"header": header, "claims": claims}


def checked_aws(token):
    """The signed request to AWS without what changes, after a check of its signature."""
    request = json.loads(urllib.parse.unquote(token))
    headers = {entry["key"].lower(): entry["value"] for entry in request["headers"]}
    scheme, rest = headers.pop("authorization").split(" ", 1)
    assert scheme == "AWS4-HMAC-SHA256", scheme
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    key, date, region, service, last = fields["Credential"].split("/")
    signed_names = fields["SignedHeaders"].split(";")
    assert {"host", "x-amz-date"} <= set(signed_names), signed_names
    if "x-amz-security-token" in headers:
        assert "x-amz-security-token" in signed_names, signed_names
    url = urllib.parse.urlparse(request["url"])
    query = "&".join(sorted(url.query.split("&")))
    lines = "".join(f"{name}:{headers[name]}\n" for name in signed_names)
    canonical = "\n".join(
        [request["method"], url.path or "/", query, lines, ";".join(signed_names), hashlib.sha256(b"").hexdigest()]
    )
    scope = f"{date}/{region}/{service}/{last}"
    text = "\n".join([scheme, headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    secret = ("AWS4" + AWS_SECRETS[key]).encode()
    for part in (date, region, service, last):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    assert hmac.new(secret, text.encode(), hashlib.sha256).hexdigest() == fields["Signature"], "wrong signature"
    stamp = datetime.datetime.strptime(headers.pop("x-amz-date"), "%Y%m%dT%H%M%SZ")
    age = stamp.replace(tzinfo=datetime.timezone.utc).timestamp() - time.time()
    assert abs(age) < 60 and headers["host"] == url.hostname, "another time or host"
    return {"url": request["url"], "method": request["method"], "headers": headers, "key": key, "scope": [region, service]}


class StandIn(BaseHTTPRequestHandler):
    counts = collections.Counter()
    requests = {}
    bearers = {}

    def log_message(self, *args):
        pass

    def reply(self, status, body, headers=()):
        body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def digest(self, canonical):
        text = json.dumps(canonical, sort_keys=True)
        token = "ya29." + hashlib.sha256(text.encode()).hexdigest()
        StandIn.requests[token] = canonical
        return token

    def path_and_query(self):
        path, _, query = self.path.partition("?")
        StandIn.counts[path] += 1
        return path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def do_PUT(self):
        path, _ = self.path_and_query()
        if path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "300":
            return self.reply(200, "imds-session")
        return self.reply(404, "")

    def do_GET(self):
        path, query = self.path_and_query()
        if path.startswith("/kube/"):
            StandIn.bearers[path] = self.headers.get("Authorization", "")
            return self.reply(200, {}, [("Content-Type", "application/json")])
        if path.startswith("/latest/"):
            return self.instance(path)
        if path.startswith("/subject"):
            return self.subject(path)
        if path == "/dockercfg":
            return self.reply(200, {"gcr.io": {"username": "url-user", "password": "url-pass"}})
        return self.metadata(path, query)

    def instance(self, path):
        if self.headers["X-aws-ec2-metadata-token"] != "imds-session":
            return self.reply(401, "")
        role = {"AccessKeyId": "ASIAROLE", "SecretAccessKey": AWS_SECRETS["ASIAROLE"], "Token": "aws-session"}
        known = {
            "/latest/meta-data/placement/availability-zone": "eu-west-1b",
            "/latest/meta-data/iam/security-credentials": "role",
            "/latest/meta-data/iam/security-credentials/role": role,
        }
        return self.reply(200, known[path]) if path in known else self.reply(404, "")

    def subject(self, path):
        token = "subject-at-url:" + self.headers.get("X-Subject", "")
        if path == "/subject.json":
            return self.reply(200, {"access_token": token})
        return self.reply(200, token) if path == "/subject" else self.reply(403, "no")

    def metadata(self, path, query):
        flavor = [("Metadata-Flavor", "Google"), ("Content-Type", "application/json")]
        if path == "/stranger/computeMetadata/v1/instance/service-accounts/default/token":
            return self.reply(200, {"access_token": "t", "expires_in": 5})
        if self.headers.get("Metadata-Flavor") != "Google":
            return self.reply(403, "")
        if path in ("", "/"):
            return self.reply(200, "computeMetadata/", flavor[:1])
        account = "/computeMetadata/v1/instance/service-accounts/default/"
        if path == account + "token":
            scopes = sorted(query.pop("scopes", "").split(","))
            token = self.digest({"metadata": path, "scopes": scopes, "query": query})
            return self.reply(200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}, flavor)
        if path == account and query.get("recursive"):
            return self.reply(200, {"email": "node@project.iam.gserviceaccount.com", "scopes": []}, flavor)
        if path == account + "email":
            return self.reply(200, "node@project.iam.gserviceaccount.com", flavor[:1])
        config = {"https://gcr.io/v1/": {"auth": base64.b64encode(b"user:pass").decode()}, "a.example": {"auth": ""}}
        if path == "/computeMetadata/v1/instance/attributes/google-dockercfg":
            return self.reply(200, config, flavor)
        if path == "/computeMetadata/v1/instance/attributes/google-dockercfg-url":
            return self.reply(200, f"http://{STAND_IN}/dockercfg", flavor[:1])
        return self.reply(404, "", flavor[:1])

    def do_POST(self):
        path, query = self.path_and_query()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            return self.answer(path, query, body)
        except Exception as error:  # noqa: BLE001
            return self.reply(400, {"error": "invalid_request", "error_description": repr(error)})

    def answer(self, path, query, body):
        if path == "/refuse/token":
            return self.reply(400, {"error": "invalid_grant", "error_description": "Token has been revoked."})
        if path == "/empty/token":
            return self.reply(200, {"token_type": "Bearer", "expires_in": 3600})
        if path == "/broken/token":
            return self.reply(500, "")
        if path == "/flaky/token" and StandIn.counts[path] % 2:
            return self.reply(503, "")
        content = self.headers["Content-Type"].split(";")[0]
        if content == "application/json":
            fields = json.loads(body)
        else:
            assert content == "application/x-www-form-urlencoded", content
            pairs = urllib.parse.parse_qsl(body, keep_blank_values=True, strict_parsing=True)
            fields = dict(pairs)
            assert len(fields) == len(pairs), "a field twice"
        scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
        url = f"{scheme}://{self.headers['Host']}{self.path}"
        if "assertion" in fields:
            fields["assertion"] = checked_assertion(fields["assertion"], url)
        kind = fields.get("subject_token_type", "")
        if kind == "urn:k8s:params:oauth:token-type:serviceaccount":
            fields["subject_token"] = checked_assertion(fields["subject_token"], url)
        if kind == "urn:ietf:params:aws:token-type:aws4_request":
            fields["subject_token"] = checked_aws(fields["subject_token"])
        if "options" in fields:
            fields["options"] = json.loads(urllib.parse.unquote(fields["options"]))
        canonical = {
            "path": path,
            "query": query,
            "content": content,
            "authorization": self.headers.get("Authorization"),
            "fields": fields,
        }
        token = self.digest(canonical)
        if path.endswith(":generateAccessToken"):
            assert self.headers["Authorization"].split(" ")[1] in StandIn.requests, "a token of somebody else"
            seconds = int(fields["lifetime"].removesuffix("s"))
            ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
            return self.reply(200, {"accessToken": token, "expireTime": ends.strftime("%Y-%m-%dT%H:%M:%SZ")})
        return self.reply(200, {"access_token": token, "expires_in": 3600, "token_type": "Bearer"})


def checked_token(token):
    """What a token says that a key of a service account signed itself, after a check."""
    head, body, signature = token.split(".")
    RSA.public_key().verify(decode(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(decode(body))
    issued, ends = claims.pop("iat"), claims.pop("exp")
    assert abs(issued - time.time()) < 60 and ends - issued == 3600, "another time"
    return {"header": json.loads(decode(head)), "claims": claims}


def self_signed(info, scopes):
    """The token that google-auth signs with the key of a service account."""
    made = service_account.Credentials.from_service_account_info(info, scopes=scopes)
    made = made.with_always_use_jwt_access(True)
    made.refresh(google.auth.transport.requests.Request())
    return made.token


def token(environment, scopes, audience):
    """What google-auth gives in an environment: the token and its end, or the refusal."""
    os.environ.clear()
    os.environ.update(environment)
    _metadata._GCE_METADATA_HOST = environment.get("GCE_METADATA_HOST", "127.0.0.1:1")
    _metadata._NO_GCE_CHECK = environment.get("NO_GCE_CHECK") == "true"
    request = google.auth.transport.requests.Request()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            credentials, _ = google.auth.default(scopes=scopes)
        if isinstance(credentials, gdch_credentials.ServiceAccountCredentials):
            credentials = credentials.with_gdch_audience(audience)
        credentials.refresh(request)
        ends = credentials.expiry.replace(tzinfo=datetime.timezone.utc).timestamp()
        return {"token": credentials.token, "ends": int(ends)}
    except google.auth.exceptions.GoogleAuthError as error:
        return {"refusal": type(error).__name__, "text": str(error)}
    except Exception as error:  # noqa: BLE001
        return {"refusal": type(error).__name__, "text": str(error)}


def serve(context=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"


def serve_tls(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return "https://" + serve(context)


answers = sys.stdout
sys.stdout = sys.stderr
STAND_IN = serve()
google.auth._cloud_sdk.get_project_id = lambda: None
google.auth.iam._IAM_ENDPOINT = "http://" + STAND_IN + "/v1/projects/-/serviceAccounts/{}:generateAccessToken"
# For people it ignores the file, too.
google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT = "http://" + STAND_IN + "/token"
_metadata.ping.__defaults__ = (1, 1)

for line in sys.stdin:
    asked = json.loads(line)
    operation = asked["operation"]
    if operation == "prepare":
        answer = {
            "standIn": STAND_IN,
            "rsa": pem(RSA, serialization.PrivateFormat.PKCS8),
            "ec": pem(EC, serialization.PrivateFormat.TraditionalOpenSSL),
        }
    elif operation == "token":
        answer = token(asked["environment"], asked["scopes"], asked.get("audience"))
    elif operation == "selfSigned":
        answer = checked_token(self_signed(asked["info"], asked["scopes"]))
    elif operation == "checked":
        answer = checked_token(asked["token"])
    elif operation == "tls":
        answer = {"url": serve_tls(asked["certificate"], asked["key"])}
    elif operation == "bearer":
        answer = {"bearer": StandIn.bearers.get(asked["path"], "")}
    elif operation == "count":
        answer = {"count": StandIn.counts[asked["path"]]}
    elif operation == "request":
        answer = {"request": StandIn.requests.get(asked["token"])}
    else:
        answer = {"error": "unknown operation"}
    print(json.dumps(answer), file=answers, flush=True)
