//! How large arguments and environment may be, checked before the system is asked to start a program.

use std::ffi::OsStr;

use super::{Failure, Invocation, Part};

/// Fails when a string contains NUL, is larger than the system takes, or all together are.
///
/// Without this a program with too large an environment fails to start with "argument list too
/// long", which names neither the variable nor the field of the kubeconfig that filled it.
pub(super) fn check(invocation: &Invocation) -> Result<(), Failure> {
    let mut total = Total::default();
    total.path(invocation.program.as_os_str())?;
    total.add(invocation.name.len(), &[&invocation.name], || Part::Argument(0))?;
    for (index, arg) in invocation.args.iter().enumerate() {
        total.add(arg.len(), &[arg], || Part::Argument(index + 1))?;
    }
    for (name, value) in &invocation.env {
        let size = name.len() + "=".len() + value.len();
        total.add(size, &[name, value], || Part::Variable(name.to_string_lossy().into_owned()))?;
    }
    total.check()
}

/// The failure for a system that found the strings too big although [`check`] did not.
#[cfg(unix)]
pub(super) fn too_big(invocation: &Invocation) -> Failure {
    let args = invocation.args.iter().map(|arg| arg.len() + 1);
    let env = invocation.env.iter().map(|(n, v)| n.len() + v.len() + 2);
    Failure::TooBig {
        part: Part::Everything,
        size: invocation.name.len() + 1 + args.sum::<usize>() + env.sum::<usize>(),
        limit: system::total(),
    }
}

#[derive(Default)]
struct Total {
    bytes: usize,
    strings: usize,
}

impl Total {
    fn path(&mut self, path: &OsStr) -> Result<(), Failure> {
        // The kernel keeps a copy of it on the new stack.
        self.bytes += path.len() + 1;
        if has_nul(path) { Err(Failure::Nul(Part::Program)) } else { Ok(()) }
    }

    fn add(
        &mut self,
        size: usize,
        texts: &[&OsStr],
        part: impl Fn() -> Part,
    ) -> Result<(), Failure> {
        if texts.iter().any(|text| has_nul(text)) {
            return Err(Failure::Nul(part()));
        }
        let (size, limit) = (size + 1, system::single());
        if size > limit {
            return Err(Failure::TooBig { part: part(), size, limit });
        }
        self.bytes += size;
        self.strings += 1;
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let size = self.bytes + self.strings * size_of::<usize>();
        let limit = system::total();
        if size <= limit {
            return Ok(());
        }
        Err(Failure::TooBig { part: Part::Everything, size, limit })
    }
}

fn has_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::{Resource, getrlimit};

    /// `MAX_ARG_STRLEN`: 32 pages for one string with its end.
    pub(super) fn single() -> usize {
        32 * rustix::param::page_size()
    }

    /// A quarter of the stack, at least 128 KiB, at most 6 MiB; strings and their pointers.
    pub(super) fn total() -> usize {
        const MOST: u64 = 6 << 20;
        let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
        let limit = (stack / 4).clamp(128 << 10, MOST);
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

/// `ARG_MAX` of macOS and the BSDs, which know no smaller limit for one string.
#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    pub(super) fn single() -> usize {
        total()
    }

    pub(super) fn total() -> usize {
        1 << 20
    }
}

#[cfg(not(unix))]
mod system {
    pub(super) fn single() -> usize {
        32_767
    }

    pub(super) fn total() -> usize {
        usize::MAX
    }
}
