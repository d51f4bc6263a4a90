//! The agent as a service of a real `systemd --user`: started, killed, replaced by a new version and
//! stopped. The node's agent is run by the same manager, which is root's here.

use std::{error::Error, path::Path};

use super::scene::{PLUGIN, Scene, request};
use crate::verdict::Verdict;

/// Where systemd is.
const MANAGER: &str = "/lib/systemd/systemd";

/// In a mount namespace of its own, because systemd starts only where the system seems to have been
/// started by it. Says what it has seen, and fails with what it waits for.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
"$MANAGER" --user --log-target=console >"$HOME/systemd.log" 2>&1 &
manager=$!
trap 'kill $manager; wait $manager || true' EXIT
wait_for() {
  rounds=0
  until "$@"; do
    rounds=$((rounds + 1))
    if [ $rounds -gt 600 ]; then
      echo "it never came true: $*" >&2
      cat "$HOME/systemd.log" >&2
      exit 1
    fi
    sleep 0.1
  done
}
answers() { systemctl --user list-units >/dev/null 2>&1; }
main() { systemctl --user show keyward-agent --property MainPID --value; }
serving() { "$BIN/keyward" agent status -o json 2>/dev/null | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p'; }
is_served_by_another() {
  now=$(serving)
  [ -n "$now" ] && [ "$now" != "$1" ] && [ "$now" = "$(main)" ]
}
is_answered() { "$BIN/keyward-exec" -- sh "$PLUGIN" | grep -q t0ken; }
wait_for answers
"$BIN/keyward" agent install-unit 2>/dev/null
systemctl --user enable --quiet --now keyward-agent
wait_for is_served_by_another 0
is_answered
first=$now
kill -9 "$first"
wait_for is_served_by_another "$first"
is_answered
second=$now
for program in keyward keyward-agent keyward-exec; do
  cp "$BIN/$program" "$BIN/new"
  mv "$BIN/new" "$BIN/$program"
done
wait_for is_served_by_another "$second"
is_answered
systemctl --user is-active --quiet keyward-agent
[ "$(systemctl --user show keyward-agent --property NRestarts --value)" = 1 ]
systemctl --user stop keyward-agent
[ -z "$(serving)" ]

units="$HOME/.config/systemd/user"
"$BIN/keyward" agent install-unit --system --dry-run |
  awk -v units="$units" '/^# \// { n = split($2, part, "/"); file = units "/" part[n]; printf "" >file; next }
    { print >file }'
systemctl --user daemon-reload
systemctl --user enable --quiet --now keyward-agent.socket
serving() { "$BIN/keyward" agent status --system -o json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p'; }
# Each client waits for the agent that it makes systemd start.
first=$(serving)
[ "$first" = "$(main)" ]
kill -9 "$first"
second=$(serving)
[ -n "$second" ] && [ "$second" != "$first" ]
"$BIN/keyward" agent stop --system
third=$(serving)
[ -n "$third" ] && [ "$third" != "$second" ]
for program in keyward keyward-agent; do
  cp "$BIN/$program" "$BIN/new"
  mv "$BIN/new" "$BIN/$program"
done
wait_for is_served_by_another "$third"
systemctl --user stop keyward-agent.socket keyward-agent.service
[ ! -e /run/keyward/agent.sock ]
"#;

pub(super) fn soak() -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let scene = Scene::new(PLUGIN)?;
    scene.register("", Vec::new())?;
    let mut command = scene.command(Path::new("/usr/bin/unshare"));
    command.args(["--mount", "sh", "-c", SCRIPT]);
    command.env("MANAGER", MANAGER).env("BIN", scene.path("bin"));
    command.env("PLUGIN", scene.path("plugin/plugin")).env("KUBERNETES_EXEC_INFO", request());
    let output = command.output()?;
    let left = scene.agents().len();
    let said = String::from_utf8_lossy(&output.stderr);
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Ok(Verdict {
        name: "unit",
        holds: output.status.success() && left == 0,
        seen: format!(
            "services of `systemd --user`, a user's and the node's, were started, killed, upgraded and stopped, \
             {}; {left} agents left{said}",
            output.status
        ),
    })
}
