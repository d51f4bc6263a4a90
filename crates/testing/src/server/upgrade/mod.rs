//! Connections that leave HTTP: commands, attaching and ports of pods, over WebSocket and SPDY.

mod spdy;
mod streams;
mod websocket;

use std::{io, sync::Arc};

use http::{HeaderMap, Request, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    Body, Connection, Shared,
    answer::{Answer, failure, set},
    api::query::Query,
    pod::exec::{Order, Words},
};

const V4: &str = "v4.channel.k8s.io";
const V5: &str = "v5.channel.k8s.io";
const FORWARD: &str = "portforward.k8s.io";
const FORWARD_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// What is wanted of the pod.
#[derive(Debug)]
enum Job {
    Command(Order),
    Forward(Vec<u16>),
}

/// How it is talked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    /// Messages that begin with the number of a channel.
    Channels,
    /// SPDY inside of messages.
    Tunnel,
    Spdy,
}

/// The part of a pod that is asked for, and in which words.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) part: Part,
    pub(crate) words: Words,
}

/// What of a pod can be upgraded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Exec,
    Attach,
    Forward,
}

/// Answers a request for a command, for attaching to or for a port of a pod that is there.
pub(crate) fn answer(
    shared: &Arc<Shared>,
    connection: Arc<Connection>,
    wish: &Wish<'_>,
    mut request: Request<Incoming>,
) -> Answer {
    let query = Query::read(request.uri());
    let job = match wish.part {
        Part::Forward => Job::Forward(
            query.all("ports").flat_map(|list| list.split(',')).flat_map(str::parse).collect(),
        ),
        _ if !shared.commands => {
            return failure(StatusCode::FORBIDDEN, "this server was not set up to run commands");
        }
        part => {
            let mut order = Order::read(&query, wish.words, wish.namespace, wish.pod);
            if part == Part::Attach {
                order.command.clear();
            } else if order.command.is_empty() {
                return failure(StatusCode::BAD_REQUEST, "you must specify at least 1 command");
            }
            Job::Command(order)
        }
    };
    let (transport, answer) = match agree(request.headers(), &job) {
        Ok(agreed) => agreed,
        Err(message) => return failure(StatusCode::BAD_REQUEST, message),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let shared = shared.clone();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let io = TokioIo::new(upgraded);
        let work = async {
            match (transport, job) {
                (Transport::Channels, Job::Command(order)) => {
                    websocket::command(&shared, &order, io).await
                }
                (Transport::Channels, Job::Forward(ports)) => {
                    websocket::forward(&shared, &ports, io).await
                }
                (Transport::Tunnel, job) => {
                    let (inner, tunnel) = websocket::tunnel(io);
                    let (done, ()) = tokio::join!(streams::serve(&shared, job, inner), tunnel);
                    done
                }
                (Transport::Spdy, job) => streams::serve(&shared, job, io).await,
            }
        };
        tokio::select! {
            () = connection.ended() => {}
            // A client that leaves in the middle is no news.
            _ = work => {}
        }
    });
    answer
}

/// Chooses the first protocol of ours that the client offers.
fn agree(headers: &HeaderMap, job: &Job) -> Result<(Transport, Answer), &'static str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let offered = |name: &str| -> Vec<&str> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|list| list.split(',')).map(str::trim).collect()
    };
    let wanted = text("upgrade").ok_or("Upgrade request required")?;
    let mut answer = Answer::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    set(&mut answer, header::CONNECTION, "Upgrade");
    if wanted.eq_ignore_ascii_case("websocket") {
        let key = text("sec-websocket-key").ok_or("the WebSocket key is missing")?;
        let offered = offered("sec-websocket-protocol");
        let ours: &[_] = match job {
            Job::Command(_) => &[V5, V4],
            Job::Forward(_) => &[FORWARD_TUNNEL, V4],
        };
        let agreed = ours.iter().find(|protocol| offered.contains(protocol));
        let agreed = *agreed.ok_or("none of the offered protocols is known")?;
        set(&mut answer, header::UPGRADE, "websocket");
        set(&mut answer, header::SEC_WEBSOCKET_ACCEPT, &derive_accept_key(key.as_bytes()));
        set(&mut answer, header::SEC_WEBSOCKET_PROTOCOL, agreed);
        let tunnel = agreed == FORWARD_TUNNEL;
        return Ok((if tunnel { Transport::Tunnel } else { Transport::Channels }, answer));
    }
    if wanted.eq_ignore_ascii_case("spdy/3.1") {
        let ours = match job {
            Job::Command(_) => V4,
            Job::Forward(_) => FORWARD,
        };
        if !offered(STREAM_PROTOCOL).contains(&ours) {
            return Err("none of the offered protocols is known");
        }
        set(&mut answer, header::UPGRADE, "SPDY/3.1");
        set(&mut answer, header::HeaderName::from_static(STREAM_PROTOCOL), ours);
        return Ok((Transport::Spdy, answer));
    }
    Err("the wanted protocol is not known")
}

/// The end of a session, which is the client's leave or ours.
type Done = io::Result<()>;
