"""Answers for awscli and botocore, with moto in the place of AWS.

One process for all cases: it reads a JSON document on each line of stdin and prints one for each. The services that
moto does not have (IAM Identity Center, containers) and an STS that derives credentials from the whole request are
below.
"""

import base64
import datetime
import getpass
import hashlib
import json
import logging
import os
import ssl
import sys
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NoTerminal(Exception):
    """Nobody can be asked for an MFA code."""


def nobody(prompt=None, stream=None):
    raise NoTerminal()


# Before botocore is imported, which keeps the function as a default.
getpass.getpass = nobody

import botocore.auth  # noqa: E402
import botocore.config  # noqa: E402
import botocore.credentials  # noqa: E402
import botocore.exceptions as errors  # noqa: E402
import botocore.loaders  # noqa: E402
import botocore.session  # noqa: E402
import botocore.tokens  # noqa: E402
import dateutil.parser  # noqa: E402
from awscli.customizations.eks.get_token import STSClientFactory, TokenGenerator  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

LOADER = botocore.loaders.create_loader()
CONFIG = (
    errors.ProfileNotFound,
    errors.PartialCredentialsError,
    errors.InvalidConfigError,
    errors.InfiniteLoopConfigError,
    errors.ConfigParseError,
    errors.NoRegionError,
    # A time in the environment that cannot be read.
    dateutil.parser.ParserError,
)


def far():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


def derive(*parts):
    """Credentials that say everything that went into them, by a digest."""
    digest = hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()
    return "ASIA" + digest[:16].upper(), digest[16:56], "session/+=" + digest


