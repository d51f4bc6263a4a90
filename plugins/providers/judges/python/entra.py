"""Answers for azure-identity, MSAL and azure-containerregistry, with a stand-in for Entra ID, for the machines that give
tokens, and for registries.

It reads a JSON document on each line of stdin and prints one for each. The stand-in checks what it is asked, and the
token that it gives is a digest of the whole request. So two programs that get the same token sent the same request,
but for what is random or only about the program: those parts are checked and then left out of the digest.
"""

import base64
import datetime
import hashlib
import json
import logging
import os
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import azure.containerregistry
import azure.identity
import azure.identity._credentials.browser
import msal
import msal.authority
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

# What a program may add without asking for another token: MSAL wants to know the account for its cache, and leads the
# request to the person's data centre; azure-identity has the code posted and not in the address.
IGNORED = {"client_info", "response_mode", "X-AnchorMailbox"}


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(claims):
    return encode({"alg": "RS256", "typ": "JWT", "kid": "k"}) + "." + encode(claims) + "." + encode(b"signature")


def digest(*parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Refused(Exception):
    """A request that Entra ID would refuse: status, code and description."""


class StandIn(BaseHTTPRequestHandler):
    """Entra ID, the endpoints of machines, GitHub, Azure Pipelines, and an API server that lets everybody in."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    counts = {}
    bearers = {}
    # Assertions, and what codes and device codes stand for.
    used = set()
    codes = {}
    polls = {}
    failures = []
    # What each token is the digest of.
    seen = {}

    def log_message(self, *args):
        pass

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def answer(self, status, document, headers=()):
        body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def parts(self):
        url = urllib.parse.urlsplit(self.path)
        return url.path, self.fields(url.query)

    def fields(self, text):
        """The fields of a form or a query, each of which has to be there once."""
        pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text))
        if len(dict(pairs)) != len(pairs):
            raise Refused(400, "invalid_request", "a field is there twice")
        return dict(pairs)

    def handle_safely(self, handler):
        try:
            handler()
        except Refused as refused:
            status, code, text = refused.args
            self.answer(status, {"error": code, "error_description": text + "\r\nTrace ID: 1"})
        except Exception as error:  # noqa: BLE001
            self.failures.append(repr(error))
            self.answer(500, {"error": "server_error", "error_description": repr(error)})

    def do_GET(self):
        self.handle_safely(self.get)

    def do_POST(self):
        self.handle_safely(self.post)

    def get(self):
        path, query = self.parts()
        if path.startswith("/kube/"):
            self.bearers[path] = self.headers.get("Authorization", "")
            return self.answer(200, "ok")
        if path.endswith("/.well-known/openid-configuration"):
            base = f"https://{self.headers['Host']}/{path.split('/')[1]}"
            document = {"issuer": base + "/v2.0"}
            for name, end in (("authorization", "authorize"), ("token", "token"), ("device_authorization", "devicecode")):
                document[name + "_endpoint"] = f"{base}/oauth2/v2.0/{end}"
            return self.answer(200, document)
        if path.endswith("/oauth2/v2.0/authorize"):
            return self.authorize(path, query)
        if path.startswith("/github/"):
            self.require("Authorization", "bearer github secret")
            return self.answer(200, {"value": jwt({"iss": "https://github", "sub": "repo:a", "aud": query["audience"]})})
        if path in ("/v2/", "/acr/v1/_catalog"):
            return self.registry(path)
        return self.machine(path, query)

    def registry(self, path):
        """A registry, which wants to be asked with a token, and says where that is to be had."""
        host = self.headers["Host"]
        if host.startswith("open."):
            return self.answer(200, {})
        if self.headers.get("Authorization"):
            return self.answer(200, {"repositories": []})
        realm = {"evil": "https://evil.example", "plain": f"http://{host}", "port": f"https://{host}:444"}
        realm = realm.get(host.partition(".")[0], f"https://{host}") + "/oauth2/token"
        challenge = f'Bearer realm="{realm}",service="{host}",scope="registry:catalog:*",error="invalid_token"'
        self.answer(401, {"errors": []}, [("WWW-Authenticate", challenge)])

    def exchange(self, path, form):
        """The exchange of a registry: a login that is a digest of the whole request."""
        host = self.headers["Host"]
        self.count("exchange " + host)
        if form.get("service") != host:
            raise Refused(400, "invalid_request", "another service")
        if path == "/oauth2/token":
            return self.answer(200, {"access_token": jwt({"exp": 4102444800})})
        if host.startswith("denied."):
            return self.answer(401, {"errors": [{"code": "UNAUTHORIZED", "message": "no role"}]})
        token = jwt({"digest": digest(host, path, form), "exp": 4102444800})
        self.seen[token] = [host, path, form]
        self.answer(200, {"refresh_token": token})

    def do_CONNECT(self):
        """A proxy that leads every name to the stand-in."""
        self.count("proxied " + self.path)
        there = socket.create_connection(HTTPS)
        self.send_response(200)
        self.end_headers()
        self.close_connection = True

        def copy(source, target):
            try:
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        back = threading.Thread(target=copy, args=(there, self.connection), daemon=True)
        back.start()
        copy(self.connection, there)
        back.join()

    def machine(self, path, query):
        """Who gives tokens to those that run on a machine."""
        headers = {
            "/metadata/identity/oauth2/token": ("Metadata", "true"),
            "/app": ("X-IDENTITY-HEADER", "app secret"),
            "/ml": ("secret", "ml secret"),
            "/shell": ("Metadata", "true"),
        }
        if path not in headers:
            return self.answer(404, {"error": "not_found"})
        self.require(*headers[path])
        self.count("machine " + path)
        chosen = query.get("client_id") or query.get("clientid") or query.get("msi_res_id") or query.get("mi_res_id")
        if chosen == "unknown":
            return self.answer(400, {"error": "invalid_request", "error_description": "Identity not found"})
        if chosen == "slow" and self.counts["machine " + path] % 3:
            return self.answer(429, {"error": "too_many_requests"})
        end = int(time.time()) + 3600
        token = "machine-" + digest(path, query)
        self.seen[token] = [path, query]
        document = {"access_token": token, "expires_on": str(end), "expires_in": "3600", "token_type": "Bearer"}
        self.answer(200, dict(document, resource=query["resource"]))

    def require(self, name, value):
        if self.headers.get(name) != value:
            raise Refused(401, "unauthorized", "the header " + name + " is wrong")

    def authorize(self, path, query):
        self.count("page")
        for name in ("state", "nonce", "code_challenge"):
            if len(query.get(name, "")) < 20:
                raise Refused(400, "invalid_request", name + " is too short")
        if query["code_challenge_method"] != "S256":
            raise Refused(400, "invalid_request", "no PKCE")
        redirect, state = query["redirect_uri"], query.pop("state")
        secrets = {name: query.pop(name) for name in ("nonce", "code_challenge")}
        asked = dict(query, redirect_uri=without_port(redirect), scope=sorted(query["scope"].split()))
        asked = {name: value for name, value in asked.items() if name not in IGNORED}
        code = "code-" + digest(redirect, secrets)
        self.codes[code] = {"asked": [path, asked], "redirect": redirect, **secrets}
        back = urllib.parse.urlencode({"code": code, "state": state, "session_state": "x"})
        self.answer(302, "", [("Location", f"{redirect}?{back}")])

    def post(self):
        path, query = self.parts()
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        if path.startswith("/pipelines/"):
            self.require("Authorization", "Bearer pipelines secret")
            self.require("X-TFS-FedAuthRedirect", "Suppress")
            claims = {"iss": "https://pipelines", "sub": query["serviceConnectionId"], "v": query["api-version"]}
            return self.answer(200, {"oidcToken": jwt(claims)})
        self.require("Content-Type", "application/x-www-form-urlencoded")
        form = self.fields(body)
        if path in ("/oauth2/exchange", "/oauth2/token"):
            return self.exchange(path, form)
        if path == "/shell":
            return self.machine(path, form)
        form["scope"] = sorted(form.get("scope", "").split())
        form = {name: value for name, value in form.items() if name not in IGNORED}
        if path.endswith("/oauth2/v2.0/devicecode"):
            code = "device-" + digest(path, form)
            self.seen[code] = [path, form]
            with self.lock:
                self.polls[code] = self.polls.get(code, 0) + 1
            document = {"device_code": code, "user_code": "ABCD", "expires_in": 900, "interval": 1, "message": "go"}
            return self.answer(200, dict(document, verification_uri="https://page.example/device"))
        if not path.endswith("/oauth2/v2.0/token"):
            return self.answer(404, {"error": "not_found"})
        self.token(path, form)

    def token(self, path, form):
        grant = form["grant_type"]
        self.count("token " + grant)
        tenant = path.split("/")[1]
        if tenant.startswith("count-"):
            self.count(f"token {grant} of {tenant.removeprefix('count-')}")
        if tenant == "refused":
            raise Refused(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
        if "client_assertion" in form:
            kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            if form["client_assertion_type"] != kind:
                raise Refused(400, "invalid_request", "the type of the assertion is wrong")
            form["client_assertion"] = self.assertion(path, form)
        elif form.get("client_secret") == "wrong":
            raise Refused(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
        nonce = None
        if grant == "authorization_code":
            code = self.codes.pop(form["code"])
            verifier = form.pop("code_verifier").encode()
            if encode(hashlib.sha256(verifier).digest()) != code["code_challenge"]:
                raise Refused(400, "invalid_grant", "the verifier is wrong")
            if form["redirect_uri"] != code["redirect"]:
                raise Refused(400, "invalid_grant", "the redirect URL is another one")
            form.update(code=code["asked"], redirect_uri=without_port(code["redirect"]))
            nonce = code["nonce"]
        if grant == "urn:ietf:params:oauth:grant-type:device_code" and tenant == "declined":
            raise Refused(400, "authorization_declined", "no")
        if grant == "urn:ietf:params:oauth:grant-type:device_code":
            # MSAL repeats the scopes and has the code twice; Entra ID asks for neither.
            form.pop("scope")
            if form.pop("code", form["device_code"]) != form["device_code"]:
                raise Refused(400, "invalid_request", "two codes")
            with self.lock:
                self.polls[form["device_code"]] -= 1
                pending = self.polls[form["device_code"]] >= 0
            if pending:
                raise Refused(400, "authorization_pending", "wait")
            form["device_code"] = self.seen[form["device_code"]]
        if grant == "refresh_token" and not form["refresh_token"].startswith("refresh-"):
            raise Refused(400, "invalid_grant", "AADSTS700082: The refresh token has expired.")
        token = digest(path, form)
        self.seen["entra-" + token] = [path, form]
        document = {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": "entra-" + token}
        if grant != "client_credentials":
            now = int(time.time())
            claims = {"iss": "https://sts.example/" + tenant, "aud": form["client_id"], "iat": now, "exp": now + 3600}
            claims.update(sub="ann", oid="o", tid=tenant, preferred_username="ann@example.com")
            if nonce:
                claims["nonce"] = "another" if tenant == "other-nonce" else nonce
            if tenant == "other-audience":
                claims["aud"] = "another"
            if tenant == "other-person" and grant == "refresh_token":
                claims["sub"] = "bob"
            if tenant != "no-id-token" and (tenant, grant) != ("no-id-token-later", "refresh_token"):
                document["id_token"] = jwt(claims)
            document["client_info"] = encode({"uid": "o", "utid": tenant})
            document["refresh_token"] = "refresh-" + token
            document["scope"] = "openid profile offline_access"
        self.answer(200, document)

    def assertion(self, path, form):
        """Checks an assertion, and returns what of it is the same for everybody."""
        text = form["client_assertion"]
        head, claims, signature = text.split(".")
        header, claims = json.loads(decode(head)), json.loads(decode(claims))
        if not {"x5t#S256", "x5t", "x5c"} & set(header):
            # A token of another issuer: it is passed on as it is.
            return text
        certificates = [base64.b64decode(certificate) for certificate in header["x5c"]]
        leaf = x509.load_der_x509_certificate(certificates[0])
        if decode(header["x5t#S256"].rstrip("=")) != hashlib.sha256(certificates[0]).digest():
            raise Refused(401, "invalid_client", "AADSTS700027: the thumbprint is wrong")
        if header["alg"] != "PS256":
            raise Refused(401, "invalid_client", "AADSTS700027: the algorithm is wrong")
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        signed = text.rpartition(".")[0].encode()
        leaf.public_key().verify(decode(signature), signed, pss, hashes.SHA256())
        now = time.time()
        if not claims.get("nbf", claims.get("iat")) <= now + 5 or not now < claims["exp"] <= now + 3600:
            raise Refused(401, "invalid_client", "AADSTS700024: the assertion is not valid now")
        with self.lock:
            if len(claims["jti"]) < 16 or claims["jti"] in self.used:
                raise Refused(401, "invalid_client", "the assertion was used before")
            self.used.add(claims["jti"])
        if claims["aud"] != f"https://{self.headers['Host']}{path}" or claims["iss"] != form["client_id"]:
            raise Refused(401, "invalid_client", "AADSTS700023: audience or issuer is wrong")
        chain = [hashlib.sha256(certificate).hexdigest() for certificate in certificates]
        return [header["typ"], header["alg"], chain, claims["aud"], claims["iss"], claims["sub"]]


def without_port(url):
    return urllib.parse.urlsplit(url)._replace(netloc=urllib.parse.urlsplit(url).hostname).geturl()


def serve(certificate=None, key=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"


def browse(address):
    """A person who logs in at once: follows the login page to the listener, as a form that is posted."""
    context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args):
            return None

    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), Stay)
    try:
        opener.open(address)
    except urllib.error.HTTPError as redirect:
        back, _, answer = redirect.headers["Location"].partition("?")
        threading.Thread(target=urllib.request.urlopen, args=(back, answer.encode()), daemon=True).start()
    return True


azure.identity._credentials.browser._open_browser = browse
# MSAL asks for the kind of the account, and loses the port of the address.
msal.authority.Authority.user_realm_discovery = lambda *args, **kwargs: {"account_type": "Managed"}


def credential(case):
    kind, options = case["kind"], dict(case.get("options", {}))
    person = {"disable_instance_discovery": True}
    if kind == "secret":
        return azure.identity.ClientSecretCredential(**person, **options)
    if kind == "workload":
        return azure.identity.WorkloadIdentityCredential(**options)
    if kind == "assertion":
        assertion = options.pop("assertion")
        return azure.identity.ClientAssertionCredential(func=lambda: assertion, **options)
    if kind == "pipelines":
        return azure.identity.AzurePipelinesCredential(**options)
    if kind == "identity":
        return azure.identity.ManagedIdentityCredential(**options)
    if kind == "devicecode":
        return azure.identity.DeviceCodeCredential(prompt_callback=lambda *_: None, **person, **options)
    if kind == "interactive":
        return azure.identity.InteractiveBrowserCredential(**person, **options)
    if kind == "ropc":
        return azure.identity.UsernamePasswordCredential(**person, **options)
    if kind == "azurecli":
        return azure.identity.AzureCliCredential(**options)
    if kind == "azd":
        return azure.identity.AzureDeveloperCliCredential(**options)
    raise ValueError(kind)


def with_certificate(case):
    """The token of MSAL for a certificate. Left alone, it signs as Entra ID prefers; azure-identity in Python has it sign
    in an older way, unlike azure-identity in Go, which kubelogin uses."""
    options = case["options"]
    with open(options["certificate_path"], encoding="ascii") as file:
        pem = file.read()
    key = pem[pem.index("-----BEGIN PRIVATE") :]
    key = key[: key.index("-----END PRIVATE KEY-----") + 25]
    app = msal.ConfidentialClientApplication(
        options["client_id"],
        authority=f"{options['authority']}/{options['tenant_id']}",
        client_credential={"private_key": key, "public_certificate": pem.replace(key, "")},
        instance_discovery=False,
    )
    answer = app.acquire_token_for_client([case["scope"]])
    return {"token": answer.get("access_token"), "error": answer.get("error_description")}


def token(case):
    """The token of azure-identity, or the reason why it has none; with `twice`, the one after a refresh."""
    os.environ.clear()
    os.environ.update(case["environment"])
    try:
        if case["kind"] == "certificate":
            return with_certificate(case)
        found = credential(case)
        token = found.get_token(case["scope"]).token
        if case.get("twice"):
            # What MSAL keeps is as good as expired, so that it uses the refresh token.
            cache = found._get_app()._app.token_cache if hasattr(found._get_app(), "_app") else found._get_app().token_cache
            for entry in list(cache.search(cache.CredentialType.ACCESS_TOKEN)):
                cache.remove_at(entry)
            token = found.get_token(case["scope"]).token
        return {"token": token}
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}


def registry(case):
    """The login that azure-containerregistry gets from a registry."""
    os.environ.clear()
    os.environ.update(case["environment"])
    try:
        audience = "https://containerregistry.azure.net"
        client = azure.containerregistry.ContainerRegistryClient(case["registry"], credential(case), audience=audience)
        list(client.list_repository_names())
        return {"token": client._auth_policy._exchange_client._refresh_token}
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}


def certificate(bits=2048):
    """A certificate with its RSA key, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "app")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now)
    signed = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return signed.public_bytes(encoding[0]).decode(), key.private_bytes(*encoding).decode()


logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
answers = sys.stdout
sys.stdout = sys.stderr
for line in sys.stdin:
    asked = json.loads(line)
    operation = asked["operation"]
    if operation == "serve":
        answer = {"https": serve(asked["certificate"], asked["key"]), "http": serve()}
        HTTPS = ("127.0.0.1", int(answer["https"].rpartition(":")[2]))
    elif operation == "registry":
        answer = registry(asked)
    elif operation == "token":
        answer = token(asked)
    elif operation == "certificate":
        answer = dict(zip(("certificate", "key"), certificate()))
    elif operation == "bearer":
        answer = {"bearer": StandIn.bearers.get(asked["path"], "")}
    elif operation == "counts":
        answer = dict(StandIn.counts)
    elif operation == "seen":
        answer = {"seen": [StandIn.seen.get(token) for token in asked["tokens"]], "failures": StandIn.failures}
    else:
        answer = {"error": "unknown operation"}
    print(json.dumps(answer), file=answers, flush=True)
