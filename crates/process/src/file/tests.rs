#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, io::Write, path::PathBuf, sync::mpsc, thread};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

fn pipe() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    (directory, path)
}

#[test]
fn a_pipe_that_nobody_writes_to_is_an_error_and_not_empty() {
    let (_directory, path) = pipe();
    let limits = Limits::NAMED.within(Duration::from_millis(50));
    assert_eq!(read(&path, &limits).unwrap_err().kind(), ErrorKind::TimedOut);
    readable(&path).unwrap();
    let error = read(&path, &Limits::NAMED.regular()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_pipe_whose_writer_comes_late_is_read_to_its_end() {
    let (_directory, path) = pipe();
    let file = open(&path).unwrap();
    let (started, begun) = mpsc::channel();
    let reader = thread::spawn(move || {
        started.send(()).unwrap();
        read_open(&file, &Limits::NAMED).unwrap().to_vec()
    });
    begun.recv().unwrap();
    let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(&vec![b'x'; 200_000]).unwrap();
    drop(writer);
    assert_eq!(reader.join().unwrap().len(), 200_000);
}

#[test]
fn a_pipe_whose_writer_came_and_wrote_nothing_is_empty() {
    let (_directory, path) = pipe();
    let file = open(&path).unwrap();
    drop(fs::OpenOptions::new().write(true).open(&path).unwrap());
    assert_eq!(read_open(&file, &Limits::NAMED).unwrap().len(), 0);
    // As from a shell: a pipe that ended before we opened it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    assert_eq!(read(path.as_ref(), &Limits::NAMED).unwrap().len(), 0);
}

#[test]
fn a_pipe_that_is_never_closed_is_given_up() {
    let (_directory, path) = pipe();
    let file = open(&path).unwrap();
    let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(b"half").unwrap();
    let limits = Limits::NAMED.within(Duration::from_millis(50));
    assert_eq!(read_open(&file, &limits).unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn looking_whether_a_pipe_is_readable_does_not_break_its_writer() {
    let (_directory, path) = pipe();
    readable(&path).unwrap();
    // Had we been its reader for a moment, a writer would be let in and find nobody.
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    assert!(rustix::fs::open(&path, flags, Mode::empty()).is_err());
}

#[test]
fn a_device_without_end_is_too_large() {
    for limits in [Limits::NAMED, Limits::GIVEN] {
        let error = read("/dev/zero".as_ref(), &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
    assert_eq!(read("/dev/null".as_ref(), &Limits::NAMED).unwrap().len(), 0);
}

#[test]
fn nothing_is_read_beyond_the_limit() {
    let limits = Limits::NAMED.at_most(5000);
    let endless = open("/dev/zero".as_ref()).unwrap();
    assert_eq!(read_open(&endless, &limits).unwrap_err().kind(), ErrorKind::FileTooLarge);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [b'x'; 5000]).unwrap();
    assert_eq!(read(file.path(), &limits).unwrap().len(), 5000);
    fs::write(file.path(), [b'x'; 5001]).unwrap();
    let error = read(file.path(), &limits).unwrap_err();
    assert_eq!(error.to_string(), "it is larger than 5000 bytes");
    // A file that says nothing of its length, as those of `/proc`.
    assert!(!read("/proc/self/status".as_ref(), &limits).unwrap().is_empty());
}

#[test]
fn a_directory_is_no_file() {
    assert_eq!(read("/".as_ref(), &Limits::NAMED).unwrap_err().kind(), ErrorKind::IsADirectory);
}