class StandIn(BaseHTTPRequestHandler):
    """STS, ECR, IAM Identity Center, container and instance endpoints. Counts what it is asked."""

    counts = {}
    bearers = {}
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json"):
        body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def instance(self, method):
        """The instance metadata of moto, with the header that it lacks."""
        request = urllib.request.Request(MOTO + self.path, method=method, headers=dict(self.headers))
        with urllib.request.urlopen(request) as response:
            body = response.read()
        self.send_response(200)
        self.send_header("X-aws-ec2-metadata-token-ttl-seconds", "60")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.instance("PUT")

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path.startswith("/kube/"):
            # An API server that lets everybody in, and remembers how they came.
            self.bearers[url.path] = self.headers.get("Authorization", "")
            return self.answer(200, "ok", "text/plain")
        if url.path.startswith("/latest/"):
            return self.instance("GET")
        if url.path.startswith("/v1/transit/keys/"):
            return self.transit_key(url.path.rpartition("/")[2])
        query = dict(urllib.parse.parse_qsl(url.query))
        if query.get("Action") == "GetCallerIdentity":
            # STS, asked with a presigned URL.
            if self.headers.get("x-k8s-aws-id") != "c" or "X-Amz-Signature" not in query:
                return self.answer(403, {"Error": {"Code": "SignatureDoesNotMatch"}})
            result = {"Arn": "arn:aws:iam::1:user/" + query["X-Amz-Credential"].split("/")[0]}
            result.update(Account="1", UserId="AIDA")
            return self.answer(200, {"GetCallerIdentityResponse": {"GetCallerIdentityResult": result}})
        if url.path.startswith("/container/"):
            self.count("container")
            if self.headers.get("Authorization") != "Bearer pod":
                return self.answer(403, {"code": "Forbidden", "message": "no"})
            key, secret, token = derive("container", url.path)
            end = far().strftime("%Y-%m-%dT%H:%M:%SZ")
            document = {"AccessKeyId": key, "SecretAccessKey": secret, "Token": token, "Expiration": end}
            return self.answer(200, document)
        if url.path == "/federation/credentials":
            self.count("sso " + query["role_name"])
            if self.headers.get("x-amz-sso_bearer_token") not in ("sso-token", "sso-renewed"):
                return self.answer(401, {"__type": "UnauthorizedException", "message": "no"})
            key, secret, token = derive("sso", query["account_id"], query["role_name"])
            document = {
                "accessKeyId": key,
                "secretAccessKey": secret,
                "sessionToken": token,
                "expiration": int(far().timestamp() * 1000),
            }
            if query["role_name"] == "Short":
                document["expiration"] -= 55 * 60 * 1000
            return self.answer(200, {"roleCredentials": document})
        self.answer(404, {})

    def registry(self):
        """ECR: a password that says who asked for what, in which region."""
        scope = self.headers["Authorization"].partition("Credential=")[2].partition(",")[0].split("/")
        target = self.headers["X-Amz-Target"]
        self.count("ecr " + scope[0])
        if scope[0] == "AKIAFORBIDDEN":
            return self.answer(400, {"__type": "AccessDeniedException", "message": "no"})
        password = derive(scope[0], scope[2], scope[3], target)[1]
        data = {
            "authorizationToken": base64.b64encode(f"AWS:{password}".encode()).decode(),
            "expiresAt": far().timestamp() + 11 * 3600 + 0.5,
            "proxyEndpoint": "https://123456789012.dkr.ecr.us-east-1.amazonaws.com",
        }
        listed = target.startswith("AmazonEC2ContainerRegistry")
        self.answer(200, {"authorizationData": [data] if listed else data})

    def transit(self, name):
        """The versions of a key in OpenBao's transit engine, for who may use it."""
        if self.headers.get("X-Vault-Token") != "s.marked-transit-token":
            self.answer(403, {"errors": ["permission denied"]})
        elif name not in TRANSIT:
            self.answer(404, {"errors": []})
        else:
            return TRANSIT[name]

    def transit_key(self, name):
        versions = self.transit(name)
        if versions:
            keys = {str(i): {"public_key": public_pem(key)} for i, key in enumerate(versions, 1)}
            self.answer(200, {"data": {"latest_version": len(versions), "keys": keys}})

    def transit_sign(self, name, asked):
        versions = self.transit(name)
        if not versions:
            return
        version = asked.get("key_version", len(versions))
        key = versions[version - 1]
        bits = {"sha2-256": 256, "sha2-384": 384, "sha2-512": 512}[asked["hash_algorithm"]]
        rsa = hasattr(key.public_key(), "public_numbers") and hasattr(key, "decrypt")
        if rsa:
            scheme = {"pss": "PSS", "pkcs1v15": "PKCS1"}[asked["signature_algorithm"]]
            wanted = asked["salt_length"] == "hash"
        else:
            scheme, wanted = "ECDSA", asked["marshaling_algorithm"] == "asn1"
        if not wanted or asked["prehashed"] is not True:
            return self.answer(400, {"errors": ["not as TLS needs it"]})
        made = sign_digest(key, scheme, bits, base64.b64decode(asked["input"]))
        text = base64.b64encode(made).decode()
        self.answer(200, {"data": {"signature": f"vault:v{version}:{text}", "key_version": version}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "X-Amz-Target" in self.headers:
            return self.registry()
        if self.path.startswith("/v1/transit/sign/"):
            return self.transit_sign(self.path.rpartition("/")[2], json.loads(body))
        if self.path == "/token":
            self.count("refresh")
            asked = json.loads(body)
            if asked.get("refreshToken") != "refresh" or asked.get("grantType") != "refresh_token":
                return self.answer(400, {"error": "invalid_grant"})
            document = {"accessToken": "sso-renewed", "expiresIn": 3600, "tokenType": "Bearer"}
            return self.answer(200, document)
        asked = dict(urllib.parse.parse_qsl(body.decode()))
        self.count("{} {}".format(asked.get("Action"), asked.get("RoleArn")))
        caller = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        if asked.get("RoleArn", "").endswith("/Forbidden"):
            text = (
                '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
                "<Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
            )
            return self.answer(403, text, "text/xml")
        names = ["RoleArn", "RoleSessionName", "ExternalId", "DurationSeconds", "SerialNumber", "TokenCode"]
        key, secret, token = derive(caller, *(asked.get(name, "") for name in names))
        end = far().strftime("%Y-%m-%dT%H:%M:%SZ")
        if asked.get("RoleArn", "").endswith("/Short"):
            end = (far() - datetime.timedelta(minutes=55)).strftime("%Y-%m-%dT%H:%M:%SZ")
        action = asked["Action"]
        self.answer(
            200,
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<AssumedRoleUser><Arn>{asked.get('RoleArn', '')}</Arn><AssumedRoleId>A:b</AssumedRoleId>"
            f"</AssumedRoleUser><Credentials><AccessKeyId>{key}</AccessKeyId>"
            f"<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>"
            f"<Expiration>{end}</Expiration></Credentials></{action}Result>"
            f"<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>",
            "text/xml",
        )


TRANSIT = {}


def sign_digest(key, scheme, bits, digest):
    """A signature as TLS needs it, over a digest."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

    kind = {256: hashes.SHA256, 384: hashes.SHA384, 512: hashes.SHA512}[bits]()
    if scheme == "ECDSA":
        return key.sign(digest, ec.ECDSA(Prehashed(kind)))
    pad = padding.PKCS1v15()
    if scheme == "PSS":
        pad = padding.PSS(padding.MGF1(kind), kind.digest_size)
    return key.sign(digest, pad, Prehashed(kind))


def public_pem(key):
    from cryptography.hazmat.primitives import serialization

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def complete_kms():
    """What moto's KMS lacks: it signs messages only, and its salts are longer than those of AWS."""
    from moto.kms import responses, utils

    current = threading.local()
    plain = responses.KmsResponse.sign

    def sign(self):
        current.is_digest = self._get_param("MessageType") == "DIGEST"
        return plain(self)

    def completed(real):
        def sign(self, message, signing_algorithm):
            # Refuses what the key cannot.
            made = real(self, message, signing_algorithm)
            if not current.is_digest:
                return made
            scheme = next(s for s in ("PSS", "PKCS1", "ECDSA") if s in signing_algorithm)
            bits = int(signing_algorithm.rpartition("_")[2])
            return sign_digest(self.private_key, scheme, bits, message)

        return sign

    responses.KmsResponse.sign = sign
    for kind in (utils.RSAPrivateKey, utils.ECDSAPrivateKey):
        kind.sign = completed(kind.sign)


def kms(specs):
    """Keys in moto's KMS, and one of transit for each kind of key, the second version of its name."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if not TRANSIT:
        complete_kms()
        for name in ("rsa", "p256", "p384"):
            curve = {"p256": ec.SECP256R1, "p384": ec.SECP384R1}.get(name)
            make = (lambda: ec.generate_private_key(curve())) if curve else (
                lambda: rsa.generate_private_key(65537, 2048)
            )
            TRANSIT[name] = [make(), make()]
    os.environ.clear()
    client = botocore.session.Session().create_client(
        "kms", region_name="eu-west-1", endpoint_url=MOTO, aws_access_key_id="any", aws_secret_access_key="any"
    )
    usage = {"SYMMETRIC_DEFAULT": "ENCRYPT_DECRYPT"}
    make = lambda spec: client.create_key(KeySpec=spec, KeyUsage=usage.get(spec, "SIGN_VERIFY"))
    return [make(spec)["KeyMetadata"]["Arn"] for spec in specs]


def session(environment, profile=None):
    """A session in this environment alone."""
    os.environ.clear()
    os.environ.update(environment)
    cache = os.path.join(environment.get("HOME", "/nonexistent"), ".aws", "sso", "cache")
    botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR = cache
    botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR = cache
    made = botocore.session.Session(profile=profile)
    # The models of the services are the same for all; reading them is most of the work.
    made.register_component("data_loader", LOADER)
    return made


def identity(case):
    """The access key that botocore signs with, or the class of its refusal."""
    try:
        made = session(case["environment"], case.get("profile"))
        made.get_scoped_config()
        found = made.get_credentials()
        if found is None:
            return {"refusal": "none", "error": "NoCredentialsError"}
        frozen = found.get_frozen_credentials()
        return {"key": frozen.access_key, "who": who(frozen.access_key)}
    except NoTerminal:
        return {"refusal": "terminal", "error": "NoTerminal"}
    except CONFIG as error:
        return {"refusal": "config", "error": repr(error)}
    except Exception as error:  # noqa: BLE001
        return {"refusal": "source", "error": repr(error)}


def who(key):
    """The identity that moto has for an access key."""
    plain = botocore.session.Session()
    plain.register_component("data_loader", LOADER)
    client = plain.create_client(
        "sts",
        region_name="us-east-1",
        endpoint_url=MOTO,
        aws_access_key_id=key,
        aws_secret_access_key="any",
        aws_session_token="any",
    )
    return client.get_caller_identity()["Arn"]


def hosts(cases, service):
    """The hosts of the API of a service for regions, with FIPS and dual-stack."""
    found = []
    for region, fips, dual_stack in cases:
        made = session({})
        config = botocore.config.Config(use_fips_endpoint=fips, use_dualstack_endpoint=dual_stack)
        client = made.create_client(
            service, region_name=region, config=config, aws_access_key_id="a", aws_secret_access_key="b"
        )
        found.append(client.meta.endpoint_url.removeprefix("https://"))
    return found


def tokens(cases):
    """Tokens of awscli, each at its own time."""
    made = []
    real = botocore.auth.get_current_datetime
    for case in cases:
        moment = datetime.datetime.fromtimestamp(case["time"], datetime.timezone.utc)

        def frozen(remove_tzinfo=True, moment=moment):
            return moment.replace(tzinfo=None) if remove_tzinfo else moment

        botocore.auth.get_current_datetime = frozen
        try:
            plain = session(case["environment"])
            factory = STSClientFactory(plain)
            region = case["region"]
            if case.get("role"):
                # The endpoint is for the assumption of the role alone: no server takes a token for it.
                os.environ["AWS_ENDPOINT_URL_STS"] = STAND_IN
                botocore.auth.get_current_datetime = real
                keys = factory._get_role_credentials(region, case["role"])
                botocore.auth.get_current_datetime = frozen
                del os.environ["AWS_ENDPOINT_URL_STS"]
                os.environ["AWS_ACCESS_KEY_ID"] = keys["AccessKeyId"]
                os.environ["AWS_SECRET_ACCESS_KEY"] = keys["SecretAccessKey"]
                os.environ["AWS_SESSION_TOKEN"] = keys["SessionToken"]
                factory = STSClientFactory(session(dict(os.environ)))
            client = factory.get_sts_client(region_name=region)
            made.append(TokenGenerator(client).get_token(case["cluster"]))
        except Exception as error:  # noqa: BLE001
            made.append(f"{type(error).__name__}: {error}")
        finally:
            botocore.auth.get_current_datetime = real
    return made


def serve_tls(certificate, key):
    """The stand-in once more, with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"https://127.0.0.1:{server.server_address[1]}"


def prepare():
    """Users of moto, with their keys."""
    os.environ.clear()
    client = botocore.session.Session().create_client(
        "iam",
        region_name="us-east-1",
        endpoint_url=MOTO,
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    users = {}
    for name in ("alice", "bob", "carol"):
        client.create_user(UserName=name)
        key = client.create_access_key(UserName=name)["AccessKey"]
        users[name] = {"key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}
    return {"moto": MOTO, "standIn": STAND_IN, "users": users}


logging.getLogger("werkzeug").setLevel(logging.ERROR)
answers = sys.stdout
sys.stdout = sys.stderr
moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
moto.start()
MOTO = "http://{}:{}".format(*moto.get_host_and_port())
stand_in = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
threading.Thread(target=stand_in.serve_forever, daemon=True).start()
STAND_IN = f"http://127.0.0.1:{stand_in.server_address[1]}"

for line in sys.stdin:
    asked = json.loads(line)
    operation = asked["operation"]
    if operation == "prepare":
        answer = prepare()
    elif operation == "identity":
        answer = identity(asked)
    elif operation == "who":
        answer = {"who": who(asked["key"])}
    elif operation == "tokens":
        answer = {"tokens": tokens(asked["cases"])}
    elif operation == "hosts":
        answer = {"hosts": hosts(asked["cases"], asked.get("service", "ecr"))}
    elif operation == "kms":
        answer = {"keys": kms(asked["specs"])}
    elif operation == "tls":
        answer = {"url": serve_tls(asked["certificate"], asked["key"])}
    elif operation == "bearer":
        answer = {"bearer": StandIn.bearers.get(asked["path"], "")}
    elif operation == "counts":
        answer = dict(StandIn.counts)
    else:
        answer = {"error": "unknown operation"}
    print(json.dumps(answer), file=answers, flush=True)
