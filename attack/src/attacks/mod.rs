//! All attacks, by what they go for. `docs/attacks.md` has a line for each.

mod files;
mod framing;
mod held;
mod limits;
mod names;
mod parsing;
mod proxy;
mod runner;
mod secrets;
mod tls;
mod trust;

use crate::Attack;

/// Every attack, in the order of the groups.
pub fn all() -> Vec<Attack> {
    let groups = [
        trust::ALL,
        secrets::ALL,
        files::ALL,
        parsing::ALL,
        proxy::ALL,
        runner::ALL,
        tls::ALL,
        names::ALL,
        limits::ALL,
        framing::ALL,
        held::ALL,
    ];
    groups.into_iter().flatten().map(|(id, what, run)| attack(id, what, *run)).collect()
}

/// A line of a group's table: id, what is attempted, how.
type Line = (&'static str, &'static str, fn(&crate::stage::Stage) -> crate::Outcome);

/// An id that ends in `+` takes minutes and is left out of the short run.
fn attack(
    id: &'static str,
    what: &'static str,
    run: fn(&crate::stage::Stage) -> crate::Outcome,
) -> Attack {
    let long = id.strip_suffix('+');
    Attack { id: long.unwrap_or(id), what, short: long.is_none(), run }
}
