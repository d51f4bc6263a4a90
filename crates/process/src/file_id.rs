use std::{fs::Metadata, io, path::Path};

/// Identifies a file and its state: a file that was replaced or rewritten has another id.
///
/// The [`trust`](crate::trust) check looks at a file, and later a path is run. Nobody else can change
/// what was found good in between; comparing ids notices what we or root did ourselves, such as
/// an upgrade. Running an open descriptor instead would change what a script sees as its own path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileId {
    /// The id of the file behind `path`, links followed.
    pub fn read(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// The id as bytes, for digests that cover it. They differ between ids and stay the same
    /// for one.
    pub fn to_bytes(&self) -> [u8; 56] {
        let Self { place, size, modified, changed } = self;
        let parts = [
            place.0.to_le_bytes(),
            place.1.to_le_bytes(),
            size.to_le_bytes(),
            modified.0.to_le_bytes(),
            modified.1.to_le_bytes(),
            changed.0.to_le_bytes(),
            changed.1.to_le_bytes(),
        ];
        let mut bytes = [0; 56];
        bytes.iter_mut().zip(parts.as_flattened()).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Whether every change after `now` (seconds since 1970) gives the file another id. One that
    /// changed a moment ago can be rewritten within the same tick of the file system's clock, and then
    /// shows the same times.
    pub fn is_settled(&self, now: i64) -> bool {
        const TICK: i64 = 3;
        cfg!(unix) && self.changed.0.saturating_add(TICK) < now
    }

    /// Whether this file was put in the place of another one by renaming, and not written since: renaming
    /// touches a file after its last byte was written.
    pub fn was_renamed_over(&self, old: &Self) -> bool {
        self.place != old.place && self.changed > self.modified
    }

    /// When the content or the name changed last: seconds and nanoseconds since 1970.
    pub fn touched(&self) -> (i64, i64) {
        self.modified.max(self.changed)
    }

    /// The id of a file that was looked at already.
    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            place: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The id of a file that was looked at already.
    #[cfg(not(unix))]
    pub fn of(metadata: &Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .unwrap_or_default();
        Self {
            place: (0, 0),
            size: metadata.len(),
            modified: (
                i64::try_from(modified.as_secs()).unwrap_or(i64::MAX),
                i64::from(modified.subsec_nanos()),
            ),
            changed: (0, 0),
        }
    }
}
