//! Tells systemd which process serves. It would otherwise take the end of the old agent for the end of
//! the service, and end the new one too.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// Names the main process of the service. `socket` is the value of `NOTIFY_SOCKET`.
pub(super) fn set_main_process(socket: &OsStr, pid: i32) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // The agent waits for nobody.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(format!("MAINPID={pid}").as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_process_is_named_at_a_path_and_at_an_abstract_address() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = path.to_str().unwrap();
        let abstract_name = SocketAddr::from_abstract_name(name).unwrap();
        for (receiver, told) in [
            (UnixDatagram::bind(&path).unwrap(), name.to_owned()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ] {
            set_main_process(told.as_ref(), 42).unwrap();
            let mut bytes = [0; 64];
            let count = receiver.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"MAINPID=42");
        }
    }
}
