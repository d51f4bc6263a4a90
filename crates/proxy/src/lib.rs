//! A local proxy for Kubernetes clients: kubectl, helm and k9s send plain requests, the proxy adds the
//! credentials.
//!
//! ```text
//! client ──TLS, own certificate──► server ──► gate ──► forward ──► keyward::Client ──► API server
//!                                    │                   └──► tunnel (exec, port-forward)
//!                  port, certificate ──► context ──► route ◄── reload
//! ```
//!
//! Each context has its own address, which `ports` remembers. `reload` gives it a new route when
//! the kubeconfig or the plugin policy changes. `certificates` creates the certificates of one
//! start, `kubeconfig` writes them for clients into the `directory`, and `admin` answers its owner.
#![cfg_attr(
    unix,
    doc = r#"
[`Proxy::start`] needs a [`Config`] to read and [`Options`]; the [`Proxy`] serves until it is dropped.

```no_run
use std::sync::Arc;
use keyward_proxy::{Config, Options, Proxy};

# async fn example(config: Arc<dyn Config>) -> Result<(), keyward_proxy::Error> {
let mut proxy = Proxy::start(&Options::default(), config).await?;
println!("export KUBECONFIG={}", proxy.kubeconfig().display());
proxy.wait_until_idle(std::time::Duration::from_secs(3600)).await;
proxy.drain();
proxy.finished().await;
# Ok(())
# }
```
"#
)]
#![cfg(unix)]

mod activity;
mod admin;
mod audience;
mod body;
mod certificates;
mod config;
mod connection_limit;
mod context;
mod dashboard;
mod directory;
mod error;
mod forward;
mod gate;
pub mod grants;
mod growth;
mod http_server;
mod kube_status;
mod kubeconfig;
mod metrics;
mod metrics_server;
mod names;
mod ports;
mod proxy;
mod refusal;
mod reload;
mod report;
mod request_stats;
mod route;
mod server;
mod service;
mod service_kubeconfig;
mod site;
mod socket;
mod tunnel;

pub use self::{
    config::Config,
    directory::{Running, running},
    error::{Error, Kind},
    gate::Allowed,
    metrics_server::MetricsServer,
    proxy::{Clients, Contexts, Options, Proxy},
    service::{Service, ServiceSettings},
};
