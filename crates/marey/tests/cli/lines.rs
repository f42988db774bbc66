//! The lines layout of `proton-viewer`. A Python test compares the bytes with the real one.

use insta::assert_snapshot;

use crate::{Folder, printed, stdout, view};

#[test]
fn metrics_precede_names_in_the_requested_order() {
    assert_snapshot!(view("-m count,time/us,count minimal.hatchet"), @r"
    exit code: 0
    --- stdout ---
    1.000 1.000 1.000 ROOT
    └─ 1.000 1.000 1.000 s
       └─ 1.000 1.000 1.000 k

    --- stderr ---
    ");
}

#[test]
fn a_pipe_gets_lines_only_with_metrics() {
    assert_eq!(
        view("-m time --layout table minimal.hatchet"),
        view("-mtime --lay=table minimal.hatchet")
    );
    assert!(view("--layout lines minimal.hatchet").contains("\n└─ 1000.000 1.000 s\n"));
    assert!(view("minimal.hatchet").contains(" time  count  name\n"));
    assert_eq!(view("-m= minimal.hatchet"), view("minimal.hatchet"));
}

#[test]
fn siblings_are_sorted_by_name_by_default() {
    let folder = Folder::before_and_after();
    assert_snapshot!(folder.view("-m time after.hatchet"), @r"
    exit code: 0
    --- stdout ---
    7700.000 ROOT
    ├─ 2000.000 copy
    ├─ 5000.000 gemm
    └─ 700.000 new

    --- stderr ---
    ");
    let sorted = |order: &str| folder.view(&format!("-m time --sort {order} after.hatchet"));
    assert_eq!(
        stdout(&sorted("value")),
        "7700.000 ROOT\n├─ 5000.000 gemm\n├─ 2000.000 copy\n└─ 700.000 new\n\n"
    );
    assert_eq!(
        stdout(&sorted("first-seen")),
        "7700.000 ROOT\n├─ 5000.000 gemm\n├─ 700.000 new\n└─ 2000.000 copy\n\n"
    );
}

#[test]
fn a_sorted_list_has_every_node_but_root() {
    assert_snapshot!(Folder::before_and_after().view("-m time --print-sorted -d 1 after.hatchet"), @r"
    exit code: 0
    --- stdout ---
    7700.000 ROOT

    Sorted kernels by metric time (ns) (inc)
    gemm                                                                                                      5e+03
    copy                                                                                                      2e+03
    new                                                                                                       700.0
    --- stderr ---
    nodes hidden by --depth: 3
    ");
}

#[test]
fn tree_lines_continue_below_the_depth_limit() {
    assert_snapshot!(view("-m calls -d 3 train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    nan ROOT
    ├─ 1.000 evaluate "quick"
    └─ 100.000 step
       └─ 100.000 gpt

    --- stderr ---
    nodes hidden by --depth: 2
    warning: 3 unmatched exits: Exits from a scope that was not open on its thread; they are ignored
    "#);
    assert_eq!(stdout(&view("-m calls -d 0 train.hatchet")), "\n");
    assert_eq!(stdout(&view("-m calls -d -1 train.hatchet")), "\n");
}

#[test]
fn texts_replace_numbers_and_control_characters_are_escaped() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
        {"frame": {"name": "a\u001b[2J\n\u202eb"}, "metrics": {"note": "x\ty\u2066", "n": 1}, "children": []}]}]"#;
    let folder = Folder::new(&[("t.hatchet", content)]);
    assert_snapshot!(printed(&folder.view("-m note,n --print-sorted t.hatchet")), @r"
    nan nan ROOT
    └─ x\ty\u{2066} 1.000 a\u{1b}[2J\n\u{202e}b

    Sorted kernels by metric note
    a\u{1b}[2J\n\u{202e}b                                                                                     x\ty\u{2066}
    ");
}

#[test]
fn negative_bytes_are_an_overflow_warning() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {"bytes": 0}, "children": [
        {"frame": {"name": "a"}, "metrics": {"bytes": -1}, "children": []}]}]"#;
    let folder = Folder::new(&[("b.hatchet", content)]);
    assert_snapshot!(folder.view("-m bytes b.hatchet"), @r"
    exit code: 0
    --- stdout ---
    -1.000 ROOT
    └─ -1.000 a

    Warning: Negative byte values detected, this is usually the result of a datatype overflow

    --- stderr ---
    ");
    assert_snapshot!(folder.view("-m bytes --layout table b.hatchet"), @r"
    exit code: 0
    --- stdout ---
    b.hatchet
    bytes  name
       -1  ROOT
       -1  └─ a
    --- stderr ---
    warning: a sum of bytes is negative, which usually means an overflow
    ");
    let output = folder.view("-m bytes --layout lines b.hatchet b.hatchet");
    assert!(output.contains("\n\nWarning: Negative byte values"), "{output}");
}

#[test]
fn an_unknown_peak_is_a_note() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {"time (ns)": 0}, "children": [
        {"frame": {"name": "a"}, "metrics": {"time (ns)": 5, "bytes": 9, "device_id": "0",
         "device_type": "XPU"}, "children": []}]},
        {"XPU": {"0": {"arch": "999", "bus_width": 1, "clock_rate": 1, "memory_clock_rate": 1,
         "num_sms": 1}}}]"#;
    let output = Folder::new(&[("u.hatchet", content)]).view("-m util u.hatchet");
    assert_eq!(stdout(&output), "nan ROOT\n└─ nan a\n\n");
    assert!(output.contains("warning: util of device 0 is unknown: "), "{output}");
}

