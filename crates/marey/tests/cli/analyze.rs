//! `marey analyze`, `marey compare` and `marey check`, on synthetic traces.

use std::fmt::Write as _;
use std::fs;

use insta::assert_snapshot;

use crate::{Folder, json, printed, refusal, run, stdout};

/// Returns the stdout of a command line.
fn stdout_of(folder: &Folder, line: &str) -> String {
    stdout(&folder.run(line)).to_owned()
}

/// Returns a trace of twelve steps on one device. In each step of 1,000 µs an operator takes
/// `operator_micros` on the host, and the device works for the last 300 µs.
fn training_trace(operator_micros: u32, name: &str) -> String {
    let mut events = String::new();
    for step in 0..12 {
        let start = step * 1_000;
        // All steps differ by a tenth of a percent.
        let length = 900 + operator_micros / 10 + step % 3;
        let (launch, kernel) = (start + operator_micros, start + operator_micros + 20);
        let correlation = step + 1;
        write!(
            events,
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{start},"dur":{length}}},
            {{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{},"dur":{}}},
            {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{launch},"dur":10,"args":{{"correlation":{correlation}}}}},
            {{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":{kernel},"dur":300,"args":{{"device":0,"stream":7,"correlation":{correlation}}}}},"#,
            start + 1,
            operator_micros - 1,
        )
        .unwrap();
    }
    let events = events.trim_end_matches(',');
    format!(r#"{{"schemaVersion":1,"distributedInfo":{{"rank":0}},"traceEvents":[{events}]}}"#)
}

fn read_text(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).unwrap()
}

fn traces_folder() -> Folder {
    Folder::new(&[
        ("before.json", training_trace(200, "aten::mm")),
        ("after.json", training_trace(500, "aten::mm")),
        ("renamed.json", training_trace(200, "aten::matmul_v2")),
    ])
}

