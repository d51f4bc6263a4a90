//! The provider: what it says about itself, and requests for tokens.

use http::{HeaderName, HeaderValue, Method, Request, header};
use keyward_plugin::Refusal;
use keyward_protocol::{
    Secret,
    text::{inline, with_causes},
};
use openidconnect::{
    AdditionalProviderMetadata, AuthType, ClientId, ClientSecret, DeviceAuthorizationUrl,
    DiscoveryError, EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse,
    IssuerUrl, ProviderMetadata, RequestTokenError, StandardErrorResponse, TokenUrl,
    core::{
        CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod,
        CoreErrorResponseType, CoreGrantType, CoreJsonWebKey, CoreJsonWebKeySet,
        CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreResponseMode,
        CoreResponseType, CoreSubjectIdentifierType,
    },
    url::form_urlencoded,
};
use serde::{Deserialize, Serialize};

use super::settings::{Endpoints, Settings};
use crate::{
    Call,
    client_auth::{self, ClientAuth},
    http::{Http, HttpError, require_https},
};

/// What providers say about themselves beyond OpenID Connect Discovery.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(super) struct Extra {
    /// RFC 8628.
    pub(super) device_authorization_endpoint: Option<DeviceAuthorizationUrl>,
    /// RFC 9207.
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    /// RFC 8705: addresses for clients with certificates.
    mtls_endpoint_aliases: Option<Aliases>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Aliases {
    token_endpoint: Option<TokenUrl>,
    device_authorization_endpoint: Option<DeviceAuthorizationUrl>,
}

impl AdditionalProviderMetadata for Extra {}

type Metadata = ProviderMetadata<
    Extra,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// The client at the provider, as `openidconnect` has it.
pub(super) type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
    EndpointMaybeSet,
>;

/// Why a token endpoint gave no token.
pub(super) type TokenError =
    RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>;

/// A provider that was discovered.
pub(super) struct Provider<'a> {
    pub(super) call: &'a Call,
    pub(super) settings: &'a Settings,
    pub(super) http: &'a Http,
    pub(super) issuer: IssuerUrl,
    pub(super) client: Client,
    pub(super) device: Option<DeviceAuthorizationUrl>,
    /// Whether the provider names itself when it redirects back.
    pub(super) names_itself: bool,
    metadata: Metadata,
}

impl<'a> Provider<'a> {
    /// Asks the issuer for its endpoints and keys.
    pub(super) fn discover(
        call: &'a Call,
        settings: &'a Settings,
        http: &'a Http,
    ) -> Result<Self, Refusal> {
        let issuer = IssuerUrl::new(settings.issuer.clone()).map_err(|error| {
            Refusal::BadConfig(format!(
                "`--oidc-issuer-url` is no address: `{}`: {error}",
                inline(&settings.issuer)
            ))
        })?;
        require_https(issuer.url().as_str(), "`--oidc-issuer-url`")?;
        let send = |request: HttpRequest| send(http, settings, request);
        let metadata = match &settings.endpoints {
            Some(endpoints) => known(&settings.issuer, endpoints)?,
            None => Metadata::discover(&issuer, &send)
                .map_err(|error| undiscovered(settings, &error))?,
        };
        let has_certificate = http.has_identity();
        let extra = metadata.additional_metadata().clone();
        let aliases = extra.mtls_endpoint_aliases.filter(|_| has_certificate).unwrap_or_default();
        let token = aliases.token_endpoint.or_else(|| metadata.token_endpoint().cloned());
        let token = token.ok_or_else(|| {
            Refusal::Failed(format!("`{}` names no token endpoint", settings.issuer))
        })?;
        let device = aliases.device_authorization_endpoint.or(extra.device_authorization_endpoint);
        require_https(
            metadata.authorization_endpoint().url().as_str(),
            "the authorization endpoint",
        )?;
        require_https(token.url().as_str(), "the token endpoint")?;
        require_https(metadata.jwks_uri().url().as_str(), "the address of the keys")?;
        if let Some(device) = &device {
            require_https(device.url().as_str(), "the device authorization endpoint")?;
        }
        let secret = match &settings.auth {
            ClientAuth::Secret(secret) => Some(ClientSecret::new(secret.expose().to_owned())),
            _ => None,
        };
        let auth_type = auth_type(&metadata);
        let client = CoreClient::from_provider_metadata(
            metadata.clone(),
            ClientId::new(settings.client.clone()),
            secret,
        )
        .set_token_uri(token)
        .set_auth_type(auth_type);
        let names_itself = extra.authorization_response_iss_parameter_supported;
        Ok(Self { call, settings, http, issuer, client, device, names_itself, metadata })
    }

