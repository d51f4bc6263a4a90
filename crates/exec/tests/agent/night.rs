//! A login that has expired while a shell prompt asks through the night.

use std::{fs, sync::Arc, time::Duration};

use keyward_agent::{
    Address, Client, End, Obtained, Server, Settings, obtain, registration::Registrations,
};
use keyward_process::clock::{Clock as _, ManualClock, SystemClock};
use keyward_protocol::agent::Message;

use crate::stage::{Stage, exec};

/// Opens a browser as login plugins do: the one that `BROWSER` names, else that of the desktop.
const PLUGIN: &str = r#"here=$(dirname "$0")
echo run >>"$here/runs"
if [ ! -e "$here/expired" ]; then cat "$here/answer"; exit 0; fi
if [ -n "$BROWSER" ]; then $BROWSER https://idp.example/login
elif [ -n "$DISPLAY" ]; then echo window >>"$here/windows"; fi
echo 'log in at https://idp.example/login' >&2
exit 1
"#;

const PAUSE: Duration = Duration::from_secs(30);
const NIGHT: Duration = Duration::from_secs(12 * 3600);

/// Runs of the plugin and browser windows that a night brings.
fn night(registered: bool) -> (usize, usize) {
    let mut stage = Stage::unregistered();
    fs::write(stage.plugin("plugin"), PLUGIN).unwrap();
    // The browser of the person.
    let browser = stage.plugin("browser");
    let opens = format!("#!/bin/sh\necho window >>'{}'\n", stage.plugin("windows").display());
    fs::write(&browser, opens).unwrap();
    stage.vars.push(("BROWSER".into(), format!("sh {}", browser.display())));
    stage.vars.push(("DISPLAY".into(), ":0".into()));
    if registered {
        stage.register();
    }
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    stage.answer_until("t0ken", &clock.now().checked_add(Duration::from_secs(600)).unwrap());

    let address = Address::find(|name| stage.var(name)).unwrap();
    let socket = address.socket.clone();
    let registrations = Registrations::directory(&stage.surroundings()).unwrap();
    let mut settings = Settings::new(address, registrations, clock.clone());
    settings.browser = Some(format!("{} --no-browser", exec().display()));
    let server = Server::bind(settings).unwrap();
    let stopper = server.stopper();
    let serving = std::thread::spawn(move || server.run().unwrap());

    let question = Message::Ask(stage.question());
    let ask = || {
        let mut client = Client::connect(&socket).unwrap();
        obtain(&mut client, &question, |_| {}).unwrap()
    };
    assert!(matches!(ask(), Obtained::Answer(_)));
    stage.set("expired", "");
    let begun = clock.elapsed();
    let mut told = 0;
    while clock.elapsed() < begun + NIGHT {
        clock.advance(PAUSE);
        if let Obtained::Failure(failure) = ask() {
            assert_eq!(failure.code, 3, "{}", failure.text);
            assert!(failure.text.contains("login needed"), "{}", failure.text);
            told += 1;
        }
    }
    assert!(told >= 1400, "{told} of 1440 requests were told to log in");
    stopper.stop();
    assert_eq!(serving.join().unwrap(), End::Stopped);
    let lines =
        |name: &str| fs::read_to_string(stage.plugin(name)).unwrap_or_default().lines().count();
    (lines("runs"), lines("windows"))
}

#[test]
fn an_expired_login_polled_for_twelve_hours_opens_no_browser_window() {
    let (runs, windows) = night(true);
    assert_eq!(windows, 0);
    // The first, one ahead of the end, one at the end.
    assert!(runs <= 3, "{runs} runs");
}

#[test]
fn clients_that_run_the_plugin_themselves_open_one_browser_window_in_twelve_hours() {
    let (runs, windows) = night(false);
    assert!(windows <= 1, "{windows} windows");
    assert!(runs <= 2, "{runs} runs");
}
