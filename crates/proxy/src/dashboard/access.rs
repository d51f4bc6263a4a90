//! Access to the dashboard: for a browser of the proxy's own user that has opened a link which was asked
//! for at the admin socket.
//!
//! - The process at the other end of each connection must belong to the same user.
//! - `Host` must be our address, so that no other name leads here (DNS rebinding). `Origin` and
//!   `Sec-Fetch-Site` must not be those of another page.
//! - A link counts once and for a minute. It is exchanged for a cookie, which other ports of this address
//!   do not get, because the session's path, which nobody can guess, limits it.
//! - A form has to bring the token that was on the page.

use std::{
    fmt::Write as _,
    io,
    net::{SocketAddr, SocketAddrV4},
    sync::Mutex,
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, Method, Request, StatusCode,
    header::{COOKIE, ORIGIN},
    uri::Scheme,
};
use keyward_process::{
    clock::{Clock as _, SystemClock},
    lock,
};
use keyward_protocol::Secret;
use rustls::crypto::ring;

use crate::{
    gate::{Allowed, FETCH_SITE, Gate},
    refusal::Refusal,
};

const OPEN: &str = "/open/";
const COOKIE_NAME: &str = "keyward-dashboard";
const PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

/// How long a link counts.
const LINK: Duration = Duration::from_secs(60);
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How many links and sessions there are; the oldest make room.
const MOST: usize = 16;

pub(super) const ENDED: Refusal = refusal(StatusCode::SERVICE_UNAVAILABLE, "The proxy is ending.");
pub(super) const NO_PAGE: Refusal = refusal(StatusCode::NOT_FOUND, "There is no such page.");
pub(super) const OTHER_METHOD: Refusal =
    refusal(StatusCode::METHOD_NOT_ALLOWED, "The request has an unexpected method.");
const OTHER_USER: Refusal =
    refusal(StatusCode::FORBIDDEN, "Only browsers of the user who runs the proxy are let in.");
const OTHER_HOST: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "This is not the address of the dashboard. `keyward proxy dashboard` opens it.",
);
const OTHER_SITE: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "The request comes from another page. Paste the link into the address bar instead.",
);
const AHEAD: Refusal =
    refusal(StatusCode::FORBIDDEN, "The link is for a person, not for a browser that looks ahead.");
const USED: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "This link was used already, or is older than a minute. `keyward proxy dashboard` opens a new one.",
);
const NO_SESSION: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "This page belongs to another browser, or to a proxy that has ended. \
     `keyward proxy dashboard` opens a new one.",
);
const NO_FORM: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "The form is not from this page. Load the dashboard again, and repeat what you did.",
);

const fn refusal(code: StatusCode, message: &'static str) -> Refusal {
    Refusal::of_page(code, message)
}

/// The rules of one listener, and who has come so far.
pub(super) struct Access {
    own: SocketAddrV4,
    gate: Gate,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    links: Vec<(Secret, Duration)>,
    sessions: Vec<Session>,
}

/// A browser that has opened a link.
#[derive(Clone)]
pub(super) struct Session {
    id: Secret,
    cookie: Secret,
    form: Secret,
    until: Duration,
}

/// What a request may do.
pub(super) enum Rights {
    /// The browser has spent a link: here is its session.
    Opened(Session),
    /// The request belongs to a session and is for this path of it.
    Inside(Session, String),
}

impl Access {
    pub(super) fn new(own: SocketAddrV4) -> Self {
        let (scheme, allowed) = (Scheme::HTTP, Allowed::default());
        let gate = Gate { names: vec![own.to_string()], scheme, allowed };
        Self { own, gate, known: Mutex::default() }
    }

    /// A new link.
    pub(super) fn link(&self) -> io::Result<Secret> {
        let token = token()?;
        let link = Secret::new(format!("http://{}{OPEN}{}", self.own, token.expose()));
        let mut known = lock(&self.known);
        make_room(&mut known.links);
        known.links.push((token, SystemClock.elapsed() + LINK));
        Ok(link)
    }

    /// Checks whose process has connected.
    pub(super) async fn check_peer(&self, peer: Option<SocketAddr>) -> Result<(), Refusal> {
        let Some(SocketAddr::V4(peer)) = peer else { return Err(OTHER_USER) };
        let own = self.own;
        let user = tokio::task::spawn_blocking(move || user(own, peer)).await.ok().flatten();
        if user == Some(rustix::process::geteuid().as_raw()) {
            Ok(())
        } else {
            tracing::warn!(%peer, ?user, "refused another user at the dashboard");
            Err(OTHER_USER)
        }
    }

