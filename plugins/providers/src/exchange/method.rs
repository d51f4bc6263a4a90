//! The ways to exchange a token.

use http::{HeaderName, Request, header};
use keyward_plugin::Refusal;
use keyward_protocol::Secret;

use super::{
    answer::{Answer, Login, Places},
    template::{Document, Facts, Template},
    token_exchange::TokenExchange,
    vault::JwtLogin,
};
use crate::{
    Call,
    http::{Http, HttpError},
};

/// A way to exchange a token.
pub(super) enum Method {
    /// The token itself is the password.
    Pass,
    /// RFC 8693.
    TokenExchange(Box<TokenExchange>),
    /// The JWT login of OpenBao and Vault.
    JwtLogin(Box<JwtLogin>),
    /// A POST request of any form.
    Post(Box<Post>),
}

/// A POST request from a template.
pub(super) struct Post {
    pub(super) url: String,
    pub(super) body: Document,
    pub(super) headers: Vec<(HeaderName, Template)>,
    /// Where the answer has the password.
    pub(super) password: String,
}

impl Method {
    /// The name of the method, for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass-through",
            Self::TokenExchange(_) => "token exchange",
            Self::JwtLogin(_) => "JWT login",
            Self::Post(_) => "POST request",
        }
    }

    /// Whether what is sent differs between images of one registry.
    pub(super) fn names_image(&self) -> bool {
        match self {
            Self::Pass => false,
            Self::TokenExchange(exchange) => exchange.names_image(),
            Self::JwtLogin(login) => login.names_image(),
            Self::Post(post) => {
                post.body.names_image() || post.headers.iter().any(|(_, value)| value.names_image())
            }
        }
    }

    /// The login for the token.
    pub(super) fn login(
        &self,
        call: &Call,
        http: &Http,
        facts: &Facts<'_>,
        places: &Places,
    ) -> Result<Login, Refusal> {
        match self {
            Self::Pass => Ok(Login { user: None, password: facts.token.clone(), ends: None }),
            Self::TokenExchange(exchange) => exchange.login(call, http, facts, places),
            Self::JwtLogin(login) => login.login(call, http, facts, places),
            Self::Post(post) => post.login(call, http, facts, places),
        }
    }
}

impl Post {
    fn login(
        &self,
        call: &Call,
        http: &Http,
        facts: &Facts<'_>,
        places: &Places,
    ) -> Result<Login, Refusal> {
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value.fill_header(facts)?);
        }
        let request = request.body(self.body.fill(facts)?).map_err(Refusal::failed)?;
        let response = http.call(request).map_err(|error| unreachable(&error))?;
        let answer = Answer::read(&self.url, &response, &[facts.token])?;
        let now = call.clock.now();
        Ok(Login {
            user: user(&answer, places)?,
            password: Secret::new(answer.text(&self.password)?),
            ends: places.expiry.as_deref().map(|place| answer.end(place, now)).transpose()?,
        })
    }
}

/// The user name, which has to be where a flag says it is.
pub(super) fn user(answer: &Answer<'_>, places: &Places) -> Result<Option<String>, Refusal> {
    let place = places.username.as_deref();
    place.map(|place| answer.text(place).map(str::to_owned)).transpose()
}

/// Why a server cannot be asked.
pub(super) fn unreachable(error: &HttpError) -> Refusal {
    let hint = if error.is_untrusted() {
        "\n\nhint: if the server has an authority of its own, name its file with `--certificate-authority`; the \
         authorities of the system are still used"
    } else {
        ""
    };
    Refusal::Failed(format!("the token cannot be exchanged: {error}{hint}"))
}
