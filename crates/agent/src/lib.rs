//! The agent: one login shared by all processes of a user.
//!
//! `keyward wrap` puts `keyward-exec --` in front of the plugin commands of a kubeconfig and
//! registers each of them. The agent keeps the credentials of registered commands in memory and
//! hands them to every process that asks for the same identity.
