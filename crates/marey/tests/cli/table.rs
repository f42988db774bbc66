//! The table layout of `marey view`: one file, and several side by side.

use insta::assert_snapshot;

use crate::{Folder, printed, view};

#[test]
fn a_profile_of_marey() {
    assert_snapshot!(view("train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
     total     self  calls      p50      p99  name
                                              ROOT
    1.51 s   511 ms    100  15.0 ms  30.4 ms  ├─ step
    1.00 s  92.0 ms    100  10.0 ms  12.4 ms  │  └─ gpt
    304 ms   304 ms    100  3.01 ms  3.40 ms  │     ├─ blocks.0.attn
    604 ms   604 ms    100  6.01 ms  6.40 ms  │     └─ blocks.0.mlp
    75.0 s   75.0 s      1   61.0 s   61.0 s  └─ evaluate "quick"
    --- stderr ---
    warning: 3 unmatched exits: Exits from a scope that was not open on its thread; they are ignored
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#);
}

#[test]
fn a_profile_of_proton() {
    assert_snapshot!(printed(&view("minimal.hatchet")), @r"
    minimal.hatchet
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k
    ");
}

#[test]
fn chosen_metrics_sorted_and_cut() {
    assert_snapshot!(
        view("--layout table --sort value -t 50% -m total,TOKENS,loss,shape,split train.hatchet"),
        @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
     total  TOKENS   loss     shape  split  name
                 0                          ROOT
    75.0 s          1.250  [8, 128]  valid  └─ evaluate "quick"
    --- stderr ---
    nodes hidden by --threshold: 4
    warning: 3 unmatched exits: Exits from a scope that was not open on its thread; they are ignored
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#
    );
}

#[test]
fn siblings_are_in_recording_order_by_default() {
    let folder = Folder::before_and_after();
    assert_snapshot!(printed(&folder.view("after.hatchet")), @r"
    after.hatchet
       time  count  name
    7.70 µs      7  ROOT
    5.00 µs      4  ├─ gemm
     700 ns      2  ├─ new
    2.00 µs      1  └─ copy
    ");
    let names = |order: &str| -> Vec<String> {
        let text = folder.view(&format!("--sort {order} after.hatchet"));
        text.lines().filter_map(|line| line.split_once("─ ")).map(|(_, name)| name.into()).collect()
    };
    assert_eq!(names("name"), ["copy", "gemm", "new"]);
    assert_eq!(names("value"), ["gemm", "copy", "new"]);
}

#[test]
fn root_is_the_first_level() {
    assert_snapshot!(view("-d 2 --layout table -m calls,open train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
    calls  open  name
                 ROOT
      100        ├─ step
        1     1  └─ evaluate "quick"
    --- stderr ---
    nodes hidden by --depth: 3
    warning: 3 unmatched exits: Exits from a scope that was not open on its thread; they are ignored
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#);
}

#[test]
fn a_threshold_keeps_ancestors() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
        {"frame": {"name": "a"}, "metrics": {}, "children": [
            {"frame": {"name": "b"}, "metrics": {"wait (ms)": 97}, "children": []}]},
        {"frame": {"name": "c"}, "metrics": {"wait (ms)": 3}, "children": []}]}]"#;
    let folder = Folder::new(&[("w.hatchet", content)]);
    assert_snapshot!(folder.view("-t 4% w.hatchet"), @r"
    exit code: 0
    --- stdout ---
    w.hatchet
       wait  name
             ROOT
             └─ a
    97.0 ms     └─ b
    --- stderr ---
    nodes hidden by --threshold: 1
    ");
    assert!(folder.view("-t 3% w.hatchet").contains("3.00 ms  └─ c"));
    assert!(folder.view("-t 97 w.hatchet").contains("97.0 ms     └─ b"));
}

#[test]
fn a_sorted_list_follows_the_tree() {
    assert_snapshot!(printed(&view("--print-sorted minimal.hatchet")), @r"
    minimal.hatchet
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k

    Sorted kernels by metric time (ns) (inc)
    s                                                                                                         1e+03
    k                                                                                                         1e+03
    ");
}

#[test]
fn files_are_shown_side_by_side() {
    let folder = Folder::before_and_after();
    assert_snapshot!(printed(&folder.view("before.hatchet after.hatchet")), @r"
    before = before.hatchet
    after = after.hatchet
    before: time  after: time  before: count  after: count  name
         8.80 µs      7.70 µs              7             7  ROOT
         8.00 µs      5.00 µs              4             4  ├─ gemm
          500 ns      2.00 µs              1             1  ├─ copy
          300 ns                           2                ├─ old
                       700 ns                            2  └─ new
    ");
}

#[test]
fn no_file_has_the_short_name_of_another() {
    let file = |time: u32| {
        format!(
            r#"[{{"frame": {{"name": "ROOT"}}, "metrics": {{"time (ns)": 0}}, "children": [
            {{"frame": {{"name": "k"}}, "metrics": {{"time (ns)": {time}}}, "children": []}}]}}]"#
        )
    };
    let trio = [("a.hatchet", file(1)), ("a.hatchet.bak", file(2)), ("a.hatchet_msgpack", file(3))];
    assert_snapshot!(
        printed(&Folder::new(&trio).view("a.hatchet a.hatchet.bak a.hatchet_msgpack")),
        @r"
    a.hatchet
    a.hatchet.bak
    a.hatchet_msgpack
    a.hatchet: time  a.hatchet.bak: time  a.hatchet_msgpack: time  name
               1 ns                 2 ns                     3 ns  ROOT
               1 ns                 2 ns                     3 ns  └─ k
    "
    );
}

#[test]
fn files_with_equal_names_are_numbered() {
    assert_snapshot!(
        printed(&view("-m total --layout table minimal.hatchet minimal.hatchet_msgpack")),
        @r"
    minimal.hatchet
    minimal.hatchet_msgpack
    minimal.hatchet: total  minimal.hatchet_msgpack: total  name
                   1.00 µs                         1.00 µs  ROOT
                   1.00 µs                         1.00 µs  └─ s
                   1.00 µs                         1.00 µs     └─ k
    "
    );
}

#[test]
fn side_by_side_a_node_above_the_threshold_in_one_file_is_shown() {
    let folder = Folder::before_and_after();
    assert_snapshot!(
        folder.view("-t 1000 -m time --layout table before.hatchet after.hatchet"),
        @r"
    exit code: 0
    --- stdout ---
    before = before.hatchet
    after = after.hatchet
    before: time  after: time  name
         8.80 µs      7.70 µs  ROOT
         8.00 µs      5.00 µs  ├─ gemm
          500 ns      2.00 µs  └─ copy
    --- stderr ---
    nodes hidden by --threshold: 2
    "
    );
}

#[test]
fn losses_of_several_files_have_the_file_name() {
    assert_snapshot!(view("-d 1 minimal.hatchet train.hatchet"), @r"
    exit code: 0
    --- stdout ---
    minimal = minimal.hatchet
    train = train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
    minimal: time  minimal: count  train: total  train: self  train: calls  train: p50  train: p99  name
          1.00 µs               1                                                                   ROOT
    --- stderr ---
    nodes hidden by --depth: 7
    warning: `train.hatchet`: 3 unmatched exits: Exits from a scope that was not open on its thread; they are ignored
    `train.hatchet`: overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    ");
}

#[test]
fn an_unreadable_file_does_not_hide_the_others() {
    assert_snapshot!(view("absent.hatchet minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    minimal.hatchet
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k
    --- stderr ---
    error: cannot read `absent.hatchet`: No such file or directory (os error 2)
    ");
}

#[test]
fn checkpoints_are_warnings_and_names_cannot_move_the_cursor() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
        {"frame": {"name": "a\u001b[2J\nb"}, "metrics": {"x\u0007": "\u001b[31m"}, "children": []}],
        "marey": {"process": {"pid": 7, "host": "h", "complete": false, "duration_nanos": 10}}}]"#;
    assert_snapshot!(Folder::new(&[("part.hatchet", content)]).view("part.hatchet"), @r"
    exit code: 0
    --- stdout ---
    part.hatchet: pid 7 on h, 10 ns
        x\u{7}  name
                ROOT
    \u{1b}[31m  └─ a\u{1b}[2J\nb
    --- stderr ---
    warning: this is a checkpoint, written before the program ended
    ");
}
