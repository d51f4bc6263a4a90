//! A real browser.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::json;

use super::{judge::Judge, stage::Stage};

/// Opens a page as a person's browser does; what it shows in the end goes to the file `page.html` or `page.png`.
fn chromium(stage: &Stage, how: &str) -> String {
    assert!(
        Command::new("chromium-headless-shell").arg("--version").output().is_ok(),
        "`chromium-headless-shell` does not start; it is in the Debian package chromium-headless-shell"
    );
    let script = stage.write(
        "chromium",
        &format!(
            "#!/bin/sh\nhere=$(dirname \"$0\")\n\
             chromium-headless-shell --no-sandbox --disable-gpu --user-data-dir=\"$here/profile\" \
             --window-size=900,600 --hide-scrollbars --virtual-time-budget=10000 {how} \"$1\" >\"$here/new\"\n\
             mv \"$here/new\" \"$here/done\"\n"
        ),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("--browser-command={script}")
}

fn login(how: &str) -> (Stage, String) {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let how = how.replace("HERE", stage.path("").to_str().unwrap());
    let browser = chromium(&stage, &how);
    let claims = stage.claims(&[
        &issuer,
        "--oidc-client-id=public",
        "--listen-address=127.0.0.1:0",
        &browser,
    ]);
    assert_eq!(claims["sub"], "ann");
    // The browser ends after the login.
    let done = stage.path("done");
    while !done.exists() {
        std::thread::yield_now();
    }
    let shown = fs::read_to_string(done).unwrap();
    (stage, shown)
}

#[test]
fn chromium_ends_at_a_page_that_says_who_you_are() {
    let (_stage, shown) = login("--dump-dom");
    for text in
        ["<h1>You are logged in</h1>", "<b>ann@example.com</b>", "You can close this window."]
    {
        assert!(shown.contains(text), "{shown}");
    }
    let (stage, _) = login("--screenshot=HEREpage.png");
    let picture = fs::read(stage.path("page.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 4096, "{}", picture.len());
    // For people to look at.
    let target =
        std::path::Path::new(env!("CARGO_BIN_EXE_keyward-providers")).ancestors().nth(2).unwrap();
    fs::write(target.join("keyward-oidc-page.png"), picture).unwrap();
}
