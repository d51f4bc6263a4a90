//! An explanation for people.

use super::explanation::{AnswerView, Explanation, Provider};
use crate::{
    commands::image::answer::Trouble,
    output::{Style, inline},
};

/// The explanation as lines.
pub(super) fn layout(explanation: &Explanation, style: Style) -> String {
    let mut out = Lines { text: String::new(), style };
    out.fact("image", &explanation.image);
    if let Some(name) = &explanation.name {
        out.fact("matched as", name);
    }
    if let Some(error) = &explanation.error {
        out.trouble("", error);
        return out.text;
    }
    out.fact("configuration", &explanation.config_hash);
    for provider in &explanation.providers {
        out.provider(provider);
    }
    out.verdict(explanation);
    out.text
}

struct Lines {
    text: String,
    style: Style,
}

impl Lines {
    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn fact(&mut self, label: &str, value: &str) {
        let label = self.style.label(&format!("{label:<14}"));
        self.line(&format!("{label} {}", inline(value)));
    }

    fn item(&mut self, label: &str, value: &str) {
        self.line(&format!("  {label:<12} {}", inline(value)));
    }

    fn provider(&mut self, provider: &Provider) {
        let head = self.style.label(&format!("provider {}", inline(&provider.name)));
        self.line(&format!("\n{head}  ({})", inline(&provider.place)));
        for pattern in &provider.patterns {
            let shown = inline(&pattern.text);
            match &pattern.because {
                None => self.item("matches", &format!("`{shown}`")),
                Some(because) => self.item("no match", &format!("`{shown}`: {because}")),
            }
        }
        if let Some(program) = &provider.program {
            self.item("program", &program.display().to_string());
        }
        let because = provider.because.as_deref().unwrap_or_default();
        let result = match provider.outcome {
            "noMatch" => "not asked",
            "skipped" => &format!("skipped: {because}"),
            "kept" => "a cached answer",
            "answered" => "answered",
            "lastGood" => "failed; its last answer has not expired",
            _ => "failed",
        };
        self.item("result", result);
        if let Some(answer) = &provider.answer {
            self.answer(answer);
        }
        if let Some(failure) = &provider.failure {
            self.trouble("  ", failure);
        }
    }

    fn answer(&mut self, answer: &AnswerView) {
        let registries: Vec<_> = answer.registries.iter().map(|r| format!("`{r}`")).collect();
        match registries.len() {
            0 => self.item("logins for", "nothing"),
            _ => self.item("logins for", &registries.join(", ")),
        }
        let kept = match &answer.kept_for {
            Some(time) => format!("kept for {time}"),
            None => "not kept".to_owned(),
        };
        let (key, of) = (answer.cache_key_type, &answer.cache_key);
        self.item("cache key", &format!("{key}: `{of}`, {kept}"));
        let run = &answer.run;
        let again = match run.runs {
            1 => String::new(),
            runs => format!(", in run {runs}"),
        };
        self.item("run", &format!("exit code {} after {}{again}", run.exit_code, run.took));
        self.stderr("  ", &run.stderr);
    }

    fn trouble(&mut self, margin: &str, trouble: &Trouble) {
        self.line(&format!("{margin}{:<12} {}", "error", inline(&trouble.failure.message)));
        for note in &trouble.failure.notes {
            let text = inline(&note.text);
            self.line(&format!("{margin}{:<12} {text}", inline(&note.label)));
        }
        if let Some(hint) = &trouble.failure.hint {
            self.line(&format!("{margin}{:<12} {}", "hint", inline(hint)));
        }
        self.stderr(margin, trouble.stderr.as_deref().unwrap_or_default());
    }

    fn stderr(&mut self, margin: &str, stderr: &str) {
        for (number, line) in stderr.trim_end().lines().enumerate() {
            let label = if number == 0 { "stderr" } else { "" };
            self.line(&format!("{margin}{label:<12} {}", inline(line)));
        }
    }

    fn verdict(&mut self, explanation: &Explanation) {
        self.line("");
        for login in &explanation.logins {
            let label = if login.wins { "wins" } else { "then" };
            let account = match (&login.namespace, &login.service_account) {
                (Some(namespace), Some(name)) => format!(", for {namespace}/{name}"),
                _ => String::new(),
            };
            let (user, key) = (&login.username, &login.registry);
            let what = format!("`{user}` of `{}`, under `{key}`{account}", login.provider);
            self.fact(label, &what);
        }
        if explanation.logins.is_empty() {
            self.fact("no login", "the image would be pulled anonymously");
        }
        for because in &explanation.because {
            self.fact("note", because);
        }
        let kubelet = if explanation.kubelet_pulls_anonymously {
            "with these providers and no pull secret it would have pulled anonymously"
        } else {
            "would have pulled with a login too"
        };
        self.fact("a kubelet", kubelet);
    }
}
