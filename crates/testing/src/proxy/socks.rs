//! SOCKS5 (RFC 1928), with user name and password (RFC 1929).

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Shared, carry};

const VERSION: u8 = 5;
const OPEN: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

const DONE: u8 = 0;
const REFUSED: u8 = 5;
const NO_COMMAND: u8 = 7;
const NO_ADDRESS: u8 = 8;

pub(super) async fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    if !greet(shared, &mut client).await? {
        return client.shutdown().await;
    }
    let [version, command, _, kind] = read(&mut client).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Ipv4Addr::from(read(&mut client).await?).to_string(),
        3 => text(&mut client).await?,
        4 => Ipv6Addr::from(read::<16>(&mut client).await?).to_string(),
        _ => return refuse(client, NO_ADDRESS).await,
    };
    let port = u16::from_be_bytes(read(&mut client).await?);
    if command != CONNECT {
        return refuse(client, NO_COMMAND).await;
    }
    let Ok(server) = shared.connect(&host, port).await else {
        return refuse(client, REFUSED).await;
    };
    client.write_all(&reply(DONE)).await?;
    carry(client, server).await
}

/// Agrees on who the client is. Whether it may go on.
async fn greet(shared: &Shared, client: &mut TcpStream) -> io::Result<bool> {
    let [version, count] = read(client).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    let wanted = if shared.password.is_some() { PASSWORD } else { OPEN };
    if !methods.contains(&wanted) {
        shared.allows(None);
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(false);
    }
    client.write_all(&[VERSION, wanted]).await?;
    if wanted == OPEN {
        return Ok(true);
    }
    let [_version] = read(client).await?;
    let (user, password) = (text(client).await?, text(client).await?);
    let allowed = shared.allows(Some((&user, &password)));
    client.write_all(&[1, u8::from(!allowed)]).await?;
    Ok(allowed)
}

async fn refuse(mut client: TcpStream, reason: u8) -> io::Result<()> {
    client.write_all(&reply(reason)).await?;
    client.shutdown().await
}

/// An answer; the address in it, which clients do not use, is none.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A text with its length before it.
async fn text(client: &mut TcpStream) -> io::Result<String> {
    let [length] = read(client).await?;
    let mut bytes = vec![0; usize::from(length)];
    client.read_exact(&mut bytes).await?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}
