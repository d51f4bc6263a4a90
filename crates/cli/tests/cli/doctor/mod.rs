//! `keyward doctor`: healthy setups, broken setups, and what it never shows.

mod broken;
mod report;
mod scene;
mod setups;
