//! `keyward proxy dashboard`.

mod access;
mod chromium;
mod look;
mod scene;