    /// Checks a request of a process of this user, and spends the link in it, if there is one.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<Rights, Refusal> {
        self.gate.check_host(request.uri(), request.headers()).map_err(|_| OTHER_HOST)?;
        self.check_site(request)?;
        let path = request.uri().path();
        if let Some(token) = path.strip_prefix(OPEN) {
            return match *request.method() {
                Method::GET if request.headers().contains_key(PURPOSE) => Err(AHEAD),
                Method::GET => self.spend(token).map(Rights::Opened),
                _ => Err(OTHER_METHOD),
            };
        }
        let (id, path) = path.trim_start_matches('/').split_once('/').ok_or(NO_SESSION)?;
        let now = SystemClock.elapsed();
        let known = lock(&self.known);
        let session = known.sessions.iter().find(|one| one.id.expose() == id && now < one.until);
        match session {
            Some(session) if session.has_cookie(request.headers()) => {
                Ok(Rights::Inside(session.clone(), path.to_owned()))
            }
            _ => Err(NO_SESSION),
        }
    }

    /// A page of another origin sends its own `Origin`, and browsers say where a request comes from.
    fn check_site<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        let mut sites = headers.get_all(FETCH_SITE).iter();
        let own_site = sites.all(|site| site == "same-origin" || site == "none");
        let own_origin = match request.method() {
            &Method::GET | &Method::HEAD if !headers.contains_key(ORIGIN) => true,
            _ => self.gate.is_own_origin(headers),
        };
        if own_site && own_origin { Ok(()) } else { Err(OTHER_SITE) }
    }

    fn spend(&self, token: &str) -> Result<Session, Refusal> {
        let now = SystemClock.elapsed();
        let mut known = lock(&self.known);
        let place = known.links.iter().position(|(link, _)| link.expose() == token).ok_or(USED)?;
        let (_, until) = known.links.swap_remove(place);
        if now >= until {
            return Err(USED);
        }
        let random = || self::token().map_err(|_| ENDED);
        let (id, cookie, form) = (random()?, random()?, random()?);
        let session = Session { id, cookie, form, until: now + SESSION };
        known.sessions.retain(|session| now < session.until);
        make_room(&mut known.sessions);
        known.sessions.push(session.clone());
        Ok(session)
    }
}

impl Session {
    /// The path of its page.
    pub(super) fn path(&self) -> String {
        format!("/{}/", self.id.expose())
    }

    pub(super) fn set_cookie(&self) -> String {
        let (cookie, path) = (self.cookie.expose(), self.path());
        format!("{COOKIE_NAME}={cookie}; Path={path}; HttpOnly; SameSite=Strict")
    }

    /// What forms have to bring.
    pub(super) fn form(&self) -> &str {
        self.form.expose()
    }

    /// Checks the content of a form.
    pub(super) fn check_form(&self, form: &[u8]) -> Result<(), Refusal> {
        let mut fields = form.split(|byte| *byte == b'&');
        let token = fields.find_map(|field| field.strip_prefix(b"form="));
        if token == Some(self.form.expose_bytes()) { Ok(()) } else { Err(NO_FORM) }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
        pairs.any(|pair| pair.split_once('=') == Some((COOKIE_NAME, self.cookie.expose())))
    }
}

fn make_room<T>(list: &mut Vec<T>) {
    if list.len() >= MOST {
        list.remove(0);
    }
}

/// What nobody can guess.
fn token() -> io::Result<Secret> {
    let mut bytes = [0; 32];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(Secret::new(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })))
}

#[cfg(target_os = "linux")]
fn user(own: SocketAddrV4, peer: SocketAddrV4) -> Option<u32> {
    keyward_process::sockets::peer_user(own, peer).ok().flatten()
}

#[cfg(not(target_os = "linux"))]
fn user(_own: SocketAddrV4, _peer: SocketAddrV4) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use super::*;

    const HOST: &str = "127.0.0.1:4711";

    fn access() -> Access {
        Access::new(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4711))
    }

    fn get(path: &str, cookie: &str) -> Request<()> {
        Request::get(path).header("host", HOST).header("cookie", cookie).body(()).unwrap()
    }

    fn open(access: &Access, link: &Secret) -> Result<Session, Refusal> {
        let path = link.expose().strip_prefix(&format!("http://{HOST}")).unwrap();
        match access.admit(&get(path, ""))? {
            Rights::Opened(session) => Ok(session),
            Rights::Inside(..) => panic!("it is no session yet"),
        }
    }

    #[test]
    fn a_link_counts_once_and_not_for_long() {
        let access = access();
        let link = access.link().unwrap();
        assert!(open(&access, &link).is_ok());
        assert!(open(&access, &link).is_err_and(|refusal| refusal == USED));
        let late = access.link().unwrap();
        lock(&access.known).links[0].1 = SystemClock.elapsed();
        assert!(open(&access, &late).is_err_and(|refusal| refusal == USED));
        let links: Vec<_> = (0..=MOST).map(|_| access.link().unwrap()).collect();
        assert!(open(&access, &links[0]).is_err(), "it had to make room");
        assert!(links[1..].iter().all(|link| open(&access, link).is_ok()));
    }

    #[test]
    fn a_session_ends() {
        let access = access();
        let session = open(&access, &access.link().unwrap()).unwrap();
        let cookie = session.set_cookie();
        let cookie = format!("a=b; {}", cookie.split(';').next().unwrap());
        let page = || access.admit(&get(&session.path(), &cookie));
        assert!(matches!(page(), Ok(Rights::Inside(_, path)) if path.is_empty()));
        lock(&access.known).sessions[0].until = SystemClock.elapsed();
        assert!(page().is_err_and(|refusal| refusal == NO_SESSION));
    }

    #[test]
    fn a_form_has_one_token_which_is_its_own() {
        let access = access();
        let session = open(&access, &access.link().unwrap()).unwrap();
        let form = |text: String| session.check_form(text.as_bytes()).is_ok();
        assert!(form(format!("form={}", session.form())));
        assert!(form(format!("a=b&form={}", session.form())));
        assert!(!form(format!("form=x&form={}", session.form())), "the first one counts");
        assert!(!form(format!("form={}", session.cookie.expose())));
        assert!(!form("form=".to_owned()) && !form(String::new()));
    }
}
