//! Reads files without end in sight: never more than fits, and never waiting for ever.
//!
//! A kubeconfig may come from a stranger, and the files it names may be anything: a pipe nobody
//! writes to, a device that never ends.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
};

use zeroize::Zeroizing;

/// More than any configuration: a kubeconfig of ten thousand contexts has some 30 MiB.
const LARGEST: u64 = 256 << 20;

/// The content of a file that a person named, such as a kubeconfig. A pipe is waited for: it may be
/// one that a shell has put there.
pub(crate) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    whole(&File::open(path)?, LARGEST)
}

/// The content of a file that a configuration names. A pipe or a device has little time and little
/// room.
pub(crate) fn read_named(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = open_named(path)?;
    if file.metadata()?.is_file() { whole(&file, LARGEST) } else { odd::read(&file) }
}

/// Opens a file that a configuration names; a pipe that nobody writes to is open at once.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    odd::open(path)
}

fn whole(file: &File, most: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    // Enough room at once: a buffer that grows leaves copies behind. Within reason, for not every
    // file is as large as it says.
    let room = usize::try_from(size.min(64 << 20)).unwrap_or(0) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let read = file.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// What is no plain file.
#[cfg(unix)]
mod odd {
    use std::{fs::File, io, io::ErrorKind, path::Path, time::Duration};

    use rustix::{
        buffer::spare_capacity,
        event::{PollFd, PollFlags, poll},
        fs::{Mode, OFlags},
        io::Errno,
    };
    use zeroize::Zeroizing;

    use crate::clock::{Clock, SystemClock};

    /// More than a bundle of all the authorities there are.
    const ROOM: usize = 1 << 20;
    /// Whoever writes to a pipe may have to ask a person first.
    const PATIENCE: Duration = Duration::from_secs(30);

    pub(super) fn open(path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    pub(super) fn read(file: &File) -> io::Result<Zeroizing<Vec<u8>>> {
        let until = SystemClock.elapsed() + PATIENCE;
        let mut bytes = Zeroizing::new(Vec::with_capacity(ROOM));
        while bytes.len() < bytes.capacity() {
            match rustix::io::read(file, spare_capacity(&mut bytes)) {
                Ok(0) => return Ok(bytes),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = until.saturating_sub(SystemClock.elapsed());
                    if left.is_zero() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    let _ = poll(
                        &mut [PollFd::new(file, PollFlags::IN)],
                        left.try_into().ok().as_ref(),
                    );
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(ErrorKind::FileTooLarge.into())
    }
}

#[cfg(not(unix))]
mod odd {
    use std::{fs::File, io, path::Path};

    use zeroize::Zeroizing;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn read(file: &File) -> io::Result<Zeroizing<Vec<u8>>> {
        super::whole(file, super::LARGEST)
    }
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::{fs, io::Write, thread};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (folder, path)
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_empty() {
        let (_folder, path) = pipe();
        assert_eq!(read_named(&path).unwrap().len(), 0);
        assert!(open_named(&path).is_ok());
    }

    #[test]
    fn what_is_written_to_a_pipe_is_read_to_its_end() {
        let (_folder, path) = pipe();
        // A reader first: without one, nobody could write.
        let _reader = open_named(&path).unwrap();
        let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let late = thread::spawn(move || writer.write_all(&vec![b'x'; 200_000]).unwrap());
        assert_eq!(read_named(&path).unwrap().len(), 200_000);
        late.join().unwrap();
    }

    #[test]
    fn a_device_without_end_is_too_large() {
        let error = read_named("/dev/zero".as_ref()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_named("/dev/null".as_ref()).unwrap().len(), 0);
    }

    #[test]
    fn nothing_is_read_beyond_the_limit() {
        let endless = File::open("/dev/zero").unwrap();
        assert_eq!(whole(&endless, 5000).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [b'x'; 5000]).unwrap();
        assert_eq!(whole(file.as_file(), 5000).unwrap().len(), 5000);
        assert_eq!(read(file.path()).unwrap().len(), 5000);
    }

    #[test]
    fn a_folder_is_no_file() {
        assert_eq!(read_named("/".as_ref()).unwrap_err().kind(), ErrorKind::IsADirectory);
    }
}
