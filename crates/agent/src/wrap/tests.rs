#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod generate;
mod native;

use keyward_host::{Kubeconfig, kubeconfig::Exec};

use super::*;
use generate::Generator;

const WRAPPER_PATH: &str = "/opt/keyward/bin/keyward-exec";

fn wrapping(pins: &[Pin]) -> Wrapping<'_> {
    Wrapping { wrapper: WRAPPER_PATH, directory: Path::new("/home/ann/.kube"), pins, natives: &[] }
}

fn wrap_all(text: &str) -> Result<Edited, Refusal> {
    wrap(text.as_bytes(), &wrapping(&[]), |_| true)
}

#[test]
fn the_comment_of_a_block_scalar_stays() {
    for (header, comment) in [("|", "# by hand"), (">-", "# by # hand"), ("|2+", "#")] {
        let text = format!(
            "users:\n- name: u\n  user:\n    exec:\n      command: /bin/p\n      installHint: {header} {comment}\n          get it\n      interactiveMode: Never\n"
        );
        let edited = there_and_back(text.as_bytes(), |_| true, &|| text.clone()).unwrap();
        let wrapped = String::from_utf8(edited.bytes).unwrap();
        assert!(wrapped.contains(&format!("\" {comment}\n      interactiveMode")), "{wrapped}");
    }
}

/// Wraps and unwraps one kubeconfig, if it can be wrapped.
fn there_and_back(
    bytes: &[u8],
    chosen: impl Fn(&str) -> bool,
    shown: &dyn Fn() -> String,
) -> Option<Edited> {
    let edited = match wrap(bytes, &wrapping(&[]), &chosen) {
        Ok(edited) => edited,
        Err(refusal) => {
            let text = String::from_utf8_lossy(bytes);
            let lines = text.matches(['\n', '\u{2028}']).count() + 1;
            assert!((1..=lines).contains(&(refusal.line as usize)), "{refusal:?}\n{}", shown());
            return None;
        }
    };
    assert_eq!(undo(&edited.bytes, &edited.edits).as_deref(), Some(bytes), "{}", shown());
    Some(edited)
}

/// Wraps one kubeconfig, reads it with every reader, and returns whether it could be wrapped.
fn round_trip(bytes: &[u8], chosen: impl Fn(&str) -> bool, shown: &dyn Fn() -> String) -> bool {
    let Some(edited) = there_and_back(bytes, &chosen, shown) else { return false };
    let again = wrap(&edited.bytes, &wrapping(&[]), &chosen).unwrap();
    assert!(again.edits.is_empty() && again.bytes == edited.bytes, "not idempotent:\n{}", shown());
    // The kubeconfig reader, which knows nothing of edits, sees no difference but the command.
    if let (Ok(before), Ok(after)) =
        (Kubeconfig::from_bytes(bytes), Kubeconfig::from_bytes(&edited.bytes))
    {
        assert_eq!(before.users.len(), after.users.len(), "{}", shown());
        for (before, after) in before.users.iter().zip(&after.users) {
            let (Some(own), Some(new)) = (&before.value.exec, &after.value.exec) else { continue };
            let wrapped = new.wrapped().is_some();
            let wanted = edited.users.contains(&before.name) || own.wrapped().is_some();
            assert_eq!(wrapped, wanted, "{}\n{}", before.name, shown());
            let mut own = own.clone();
            if edited.users.contains(&before.name) {
                own.command = inner(&before.name, &own.command, &wrapping(&[]));
            }
            assert!(same(&own.without_wrapper(), &new.clone().without_wrapper()), "{}", shown());
        }
        let others = |mut config: Kubeconfig| {
            config.users.iter_mut().for_each(|user| user.value.exec = None);
            config.to_json().expose().to_owned()
        };
        assert_eq!(others(before), others(after), "{}", shown());
    } else {
        let both = (Kubeconfig::from_bytes(bytes), Kubeconfig::from_bytes(&edited.bytes));
        assert!(matches!(both, (Err(_), Err(_))), "{}", shown());
    }
    // Without a journal only the style may change.
    if let Ok(loose) = unwrap(&edited.bytes, |user| edited.users.iter().any(|u| u == user)) {
        let left = wrapped_users(&loose.bytes).unwrap();
        assert!(edited.users.iter().all(|user| !left.contains(user)), "{}", shown());
    }
    true
}

