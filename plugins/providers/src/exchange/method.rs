//! The ways to exchange a token.

use http::{HeaderName, Request, header};
use jiff::Timestamp;
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
    pub(super) fn login(&self, exchange: &Exchange<'_>) -> Result<Login, Refusal> {
        match self {
            Self::Pass => {
                Ok(Login { user: None, password: exchange.facts.token.clone(), ends: None })
            }
            Self::TokenExchange(method) => method.login(exchange),
            Self::JwtLogin(method) => method.login(exchange),
            Self::Post(method) => method.login(exchange),
        }
    }
}

/// One exchange of a token.
pub(super) struct Exchange<'a> {
    pub(super) call: &'a Call,
    pub(super) http: &'a Http,
    pub(super) facts: &'a Facts<'a>,
    pub(super) places: &'a Places,
}

impl Exchange<'_> {
    /// Asks a server. `sent` are secrets that it may repeat.
    pub(super) fn ask<'u>(
        &self,
        url: &'u str,
        request: Request<Vec<u8>>,
        sent: &[&Secret],
    ) -> Result<Answer<'u>, Refusal> {
        Answer::read(url, &self.http.call(request).map_err(|error| unreachable(&error))?, sent)
    }

    /// The user name, which has to be where a flag says it is.
    pub(super) fn user(&self, answer: &Answer<'_>) -> Result<Option<String>, Refusal> {
        let place = self.places.username.as_deref();
        place.map(|place| answer.text(place).map(str::to_owned)).transpose()
    }

    /// The end, which has to be where a flag says it is.
    pub(super) fn end(
        &self,
        answer: &Answer<'_>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Refusal> {
        self.places.expiry.as_deref().map(|place| answer.end(place, now)).transpose()
    }
}

impl Post {
    fn login(&self, exchange: &Exchange<'_>) -> Result<Login, Refusal> {
        let facts = exchange.facts;
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value.fill_header(facts)?);
        }
        let request = request.body(self.body.fill(facts)?).map_err(Refusal::failed)?;
        let answer = exchange.ask(&self.url, request, &[facts.token])?;
        Ok(Login {
            user: exchange.user(&answer)?,
            password: Secret::new(answer.text(&self.password)?),
            ends: exchange.end(&answer, exchange.call.clock.now())?,
        })
    }
}

/// Why a server cannot be asked.
fn unreachable(error: &HttpError) -> Refusal {
    let hint = if error.is_untrusted() {
        "\n\nhint: if the server has an authority of its own, name its file with `--certificate-authority`; the \
         authorities of the system are still used"
    } else {
        ""
    };
    Refusal::Failed(format!("the token cannot be exchanged: {error}{hint}"))
}
