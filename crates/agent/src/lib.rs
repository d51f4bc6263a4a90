//! The agent: one login shared by all processes of a user.
//!
//! `keyward wrap` puts `keyward-exec --` in front of the plugin commands of a kubeconfig and
//! registers each of them as an [`Entry`](entry::Entry). The agent keeps the credentials of registered
//! commands in memory, each under the key of its identity ([`Selected`](identity::Selected)), and hands
//! them to every process that asks for the same identity.

#![cfg(unix)]

pub mod entry;
pub mod identity;
pub mod wrap;