    /// The provider's keys.
    pub(super) fn keys(&self) -> &CoreJsonWebKeySet {
        self.metadata.jwks()
    }

    /// Reads the provider's keys again, for a token that none of them has signed.
    pub(super) fn read_keys_again(&self) -> Option<CoreJsonWebKeySet> {
        let send = |request: HttpRequest| send(self.http, self.settings, request);
        CoreJsonWebKeySet::fetch(self.metadata.jwks_uri(), &send).ok()
    }

    /// Sends a request of the client, with the proof of who it is.
    pub(super) fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method() == Method::POST
            && let Some(assertion) = self.assertion()?
        {
            let mut form = form_urlencoded::Serializer::new(String::new());
            form.append_pair("client_assertion_type", client_auth::KIND);
            form.append_pair("client_assertion", assertion.expose());
            let body = request.body_mut();
            body.push(b'&');
            body.extend_from_slice(form.finish().as_bytes());
        }
        send(self.http, self.settings, request)
    }

    fn assertion(&self) -> Result<Option<Secret>, HttpError> {
        let Settings { auth, client, issuer, .. } = self.settings;
        auth.assertion(client, issuer, self.call.clock.now()).map_err(HttpError::text)
    }

    /// Why a token endpoint gave no token, for a person.
    pub(super) fn refused(&self, what: &str, error: &TokenError) -> Refusal {
        self.refused_at(self.client.token_uri().as_str(), what, error)
    }

    /// Why an endpoint did not give what was asked for, for a person.
    pub(super) fn refused_at(&self, endpoint: &str, what: &str, error: &TokenError) -> Refusal {
        let endpoint = inline(endpoint);
        match error {
            RequestTokenError::ServerResponse(response) => {
                let code = response.error().to_string();
                let description =
                    response.error_description().map(|text| format!(": {}", inline(text)));
                let text = format!(
                    "{what} was refused by `{endpoint}`: {}{}{}",
                    inline(&code),
                    description.unwrap_or_default(),
                    if self.settings.endpoints.is_some() { entra_hint(&code) } else { hint(&code) }
                );
                if code == "access_denied" {
                    Refusal::NotAllowed(text)
                } else {
                    Refusal::Failed(text)
                }
            }
            RequestTokenError::Request(error) => unreachable(self.settings, error),
            // Neither the answer nor a value in it: there may be tokens.
            RequestTokenError::Parse(..) => Refusal::Failed(format!(
                "`{endpoint}` gave an answer that is no token response, or an ID token that is no JWT"
            )),
            RequestTokenError::Other(why) => {
                Refusal::Failed(format!("{what} failed at `{endpoint}`: {}", inline(why)))
            }
        }
    }
}

/// Sends a request with the headers of the settings.
fn send(
    http: &Http,
    settings: &Settings,
    mut request: Request<Vec<u8>>,
) -> Result<HttpResponse, HttpError> {
    for (name, value) in &settings.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
        else {
            return Err(HttpError::text(format!(
                "`--oidc-request-header` `{}` is no header",
                inline(name)
            )));
        };
        request.headers_mut().insert(name, value);
    }
    let address = request.uri().to_string();
    let response = http.call(request)?;
    if response.status().is_redirection() {
        let target =
            response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
        return Err(HttpError::text(format!(
            "`{}` redirects to `{}`, and a redirect is not followed",
            inline(&address),
            inline(target.unwrap_or("nowhere"))
        )));
    }
    Ok(response)
}

