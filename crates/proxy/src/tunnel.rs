//! An upgraded connection: copies bytes both ways until both sides have ended.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;

use crate::{
    context::ServedContext,
    grants::{self, Connected},
    request_stats::{OpenRequest, RequestStats},
};

/// The buffer for each direction: a large one saves system calls in long copies, and there are few
/// tunnels.
const BUFFER: usize = 64 * 1024;

/// Connects both sides once each has upgraded. If one side stops sending, the other is told and may
/// continue to send. A stream under a grant ends with it.
pub(crate) fn open(
    context: &ServedContext,
    protocol: &'static str,
    (client, upstream): (OnUpgrade, OnUpgrade),
    request: OpenRequest,
    grant: Option<Connected>,
) {
    let tunnel = OpenTunnel::begin(&context.stats, protocol);
    let context = context.name.clone();
    tokio::spawn(async move {
        let _both = (tunnel, request);
        let grant = grant.as_ref().map(|connected| &connected.0);
        let joined = tokio::select! {
            () = grants::ended(grant) => Err(io::Error::other("the grant has ended")),
            joined = join(client, upstream) => joined,
        };
        match joined {
            Ok((sent, received)) => {
                tracing::info!(context, protocol, sent, received, "a stream ended");
            }
            // A peer that leaves early is no news.
            Err(error) => tracing::debug!(context, protocol, %error, "a stream broke off"),
        }
    });
}

async fn join(client: OnUpgrade, server: OnUpgrade) -> io::Result<(u64, u64)> {
    let (client, server) = tokio::try_join!(client, server).map_err(io::Error::other)?;
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await
}

/// Counts a tunnel while it is open.
struct OpenTunnel(Arc<RequestStats>);

impl OpenTunnel {
    fn begin(stats: &Arc<RequestStats>, protocol: &str) -> Self {
        let kind = if protocol == "websocket" { &stats.websocket } else { &stats.spdy };
        kind.fetch_add(1, Ordering::Relaxed);
        stats.tunnels.fetch_add(1, Ordering::Relaxed);
        Self(stats.clone())
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        self.0.tunnels.fetch_sub(1, Ordering::Relaxed);
    }
}
