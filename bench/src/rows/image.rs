//! Matching an image against one, a thousand and ten thousand patterns.

use std::hint::black_box;

use keyward_image::{Index, Name, Pattern, Reading};
use serde_json::json;

use crate::{
    measure::{Bar, Row, Variant, worked},
    peer,
};

const PATTERN: &str = "*.dkr.ecr.*.amazonaws.com/team";
const IMAGE: &str = "012345678910.dkr.ecr.eu-west-1.amazonaws.com/team/app";

/// One pattern, one image.
pub fn one() -> Row {
    let pattern = Pattern::parse(PATTERN).expect("a pattern");
    let job = json!({ "work": "match", "patterns": [PATTERN], "images": [IMAGE], "turns": 20_000 });
    Row {
        unit: "ns",
        variants: vec![
            Variant { label: "kubelet", run: Box::new(move || peer::nanos(&job)) },
            Variant {
                label: "ours",
                run: Box::new(move || {
                    Ok(nanos(200_000, || {
                        let name = Name::parse(black_box(IMAGE)).expect("an image");
                        black_box(pattern.matches(&name, Reading::Kubelet));
                    }))
                }),
            },
        ],
        bars: vec![
            Bar { promise: "one match under 60 ns", judge: |r| (r.median("ours"), 60.0) },
            Bar {
                promise: "one match vs the kubelet's",
                judge: |r| (r.ratio("ours", "kubelet"), 1.0),
            },
        ],
    }
}

/// A lookup among many, half of them partial globs of the same number of labels.
pub fn many() -> Row {
    Row {
        unit: "ns",
        variants: vec![
            kubelet("kubelet: of 1", 1),
            lookup("ours: of 1", 1),
            kubelet("kubelet: of 1,000", 1_000),
            lookup("ours: of 1,000", 1_000),
            kubelet("kubelet: of 10,000", 10_000),
            lookup("ours: of 10,000", 10_000),
        ],
        bars: vec![
            Bar {
                promise: "a lookup in 1,000 patterns under 1 µs",
                judge: |r| (r.median("ours: of 1,000"), 1_000.0),
            },
            Bar {
                promise: "a lookup in 10,000 patterns under 2 µs",
                judge: |r| (r.median("ours: of 10,000"), 2_000.0),
            },
            Bar {
                promise: "a lookup in one pattern vs the kubelet's",
                judge: |r| (r.ratio("ours: of 1", "kubelet: of 1"), 1.0),
            },
            Bar {
                promise: "a lookup in 1,000 patterns vs the kubelet's",
                judge: |r| (r.ratio("ours: of 1,000", "kubelet: of 1,000"), 1.0),
            },
            Bar {
                promise: "a lookup in 10,000 patterns vs the kubelet's",
                judge: |r| (r.ratio("ours: of 10,000", "kubelet: of 10,000"), 1.0),
            },
            Bar {
                promise: "images without a pattern, of a hundred (8 to 12: one in nine is made so)",
                judge: |_| (strangers(), 12.0),
            },
            Bar { promise: "allocations in a lookup", judge: |_| (allocations(), 0.0) },
        ],
    }
}

fn lookup(label: &'static str, count: usize) -> Variant {
    let index = Index::new(&patterns(count), Reading::Kubelet);
    let images = images(count);
    let mut next = 0;
    Variant {
        label,
        run: Box::new(move || {
            Ok(nanos(50_000, || {
                next = (next + 1) % images.len();
                let name = Name::parse(&images[next]).expect("an image");
                black_box(index.first(&name));
            }))
        }),
    }
}

/// The kubelet's own: one pattern after the other.
fn kubelet(label: &'static str, count: usize) -> Variant {
    let job = json!({
        "work": "match",
        "patterns": texts(count).collect::<Vec<_>>(),
        "images": images(count),
        "turns": (40_000 / count).max(40),
    });
    Variant { label, run: Box::new(move || peer::nanos(&job)) }
}

fn patterns(count: usize) -> Vec<Pattern> {
    texts(count).map(|text| Pattern::parse(&text).expect("a pattern")).collect()
}

/// Half literal, half partial globs of four shapes, all of three labels.
fn texts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| match n % 8 {
        1 => format!("team{n}*.registry.io"),
        3 => format!("*-{n}.registry.io"),
        5 => format!("eu*{n}.registry.io"),
        7 => format!("*x{n}x*.registry.io"),
        _ => format!("r{n}.registry.io/team"),
    })
}

/// Images of every shape. A pattern means each of them, but for every ninth, which none means.
fn images(count: usize) -> Vec<String> {
    (0..1_000)
        .map(|number| {
            let n = (number * 7) % count;
            match n % 8 {
                _ if number % 9 == 8 => format!("nobody{n}.registry.io/app"),
                1 => format!("team{n}a.registry.io/app"),
                3 => format!("prod-{n}.registry.io/app"),
                5 => format!("eu-west-{n}.registry.io/app"),
                7 => format!("ax{n}xb.registry.io/app"),
                _ => format!("r{n}.registry.io/team/app"),
            }
        })
        .collect()
}

/// How many of a hundred images have no pattern; the most of any size.
fn strangers() -> f64 {
    let of = |count: usize| {
        let index = Index::new(&patterns(count), Reading::Kubelet);
        let images = images(count);
        let known =
            |image: &&String| Name::parse(image).is_some_and(|name| index.first(&name).is_some());
        let strangers = images.len() - images.iter().filter(known).count();
        #[expect(clippy::cast_precision_loss, reason = "of a thousand")]
        let share = strangers as f64 / 10.0;
        // Too few of them would be as wrong as too many.
        if share < 8.0 { f64::INFINITY } else { share }
    };
    of(1).max(of(1_000)).max(of(10_000))
}

fn allocations() -> f64 {
    let list = patterns(1_000);
    let index = Index::new(&list, Reading::Kubelet);
    let images = images(1_000);
    let info = allocation_counter::measure(|| {
        for image in &images {
            black_box(Name::parse(image).and_then(|name| index.first(&name)));
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a count near zero")]
    let count = info.count_total as f64;
    count
}

/// Nanoseconds of this thread's own work for one turn.
fn nanos(turns: u32, mut turn: impl FnMut()) -> f64 {
    let begin = worked();
    for _ in 0..turns {
        turn();
    }
    worked().saturating_sub(begin).as_secs_f64() * 1e9 / f64::from(turns)
}
