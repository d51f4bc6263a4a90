//! Generates kubeconfigs in the styles that people and programs use, and in some that nobody does.

#![expect(clippy::format_push_string, reason = "what is made up here is a few lines long")]

/// Generates kubeconfigs.
pub(super) struct Generator {
    pub(super) chance: fastrand::Rng,
    /// The line ending of the kubeconfig being generated.
    end: &'static str,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { chance: fastrand::Rng::with_seed(seed), end: "\n" }
    }

    pub(super) fn kubeconfig(&mut self) -> String {
        self.end = self.pick(&["\n", "\n", "\n", "\r\n"]);
        match self.chance.u8(..8) {
            0 | 1 => self.json(),
            _ => self.yaml(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.chance.usize(..from.len())]
    }

    fn one_in(&mut self, count: u8) -> bool {
        self.chance.u8(..count) == 0
    }

    fn json(&mut self) -> String {
        let (space, line) = self.pick(&[("", ""), (" ", "\n"), ("\t", "\r\n"), (" ", "")]);
        let users: Vec<_> = (0..self.chance.usize(1..4))
            .map(|number| {
                let mut parts = vec![format!("\"command\":{space}{}", self.json_text("aws"))];
                match self.chance.u8(..4) {
                    0 => {}
                    1 => parts.push(
                        self.pick(&["\"args\": []", "\"args\":null", "\"args\": [ ]"]).into(),
                    ),
                    _ => parts.push(format!("\"args\":{space}[{line}\"a\",{space}\"b\\n\"{line}]")),
                }
                if self.one_in(3) {
                    parts.push(
                        self.pick(&["\"installHint\":\"x\"", "\"installHint\": null"]).into(),
                    );
                }
                if self.one_in(3) {
                    parts.push("\"env\":[{\"name\":\"A\",\"value\":\"s3cr3t\"}]".into());
                }
                if self.one_in(20) {
                    parts.push("\"command\":\"other\"".into());
                }
                self.chance.shuffle(&mut parts);
                let exec = parts.join(&format!(",{line}{space}"));
                format!("{{\"name\":\"u{number}\",{line}\"user\":{{\"exec\":{space}{{{exec}}}}}}}")
            })
            .collect();
        let lead = self.pick(&["", "", " ", "\n", "\t"]);
        format!(
            "{lead}{{\"apiVersion\":\"v1\",{line}\"users\":{space}[{}],{line}\"current-context\":\"ü\"}}{line}",
            users.join(",")
        )
    }

    fn json_text(&mut self, text: &str) -> String {
        match self.chance.u8(..3) {
            0 => format!("\"\\u{:04x}{}\"", u32::from(text.as_bytes()[0]), &text[1..]),
            _ => format!("\"{text}\""),
        }
    }

    fn yaml(&mut self) -> String {
        let end = self.end;
        let mut out = String::new();
        if self.one_in(8) {
            out += "\u{feff}";
        }
        if self.one_in(4) {
            out += &format!("# made up{end}");
        }
        if self.one_in(6) {
            out += &format!("---{end}");
        }
        out += &format!("apiVersion: v1{end}kind: Config{end}");
        let shared = self.one_in(10);
        if shared {
            out += &format!("base: &base{end}  command: aws{end}  args: &args [x, y]{end}");
        }
        if self.one_in(4) {
            out +=
                &format!("clusters:{end}- cluster: {{server: \"https://é\"}}{end}  name: c{end}");
        }
        out += &format!("users:{end}");
        let dash = self.pick(&["", "  ", "    "]);
        for number in 0..self.chance.usize(1..4) {
            out += &self.user(number, dash, shared);
        }
        if self.one_in(4) {
            out += &format!("current-context: x   # the end{end}");
        }
        if self.one_in(10) {
            out += &format!("...{end}");
        }
        if self.one_in(6) {
            out.truncate(out.trim_end().len());
        }
        out
    }

    fn user(&mut self, number: usize, dash: &str, shared: bool) -> String {
        let end = self.end;
        let comment = self.comment(dash);
        let step = self.pick(&["  ", "    ", " "]);
        let inside = format!("{dash}  ");
        let deeper = format!("{inside}{step}");
        let name = format!("name: {}{end}", self.pick(&["u", "'u", "\"u"]));
        let name = match name.chars().nth(6) {
            Some(quote @ ('\'' | '"')) => format!("name: {quote}u{number}{quote}{end}"),
            _ => format!("name: u{number}{end}"),
        };
        let user = match self.chance.u8(..12) {
            0 => format!("user:{end}{deeper}token: s3cr3t{end}"),
            1 if shared => format!("user:{end}{deeper}exec: *base{end}"),
            2 | 3 => format!("user:{end}{deeper}exec: {}{end}", self.flow()),
            4 if number > 0 => format!("user: {{exec: {}}}{end}", self.flow()),
            _ => {
                let anchor = self.pick(&["", "", "", " &exec", "   # stanza"]);
                let body = self.block(&format!("{deeper}{step}"), shared);
                format!("user:{end}{deeper}exec:{anchor}{end}{body}")
            }
        };
        if self.chance.bool() {
            format!("{comment}{dash}- {name}{inside}{user}")
        } else {
            format!("{comment}{dash}- {user}{inside}{name}")
        }
    }

    fn comment(&mut self, indent: &str) -> String {
        match self.chance.u8(..6) {
            0 => format!("{indent}# command: not this one{}", self.end),
            1 => self.end.to_owned(),
            _ => String::new(),
        }
    }

    /// The body of an `exec` stanza in block style.
    fn block(&mut self, indent: &str, shared: bool) -> String {
        let end = self.end;
        let mut parts = vec![format!("{}: {}", self.key("command"), self.command(indent))];
        match self.chance.u8(..10) {
            0 | 1 => {}
            2 => parts
                .push(format!("args: {}{end}", self.pick(&["[]", "null", "~", "", "[ ]", "Null"]))),
            3 if shared => parts.push(format!("args: *args{end}")),
            4 | 5 => parts.push(format!(
                "args: {}{end}",
                self.pick(&[
                    "[a, b]",
                    "['a', \"b\\x41\" ,c,]",
                    "[a,\n      # odd\n        b]",
                    "&a [x]"
                ])
            )),
            _ => {
                let deeper = self.pick(&["", "", "  "]);
                let mut list = format!("args:{}{end}", self.pick(&["", " # these", " &b"]));
                for _ in 0..self.chance.usize(1..4) {
                    let item = self.pick(&[
                        "-a",
                        "'it''s'",
                        "\"x\\ny\"",
                        "plain text",
                        "--",
                        "|-\n",
                        "&i x",
                    ]);
                    let item = match item {
                        "|-\n" => format!("|-{end}{indent}{deeper}    text"),
                        item => item.to_owned(),
                    };
                    list += &format!("{indent}{deeper}- {item}{end}");
                    list += &self.comment(indent);
                }
                parts.push(list);
            }
        }
        if self.one_in(3) {
            let hint = self.pick(&["get it", "'get: it'", "null", "", "\"\"", "|\n"]);
            let hint = match hint {
                "|\n" => format!("|{end}{indent}  get{end}{indent}  it"),
                hint => hint.to_owned(),
            };
            parts.push(format!("installHint: {hint}{end}"));
        }
        if self.one_in(2) {
            parts.push(format!("apiVersion: client.authentication.k8s.io/v1{end}"));
        }
        if self.one_in(3) {
            parts.push(format!("env:{end}{indent}- name: A{end}{indent}  value: s3cr3t{end}"));
        }
        if self.one_in(25) {
            parts.push(format!("command: twice{end}"));
        }
        if shared && self.one_in(8) {
            parts.push(format!("<<: *base{end}"));
            if self.chance.bool() {
                parts.remove(0);
            }
        }
        if self.one_in(30) {
            parts.push(format!("? interactiveMode{end}{indent}: Never{end}"));
        }
        self.chance.shuffle(&mut parts);
        let mut out = String::new();
        for part in parts {
            out += &format!("{}{indent}{part}", self.comment(indent));
        }
        out
    }

    fn key(&mut self, key: &str) -> String {
        match self.chance.u8(..12) {
            0 => format!("\"{key}\""),
            1 => format!("'{key}'"),
            _ => key.to_owned(),
        }
    }

    fn command(&mut self, indent: &str) -> String {
        let end = self.end;
        let value = match self.chance.u8(..14) {
            0 => "'aws'".into(),
            1 => "\"a\\x77s\"".into(),
            2 => format!("|-{end}{indent}  aws"),
            3 => format!(">-{end}{indent}  aws"),
            4 => "&c aws".into(),
            5 => "!!str aws".into(),
            6 => format!("{end}{indent}  aws"),
            7 => "./bin/aws".into(),
            8 => "/usr/bin/aws".into(),
            9 => "aws # from PATH".into(),
            10 => "aws \t ".into(),
            11 => "kubectl".into(),
            12 => self.pick(&["\"\"", "/opt/keyward-exec", "12", "null", "é\u{2028}x"]).into(),
            _ => "aws".to_owned(),
        };
        format!("{value}{end}")
    }

    /// An `exec` stanza in flow style.
    fn flow(&mut self) -> String {
        let mut parts =
            vec![self.pick(&["command: aws", "\"command\": \"aws\"", "command: 'aws'"])];
        parts.extend(match self.chance.u8(..5) {
            0 => None,
            1 => Some("args: []"),
            2 => Some("args: null"),
            3 => Some("args: [ 'a', b ]"),
            _ => Some("args: [a, # odd\n         b]"),
        });
        if self.one_in(3) {
            parts.push("installHint: x");
        }
        if self.one_in(3) {
            parts.push("env: [{name: A, value: s3cr3t}]");
        }
        self.chance.shuffle(&mut parts);
        let comma = self.pick(&[", ", " , ", ",\n        "]);
        let close = self.pick(&["}", " }", ", }"]);
        format!("{{{}{close}", parts.join(comma))
    }
}
