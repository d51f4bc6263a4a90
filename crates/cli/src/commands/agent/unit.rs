//! `keyward agent install-unit`: lets the session manager run the user's agent, or systemd the node's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::client::{Whose, own_program};
use crate::{failure::Failure, globals::Globals, output, trusted};

/// Write a unit for the session manager, so that the agent outlives the terminal that started it
///
/// Without one, the first client that needs the agent starts it. The unit is a systemd user
/// service; it is written but not enabled. With `--system`, two units of the node's systemd are
/// written: the socket, and the agent that the first connection starts.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the unit instead of writing it
    #[arg(long)]
    dry_run: bool,
}

/// Where an administrator's units are.
const SYSTEM: &str = "/etc/systemd/system";

pub(super) fn run(args: &Args, whose: Whose, globals: &Globals) -> Result<(), Failure> {
    let program = own_program()?;
    let program = program
        .to_str()
        .filter(|path| !path.contains(char::is_control))
        .ok_or_else(|| Failure::failed("the path of this program is not UTF-8"))?;
    if whose == Whose::Node {
        trusted::program(Path::new(program), globals)?;
        return node(args, program);
    }
    let home = globals.surroundings.home().ok_or_else(|| Failure::failed("set `HOME`"))?;
    let config = globals.surroundings.var("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|path| path.is_absolute()).unwrap_or(home.join(".config"));
    let path = config.join("systemd/user/keyward-agent.service");
    let text = systemd(program);
    if args.dry_run {
        return output::print(&text);
    }
    write(&path, &text)?;
    let next = "systemctl --user enable --now keyward-agent";
    output::tell(&format!("wrote `{}`\nnext: `{next}`\n", path.display()));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written =
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| Failure::failed(format!("cannot write `{}`: {error}", path.display())))
}

/// The units of the node's agent. They are printed as `systemctl cat` prints units.
fn node(args: &Args, program: &str) -> Result<(), Failure> {
    let units = [("socket", NODE_SOCKET.to_owned()), ("service", node_service(program))];
    let units = units.map(|(kind, text)| (format!("{SYSTEM}/keyward-agent.{kind}"), text));
    if args.dry_run {
        return output::print(&units.map(|(path, text)| format!("# {path}\n{text}")).join("\n"));
    }
    for (path, text) in &units {
        write(Path::new(path), text)?;
        output::tell(&format!("wrote `{path}`\n"));
    }
    let next = "systemctl daemon-reload && systemctl enable --now keyward-agent.socket";
    output::tell(&format!("next: `{next}`\n"));
    Ok(())
}

/// systemd keeps the socket, so a client that connects while no agent runs waits for the next one.
const NODE_SOCKET: &str = "\
[Unit]
Description=Socket of Keyward's agent for this node

[Socket]
ListenStream=/run/keyward/agent.sock
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
";

/// Has no option that gives the agent a mount namespace of its own, such as `PrivateTmp`: the agent serves only
/// processes in its own namespaces.
fn node_service(program: &str) -> String {
    let program = quoted(program);
    format!(
        "[Unit]\n\
         Description=Keyward's agent for this node: logins for images in memory\n\
         Requires=keyward-agent.socket\n\
         After=keyward-agent.socket\n\
         \n\
         [Service]\n\
         ExecStart={program} agent --system\n\
         StandardInput=socket\n\
         StandardOutput=journal\n\
         StandardError=journal\n\
         Restart=on-failure\n\
         LimitCORE=0\n\
         MemorySwapMax=0\n\
         NoNewPrivileges=yes\n\
         RestrictAddressFamilies=AF_UNIX\n\
         UMask=0077\n"
    )
}

/// A path as one word of a unit.
fn quoted(program: &str) -> String {
    let program = program.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{program}\"")
}

/// Not part of the terminal's or the desktop's unit, so that it does not end with them. An agent that
/// is replaced tells systemd which process continues its work.
fn systemd(program: &str) -> String {
    let program = quoted(program);
    format!(
        "[Unit]\n\
         Description=Keyward's agent: Kubernetes credentials in memory\n\
         \n\
         [Service]\n\
         ExecStart={program} agent\n\
         Restart=on-failure\n\
         NotifyAccess=main\n\
         LimitCORE=0\n\
         MemorySwapMax=0\n\
         NoNewPrivileges=yes\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_odd_characters_stays_one_word() {
        assert!(systemd("/a b/k%y\"").contains("ExecStart=\"/a b/k%%y\\\"\" agent\n"));
        assert!(
            node_service("/a b/k%y\"").contains("ExecStart=\"/a b/k%%y\\\"\" agent --system\n")
        );
    }
}