/// What Entra ID would say about itself, as far as it is needed. Its ID tokens are not verified, so there are no keys.
fn known(issuer: &str, endpoints: &Endpoints) -> Result<Metadata, Refusal> {
    let metadata = serde_json::json!({
        "issuer": issuer,
        "authorization_endpoint": endpoints.authorization,
        "token_endpoint": endpoints.token,
        "device_authorization_endpoint": endpoints.device,
        "jwks_uri": endpoints.token,
        "response_types_supported": ["code"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
    });
    serde_json::from_value(metadata).map_err(Refusal::failed)
}

/// Where the secret goes: into the header unless the provider takes it in the body alone.
fn auth_type(metadata: &Metadata) -> AuthType {
    let methods = metadata.token_endpoint_auth_methods_supported();
    let has = |method| methods.is_none_or(|methods| methods.contains(&method));
    if has(CoreClientAuthMethod::ClientSecretBasic) || !has(CoreClientAuthMethod::ClientSecretPost)
    {
        AuthType::BasicAuth
    } else {
        AuthType::RequestBody
    }
}

fn unreachable(settings: &Settings, error: &HttpError) -> Refusal {
    let hint = if error.is_untrusted() && settings.endpoints.is_none() {
        "\n\nhint: if the provider has an authority of its own, name its file with \
         `--certificate-authority`; the authorities of the system are still used"
    } else {
        ""
    };
    Refusal::Failed(format!(
        "the provider `{}` cannot be asked: {error}{hint}",
        inline(&settings.issuer)
    ))
}

fn undiscovered(settings: &Settings, error: &DiscoveryError<HttpError>) -> Refusal {
    let issuer = inline(&settings.issuer);
    let why = match error {
        DiscoveryError::Request(error) => return unreachable(settings, error),
        DiscoveryError::Response(status, ..) => format!("it answered {status}"),
        DiscoveryError::Parse(error) => {
            format!("its answer cannot be read at `{}`", inline(&error.path().to_string()))
        }
        DiscoveryError::Validation(why) => inline(why),
        other => inline(&with_causes(other)),
    };
    Refusal::Failed(format!(
        "`{issuer}` is no OpenID issuer: {why}\n\n\
         hint: `--oidc-issuer-url` has to be exactly what \
         `{}/.well-known/openid-configuration` calls `issuer`",
        issuer.trim_end_matches('/')
    ))
}

/// What to do about an error of Entra ID.
fn entra_hint(code: &str) -> &'static str {
    match code {
        "invalid_client" | "unauthorized_client" => {
            "\n\nhint: check `--client-id` and `--tenant-id`; the application has to allow public client flows"
        }
        "interaction_required" => {
            "\n\nhint: log in with `--login interactive` or `--login devicecode`"
        }
        _ => "",
    }
}

/// What to do about an error of a token endpoint.
fn hint(code: &str) -> &'static str {
    match code {
        "invalid_client" => {
            "\n\nhint: check `--oidc-client-id` and how the client proves who it is \
             (`--client-secret-file`, `--client-key`, `--client-certificate`)"
        }
        "unauthorized_client" | "unsupported_grant_type" => {
            "\n\nhint: the provider does not allow this client the grant; see `--grant-type`"
        }
        "invalid_scope" => "\n\nhint: see `--oidc-extra-scope`",
        "not_allowed" => {
            "\n\nhint: the person may not have what was asked for; Keycloak says so for the scope \
             `offline_access` without the role of that name (`--oidc-extra-scope`)"
        }
        _ => "",
    }
}
