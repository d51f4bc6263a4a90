//! Runs the variants of a row in turn and boils the rounds down.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Rounds that every variant takes part in, unless the row says otherwise; an odd number has a middle.
pub const ROUNDS: usize = 11;

/// One way to do a row's work.
pub struct Variant {
    /// Who does it: `ours`, `bare Arc clone`, …
    pub label: &'static str,
    /// Does the work and tells the figure, in the row's unit. `Err` names a peer that is missing.
    pub run: Box<dyn FnMut() -> Result<f64, String>>,
}

/// Some work, done in several ways. The first variant is the limit that ratios refer to.
pub struct Row {
    /// Unit of the figures.
    pub unit: &'static str,
    /// The ways.
    pub variants: Vec<Variant>,
    /// Promises about them.
    pub bars: Vec<Bar>,
}

/// A promise about a row's medians.
pub struct Bar {
    /// What is promised.
    pub promise: &'static str,
    /// The value it is about, and the most it may be.
    pub judge: fn(&Report) -> (f64, f64),
}

/// What was measured.
pub struct Report {
    /// The row's name.
    pub name: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// A line for each variant.
    pub lines: Vec<Line>,
    /// A line for each promise.
    pub bars: Vec<Verdict>,
    /// How busy the machine was with this and everything else.
    pub load: String,
}

/// One variant's figures.
pub struct Line {
    /// Who.
    pub label: &'static str,
    /// Sorted figures of all rounds, or why there are none.
    pub figures: Result<Vec<f64>, String>,
    /// The figures in the order of the rounds.
    pub rounds: Vec<f64>,
}

/// Whether a promise was kept.
pub struct Verdict {
    /// What was promised.
    pub promise: &'static str,
    /// What was seen.
    pub seen: f64,
    /// The most it may be.
    pub most: f64,
    /// Seen is at most that.
    pub holds: bool,
    /// Nothing to compare with: a peer is missing.
    pub open: bool,
}

/// Who may be missing: everybody but us and the system.
const PEERS: [&str; 13] = [
    "aws",
    "client-go",
    "clientcmd",
    "docker-credential-ecr-login",
    "docker-credential-gcr",
    "ecr-credential-provider",
    "gke-gcloud-auth-plugin",
    "kube 5",
    "kubectl",
    "kubelet",
    "kubelogin",
    "curl",
    "git",
];

impl Report {
    /// The median of a variant; infinite when it did not run, so that no bar holds by absence.
    pub fn median(&self, label: &str) -> f64 {
        self.lines
            .iter()
            .find(|l| l.label == label)
            .and_then(|l| l.figures.as_ref().ok())
            .map_or(f64::INFINITY, |f| f[f.len() / 2])
    }

    /// The median of the ratios of each round.
    pub fn ratio(&self, label: &str, to: &str) -> f64 {
        self.middle([label, to], |[ours, theirs]| ours / theirs)
    }

    /// The median of what each round says of these variants: what slows the machine down for a while
    /// slows down all of them. Infinite when one did not run.
    pub fn middle<const N: usize>(&self, labels: [&str; N], say: impl Fn([f64; N]) -> f64) -> f64 {
        self.quantile(labels, 0.5, say)
    }

    /// A quantile, such as 0.99, of what each round says of these variants.
    pub fn quantile<const N: usize>(
        &self,
        labels: [&str; N],
        part: f64,
        say: impl Fn([f64; N]) -> f64,
    ) -> f64 {
        let rounds = labels.map(|label| self.rounds(label));
        let count = rounds.iter().map(|rounds| rounds.len()).min().unwrap_or(0);
        let mut said: Vec<f64> =
            (0..count).map(|round| say(rounds.map(|figures| figures[round]))).collect();
        said.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few hundred rounds"
        )]
        let place = (said.len() as f64 * part) as usize;
        said.get(place).copied().unwrap_or(f64::INFINITY)
    }

    fn rounds(&self, label: &str) -> &[f64] {
        self.lines.iter().find(|line| line.label == label).map_or(&[], |line| &line.rounds)
    }
}

impl Line {
    fn new(label: &'static str) -> Self {
        Self { label, figures: Ok(Vec::new()), rounds: Vec::new() }
    }
}

/// Measures a row: one round of warm-up, then the counted ones, interleaved.
pub fn run(name: &'static str, rounds: usize, row: Row) -> Report {
    let Row { unit, mut variants, bars } = row;
    let mut lines: Vec<Line> = variants.iter().map(|v| Line::new(v.label)).collect();
    for round in 0..=rounds {
        for (variant, line) in variants.iter_mut().zip(&mut lines) {
            let Ok(figures) = &mut line.figures else { continue };
            match (variant.run)() {
                Ok(figure) if round > 0 => figures.push(figure),
                Ok(_) => {}
                Err(missing) => line.figures = Err(missing),
            }
        }
    }
    for line in &mut lines {
        if let Ok(figures) = &mut line.figures {
            line.rounds.clone_from(figures);
            figures.sort_by(f64::total_cmp);
        }
    }
    let mut missing = lines.iter().filter(|line| line.figures.is_err()).peekable();
    let only_peers = missing.peek().is_some()
        && missing.all(|line| PEERS.iter().any(|peer| line.label.starts_with(peer)));
    let mut report = Report { name, unit, lines, bars: Vec::new(), load: load() };
    report.bars = bars
        .iter()
        .map(|bar| {
            let (seen, most) = (bar.judge)(&report);
            let open = only_peers && !(seen.is_finite() && most.is_finite());
            Verdict { promise: bar.promise, seen, most, holds: seen <= most, open }
        })
        .collect();
    report
}

/// The time this thread has had a processor for: what others do on a busy machine does not count.
pub fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The machine's load over the last minute, as the kernel tells it.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}