#[test]
fn several_files_are_lines_only_on_request() {
    let folder = Folder::before_and_after();
    let output = folder.view("-m count before.hatchet after.hatchet");
    assert!(output.contains("before: count  after: count  name"), "{output}");
    let line = "-m time,count --layout lines before.hatchet after.hatchet";
    assert_snapshot!(folder.view(line), @r"
    exit code: 0
    --- stdout ---
    8800.000 7700.000 7.000 7.000 ROOT
    ├─ 500.000 2000.000 1.000 1.000 copy
    ├─ 8000.000 5000.000 4.000 4.000 gemm
    ├─ nan 700.000 nan 2.000 new
    └─ 300.000 nan 2.000 nan old

    --- stderr ---
    ");
}

#[test]
fn list_prints_the_metrics_of_a_file() {
    assert_snapshot!(printed(&view("--list minimal.hatchet")), @r"
    Available inclusive metrics:
    - bytes
    - count
    - flops16
    - time
    Available exclusive metrics:
    - name
    - device_id
    - device_type
    ");
    assert_snapshot!(view("-l minimal.hatchet absent.hatchet minimal.hatchet_msgpack"), @r"
    exit code: 2
    --- stdout ---
    `minimal.hatchet`
    Available inclusive metrics:
    - bytes
    - count
    - flops16
    - time
    Available exclusive metrics:
    - name
    - device_id
    - device_type
    `minimal.hatchet_msgpack`
    Available inclusive metrics:
    - bytes
    - count
    - flops16
    - time
    Available exclusive metrics:
    - name
    - device_id
    - device_type
    --- stderr ---
    error: cannot read `absent.hatchet`: No such file or directory (os error 2)
    ");
}

#[test]
fn options_accept_argparse_spellings() {
    let lines = view("-m time -d 2 -t -1 -f full minimal.hatchet");
    for spelling in [
        "-mtime -d2 -t-1 minimal.hatchet",
        "-m=time -d=2 -t=-1 minimal.hatchet",
        "minimal.hatchet --met time --dep 2 --thres -1 --form full",
        "-m count --metrics=time -d 9 --depth=2 --threshold=-1e0 minimal.hatchet",
        "-t -1 -d 0_2 -m time minimal.hatchet",
    ] {
        assert_eq!(view(spelling), lines, "{spelling}");
    }
    for spelling in ["-l", "--list", "--lis", "--l", "-lm time", "-l -l"] {
        assert_eq!(view(&format!("{spelling} minimal.hatchet")), view("-l minimal.hatchet"));
    }
}
