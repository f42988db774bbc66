//! Renderings for CI servers and pull requests.

use std::path::Path;

use marey_analysis::compare::{Tolerance, compare};
use marey_analysis::gate::{Judge, Verdict, exit_code};
use marey_analysis::metric::{Metric, Quantity, Summary};
use marey_analysis::render::{junit, markdown};
use marey_analysis::run_measurements::{Kernel, RunMeasurements};

fn runs() -> (RunMeasurements, RunMeasurements) {
    let run = |name: &str, factor: f64, idle| RunMeasurements {
        name: name.into(),
        step_nanos: (0..20).map(|index| factor * (1e6 + f64::from(index % 3) * 1e3)).collect(),
        scalars: vec![(Metric::percent(Quantity::GpuIdle), Some(idle))],
        ..RunMeasurements::default()
    };
    (run("main|`x`", 1.0, 20.0), run("pull <1> & \"2\"\u{1b}", 1.1, 31.0))
}

fn verdicts() -> Vec<Verdict> {
    let (before, after) = runs();
    ["step_time.p50>+3%", "gpu_idle.percent>35", "mfu<-2%"]
        .map(|gate| Judge::default().judge(&gate.parse().unwrap(), &before, &after))
        .into()
}

/// `tests/analysis/test_junit.py` parses the written document.
#[test]
fn junit_counts_failures_and_skips() {
    let (before, after) = runs();
    let document = junit(&before.name, &after.name, &verdicts());
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("junit.xml"), &document).unwrap();
    assert!(document.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
    for line in [
        "    <properties>",
        "      <property name=\"before\" value=\"main|`x`\"/>",
        "    <testcase classname=\"marey.check\" name=\"step_time.p50&gt;+3%\" time=\"0\">",
        "        <property name=\"judged\" value=\"+10.0 %\"/>",
        "        <property name=\"outcome\" value=\"inconclusive\"/>",
    ] {
        assert!(document.lines().any(|found| found == line), "{line}\n{document}");
    }
    assert_eq!(exit_code(&verdicts()), 1);
}

#[test]
fn pull_request_comments_have_verdicts_and_metrics() {
    let (before, after) = runs();
    let text = markdown(&compare(&before, &after, Tolerance::default()), &verdicts(), 10);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "### marey: pull &lt;1&gt; &amp; \"2\"\\\\u{1b} against main\\|\\`x\\`");
    assert_eq!(lines[2], "| verdict | condition | before | after | judged | 95 % interval | why |");
    assert!(
        lines[4].starts_with(
            "| ❌ regression | step\\_time.p50&gt;+3% | 1.00 ms | 1.10 ms | +10.0 % | +10.0 % to +10.0 % |"
        ),
        "{}",
        lines[4]
    );
    assert_eq!(
        lines[5],
        "| ✅ pass | gpu\\_idle.percent&gt;35 | 20.0 % | 31.0 % | 31.0 % | – | not above the threshold |"
    );
    assert_eq!(
        lines[6],
        "| ❔ inconclusive | mfu&lt;-2% | – | – | – | – | the run after has no data for mfu.percent |"
    );
    assert_eq!(lines[8], "| metric | before | after | change | % | 95 % interval | significant |");
    assert_eq!(lines[10], "| total steps | 20 | 20 | 0 | +0.0 % | – | unknown |");
    assert!(lines[13].starts_with("| step time, p50 | 1.00 ms | 1.10 ms | +100 µs | +10.0 % |"));
    assert!(lines[13].ends_with("| yes, worse |"));
    assert_eq!(
        lines.last(),
        Some(&"| GPU idle, percent | 20.0 % | 31.0 % | +11.0 pp | +55.0 % | – | unknown |")
    );
    let reverse = markdown(&compare(&after, &before, Tolerance::default()), &[], 10);
    assert!(reverse.lines().any(|line| {
        line.starts_with("| step time, p50 |") && line.ends_with("| yes, better |")
    }));
    let bare = markdown(&compare(&before, &after, Tolerance::default()), &[], 10);
    assert!(bare.lines().nth(2).is_some_and(|line| line.starts_with("| metric |")));
}

#[test]
fn pull_request_comments_have_changed_operations_and_neutral_metrics() {
    let run = |factor: f64| RunMeasurements {
        step_nanos: vec![1e6; 20],
        series: vec![(Quantity::GpuBusy, vec![factor * 1e5; 20])],
        scalars: vec![(
            Metric { quantity: Quantity::GpuMemory, summary: Summary::Growing },
            Some(0.0),
        )],
        kernels: [("unchanged", 1e4), ("slower", factor * 1e4)]
            .map(|(name, total_nanos)| Kernel { name: name.into(), count: 2.0, total_nanos })
            .into(),
        ..RunMeasurements::default()
    };
    let text = markdown(&compare(&run(1.0), &run(1.5), Tolerance::default()), &[], 10);
    let line = |start| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("| GPU busy, mean |").ends_with("| yes |"), "{text}");
    assert!(line("| GPU memory growth detected |").contains("| no | no | same |"), "{text}");
    assert!(text.contains("slower") && !text.contains("unchanged"), "{text}");
}