fn same(one: &Exec, other: &Exec) -> bool {
    let env = |exec: &Exec| -> Vec<(String, String)> {
        exec.env.iter().map(|(n, v)| (n.clone(), v.expose().to_owned())).collect()
    };
    let key = |exec: &Exec| {
        let Exec { api_version, command, args, install_hint, interactive_mode, .. } = exec.clone();
        (api_version, command, args, install_hint, interactive_mode, exec.provide_cluster_info)
    };
    key(one) == key(other) && env(one) == env(other)
}

#[test]
fn ten_thousand_kubeconfigs_come_back_byte_for_byte_or_are_refused_with_a_line() {
    let mut generator = Generator::new(20_261_117);
    let mut refused = 0;
    for round in 0..10_000 {
        let text = generator.kubeconfig();
        let pick = generator.chance.u8(..4);
        let chosen = |user: &str| pick != 0 || user.ends_with('0');
        let shown = || format!("round {round}\n{text}");
        // Each edit checks its own result; the other readers check a sample.
        let done = match round % 8 {
            0 => round_trip(text.as_bytes(), chosen, &shown),
            _ => there_and_back(text.as_bytes(), chosen, &shown).is_some(),
        };
        refused += usize::from(!done);
    }
    // The generator writes more oddities than people do.
    assert!(refused < 2_500, "{refused} of 10,000 were refused");
    assert!(refused > 50, "only {refused} of 10,000 were refused: the oddities are gone");
}

#[test]
fn every_kubeconfig_of_the_vectors_comes_back_byte_for_byte() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/kubeconfig.json");
    let cases = Node::from_json(&std::fs::read(path).unwrap()).unwrap();
    let Value::List(cases) = &cases.value else { panic!("no list of cases") };
    let (mut done, mut refused) = (0, 0);
    for case in cases {
        let Some(Value::Map(files)) = case.get("files").map(|files| &files.value) else { continue };
        for file in files {
            let Value::Text(text) = &file.value.value else { continue };
            let shown = || text.to_string();
            let wrapped = round_trip(text.as_bytes(), |_| true, &shown);
            *(if wrapped { &mut done } else { &mut refused }) += 1;
        }
    }
    assert!(done > 100 && refused < done / 5, "{done} done, {refused} refused");
}

const EKS: &str = "\
apiVersion: v1
users:
# the cluster of the shop
- name: ann
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:   # as the cloud writes them
      - --region
      - eu-west-1
      command: aws # from PATH
      env:
      - name: AWS_PROFILE
        value: shop
";

#[test]
fn the_usual_kubeconfig_is_changed_as_a_person_would() {
    let edited = wrap_all(EKS).unwrap();
    let expected = EKS
        .replace("      - --region\n", "      - \"--\"\n      - \"aws\"\n      - --region\n")
        .replace(
            "      command: aws #",
            &format!(
                "      installHint: {}\n      command: {WRAPPER_PATH} #",
                quoted(Exec::WRAPPER_HINT)
            ),
        );
    assert_eq!(String::from_utf8(edited.bytes).unwrap(), expected);
}

fn exec(body: &str) -> String {
    format!("users:\n- name: ann\n  user:\n    exec:\n{body}")
}

#[test]
fn each_way_to_have_no_arguments_is_wrapped() {
    for args in ["", "      args: []\n", "      args: null\n", "      args: ~\n", "      args:\n"] {
        for body in [format!("      command: aws\n{args}"), format!("{args}      command: aws\n")] {
            let text = exec(&body);
            let edited = wrap_all(&text).unwrap();
            let config = Kubeconfig::from_bytes(&edited.bytes).unwrap();
            let exec = config.users[0].value.exec.clone().unwrap();
            assert_eq!(exec.wrapped(), Some(("aws", &[][..])), "{text}");
            assert_eq!(undo(&edited.bytes, &edited.edits).unwrap(), text.as_bytes());
        }
    }
}

