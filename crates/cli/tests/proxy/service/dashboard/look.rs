//! The page in a real browser.

use std::{fs, path::Path};

use serde_json::json;

use super::{chromium::Chromium, scene::Scene};

#[test]
fn the_page_is_accessible_in_both_schemes_and_widths() {
    let mut scene = Scene::new();
    scene.use_it();
    scene.grant("review-bot");
    let mut browser = Chromium::start();
    let loaded = browser.open(&scene.link());
    let origin = loaded[0].rsplit_once("/open/").unwrap().0.to_owned();
    assert!(loaded.iter().all(|url| url.starts_with(&origin)), "only from here: {loaded:?}");
    let target = Path::new(env!("CARGO_BIN_EXE_keyward")).ancestors().nth(2).unwrap();
    for scheme in ["light", "dark"] {
        for (width, name) in [(1200, "wide"), (420, "narrow")] {
            browser.look(width, scheme);
            let picture = browser.picture();
            assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{}", picture.len());
            // For people to look at, and for the documentation.
            fs::write(target.join(format!("dashboard-{scheme}-{name}.png")), picture).unwrap();
            assert_eq!(browser.violations(), [] as [String; 0], "{scheme} {width}");
        }
    }
    assert!(!scene.has_asked(), "looking at the page runs no plugin");
}

#[test]
fn everything_can_be_done_with_the_keyboard() {
    const TAB: u32 = 9;
    const ENTER: u32 = 13;
    let scene = Scene::new();
    scene.grant("review-bot");
    let mut browser = Chromium::start();
    browser.look(1200, "light");
    browser.ask("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
    browser.open(&scene.link());
    // The first key shows a way past the head of the page.
    browser.press("Tab", TAB);
    let skip = browser.evaluate(
        "[document.activeElement.textContent, document.activeElement.getBoundingClientRect().left >= 0]",
    );
    assert_eq!(skip, json!(["Skip to the contexts", true]));
    browser.press("Enter", ENTER);
    assert_eq!(browser.evaluate("document.activeElement.id"), "main");
    // Every link and button can be reached, in the order of the page, and shows that it is.
    browser.evaluate("document.activeElement.blur(); document.querySelector('.skip').focus()");
    let all = browser.evaluate(
        "[...document.querySelectorAll('a, summary, button')].filter(e => e.checkVisibility()).length",
    );
    let mut reached = vec![String::new()];
    for _ in 1..all.as_u64().unwrap() {
        browser.press("Tab", TAB);
        let focused = browser.evaluate(
            "(e => { const s = getComputedStyle(e); \
             return [e.textContent, s.outlineStyle, parseFloat(s.outlineWidth)]; })(document.activeElement)",
        );
        assert_eq!(focused[1], "solid", "{focused}");
        assert!(focused[2].as_f64().unwrap() >= 2.0, "{focused}");
        reached.push(focused[0].as_str().unwrap().to_owned());
    }
    assert_eq!(reached[1..3], ["Refresh", "Refresh every 10 s"]);
    assert_eq!(reached.last().unwrap(), "Revoke “review-bot”…");
    // What the page does, it does without scripts.
    browser.ask("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.press("Enter", ENTER);
    browser.press("Tab", TAB);
    browser.loading(|browser| browser.press("Enter", ENTER));
    let shown = browser.evaluate("document.querySelector('[role=status]').textContent");
    assert_eq!(shown, "The grant is revoked, and its connections are closed.");
    assert_eq!(scene.stage.status()[0]["grants"], json!([]));
    // axe is a script itself.
    browser.ask("Emulation.setScriptExecutionDisabled", &json!({ "value": false }));
    assert_eq!(browser.violations(), [] as [String; 0]);
}