#[test]
fn without_a_run_the_newest_of_the_directory_is_analyzed() {
    let folder = traces_folder();
    assert_snapshot!(refusal(&folder.run("analyze")), @"
    error: no run in this directory
    hint: name one, or record one: `marey run -d trace train.py`
    ");
    for name in ["after", "before"] {
        folder.run(&format!("import {name}.json -o {name}.marey"));
    }
    // As the first opening of a run does.
    fs::File::create(folder.path("after.marey/touched")).unwrap();
    let output = folder.run("analyze");
    assert!(output.contains("Analysis of before.marey"), "{output}");
    assert!(output.contains("the newest run here is `before.marey`"), "{output}");
}

#[test]
fn a_report_has_operations_findings_and_remedies() {
    let output = traces_folder().run("analyze after.json");
    assert_snapshot!(printed(&output), @r#"
    ============================================================
    Analysis of after.json
    ============================================================

    Summary:
      Processes: 1
      Ranks: 1
      Devices used: 1
      Total steps: 12
      Total time: 12.0 ms
      Avg step time: 951 µs
      Median step time: 951 µs
      90 % of steps within: 952 µs
      Slowest step: 952 µs
      GPU busy: 31.9 %
      GPU computing: 31.9 %
      Exposed communication: 0.0 %
      GPU idle: 68.1 %

    Top Operations:
      1. aten::mm: 5.99 ms (12 calls)
      2. cudaLaunchKernel: 120 µs (12 calls)

    Bottlenecks Detected:
      [HIGH] hot_operation (rank 0): On the host, the operator aten::mm took 499 µs of exclusive time per step (50.1 %), in 12 calls of 499 µs on average, the largest part in step/aten::mm.
        499 µs per step (50.1 %); fixing it saves up to 499 µs, 2.00x as fast; measured
        Overlaps in time with: gpu_idle of host wait: operators (up to 467 µs), launch_bound of device 0 (up to 467 µs)
        Fix: Make it cheaper, call it less often, or take it out of the step. For a hot kernel: fuse or compile the operations around it, or choose a faster algorithm or data type. For a hot host operation: move it out of the loop or to another thread.
      [HIGH] gpu_idle (rank 0): Device 0 was idle for 467 µs per step (46.8 %), cause "host wait: operators". Top host span: aten::mm, 457 µs per step. In total the device was idle 64.4 % of the time.
        467 µs per step (46.8 %); fixing it saves up to 467 µs, 1.88x as fast; measured
        Overlaps in time with: hot_operation of aten::mm (up to 467 µs), launch_bound of device 0 (up to 467 µs)
        Fix: Let the host run ahead of the device: remove synchronisation from the step, allocate memory once, prefetch data, and launch fewer, larger operations with torch.compile or CUDA graphs.
      [HIGH] launch_bound (rank 0): Device 0 waited 467 µs per step (46.8 %) for launches: the host issued one every 1.00 ms, and each brought 300 µs of work. 100.0 % of 12 launches found the queue empty.
        467 µs per step (46.8 %); fixing it saves up to 467 µs, 1.88x as fast; likely
        Overlaps in time with: hot_operation of aten::mm (up to 467 µs), gpu_idle of host wait: operators (up to 467 µs)
        Fix: Reduce the number of launches: torch.compile (mode "reduce-overhead"), CUDA graphs, fused or foreach optimizers, larger batches. First profile again without stacks and shapes: recording them slows the host down.
      [HIGH] hot_operation (rank 0): On the device, the kernel sgemm took 300 µs of exclusive time per step (30.1 %), in 12 calls of 300 µs on average, the largest part in step.
        300 µs per step (30.1 %); fixing it saves up to 300 µs, 1.43x as fast; measured
        Fix: Make it cheaper, call it less often, or take it out of the step. For a hot kernel: fuse or compile the operations around it, or choose a faster algorithm or data type. For a hot host operation: move it out of the loop or to another thread.
      [MEDIUM] gpu_idle (rank 0): Device 0 was idle for 175 µs per step (17.6 %), cause "host wait: outside operators". Top host span: step, 130 µs per step. In total the device was idle 64.4 % of the time.
        175 µs per step (17.6 %); fixing it saves up to 175 µs, 1.21x as fast; measured
        Fix: Let the host run ahead of the device: remove synchronisation from the step, allocate memory once, prefetch data, and launch fewer, larger operations with torch.compile or CUDA graphs.

    Training steps, the slowest first:
      rank  number  duration  between  deviation  robust z  is outlier
         0       2    952 µs  49.0 µs    1.00 µs    0.6745  no
         0       5    952 µs  49.0 µs    1.00 µs    0.6745  no
         0       8    952 µs  49.0 µs    1.00 µs    0.6745  no
         0      11    952 µs  49.0 µs    1.00 µs    0.6745  no
         0       1    951 µs  50.0 µs       0 ns         0  no
         0       4    951 µs  50.0 µs       0 ns         0  no
         0       7    951 µs  50.0 µs       0 ns         0  no
         0      10    951 µs  50.0 µs       0 ns         0  no
         0       0    950 µs        -   -1.00 µs   -0.6745  no
         0       3    950 µs  48.0 µs   -1.00 µs   -0.6745  no
      … and more: --top N

    Device time:
      rank  device   window     busy  idle %  compute %  non compute %  communication  exposed communication  overlap %  memory only
         0       0  11.3 ms  3.60 ms  68.1 %     31.9 %          0.0 %           0 ns                   0 ns  -                 0 ns

    Why devices were idle:
      cause      activity           host span            idle  idle %  gap count
      host wait  operators          aten::mm          5.49 ms  71.3 %          0
      host wait  outside operators  step              1.56 ms  20.3 %         11
      host wait  outside operators  -                  540 µs   7.0 %          0
      host wait  operators          cudaLaunchKernel   110 µs   1.4 %          0

    What steps waited for:
      bound        total   path %  count  longest
      cpu_bound  11.4 ms  100.0 %     48   499 µs

    Operations by exclusive time:
      name              kind      count     self    total     mean      max
      aten::mm          operator     12  5.99 ms  5.99 ms   499 µs   499 µs
      cudaLaunchKernel  runtime      12   120 µs   120 µs  10.0 µs  10.0 µs

    Kernels by device time:
      name   class    count    total    mean     max  kernel %
      sgemm  compute     12  3.60 ms  300 µs  300 µs   100.0 %

    Operations by launched device time:
      name  kind  self count     self  self busy
      step  step          12  3.60 ms    3.60 ms

    Launches:
      launch name       kind    count  mean launch  mean device  mean delay  longest delay  short count
      cudaLaunchKernel  kernel     12      10.0 µs       300 µs     10.0 µs        10.0 µs            0

    Launches that wait on streams:
      device  stream  max length  mean length  duration  queued  full  full %  pid  rank  process id
           0       7           1       0.0218   11.0 ms  240 µs  0 ns   0.0 %    1     0           0

    ============================================================
    "#);
}

#[test]
fn section_excludes_findings() {
    let output =
        traces_folder().run("analyze after.json --section devices --section steps --top 2");
    assert_snapshot!(output, @r"
    exit code: 0
    --- stdout ---
    Device time:
      rank  device   window     busy  idle %  compute %  non compute %  communication  exposed communication  overlap %  memory only
         0       0  11.3 ms  3.60 ms  68.1 %     31.9 %          0.0 %           0 ns                   0 ns  -                 0 ns

    Training steps, the slowest first:
      rank  number  duration  between  deviation  robust z  is outlier
         0       2    952 µs  49.0 µs    1.00 µs    0.6745  no
         0       5    952 µs  49.0 µs    1.00 µs    0.6745  no
      … and more: --top N

    --- stderr ---
    ");
}

#[test]
fn the_suffix_implies_the_report_format() {
    let folder = traces_folder();
    for (name, first) in
        [("r.md", ""), ("r.html", "<!DOCTYPE html>"), ("r.json", "{"), ("r.txt", "Device time:")]
    {
        let written = folder.run(&format!("analyze after.json --section devices -o {name}"));
        assert_eq!(written, "exit code: 0\n--- stdout ---\n--- stderr ---\n");
        assert_eq!(read_text(&folder, name).lines().next(), Some(first), "{name}");
    }
    let page = read_text(&folder, "r.html");
    for placeholder in ["{{css}}", "{{js}}", "{{json}}", "sha256}}"] {
        assert!(!page.contains(placeholder), "{placeholder}");
    }
    assert!(page.contains(r#""title":"after.json""#));
    let json: serde_json::Value = serde_json::from_str(&read_text(&folder, "r.json")).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["tables"][0]["name"], "devices");
}

#[test]
fn invalid_thresholds_are_rejected() {
    let folder = traces_folder();
    let refused = |setting: &str| {
        let analyzed = folder.run(&format!("analyze after.json --threshold {setting}"));
        refusal(&analyzed).to_owned()
    };
    let settings = [
        "hot_operation.medium=1",
        "hot_operation.medium_percent",
        "hot_operation.medium_percent=x",
    ];
    assert_snapshot!(settings.map(refused).join("\n"), @r"
    error: --threshold hot_operation.medium=1: no rule has a threshold `hot_operation.medium`; did you mean `hot_operation.medium_percent`, `hot_operation.high_percent`?
    hint: list the thresholds with `marey analyze --rules`

    error: --threshold hot_operation.medium_percent: expected RULE.NAME=NUMBER
    hint: list the thresholds with `marey analyze --rules`

    error: --threshold hot_operation.medium_percent=x: expected RULE.NAME=NUMBER
    hint: list the thresholds with `marey analyze --rules`
    ");
}

#[test]
fn rules_are_listed_with_their_thresholds() {
    let output = stdout(&run("analyze --rules")).to_owned();
    let rules: Vec<&str> =
        output.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert_eq!(rules.len(), marey_analysis::rules::ALL.len(), "{rules:?}");
    assert!(output.contains("  hot_operation.medium_percent = 10 %: "), "{output}");
    // The reference page is generated by `marey analyze --rules -f md`.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rules.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(stdout(&run("analyze --rules -f md")).to_owned(), page);
}

#[test]
fn compare_shows_two_runs_side_by_side() {
    assert_snapshot!(traces_folder().run("compare before.json after.json"), @r"
    exit code: 0
    --- stdout ---
    Profile Comparison
    ============================================================
    before: before.json
    after:  after.json

      Metric                          Before    After    Change       %     95 % interval  Significant
      steps.count                         12       12         0  +0.0 %                 –  -
      total_time.total               11.9 ms  12.0 ms  +30.0 µs  +0.3 %                 –  -
      step_time.mean                  921 µs   951 µs  +30.0 µs  +3.3 %  +3.2 % to +3.3 %  yes
      step_time.p50                   921 µs   951 µs  +30.0 µs  +3.3 %  +3.1 % to +3.4 %  yes
      step_time.p90                   922 µs   952 µs  +30.0 µs  +3.3 %  +3.1 % to +3.4 %  yes
      gpu_memory.peak                      –        –         –       –                 –  -
      gpu_memory.growing                   –        –         –       –                 –  -
      gpu_busy.mean                   300 µs   300 µs      0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_busy.percent                32.6 %   31.5 %   -1.0 pp  -3.2 %                 –  -
      gpu_idle.mean                   621 µs   651 µs  +30.0 µs  +4.8 %  +4.7 % to +4.9 %  yes
      gpu_idle.percent                67.4 %   68.5 %   +1.0 pp  +1.5 %                 –  -
      gpu_compute.mean                300 µs   300 µs      0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_compute.percent             32.6 %   31.5 %   -1.0 pp  -3.2 %                 –  -
      gpu_copies.mean                   0 ns     0 ns      0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_copies.percent               0.0 %    0.0 %   +0.0 pp  +0.0 %                 –  -
      communication.mean                0 ns     0 ns      0 ns  +0.0 %  +0.0 % to +0.0 %  no
      communication.percent            0.0 %    0.0 %   +0.0 pp  +0.0 %                 –  -
      exposed_communication.mean        0 ns     0 ns      0 ns  +0.0 %  +0.0 % to +0.0 %  no
      exposed_communication.percent    0.0 %    0.0 %   +0.0 pp  +0.0 %                 –  -
      kernel_launches.mean                 1        1         0  +0.0 %  +0.0 % to +0.0 %  no

    Operations, per step (0 added, 0 removed, 1 increased, 0 decreased, 2 unchanged)
       Change         %  Before   After  Count             Where
      +300 µs  +150.8 %  199 µs  499 µs      1  increased  step/aten::mm

    Kernels, per step (0 added, 0 removed, 0 increased, 0 decreased, 1 unchanged)

    --- stderr ---
    ");
}

#[test]
fn likely_renames_are_listed() {
    let output = stdout_of(&traces_folder(), "compare before.json renamed.json");
    assert!(output.contains("Renamed?\n  step/aten::mm -> step/aten::matmul_v2 ("), "{output}");
}

#[test]
fn comparing_a_run_with_itself_shows_no_change() {
    let folder = traces_folder();
    let json = json(&folder.run("compare before.json before.json -f json"));
    let rows = |name: &str| json[name].as_array().unwrap().clone();
    assert!(rows("operations").iter().all(|row| row["category"] == "unchanged"));
    assert!(rows("metrics").iter().all(|row| row["significant"] != "yes"));
    assert!(rows("renames").is_empty());
}

#[test]
fn a_gate_passes_fails_or_is_inconclusive() {
    let folder = traces_folder();
    for name in ["before", "after"] {
        stdout_of(&folder, &format!("import {name}.json -o {name}.marey"));
    }
    let check = |line: &str| folder.run(&format!("check {line}"));
    assert_snapshot!(check("before.marey --baseline before.marey --fail-on step_time.p50>+3%"), @r"
    exit code: 0
    --- stdout ---
    pass          step_time.p50>+3%
        921 µs -> 921 µs, judged +0.0 % (95 %: +0.0 % to +0.0 %): not above the threshold

      Metric                          Before    After   Change       %     95 % interval  Significant
      steps.count                         12       12        0  +0.0 %                 –  -
      total_time.total               11.9 ms  11.9 ms     0 ns  +0.0 %                 –  -
      step_time.mean                  921 µs   921 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      step_time.p50                   921 µs   921 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      step_time.p90                   922 µs   922 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_memory.peak                      –        –        –       –                 –  -
      gpu_memory.growing                   –        –        –       –                 –  -
      gpu_busy.mean                   300 µs   300 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_busy.percent                32.6 %   32.6 %  +0.0 pp  +0.0 %                 –  -
      gpu_idle.mean                   621 µs   621 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_idle.percent                67.4 %   67.4 %  +0.0 pp  +0.0 %                 –  -
      gpu_compute.mean                300 µs   300 µs     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_compute.percent             32.6 %   32.6 %  +0.0 pp  +0.0 %                 –  -
      gpu_copies.mean                   0 ns     0 ns     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      gpu_copies.percent               0.0 %    0.0 %  +0.0 pp  +0.0 %                 –  -
      communication.mean                0 ns     0 ns     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      communication.percent            0.0 %    0.0 %  +0.0 pp  +0.0 %                 –  -
      exposed_communication.mean        0 ns     0 ns     0 ns  +0.0 %  +0.0 % to +0.0 %  no
      exposed_communication.percent    0.0 %    0.0 %  +0.0 pp  +0.0 %                 –  -
      kernel_launches.mean                 1        1        0  +0.0 %  +0.0 % to +0.0 %  no

    --- stderr ---
    ");
    for (line, exit_code) in [
        ("after.marey --baseline before.marey --fail-on step_time.p50>+3%", 1),
        ("after.marey --baseline before.marey --fail-on step_time.p99>+3%", 3),
        (
            "after.marey --baseline before.marey --fail-on step_time.p50>+3% --fail-on step_time.p99>+3%",
            1,
        ),
        ("before.marey --baseline after.marey --fail-on step_time.p50>+3%", 0),
    ] {
        assert!(check(line).starts_with(&format!("exit code: {exit_code}\n")), "{line}");
    }
}

#[test]
fn an_invalid_gate_has_an_error_position() {
    let folder = traces_folder();
    let refused = |condition: &str| {
        let line = format!("check after.json --baseline before.json --fail-on {condition}");
        let transcript = folder.run(&line);
        transcript.lines().find(|line| line.starts_with("error")).unwrap().to_owned()
    };
    let conditions = ["step_tim>3%", "step_time.p50>3%", "step_time=3%", "gpu_memory.p50>1"];
    assert_snapshot!(conditions.map(refused).join("\n"), @r"
    error: invalid value 'step_tim>3%' for '--fail-on <CONDITION>': bad condition `step_tim>3%`, column 1: no metric `step_tim`; did you mean `step_time` or `steps`; the metrics are steps, total_time, step_time, gpu_busy, gpu_idle, gpu_compute, gpu_copies, communication, exposed_communication, gpu_memory, kernel_launches, mfu
    error: invalid value 'step_time.p50>3%' for '--fail-on <CONDITION>': bad condition `step_time.p50>3%`, column 16: `step_time.p50` is not a percentage; for a relative change write `+3%`
    error: invalid value 'step_time=3%' for '--fail-on <CONDITION>': bad condition `step_time=3%`, column 10: only `>` and `<` compare
    error: invalid value 'gpu_memory.p50>1' for '--fail-on <CONDITION>': bad condition `gpu_memory.p50>1`, column 12: `gpu_memory` has no statistic `p50`; it has peak, growth, growing
    ");
    assert!(folder.run("check after.json --fail-on step_time>+3%").starts_with("exit code: 2\n"));
}

#[test]
fn check_also_writes_files_for_ci() {
    let folder = traces_folder();
    let line = "check after.json --baseline before.json --fail-on step_time.p50>+3% --junit j.xml --markdown c.md -f json";
    let json = json(&folder.run(line));
    assert_eq!(json["exit_code"], 1);
    assert_eq!(json["verdicts"][0]["outcome"], "regression");
    assert!(read_text(&folder, "j.xml").contains("<failure message="));
    assert!(read_text(&folder, "c.md").starts_with("### marey: after.json against before.json\n"));
}

/// The critical path needs all host events in memory, unlike other sections.
#[test]
fn a_section_that_exceeds_memory_is_listed_as_missing() {
    let mut trace = training_trace(200, "aten::mm");
    let ends = trace.rfind("]}").unwrap();
    let operation = |number| {
        let start = 20_000 + number;
        format!(
            r#",{{"ph":"X","cat":"cpu_op","name":"aten::relu","pid":1,"tid":2,"ts":{start},"dur":1}}"#
        )
    };
    trace.insert_str(ends, &(0..50_000).map(operation).collect::<String>());
    let folder = Folder::new(&[("trace.json", trace)]);
    stdout_of(&folder, "import trace.json -o trace.marey");
    let output = stdout_of(&folder, "analyze trace.marey --memory-limit 16MiB");
    let path =
        "What steps waited for:\n  not in this report: the query needs more than 16 MiB of memory";
    assert!(output.contains(path), "{output}");
    assert!(output.contains("Top Operations:"), "{output}");
    assert!(!output.contains("Not in this report:"), "{output}");
    let page = stdout_of(&folder, "analyze trace.marey --memory-limit 16MiB -f md");
    assert!(page.contains("> Not in this report: the query needs more than 16 MiB"), "{page}");
    let alone = "analyze trace.marey --memory-limit 16MiB --section critical_path";
    assert!(folder.run(alone).starts_with("exit code: 2"));
}