#[test]
fn odd_styles_are_wrapped() {
    for body in [
        "      \"command\": 'aws'\n      args: [ \"a\" , b ]\n",
        "      command: |-\n        aws\n      args:\n        - >\n          folded\n          text\n",
        "      command:\n        aws\n      args: &x [a]\n",
        "      command:\taws\t# tab\r\n      args:\r\n      - a\r\n",
        "      command: !!str aws\n      args: !!seq [a]\n",
        "      args: [a,\n        # in between\n        b]\n      command: \"a\\x77s\"\n",
        "      installHint: 'get it'\n      command: aws\n",
        "      installHint:\n      command: aws\n",
        "      {command: aws, args: [a], installHint: x}\n",
        "      {command: aws}\n",
        "      {\"command\": \"aws\",\n \"args\": null }\n",
        "      env: [{name: A, value: b}]\n      command: ./bin/aws\n",
    ] {
        let text = exec(body);
        assert!(round_trip(text.as_bytes(), |_| true, &|| text.clone()), "refused:\n{text}");
    }
}

#[test]
fn json_is_wrapped_in_any_layout() {
    for text in [
        r#"{"users":[{"name":"ann","user":{"exec":{"command":"aws","args":["a"],"apiVersion":"v1"}}}]}"#,
        "{\n\t\"users\": [\n\t\t{\n\t\t\t\"name\": \"ann\",\n\t\t\t\"user\": {\"exec\": {\n\t\t\t\t\"args\": [],\n\t\t\t\t\"command\": \"a\\u0077s\"\n\t\t\t}}\n\t\t}\n\t]\n}\n",
        r#"  {"é":"ü","users":[{"name":"ann","user":{"exec":{"args":null,"installHint":null,"command":"aws"}}}]}"#,
    ] {
        assert!(round_trip(text.as_bytes(), |_| true, &|| text.to_owned()), "refused:\n{text}");
    }
}

#[test]
fn a_stanza_that_two_users_share_is_wrapped_for_both_or_refused() {
    let text = "users:\n- name: ann\n  user:\n    exec: &shared\n      command: aws\n      args: [a]\n\
        - name: bea\n  user:\n    exec: *shared\n";
    let both = wrap_all(text).unwrap();
    assert_eq!(both.users, ["ann", "bea"]);
    assert!(round_trip(text.as_bytes(), |_| true, &|| text.to_owned()));
    let refusal = wrap(text.as_bytes(), &wrapping(&[]), |user| user == "ann").unwrap_err();
    assert!(refusal.line > 3, "{refusal:?}");
    let merged = "users:\n- name: ann\n  user:\n    exec:\n      <<: *base\n      args: [a]\n";
    let merged = format!("base: &base\n  command: aws\n{merged}");
    let refusal = wrap_all(&merged).unwrap_err();
    assert_eq!((refusal.line, refusal.user.as_str()), (4, "ann"), "{refusal:?}");
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    for (text, line) in [("users:\n- name: [\n", 3), ("", 1), ("users:\n\t- x\n", 2)] {
        assert_eq!(wrap_all(text).unwrap_err().line, line, "{text:?}");
    }
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("a: b".bytes().flat_map(|b| [b, 0])).collect();
    assert_eq!(wrap(&wide, &wrapping(&[]), |_| true).unwrap_err().line, 1);
}

#[test]
fn pinned_variables_are_added_where_they_are_not_set() {
    let pin = |name: &str| Pin { user: "ann".into(), name: name.into(), value: "x: y".into() };
    let pins = [pin("AWS_PROFILE"), pin("AWS_REGION")];
    for (env, expected) in [
        ("", 2),
        ("      env: []\n", 2),
        ("      env: null\n", 2),
        ("      env:\n      - name: AWS_PROFILE\n        value: own\n", 2),
        ("      env: [{name: OTHER, value: own}]\n", 3),
    ] {
        let text = exec(&format!("      command: aws\n{env}"));
        let edited = wrap(text.as_bytes(), &wrapping(&pins), |_| true).unwrap();
        let config = Kubeconfig::from_bytes(&edited.bytes).unwrap();
        let exec = config.users[0].value.exec.clone().unwrap();
        assert_eq!(exec.env.len(), expected, "{env}");
        let own = exec.env.iter().find(|(name, _)| name == "AWS_PROFILE").unwrap();
        assert_eq!(own.1.expose(), if env.contains("AWS") { "own" } else { "x: y" });
        assert_eq!(undo(&edited.bytes, &edited.edits).unwrap(), text.as_bytes());
    }
}
