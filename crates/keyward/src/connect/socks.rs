//! SOCKS 5: RFC 1928 with the user names and passwords of RFC 1929.

use std::net::IpAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::proxy::{Login, Refusal};

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const WITH_LOGIN: u8 = 2;
const CONNECT: u8 = 1;
const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;

/// Asks the proxy on `stream` for a connection to `host`. The proxy resolves names.
pub(super) async fn connect(
    mut stream: TcpStream,
    host: &str,
    port: u16,
    login: Option<&Login>,
) -> Result<TcpStream, Refusal> {
    let hello: &[u8] = match login {
        None => &[VERSION, 1, NO_LOGIN],
        Some(_) => &[VERSION, 2, NO_LOGIN, WITH_LOGIN],
    };
    stream.write_all(hello).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, WITH_LOGIN], Some(login)) => authenticate(&mut stream, login).await?,
        ([VERSION, _], _) => return Err(Refusal::Login),
        _ => return Err(Refusal::Other("does not speak SOCKS 5".into())),
    }

    stream.write_all(&request(host, port)?).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    if answer[1] != 0 {
        return Err(Refusal::Other(reason(answer[1])));
    }
    // The proxy's own address is of no interest, but has to be read.
    let length = match answer[3] {
        V4 => 4,
        V6 => 16,
        NAME => usize::from(stream.read_u8().await?),
        _ => return Err(Refusal::Other("gave an address of no known kind".into())),
    };
    let mut bound = vec![0; length + 2];
    stream.read_exact(&mut bound).await?;
    Ok(stream)
}

async fn authenticate(stream: &mut TcpStream, login: &Login) -> Result<(), Refusal> {
    let too_long = |_| Refusal::Other("cannot take a user name or password this long".into());
    let password = login.password.expose();
    let mut message = zeroize::Zeroizing::new(vec![1]);
    message.push(u8::try_from(login.user.len()).map_err(too_long)?);
    message.extend_from_slice(login.user.as_bytes());
    message.push(u8::try_from(password.len()).map_err(too_long)?);
    message.extend_from_slice(password.as_bytes());
    stream.write_all(&message).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match answer[1] {
        0 => Ok(()),
        _ => Err(Refusal::Login),
    }
}

fn request(host: &str, port: u16) -> Result<Vec<u8>, Refusal> {
    let mut request = vec![VERSION, CONNECT, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            request.push(V4);
            request.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(V6);
            request.extend(address.octets());
        }
        Err(_) => {
            let length = u8::try_from(host.len())
                .map_err(|_| Refusal::Other("cannot take a name this long".into()))?;
            request.extend([NAME, length]);
            request.extend(host.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

fn reason(code: u8) -> String {
    match code {
        1 => "failed".into(),
        2 => "does not allow the connection".into(),
        3 => "cannot reach the network".into(),
        4 => "cannot reach the host".into(),
        5 => "was refused by the host".into(),
        6 => "gave up waiting for the host".into(),
        7 => "does not know the command".into(),
        8 => "does not know the kind of address".into(),
        code => format!("answered {code}"),
    }
}
