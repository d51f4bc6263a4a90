//! How each thing grows with its size: panels of two logarithmic axes, as one SVG.

use std::fmt::Write as _;

use crate::{measure::Report, rows};

/// One panel: a row, and which of its variants are the same work at which size.
struct Panel {
    title: &'static str,
    row: &'static str,
    /// What there is more of.
    axis: &'static str,
    series: &'static [Series],
}

struct Series {
    who: &'static str,
    points: &'static [(u32, &'static str)],
}

const PANELS: &[Panel] = &[
    Panel {
        title: "one context of a kubeconfig",
        row: "kubeconfig: load and resolve",
        axis: "contexts",
        series: &[
            Series {
                who: "clientcmd",
                points: &[
                    (10, "clientcmd: 10"),
                    (1_000, "clientcmd: 1,000"),
                    (10_000, "clientcmd: 10,000"),
                ],
            },
            Series {
                who: "kube 5",
                points: &[(10, "kube 5: 10"), (1_000, "kube 5: 1,000"), (10_000, "kube 5: 10,000")],
            },
            Series {
                who: "ours",
                points: &[(10, "ours: 10"), (1_000, "ours: 1,000"), (10_000, "ours: 10,000")],
            },
        ],
    },
    Panel {
        title: "the pattern that means an image",
        row: "image: lookup",
        axis: "patterns",
        series: &[
            Series {
                who: "kubelet",
                points: &[
                    (1, "kubelet: of 1"),
                    (1_000, "kubelet: of 1,000"),
                    (10_000, "kubelet: of 10,000"),
                ],
            },
            Series {
                who: "ours",
                points: &[
                    (1, "ours: of 1"),
                    (1_000, "ours: of 1,000"),
                    (10_000, "ours: of 10,000"),
                ],
            },
        ],
    },
    Panel {
        title: "callers at expiry, p99 besides the plugin",
        row: rows::CROWD,
        axis: "callers",
        series: &[
            Series {
                who: "client-go",
                points: &[
                    (100, "client-go: 100"),
                    (1_000, "client-go: 1,000"),
                    (10_000, "client-go: 10,000"),
                ],
            },
            Series {
                who: "kube 5",
                points: &[
                    (100, "kube 5: 100"),
                    (1_000, "kube 5: 1,000"),
                    (10_000, "kube 5: 10,000"),
                ],
            },
            Series {
                who: "ours",
                points: &[(100, "ours: 100"), (1_000, "ours: 1,000"), (10_000, "ours: 10,000")],
            },
        ],
    },
];

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 62.0;
const BOTTOM: f64 = 48.0;

/// All panels whose rows were measured.
pub fn svg(reports: &[Report]) -> String {
    let measured: Vec<(&Panel, &Report)> = PANELS
        .iter()
        .filter_map(|panel| Some((panel, reports.iter().find(|r| r.name == panel.row)?)))
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a few panels")]
    let width = WIDTH * measured.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut x = 0.0;
    for (panel, report) in measured {
        let _ = writeln!(out, "<g transform=\"translate({x} 0)\">");
        draw(&mut out, panel, report);
        out.push_str("</g>\n");
        x += WIDTH;
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel, report: &Report) {
    let points = |series: &Series| -> Vec<(f64, f64)> {
        let points = series.points.iter();
        points
            .map(|(size, label)| (f64::from(*size), report.median(label)))
            .filter(|(_, value)| value.is_finite())
            .collect()
    };
    let all: Vec<(f64, f64)> = panel.series.iter().flat_map(points).collect();
    let (Some(across), Some(up)) = (
        Scale::over(all.iter().map(|p| p.0), LEFT, WIDTH - RIGHT),
        Scale::over(all.iter().map(|p| p.1), HEIGHT - BOTTOM, TOP),
    ) else {
        return;
    };
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{}</text>",
        panel.title
    );
    for tick in up.ticks() {
        let y = up.place(tick);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick} {}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 4.0,
            report.unit,
        );
    }
    for tick in across.ticks() {
        let x = across.place(tick);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#eee\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 16.0,
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 12.0,
        panel.axis
    );
    for series in panel.series {
        // Dashes as well as colour, and the name at the end of the line.
        let (colour, dash) = match series.who {
            "ours" => ("#0a6", "none"),
            "kube 5" => ("#06c", "2 3"),
            _ => ("#c40", "5 3"),
        };
        let placed: Vec<(f64, f64)> =
            points(series).into_iter().map(|(x, y)| (across.place(x), up.place(y))).collect();
        let line: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            line.join(" ")
        );
        for (x, y) in &placed {
            let _ =
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if let Some((x, y)) = placed.last() {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
                x + 7.0,
                y + 4.0,
                series.who
            );
        }
    }
}

/// Powers of ten along a stretch of the picture.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (low, high) = values
            .filter(|v| *v > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        if high == 0.0 {
            return None;
        }
        let (low, high) = (low.log10().floor(), high.log10().ceil());
        Some(Self { low, high: if high > low { high } else { low + 1.0 }, from, to })
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (mut exponent, high) = (self.low, self.high);
        std::iter::from_fn(move || {
            let tick = 10.0_f64.powf(exponent);
            exponent += 1.0;
            (exponent - 1.0 <= high).then_some(tick)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Line;

    #[test]
    fn every_point_of_a_panel_names_a_variant_that_is_drawn() {
        let panel = &PANELS[0];
        let lines = panel.series.iter().flat_map(|s| s.points).map(|(size, label)| Line {
            label,
            figures: Ok(vec![f64::from(*size)]),
            rounds: Vec::new(),
        });
        let report = Report {
            name: panel.row,
            unit: "ms",
            lines: lines.collect(),
            bars: Vec::new(),
            load: String::new(),
        };
        let drawn = svg(&[report]);
        assert_eq!(drawn.matches("<circle").count(), 9, "{drawn}");
        assert!(drawn.contains(">ours</text>") && drawn.contains(">clientcmd</text>"), "{drawn}");
    }

    #[test]
    fn panels_are_about_rows_that_exist() {
        for panel in PANELS {
            assert!(crate::rows::ALL.iter().any(|(name, ..)| *name == panel.row), "{}", panel.row);
        }
    }
}
